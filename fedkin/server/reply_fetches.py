"""Fetches replies from the engine one by one, so that a reply that does not come to an end holds up no other.

Flower's ``Grid.pull_messages`` returns only when every part of every reply that it found has arrived. A site that is
killed while it sends its reply leaves a reply whose parts never come, and Flower (1.41) waits for them for 180 s. Asked
for all replies at once, it would return none of the others in the meantime.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

PATIENCE = 1.0  # seconds that one look for replies may take
Message = TypeVar("Message")


class ReplyFetches(Generic[Message]):
    """The fetches of one server. Each runs in a thread, and goes on in the background where it takes long.

    Args:
        pull: gives what has arrived for one request: a message, or nothing.
        patience: seconds that a call of ``fetch`` may take.
    """

    def __init__(self, pull: Callable[[str], Sequence[Message]], patience: float = PATIENCE) -> None:
        self._pull = pull
        self._patience = patience
        self._running: dict[str, _Fetch[Message]] = {}  # by the request's id
        self._last: dict[str, int] = {}  # the number of the fetch that was the last of each request
        self._count = 0

    def fetch(self, request_ids: Iterable[str]) -> list[Message]:
        """What has arrived for some requests, each once. Raises what ``pull`` raised.

        Where the time is not enough for all requests, those whose turn is longest ago come first in the next call.
        """
        end = time.monotonic() + self._patience
        requests = sorted(request_ids, key=lambda one: self._last.get(one, 0))
        self._last = {one: self._last.get(one, 0) for one in requests}
        messages: list[Message] = []
        for request_id in requests:
            left = end - time.monotonic()
            messages += self._continue(request_id) if request_id in self._running else self._begin(request_id, left)
        return messages

    def _begin(self, request_id: str, seconds: float) -> Sequence[Message]:
        """Fetch the reply to a request, as far as the time allows."""
        if seconds <= 0:
            return []
        self._count += 1
        self._last[request_id] = self._count
        fetch = _Fetch(self._pull, request_id)
        if not fetch.done.wait(seconds):
            self._running[request_id] = fetch
            return []
        return fetch.result()

    def _continue(self, request_id: str) -> Sequence[Message]:
        """What an earlier fetch has found, if it has come to its end."""
        if not self._running[request_id].done.is_set():
            return []
        return self._running.pop(request_id).result()


class _Fetch(Generic[Message]):
    """One fetch, in a thread that does not keep the process alive."""

    def __init__(self, pull: Callable[[str], Sequence[Message]], request_id: str) -> None:
        self.done = threading.Event()
        self._pull = pull
        self._request_id = request_id
        self._messages: Sequence[Message] = ()
        self._error: Exception | None = None
        threading.Thread(target=self._run, name=f"fetch {request_id}", daemon=True).start()

    def result(self) -> Sequence[Message]:
        """The messages of a fetch that is done. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._messages

    def _run(self) -> None:
        try:
            self._messages = list(self._pull(self._request_id))
        except Exception as error:  # it is raised where the result is wanted
            self._error = error
        finally:
            self.done.set()
