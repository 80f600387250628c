"""Handling of signals, which end a run after its current round.

An exception from a signal handler can be lost: during a callback of Python's garbage collector,
such as JAX's, it is printed and dropped. The handler therefore only records the signal, and the run
checks for it after each round.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Ctrl-C, stop of a service, closing of a terminal
# Closing a terminal sends this signal several times, so a second one does not mean "at once".
HUNG_UP = getattr(signal, "SIGHUP", 0)
SIGNALLED = 128  # exit status of a shell, plus the signal's number


class RunInterrupted(KeyboardInterrupt):
    """A signal ended a run after a round; the run can be resumed.

    Args:
        number: the signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class _Noted:
    """The signal that this process's handler has recorded (0 if none), and whether a handler is
    installed (``active``)."""

    def __init__(self) -> None:
        self.active = False
        self.number = 0


_noted = _Noted()


@contextmanager
def interruptible(
    first: Callable[[int], object] | None = None, again: Callable[[int], object] | None = None
) -> Iterator[None]:
    """Context manager in which a first signal ends a run after its round, and a second signal ends
    it at once.

    The context manager has no effect outside the main thread, or inside another ``interruptible``.
    Signals that the process ignores stay ignored (e.g. SIGHUP under ``nohup``).

    Args:
        first: called with the number of the first signal, for example to acknowledge it.
        again: called with the number of a second signal other than SIGHUP; by default
            KeyboardInterrupt is raised.

    Raises:
        RunInterrupted: at the end of the context, if a signal came after the last check at the end
            of a round.
    """
    if _noted.active or threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        # Record the signal first, since the callbacks below may fail.
        before = _noted.number
        _noted.number = before or number
        if not before:
            (first or _ignore)(number)
        elif number != HUNG_UP:
            (again or _raise)(number)

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    # None: the handler was not set from Python, so it could not be restored.
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
    """Whether a signal has come and waits for the end of the round."""
    return _noted.number != 0


def raise_if_interrupted() -> None:
    """Raise RunInterrupted if a signal has come."""
    if number := _noted.number:
        raise RunInterrupted(number)


def exit_status(error: KeyboardInterrupt) -> int:
    """The exit status of an interrupted process: 128 + the signal's number."""
    return SIGNALLED + (error.number if isinstance(error, RunInterrupted) else signal.SIGINT)


def _raise(number: int) -> None:
    """What a second signal does by default: end the run at once."""
    raise RunInterrupted(number)


def _ignore(_: int) -> None:
    """What a first signal does by default after it is recorded: nothing."""
    pass
