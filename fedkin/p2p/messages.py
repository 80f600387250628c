"""Messages between peers: a short prelude, an optional certificate and signature, and an archive.

    prelude      "FKN2" and the lengths of the certificate and of the signature (2 bytes each, high
                 byte first)
    certificate  the sender's certificate in DER format; empty if peers do not sign
    signature    over "FKN2" and the archive; empty if peers do not sign
    archive      ``fedkin.core.codec``: a header (federation, sender, round, examples) and float32
                 arrays

No part of a message is trusted: sizes and the signature are checked before the archive is decoded.
An invalid message raises a ``PeerMessageError`` with a one-word reason, so that failures can be
counted by reason. Symbols: P parameters.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from fedkin.core import codec
from fedkin.core.errors import FedkinError
from fedkin.security.signatures import MessageSigner, SignatureError

HEADER_LIMIT = 8192  # largest size in bytes of an archive's header, and of a request
_OVERHEAD_LIMIT = 65_536  # largest size in bytes of a message without its numbers
_MAGIC = b"FKN2"  # the last character is the version
_PRELUDE = struct.Struct(">4sHH")
_HEADER_LENGTH = struct.Struct("<Q")
_MAX_ROUND = 2**53  # other JSON readers cannot represent larger integers exactly
_MAX_EXAMPLES = 2**31 - 1
_REQUEST = re.compile(r"(status|model|model\+update)(?:@([1-9][0-9]{0,14}))?")

STATUS: tuple[str, ...] = ()
MODEL: tuple[str, ...] = ("model",)
MODEL_AND_UPDATE: tuple[str, ...] = ("model", "update")


class PeerMessageError(FedkinError):
    """A message between peers cannot be used.

    Attributes:
        reason: one word, under which such messages are counted. For most reasons the word names the
            check that failed, so ``finite`` means NaN or infinity.
        detail: sizes or names, which stand in brackets in the log.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Message:
    """A message with a peer's model after one of the peer's rounds.

    A message without arrays only says which round the peer has finished.
    """

    sender: str
    round: int
    examples: int  # number of training samples of the model's peer
    arrays: Mapping[str, Float32[np.ndarray, "P"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """A request to a peer, and the facts against which the peer's reply is checked."""

    federation: str  # name of the federation that the reply must name
    name: str  # name of the peer
    arrays: tuple[str, ...]  # names of the requested arrays, in order
    parameters: int  # number of parameters P
    min_round: int = 0  # the latest round that the peer has sent; older replies are stale
    round: int | None = None  # the requested round; None for any round from ``min_round`` on
    labels: str = ""  # what the labels are (``label_words``); empty for classes
    backbone: str = ""  # digest of the arrays that are not trained; empty without any


class RequestText(NamedTuple):
    """The content of a request to a peer: the names of the requested arrays, and the round (None:
    the latest round)."""

    arrays: tuple[str, ...]
    round: int | None


def request_text(arrays: tuple[str, ...], round: int | None = None) -> str:
    """The text of a request: ``status``, ``model``, or ``model+update@7`` for round 7."""
    return ("+".join(arrays) or "status") + ("" if round is None else f"@{round}")


def parse_request(text: str) -> RequestText:
    """The names of arrays and the round in the text of a request.

    Raises:
        PeerMessageError: the text is not a request.
    """
    match = _REQUEST.fullmatch(text)
    if match is None:
        raise PeerMessageError("request", f"{text[:40]!r}")
    arrays = STATUS if match[1] == "status" else tuple(match[1].split("+"))
    return RequestText(arrays, int(match[2]) if match[2] else None)


def size_limit(parameters: int) -> int:
    """Largest size of a message in bytes: two vectors of P float32 numbers, and overhead."""
    return 8 * parameters + _OVERHEAD_LIMIT


def encode(
    message: Message,
    federation: str,
    signer: MessageSigner | None = None,
    labels: str = "",
    backbone: str = "",
) -> bytes:
    """A message as bytes.

    Args:
        message: the message; its arrays are sent as float32.
        federation: name of the sender's federation.
        signer: signs the message; None to send it without certificate and signature.
        labels: what the sender's labels are (``label_words``); empty for classes.
        backbone: digest of the sender's arrays that are not trained; empty without any.
    """
    header: dict[str, Any] = {
        "federation": federation,
        "sender": message.sender,
        "round": message.round,
        "examples": message.examples,
    }
    if labels:
        header["labels"] = labels
    if backbone:
        header["backbone"] = backbone
    arrays = {name: np.asarray(array, np.float32) for name, array in message.arrays.items()}
    archive = codec.encode(header, arrays)
    certificate = b""
    signature = b""
    if signer is not None:
        certificate = signer.certificate
        signature = signer.sign(_MAGIC + archive)
    if len(certificate) > HEADER_LIMIT:
        raise PeerMessageError("certificate", f"{len(certificate)} bytes, at most {HEADER_LIMIT}")
    prelude = _PRELUDE.pack(_MAGIC, len(certificate), len(signature))
    return prelude + certificate + signature + archive


def decode(data: bytes, request: Request, signer: MessageSigner | None = None) -> Message:
    """Decode and fully check the reply to a request.

    Args:
        data: the whole message.
        request: the request that the reply must answer, including the peer's name.
        signer: checks certificate and signature; None to ignore both.

    Raises:
        PeerMessageError: the reply is invalid. Its reason names the check that failed: length,
            version, header, signature, certificate, archive, fields, federation, labels (another
            task type, loss or label scale), backbone (other frozen weights), sender, arrays, dtype,
            shape, finite (NaN or infinity), stale, round.
    """
    certificate, signature, content = _parts(data, size_limit(request.parameters))
    if signer is not None:
        if not certificate:
            raise PeerMessageError("signature", "no certificate")
        try:
            signer.check(request.name, certificate, signature, _MAGIC + content)
        except SignatureError as error:
            raise PeerMessageError(error.reason, error.detail) from error
    try:
        header, arrays = codec.decode(content)
    except ValueError as error:
        raise PeerMessageError("archive", str(error)[:200]) from error
    _check_header(header, request)
    _check_arrays(arrays, request)
    return Message(
        sender=header["sender"],
        round=header["round"],
        examples=header["examples"],
        arrays={name: arrays[name] for name in request.arrays},
    )


class _Parts(NamedTuple):
    """The three parts of a peer's message that follow its prelude, as bytes."""

    certificate: bytes
    signature: bytes
    archive: bytes


def _parts(data: bytes, limit: int) -> _Parts:
    """Split a peer's message into certificate, signature and archive (header and arrays), by the
    sizes in the message's prelude. Raises PeerMessageError unless the sizes are allowed (``limit``
    for the whole message) and fit the message."""
    if len(data) > limit:
        raise PeerMessageError("length", f"{len(data)} bytes, at most {limit}")
    if len(data) < _PRELUDE.size:
        raise PeerMessageError("length", f"{len(data)} bytes")
    magic, certificate, signature = _PRELUDE.unpack_from(data)
    if magic != _MAGIC:
        if magic[:3] == _MAGIC[:3]:
            raise PeerMessageError("version", f"{magic!r}, but {_MAGIC!r} is expected")
        raise PeerMessageError("header", "no message")
    middle = _PRELUDE.size + certificate
    start = middle + signature
    if len(data) < start + _HEADER_LENGTH.size:
        raise PeerMessageError("length", f"{len(data)} bytes, but more than {start} announced")
    (header,) = _HEADER_LENGTH.unpack_from(data, start)
    if header > HEADER_LIMIT or certificate > HEADER_LIMIT:
        raise PeerMessageError(
            "header", f"{max(header, certificate)} bytes announced, at most {HEADER_LIMIT}"
        )
    return _Parts(data[_PRELUDE.size : middle], data[middle:start], data[start:])


def _check_header(header: Mapping[str, Any], request: Request) -> None:
    """Check the header of a reply: types and ranges of its entries, and whether it names the peer
    and the round of the request. Raises PeerMessageError otherwise."""
    if not {"federation", "sender", "round", "examples"} <= header.keys():
        raise PeerMessageError("fields", "some entries are missing")
    texts = all(isinstance(header[key], str) for key in ("federation", "sender"))
    limits = {"round": (0, _MAX_ROUND), "examples": (1, _MAX_EXAMPLES)}
    if not texts or not all(_is_within(header[key], *limits[key]) for key in limits):
        raise PeerMessageError("fields", "some entries have another type, or are out of range")
    if header["federation"] != request.federation:
        raise PeerMessageError("federation", f"{header['federation'][:64]!r}")
    labels = header.get("labels", "")
    if labels != request.labels:
        raise PeerMessageError(
            "labels",
            f"{str(labels)[:200] or 'classes'!r} there and {request.labels or 'classes'!r} here: "
            "give all peers the same data.task, data.loss, data.loss_options and "
            "data.label_scale_from, and of forecasts the same data.frequency, data.season, "
            "data.lags and data.test_from",
        )
    backbone = header.get("backbone", "")
    if backbone != request.backbone:
        raise PeerMessageError(
            "backbone",
            f"{str(backbone)[:64] or 'none'!r} there and {request.backbone or 'none'!r} here: give "
            "all peers a folder with the same files as model.backbone, and the same options of "
            "[model]",
        )
    if header["sender"] != request.name:
        raise PeerMessageError("sender", f"the reply names {header['sender'][:64]!r}")
    if header["round"] < request.min_round:
        raise PeerMessageError("stale", f"round {header['round']}, after round {request.min_round}")
    if request.round is not None and header["round"] != request.round:
        raise PeerMessageError(
            "round", f"round {header['round']}, but round {request.round} was requested"
        )


def _is_within(value: object, low: int, high: int) -> bool:
    """Whether a value is an integer (and not a bool) in a range."""
    return type(value) is int and low <= value <= high


def _check_arrays(arrays: Mapping[str, np.ndarray], request: Request) -> None:
    """Check that a reply has exactly the requested arrays.

    They must be finite float32 vectors of P numbers. Raises PeerMessageError otherwise.
    """
    if arrays.keys() != set(request.arrays):
        raise PeerMessageError("arrays", f"requested: {' and '.join(request.arrays) or 'none'}")
    for array in arrays.values():
        if array.dtype != np.float32:
            raise PeerMessageError("dtype", f"{array.dtype}, not float32")
        if array.shape != (request.parameters,):
            raise PeerMessageError("shape", f"expected [{request.parameters}]")
        if not np.isfinite(array).all():
            raise PeerMessageError("finite", "NaN or infinity")
