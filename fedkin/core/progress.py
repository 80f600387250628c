"""Progress display of runs that are started from Python. The package registers the display with
``provide``, so that this module needs no reporting code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from fedkin.core.errors import ConfigError
from fedkin.core.records import Record


@dataclass(frozen=True)
class Progress:
    """Callback that switches the progress display of a run on or off.

    Args:
        show: whether to show progress bars (plain lines without a terminal). Without this callback,
            progress is shown on a terminal and in a notebook.

    Examples:
        >>> import fedkin as fk
        >>> fk.Progress(False)
        Progress(show=False)
    """

    show: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.show, bool):
            raise ConfigError(f"Progress: show must be True or False, got {self.show!r}")


Listener = Callable[[Record], Any]
Display = Callable[[int], AbstractContextManager[Listener]]  # argument: number of rounds
_provided: list[Display] = []


def provide(display: Display) -> None:
    """Use ``display``, which shows the progress of a run, for all later runs."""
    _provided[:] = [display]


@contextmanager
def shown(
    progress: bool | None, rounds: int, on_round: Listener | None
) -> Iterator[Listener | None]:
    """Context manager that yields the callback of a run. The run calls it with the record of every
    round. The callback updates the display if progress is shown, and then calls the user's
    ``on_round`` and returns its value. The callback is None if there is nothing to call.

    Args:
        progress: whether to show progress; None: on a terminal and in a notebook.
        rounds: number of rounds of each method.
        on_round: the user's function; None: there is none.
    """
    wanted = is_watched() if progress is None else progress
    if not (wanted and _provided):
        yield on_round
        return
    with _provided[0](rounds) as show:

        def both(record: Record) -> Any:
            show(record)
            return on_round(record) if on_round else None

        yield both


def is_watched() -> bool:
    """Whether progress is visible: standard error is a terminal, or this is a notebook."""
    return in_notebook() or bool(sys.stderr and sys.stderr.isatty())


def in_notebook() -> bool:
    """Whether this process is the kernel of a Jupyter notebook."""
    python = sys.modules.get("IPython")
    return getattr(python and python.get_ipython(), "kernel", None) is not None
