"""Fetches replies from the engine, so that a reply that does not come to an end holds up no other.

Flower's ``Grid.pull_messages`` returns only when every part of every reply that it found has
arrived. A site that is killed while it sends its reply leaves a reply whose parts never come, and
Flower (1.41) waits for them for 180 s. Asked for all replies at once, it would return none of the
others in the meantime. So the engine is asked about one request at a time, in several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

PATIENCE = 1.0  # seconds that one look for replies may take
TOGETHER = 16  # requests about which a look asks the engine at the same time
Message = TypeVar("Message")


class ReplyFetches(Generic[Message]):
    """The fetches of one server. Each runs in a thread, and goes on in the background where it
    takes long.

    Every look for replies starts its own threads. So a reply that holds up a thread of one look
    takes no thread from the next look. These threads are daemons, for which Python does not wait
    when the process ends. It does wait for the threads in which Flower fetches parts of a reply.

    Args:
        pull: gives what has arrived for a request: a message, or nothing. Several threads call it.
        patience: seconds that a call of ``fetch`` may take.
    """

    def __init__(
        self, pull: Callable[[str], Sequence[Message]], patience: float = PATIENCE
    ) -> None:
        self._pull = pull
        self._patience = patience
        self._changed = threading.Condition()  # guards all that follows
        self._running: set[str] = set()  # requests that a thread asks about
        self._found: dict[str, Sequence[Message]] = {}  # messages that no call has returned yet
        self._error: Exception | None = None  # that no call has raised yet
        self._turns: dict[str, int] = {}  # the last fetch of each request without a reply
        self._count = 0  # of all fetches

    def fetch(self, request_ids: Iterable[str]) -> list[Message]:
        """The messages that have arrived for requests, each once.

        Where the time is not enough for all requests, those whose turn is longest ago come first in
        the next call.

        Args:
            request_ids: of the requests.

        Raises:
            Exception: what ``pull`` has raised. Messages that were fetched by then are returned
                first, and the next call raises it.
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
            # What has not been asked about by now comes first in the next look.
            waiting.clear()
            messages = self._take(wanted)
            if not messages:
                self._raise_error()
        return messages

    def _raise_error(self) -> None:
        """Raise what a fetch has raised, once."""
        error = self._error
        self._error = None
        if error is not None:
            raise error

    def _take(self, wanted: Iterable[str]) -> list[Message]:
        """The messages that were found for these requests, which are done now."""
        messages: list[Message] = []
        for request_id in wanted:
            if request_id in self._found:
                messages += self._found.pop(request_id)
                self._turns.pop(request_id, None)
        return messages

    def _work(self, waiting: deque[str]) -> None:
        """Fetch the replies to requests, one after another, until none is waiting."""
        while (request_id := self._next(waiting)) is not None:
            messages: Sequence[Message] = ()
            error: Exception | None = None
            try:
                messages = list(self._pull(request_id))
            # A call of ``fetch`` raises the error.
            except Exception as raised:
                error = raised
            with self._changed:
                self._running.discard(request_id)
                self._error = self._error or error
                if messages:
                    self._found[request_id] = messages
                self._changed.notify_all()

    def _next(self, waiting: deque[str]) -> str | None:
        """The next request of a look, which is running from now on; None where none is waiting."""
        with self._changed:
            if not waiting:
                return None
            request_id = waiting.popleft()
            self._running.add(request_id)
            self._count += 1
            self._turns[request_id] = self._count
            return request_id
