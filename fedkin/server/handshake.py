"""The first message: whether a node and the server mean the same federation, model and version.

Both sides compare, so that each can say what is wrong where it can be put right: the node in its own log, the server in
its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.codec import digest
from fedkin.core.world import ModelSpec
from fedkin.server.message import InvalidMessageError, RpcMessage, plain

# What must be equal, in the order in which it is compared, and what it is called.
_EQUAL = {
    "federation": "the federation is",
    "version": "fedkin is version",
    "parameters": "the number of the model's parameters is",
    "layout": "the model's layers (names, sizes, order) have the digest",
    "samples": "the shape of a sample and the number of classes are",
    "config": "the configuration of samples and model has the hash",
}


_OPTIONAL = ("federation", "config")


@dataclass(frozen=True)
class Handshake:
    """What both sides say of themselves. ``federation`` and ``config`` are empty where a client is made by a program,
    not by a file; ``start`` is a digest of the initial model that comes from fixed randomness."""

    federation: str
    version: str
    parameters: int
    layout: str
    samples: str
    config: str = ""
    start: str = ""

    def header(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, message: RpcMessage) -> Handshake:
        """From a header. Raises Unfit where something is missing."""
        kinds = {name: int if name == "parameters" else str for name in cls.__dataclass_fields__}
        return cls(**{name: message.value(name, kind) for name, kind in kinds.items()})


def check(own: Handshake, other: Handshake) -> None:
    """Compare; raises Unfit with the first thing that differs, as seen from ``own``."""
    for name, words in _EQUAL.items():
        here, there = getattr(own, name), getattr(other, name)
        if here != there and not (name in _OPTIONAL and not (here and there)):
            raise InvalidMessageError(f"{words} {plain(repr(here))} here and {plain(repr(there))} there")


def make_handshake(
    federation: str, version: str, spec: ModelSpec, shape: tuple[int, ...], classes: int, config: str = ""
) -> Handshake:
    """What a side has to say, from what it has; but for the start."""
    layout = [(name, part.start, part.stop) for name, part in spec.slices.items()]
    return Handshake(
        federation,
        version,
        spec.parameters,
        digest([layout, spec.detects]),
        f"{list(shape)} -> {classes}",
        config,
    )


def digest_of(model: Float[np.ndarray, "P"]) -> str:
    """A short digest of a model."""
    return hashlib.sha256(np.ascontiguousarray(model, "<f4").tobytes()).hexdigest()[:16]
