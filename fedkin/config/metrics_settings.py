"""The section [metrics]: numbers of a run, a server or a site for Prometheus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedkin.config.loader import Sections
from fedkin.config.schema import settings
from fedkin.core.errors import ConfigError
from fedkin.core.storage import user_path

SECTION = "metrics"


@settings(SECTION)
class MetricsSettings:
    """The section [metrics]. A text file opens no port; the page also answers health checks."""

    # Text file that Prometheus's node_exporter reads. A relative path starts at the folder of a
    # server's or site's file; of a simulated run, at the current folder.
    file: str | None = None
    # Port of the page with /metrics, /livez and /readyz; 0: any free port; not set: no page.
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    # Address on which the page listens; by default only this machine reaches it.
    address: str = "127.0.0.1"
    # Whether metrics have a label with the names of sites. Readers of the page then see which site
    # is away or refused.
    sites: bool = False


def metrics_settings(sections: Sections, folder: Path | None = None) -> MetricsSettings | None:
    """The section [metrics] of a configuration; None if it has none, or an empty one.

    Args:
        sections: the sections of the configuration.
        folder: folder where a relative path of the text file starts; None: the current folder.

    Raises ConfigError if a section names neither a file nor a port.
    """
    if not sections[SECTION]:
        return None
    checked = sections.validate(SECTION, MetricsSettings)
    if checked.file is None and checked.port is None:
        raise ConfigError(
            f'{sections.place(SECTION)}: set file, such as file = "metrics.prom", or port, such '
            "as port = 9109"
        )
    if checked.file is None:
        return checked
    path = user_path(checked.file)
    return replace(checked, file=str(path if folder is None else folder / path))
