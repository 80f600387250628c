"""What a peer has to give, as bytes that are ready to go. Questions come on another thread than the peer's own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fedkin.p2p.messages import STATUS, Message, WireError, asked_for

_KEPT = 2  # rounds: in lock-step somebody may still be at the last one


class ResponseCache:
    """A peer's newest rounds. An answer is made when it is first asked for, and kept.

    Args:
        written: turns a message into bytes.
    """

    def __init__(self, written: Callable[[Message], bytes]) -> None:
        self._written = written
        self._lock = threading.Lock()
        self._rounds: dict[int, Message] = {}
        self._finished: Message | None = None
        self._ready: dict[str, bytes] = {}
        self._given = 0

    def put(self, message: Message) -> None:
        """What others get from now on; its arrays must not change any more."""
        with self._lock:
            self._rounds[message.round] = message
            self._rounds = {t: self._rounds[t] for t in sorted(self._rounds)[-_KEPT:]}
            self._ready = {}

    def finished(self, message: Message) -> None:
        """A round is over for this peer: what it says when asked for its status."""
        with self._lock:
            self._finished = message
            self._ready.pop("status", None)

    def answer(self, text: str) -> bytes | None:
        """The answer to a question as it travels; None where there is none (yet)."""
        try:
            wants, round = asked_for(text)
        except WireError:
            return None
        with self._lock:
            if text not in self._ready:
                message = self._find(wants, round)
                if message is None:
                    return None
                self._ready[text] = self._written(message)
            self._given += len(self._ready[text])
            return self._ready[text]

    def given(self) -> int:
        """Bytes given since this was last asked."""
        with self._lock:
            given, self._given = self._given, 0
            return given

    def _find(self, wants: tuple[str, ...], round: int | None) -> Message | None:
        if wants == STATUS:
            return self._finished if round is None else None
        if not self._rounds:
            return None
        found = self._rounds.get(max(self._rounds) if round is None else round)
        if found is None:
            return None
        return Message(found.sender, found.round, found.examples, {name: found.arrays[name] for name in wants})
