"""Fetches replies from Flower, so that an incomplete reply does not block the others.

Flower splits a reply into parts, and ``Grid.pull_messages`` returns only when every part of every
reply that it found has arrived. If a site is killed while it sends its reply, some parts never
arrive, and Flower (1.41) waits for them for 180 s. A single pull for all replies would return none
of the others in that time. Therefore each pull asks for one reply, in several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

PATIENCE = 1.0  # seconds that one call of ``fetch`` may take
TOGETHER = 16  # number of replies that one call pulls concurrently
Message = TypeVar("Message")


class ReplyFetches(Generic[Message]):
    """One server's fetches of replies. Each fetch runs in a thread, and slow ones continue in the
    background.

    Every call of ``fetch`` starts new threads, so that a thread that is still blocked does not
    delay later calls. The threads are daemons: Python does not wait for them when the process
    exits. But it does wait for the threads in which Flower fetches parts of a reply.

    Args:
        pull: returns the message that has arrived for a request, or nothing. It is called from
            several threads.
        patience: seconds that a call of ``fetch`` may take.
    """

    def __init__(
        self, pull: Callable[[str], Sequence[Message]], patience: float = PATIENCE
    ) -> None:
        self._pull = pull
        self._patience = patience
        self._changed = threading.Condition()  # guards all attributes below
        self._running: set[str] = set()  # requests that a thread is pulling
        self._found: dict[str, Sequence[Message]] = {}  # messages not yet returned by a call
        self._error: Exception | None = None  # error that no call has raised yet
        self._turns: dict[str, int] = {}  # number of the last fetch of each unanswered request
        self._count = 0  # number of all fetches

    def fetch(self, request_ids: Iterable[str]) -> list[Message]:
        """The messages that have arrived for these requests, each returned once.

        If the time is too short for all requests, the next call of ``fetch`` starts with the
        requests that were tried least recently.

        Args:
            request_ids: ids of the requests.

        Raises:
            Exception: the error of ``pull``. Messages that were fetched before the error are
                returned first, and the next call of ``fetch`` raises the error.
        """
        wanted = list(dict.fromkeys(request_ids))
        with self._changed:
            self._raise_error()
            started = set(wanted) - self._running - self._found.keys()
            in_order = [request_id for request_id in wanted if request_id in started]
            waiting = deque(sorted(in_order, key=lambda request: self._turns.get(request, 0)))
        for _ in range(min(TOGETHER, len(started))):
            threading.Thread(target=self._work, args=(waiting,), daemon=True).start()
        with self._changed:
            self._changed.wait_for(
                lambda: not waiting and not started & self._running,
                timeout=self._patience,
            )
            # Requests that were not pulled in time come first in the next call.
            waiting.clear()
            messages = self._take(wanted)
            if not messages:
                self._raise_error()
        return messages

    def _raise_error(self) -> None:
        """Raise the error of a fetch, if there is one, and forget it."""
        error = self._error
        self._error = None
        if error is not None:
            raise error

    def _take(self, wanted: Iterable[str]) -> list[Message]:
        """The messages found for these requests. They are removed, so each is returned once."""
        messages: list[Message] = []
        for request_id in wanted:
            if request_id in self._found:
                messages += self._found.pop(request_id)
                self._turns.pop(request_id, None)
        return messages

    def _work(self, waiting: deque[str]) -> None:
        """Fetch the replies to waiting requests, one after another, until none is left."""
        while (request_id := self._next(waiting)) is not None:
            messages: Sequence[Message] = ()
            error: Exception | None = None
            try:
                messages = list(self._pull(request_id))
            # The error is stored, and a call of ``fetch`` raises it.
            except Exception as raised:
                error = raised
            with self._changed:
                self._running.discard(request_id)
                self._error = self._error or error
                if messages:
                    self._found[request_id] = messages
                self._changed.notify_all()

    def _next(self, waiting: deque[str]) -> str | None:
        """The next waiting request, which is marked as running; None if none is waiting."""
        with self._changed:
            if not waiting:
                return None
            request_id = waiting.popleft()
            self._running.add(request_id)
            self._count += 1
            self._turns[request_id] = self._count
            return request_id
