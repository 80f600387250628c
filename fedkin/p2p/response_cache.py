"""The replies that a peer sends: its latest models, encoded. Requests arrive on another thread than
the one that runs the rounds, so access is locked."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fedkin.p2p.messages import STATUS, Message, PeerMessageError, RequestText, parse_request

_ROUNDS = 2  # number of stored rounds: in lockstep a peer may still be at the previous one


class ResponseCache:
    """The messages of a peer's latest rounds. A reply is encoded on its first request, and stored.

    Args:
        encode: converts a message to bytes.
    """

    def __init__(self, encode: Callable[[Message], bytes]) -> None:
        self._encode = encode
        self._lock = threading.Lock()
        self._messages: dict[int, Message] = {}
        self._status: Message | None = None
        self._replies: dict[str, bytes] = {}
        self._bytes_sent = 0

    def add(self, message: Message) -> None:
        """Serve the message of this round from now on. Its arrays must not change afterwards."""
        with self._lock:
            self._messages[message.round] = message
            self._messages = {t: self._messages[t] for t in sorted(self._messages)[-_ROUNDS:]}
            self._replies = {}

    def set_status(self, message: Message) -> None:
        """Set the reply to requests for this peer's status: a message that names its last finished
        round."""
        with self._lock:
            self._status = message
            self._replies.pop("status", None)

    def reply(self, text: str) -> bytes | None:
        """The encoded reply to the text of another peer's request; None if the text is no request,
        or if this peer has no message of the requested round (yet)."""
        try:
            request = parse_request(text)
        except PeerMessageError:
            return None
        with self._lock:
            if text not in self._replies:
                message = self._select(request)
                if message is None:
                    return None
                self._replies[text] = self._encode(message)
            self._bytes_sent += len(self._replies[text])
            return self._replies[text]

    def pop_bytes_sent(self) -> int:
        """Number of bytes of all replies that were sent since the last call of this function."""
        with self._lock:
            count = self._bytes_sent
            self._bytes_sent = 0
            return count

    def _select(self, request: RequestText) -> Message | None:
        """The stored message that answers a request, with only the requested arrays; None if no
        stored message is of the requested round."""
        if request.arrays == STATUS:
            return self._status if request.round is None else None
        if not self._messages:
            return None
        round = max(self._messages) if request.round is None else request.round
        message = self._messages.get(round)
        if message is None:
            return None
        arrays = {name: message.arrays[name] for name in request.arrays}
        return Message(message.sender, message.round, message.examples, arrays)
