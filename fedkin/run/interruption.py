"""Signals that end a run after its present round.

An exception that a signal's handler raises can be lost: where Python runs a callback of its garbage
collector, for one, as JAX has them, it is printed and forgotten. So the handler notes the signal,
and the run asks for it after each round.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Ctrl-C, the end of a service, the end of a terminal
# One closed terminal sends several: from the system, from its shell.
HUNG_UP = getattr(signal, "SIGHUP", 0)
SIGNALLED = 128  # plus the signal's number: the exit status, as shells have it


class RunInterrupted(KeyboardInterrupt):
    """A run was ended by a signal after a round; it goes on where it is resumed.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Noted:
    """What the handler of this process has noted."""

    def __init__(self) -> None:
        self.active = False
        self.number = 0


_noted = _Noted()


@contextmanager
def interruptible(
    first: Callable[[int], object] | None = None, again: Callable[[int], object] | None = None
) -> Iterator[None]:
    """Context in which a signal ends a run after its round, and a second one at once. In a thread
    other than the main one, and inside another such context, nothing changes; neither does a signal
    that is ignored, as ``nohup`` does.

    Args:
        first: called with the number of the first signal, such as to say that it was heard.
        again: called with the number of a second signal other than SIGHUP; by default
            KeyboardInterrupt is raised.

    Raises:
        RunInterrupted: at the end, of a signal that no round has seen.
    """
    if _noted.active or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        # The signal is noted before anything can fail.
        before = _noted.number
        _noted.number = before or number
        if not before:
            (first or _ignore)(number)
        elif number != HUNG_UP:
            (again or _raise)(number)

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number in SIGNALS if handlers[number] not in (signal.SIG_IGN, None)]
    _noted.active = True
    _noted.number = 0
    try:
        for number in taken:
            signal.signal(number, handle)
        yield
        raise_if_interrupted()
    finally:
        for number in taken:
            signal.signal(number, handlers[number])
        _noted.active = False
        _noted.number = 0


def is_interrupted() -> bool:
    """Whether a signal waits for the end of the round."""
    return _noted.number != 0


def raise_if_interrupted() -> None:
    """Raise RunInterrupted where a signal waits for the end of the round."""
    if number := _noted.number:
        raise RunInterrupted(number)


def exit_status(error: KeyboardInterrupt) -> int:
    """128 + the number of the signal that an exception stands for."""
    return SIGNALLED + (error.number if isinstance(error, RunInterrupted) else signal.SIGINT)


def _raise(number: int) -> None:
    raise RunInterrupted(number)


def _ignore(_: int) -> None:
    pass
