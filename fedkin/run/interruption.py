"""Signals that end a run after its present round.

An exception raised by a signal handler can be lost: if Python is running a callback of its garbage
collector, such as JAX's, it is printed and dropped. The handler therefore only records the signal,
and the run checks for it after each round.
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
    """A signal ended a run after a round; the run can be resumed.

    Args:
        number: the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Noted:
    """What the handler of this process has recorded."""

    def __init__(self) -> None:
        self.active = False
        self.number = 0


_noted = _Noted()


@contextmanager
def interruptible(
    first: Callable[[int], object] | None = None, again: Callable[[int], object] | None = None
) -> Iterator[None]:
    """Context in which a signal ends a run after its round, and a second one at once. It has no
    effect in a thread other than the main one, inside another such context, or for a signal that is
    ignored, as with ``nohup``.

    Args:
        first: called with the number of the first signal, for example to acknowledge it.
        again: called with the number of a second signal other than SIGHUP; by default
            KeyboardInterrupt is raised.

    Raises:
        RunInterrupted: at the end, for a signal that no round has handled.
    """
    if _noted.active or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        # The signal is recorded before anything can fail.
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
    """Whether a signal is pending until the end of the round."""
    return _noted.number != 0


def raise_if_interrupted() -> None:
    """Raise RunInterrupted if a signal is pending."""
    if number := _noted.number:
        raise RunInterrupted(number)


def exit_status(error: KeyboardInterrupt) -> int:
    """128 + the signal number of an exception."""
    return SIGNALLED + (error.number if isinstance(error, RunInterrupted) else signal.SIGINT)


def _raise(number: int) -> None:
    raise RunInterrupted(number)


def _ignore(_: int) -> None:
    pass
