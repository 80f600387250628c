"""Metrics of a process by its section [metrics]: a tracker for its runs, a text file, a page."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from fedkin.tracking.health import Checks
from fedkin.tracking.metrics_page import MetricsPage, serving
from fedkin.tracking.prometheus import Prometheus, Samples

_log = logging.getLogger("fedkin")


@runtime_checkable
class Settings(Protocol):
    """The settings of the section [metrics] (``config.metrics_settings``)."""

    @property
    def file(self) -> str | None:
        """Path of the text file."""
        ...

    @property
    def port(self) -> int | None:
        """Port of the page."""
        ...

    @property
    def address(self) -> str:
        """Address of the page."""
        ...


def tracker_of(settings: Settings | None, sources: Iterable[Samples] = ()) -> list[Prometheus]:
    """The tracker that keeps the numbers of the runs of this process, in a list that is empty
    without settings.

    Args:
        settings: the section [metrics]; None without it.
        sources: further functions that return values.

    Raises MissingExtra without prometheus-client.
    """
    if settings is None:
        return []
    tracker = Prometheus(
        file=None if settings.file is None else Path(settings.file),
        writes=settings.file is not None,
        sources=sources,
    )
    return [tracker]


@contextmanager
def operated(
    settings: Settings | None, trackers: Sequence[Prometheus], checks: Checks
) -> Iterator[None]:
    """Context manager that shows the page while a process runs, if its settings have a port.

    Args:
        settings: the section [metrics]; None without it.
        trackers: the tracker of these settings, as ``tracker_of`` returns it.
        checks: the health checks of the process, by name.

    Raises:
        ConfigError: the port or the address cannot be used.
    """
    if settings is None or settings.port is None:
        yield
        return
    page = MetricsPage(trackers[0].registry, checks, settings.address, settings.port)
    with serving(page):
        _log.info("metrics and health checks at %s", page.url)
        yield
