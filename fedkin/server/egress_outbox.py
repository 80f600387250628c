"""The last step of a message before it leaves a site: a line of the site's ledger.

A reply names the digest of its line (the head of the ledger), and the server stores it. So a site
cannot remove lines later without a difference from the server's record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.server.disclosure import REFUSED_BY, spent_bytes
from fedkin.server.egress_ledger import SiteLedger, Tail, time_text
from fedkin.server.frames import Frames
from fedkin.server.message import IN_REPLY, RpcMessage, to_parts

EGRESS = "egress"  # header entry of a reply with the site, the line's number and its digest
# The place of the digest in a message while the digest is not known yet. The message is hashed so.
BLANK = "?" * 64
# Kinds of lines. Messages have the first three, and the server counts their bytes.
HANDSHAKE = "handshake"
REPLY = "reply"
REFUSAL = "refusal"
ERROR = "error"  # an error of the site's program, of which the engine tells the server the text
REPAIR = "repair"  # an incomplete line, whose message was never sent, has been removed
COUNTED = (HANDSHAKE, REPLY, REFUSAL)


@dataclass(frozen=True)
class Receiver:
    """The server that a site sends to: the federation's name, the address, and the SHA-256 digest
    of the certificate by which the site checks the server; empty if unknown."""

    federation: str = ""
    address: str = ""
    certificate: str = ""


@dataclass(frozen=True)
class Outbox:
    """Writes the lines of a site's messages.

    Attributes:
        ledger: the site's ledger.
        site: name of the site.
        receiver: the server.
        floors: the site's disclosure floors, which every line repeats; empty if it has set none.
        bytes_per_round: the most bytes that may leave in a round of a run; None: any number.
    """

    ledger: SiteLedger
    site: str
    receiver: Receiver = Receiver()
    floors: Mapping[str, Any] = field(default_factory=dict)
    bytes_per_round: int | None = None

    def seal(
        self, request: RpcMessage | None, reply: RpcMessage, whole: int = IN_REPLY
    ) -> tuple[RpcMessage, Frames]:
        """Write the line of a reply, and return the reply as it is sent, as a message and as bytes.

        A reply that would exceed the bytes of a round becomes a refusal.

        Args:
            request: the request; None if it could not be read.
            reply: the reply, with the facts for its line in ``note``.
            whole: float arrays of more bytes than this become separate frames.

        Raises:
            StorageError: the line cannot be written, so nothing may be sent.
        """
        header = {} if request is None else request.header
        with self.ledger.writing() as tail:
            tail = self._repaired(tail)
            parts = self._parts(reply, tail, whole)
            if self.bytes_per_round is not None and not reply.refusal:
                spent = self.ledger.bytes_of_round(_run_of(header), _round_of(header))
                reason = spent_bytes(spent, parts.size, self.bytes_per_round)
                if reason:
                    reply = RpcMessage({"failed": reason}, note={REFUSED_BY: "bytes_per_round"})
                    parts = self._parts(reply, tail, whole)
            line = self._line(header, reply)
            line |= {"bytes": parts.size, "sha256": message_digest(parts)}
            head = self.ledger.append(tail, line).prev
        egress = {"head": head, "seq": tail.seq, "site": self.site}
        sent = replace(reply, header={**reply.header, EGRESS: egress})
        return sent, replace(parts, rest=parts.rest.replace(BLANK.encode(), head.encode(), 1))

    def note_error(self, request: RpcMessage | None, text: str) -> None:
        """Write the line of an error whose text the engine sends to the server.

        Raises StorageError if the line cannot be written.
        """
        header = {} if request is None else request.header
        content = text.encode()
        line = {
            **self._line(header, RpcMessage()),
            "kind": ERROR,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        with self.ledger.writing() as tail:
            self.ledger.append(self._repaired(tail), line)

    def _repaired(self, tail: Tail) -> Tail:
        """Write a line about an incomplete line that was removed, if there was one."""
        if not tail.torn:
            return tail
        line = {**self._line({}, RpcMessage()), "kind": REPAIR, "bytes": 0, "torn": tail.torn}
        return self.ledger.append(tail, line)

    def _parts(self, reply: RpcMessage, tail: Tail, whole: int) -> Frames:
        """A reply as bytes, with a blank in the place of its line's digest.

        Entries are in the order of their names. The entry's name comes before all texts that an
        error or a user can choose, and only digests come before it. So the first blank is this one.
        """
        egress = {"head": BLANK, "seq": tail.seq, "site": self.site}
        return to_parts(RpcMessage({**reply.header, EGRESS: egress}, reply.arrays), whole)

    def _line(self, header: Mapping[str, Any], reply: RpcMessage) -> dict[str, Any]:
        """The entries of a reply's line, without its size and digest."""
        operation = str(header.get("operation", ""))
        kind = HANDSHAKE if operation == "hello" else REPLY
        note = {"subjects": 0, "purpose": "", REFUSED_BY: "", **reply.note}
        return {
            **note,
            "kind": REFUSAL if reply.refusal else kind,
            "time": time_text(),
            "site": self.site,
            "to": self.receiver.address,
            "certificate": self.receiver.certificate,
            "federation": self.receiver.federation,
            "run": _run_of(header),
            "round": _round_of(header),
            "operation": operation[:64],
            "schema": f"{operation[:64]}/{__version__}",
            "arrays": [
                [name, str(array.dtype), list(np.shape(array))]
                for name, array in sorted(reply.arrays.items())
            ],
            "floors": dict(self.floors),
        }


def message_digest(parts: Frames, head: str = BLANK) -> str:
    """SHA-256 of a message's bytes, with a blank in the place of the head that it names.

    Args:
        parts: the message.
        head: the head in the message; by default it is still blank.
    """
    content = hashlib.sha256(parts.rest.replace(head.encode(), BLANK.encode(), 1))
    for name in sorted(parts.arrays):
        content.update(parts.arrays[name].data)
    return content.hexdigest()


def _run_of(header: Mapping[str, Any]) -> str:
    """The run of a request; empty for a handshake."""
    return str(header.get("run", ""))[:200]


def _round_of(header: Mapping[str, Any]) -> int:
    """The round of a request; -1 if the server does not say it."""
    value = header.get("round", -1)
    return value if type(value) is int else -1
