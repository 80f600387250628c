"""Messages between peers: a few bytes of prelude, a small JSON header, a signature where there is one, raw numbers.

    prelude     "FKN1", the length of the header (4 bytes) and of the signature (2 bytes), high byte first
    header      JSON: federation, sender, round, examples, arrays [[name, dtype, shape], ...], certificate (base64)
    signature   over header and payload; empty where peers do not sign
    payload     the arrays one after another, little end first

Nothing in a message is believed: sizes are checked before anything is parsed, and what does not fit is refused with a
``WireError`` whose reason is one word, so that it can be counted. Never pickle. Letters: P parameters.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from fedkin.core.errors import FedkinError

HEADER_LIMIT = 8192  # bytes
_PRELUDE, _MAGIC = struct.Struct(">4sIH"), b"FKN1"
_FLOAT = "<f4"
_LARGEST = 2**53  # of rounds; JSON readers elsewhere have no exact numbers above
_MOST_EXAMPLES = 2**31 - 1
_WHAT = re.compile(r"(status|model|model\+update)(?:@([1-9][0-9]{0,14}))?")

STATUS: tuple[str, ...] = ()
MODEL: tuple[str, ...] = ("model",)
BOTH: tuple[str, ...] = ("model", "update")


class WireError(FedkinError):
    """A message that is not used; ``reason`` is the word under which it is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason, self.detail = reason, detail


@runtime_checkable
class MessageSigner(Protocol):
    """Signs what this peer says, and checks what others say."""

    @property
    def certificate(self) -> bytes:
        """This peer's own, as it travels in a header."""
        ...

    def sign(self, content: bytes) -> bytes: ...

    def check(self, name: str, certificate: bytes, signature: bytes, content: bytes) -> None:
        """Raises WireError unless the certificate is ``name``'s and the signature is its own."""
        ...


@dataclass(frozen=True)
class Message:
    """What a peer says of one of its rounds; without arrays, that it has finished it."""

    sender: str
    round: int
    examples: int  # training examples behind the model
    arrays: Mapping[str, Float32[np.ndarray, "P"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What was asked of whom, and so what an answer must be."""

    federation: str
    name: str
    wants: tuple[str, ...]  # names of arrays, in order
    parameters: int  # P
    least: int = 0  # the sender has shown this round already: an older one is stale
    round: int | None = None  # this one and no other

    @property
    def text(self) -> str:
        """As it travels."""
        return what(self.wants, self.round)


def what(wants: tuple[str, ...], round: int | None = None) -> str:
    """A question as it travels: ``status``, ``model``, ``model+update@7`` (of round 7)."""
    return ("+".join(wants) or "status") + ("" if round is None else f"@{round}")


def asked_for(text: str) -> tuple[tuple[str, ...], int | None]:
    """The arrays and the round that a question names.

    Raises WireError for anything else.
    """
    match = _WHAT.fullmatch(text)
    if match is None:
        raise WireError("question", f"{text[:40]!r}")
    wants = STATUS if match[1] == "status" else tuple(match[1].split("+"))
    return wants, int(match[2]) if match[2] else None


def encode(message: Message, federation: str, seal: MessageSigner | None = None) -> bytes:
    """A message as bytes."""
    arrays = {name: np.ascontiguousarray(array, _FLOAT) for name, array in message.arrays.items()}
    header: dict[str, Any] = {
        "federation": federation,
        "sender": message.sender,
        "round": message.round,
        "examples": message.examples,
        "arrays": [[name, _FLOAT, list(array.shape)] for name, array in arrays.items()],
    }
    if seal is not None:
        header["certificate"] = base64.b64encode(seal.certificate).decode()
    head = json.dumps(header, separators=(",", ":")).encode()
    if len(head) > HEADER_LIMIT:
        raise WireError("header", f"{len(head)} bytes, at most {HEADER_LIMIT}; a shorter certificate is needed")
    payload = b"".join(array.tobytes() for array in arrays.values())
    signature = b"" if seal is None else seal.sign(head + payload)
    return b"".join([_PRELUDE.pack(_MAGIC, len(head), len(signature)), head, signature, payload])


def decode(data: bytes, question: Question, seal: MessageSigner | None = None) -> Message:
    """The answer to a question, checked from its first byte to its last.

    Raises WireError with one of the reasons length, header, json, fields, federation, sender, signature, arrays,
    dtype, shape, finite, round, stale.
    """
    head, signature, payload = _parts(data)
    header = _parsed(head)
    if header["federation"] != question.federation:
        raise WireError("federation", f"{header['federation'][:64]!r}")
    if header["sender"] != question.name:
        raise WireError("sender", f"it names {header['sender'][:64]!r}")
    if seal is not None:
        seal.check(question.name, _certificate(header), signature, b"".join([head, payload]))
    _check_layout(header["arrays"], question, len(payload))
    size = question.parameters
    flat = np.frombuffer(payload, _FLOAT).astype(np.float32, copy=False)
    arrays = {name: flat[i * size : (i + 1) * size] for i, name in enumerate(question.wants)}
    if not np.isfinite(flat).all():
        raise WireError("finite", "NaN or infinity")
    if header["round"] < question.least:
        raise WireError("stale", f"round {header['round']}, after {question.least}")
    if question.round is not None and header["round"] != question.round:
        raise WireError("round", f"round {header['round']}, asked for {question.round}")
    return Message(header["sender"], header["round"], header["examples"], arrays)


def _parts(data: bytes) -> tuple[bytes, bytes, memoryview]:
    """Header, signature and payload, cut where the prelude says."""
    if len(data) < _PRELUDE.size:
        raise WireError("length", f"{len(data)} bytes")
    magic, head, signature = _PRELUDE.unpack_from(data)
    if magic != _MAGIC:
        raise WireError("header", "not a message of ours")
    if head > HEADER_LIMIT:
        raise WireError("header", f"{head} bytes announced, at most {HEADER_LIMIT}")
    start = _PRELUDE.size + head + signature
    if len(data) < start:
        raise WireError("length", f"{len(data)} bytes, {start} announced")
    return data[_PRELUDE.size : _PRELUDE.size + head], data[start - signature : start], memoryview(data)[start:]


def _parsed(head: bytes) -> dict[str, Any]:
    try:
        header = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise WireError("json") from error
    if not isinstance(header, dict) or not {"federation", "sender", "round", "examples", "arrays"} <= header.keys():
        raise WireError("fields", "some are missing")
    texts = all(isinstance(header[key], str) for key in ("federation", "sender"))
    limits = {"round": (0, _LARGEST), "examples": (1, _MOST_EXAMPLES)}
    if not texts or not all(_within(header[key], *limits[key]) for key in limits):
        raise WireError("fields", "of another type, or out of range")
    return header


def _within(value: object, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _certificate(header: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(header["certificate"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise WireError("signature", "no certificate") from error


def _check_layout(layout: object, question: Question, size: int) -> None:
    """Whether the arrays are those that were asked for, and all there."""
    if not isinstance(layout, list) or not all(isinstance(entry, list) and len(entry) == 3 for entry in layout):
        raise WireError("fields", "arrays must be [name, dtype, shape]")
    if [name for name, _, _ in layout] != list(question.wants):
        raise WireError("arrays", f"not {' and '.join(question.wants) or 'none'}")
    if any(dtype != _FLOAT for _, dtype, _ in layout):
        raise WireError("dtype", f"not {_FLOAT}")
    if any(json.dumps(shape) != f"[{question.parameters}]" for _, _, shape in layout):  # 1.0 and true are no sizes
        raise WireError("shape", f"not [{question.parameters}]")
    announced = 4 * question.parameters * len(layout)
    if size != announced:
        raise WireError("length", f"{size} bytes of numbers, {announced} announced")
