"""The handshake, the first message: node and server compare federation, model and version.

Both sides compare, so that a mismatch is logged on the machine where it can be fixed.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.codec import digest
from fedkin.core.model_spec import ModelSpec
from fedkin.server.message import InvalidMessageError, RpcMessage, one_line
from fedkin.task_types.survival import Survival

# Fields that must be equal, in the order of comparison, with their names in error messages.
_COMPARED = {
    "federation": "the federation is",
    "version": "fedkin is version",
    "parameters": "the number of the model's parameters is",
    "layout": "the model's layers (names, sizes, order) have the digest",
    "labels": "the task type, the loss and the label scale are",
    "samples": "the shape of a sample and the number of classes are",
    "config": "the configuration of samples and model has the hash",
    "backbone": "the backbone's weights have the digest",
}
_SHARED = "give client.toml the [samples] and [model] of server.toml"
_CURES = {
    "federation": "set client.federation in client.toml to the server's federation.name",
    "version": "install the same version of fedkin on both sides",
    "backbone": "copy the server's backbone folder to the site, and name it in client.toml as "
    "model.backbone",
}
_SHOWN = 16  # characters of a digest
_OPTIONAL = ("federation", "config")  # compared only if both sides have them
_LEFT_OUT = ("labels", "backbone")  # have no entry in a message if they are empty


@dataclass(frozen=True)
class Handshake:
    """The facts that one side states about itself in the handshake.

    ``federation`` and ``config`` (a digest of samples and model) are empty if the client is made by
    Python code, not by a file. ``start`` is a digest of the initial model from a fixed seed. If
    this digest is equal on both sides, a model can be sent as its seed. ``labels`` says what labels
    are that are no classes. ``backbone`` is a digest of the arrays that are not trained; empty for
    models without.
    """

    federation: str
    version: str
    parameters: int
    layout: str
    samples: str
    config: str = ""
    start: str = ""
    labels: str = ""
    backbone: str = ""

    def header(self) -> dict[str, Any]:
        """The facts of this handshake as entries of a message's header. Labels that are classes,
        and models without a backbone, have no entry, so their messages need no more bytes."""
        facts = asdict(self)
        for name in _LEFT_OUT:
            if not facts[name]:
                del facts[name]
        return facts

    def identity(self) -> tuple[str, ...]:
        """Digests of the model, which must be the same when a run is resumed."""
        return (self.layout, self.backbone) if self.backbone else (self.layout,)

    def sizes(self) -> dict[str, int]:
        """A dict with the size ``d``, the number of values in a sample (of survival, of a patient);
        an empty dict if the handshake does not give the shape of a sample."""
        shape = re.match(r"\[([\d, ]*)\] -> ", self.samples)
        if shape is None:
            return {}
        sizes = [int(size) for size in shape[1].split(",") if size.strip()]
        is_survival = self.labels.split(",")[0] == Survival.name
        if is_survival and len(sizes) == 2:
            # The last feature of a patient in a risk set is the patient's weight.
            return {"d": sizes[-1] - 1}
        return {"d": math.prod(sizes)}

    @classmethod
    def of(cls, message: RpcMessage) -> Handshake:
        """The handshake in a message's header. Raises InvalidMessageError if an entry is
        missing."""
        values = {}
        for name in cls.__dataclass_fields__:
            if name in _LEFT_OUT and name not in message.header:
                continue
            kind = int if name == "parameters" else str
            values[name] = message.value(name, kind)
        return cls(**values)


def check(own: Handshake, other: Handshake, here: str, there: str) -> None:
    """Compare two handshakes.

    Raises InvalidMessageError with the first difference and how to fix it.

    Args:
        own: handshake of this side.
        other: handshake of the other side.
        here: name of this side in the message.
        there: name of the other side in the message.
    """
    for name, words in _COMPARED.items():
        mine = getattr(own, name)
        theirs = getattr(other, name)
        is_compared = name not in _OPTIONAL or (mine and theirs)
        if mine != theirs and is_compared:
            difference = (
                f"{words} {one_line(repr(mine))} {here} and {one_line(repr(theirs))} {there}"
            )
            raise InvalidMessageError(f"{difference}: {_CURES.get(name, _SHARED)}")


def make_handshake(
    federation: str,
    version: str,
    spec: ModelSpec,
    shape: tuple[int, ...],
    classes: int,
    config: str = "",
    labels: str = "",
) -> Handshake:
    """The handshake of one side, without ``start`` (the digest of the initial model).

    Args:
        federation: name of the federation; may be empty.
        version: version of fedkin.
        spec: spec of the model.
        shape: shape of one sample.
        classes: number of classes C.
        config: digest of the configuration of samples and model; may be empty.
        labels: what the labels are (``label_words``); empty for classes.
    """
    layout = [(name, part.start, part.stop) for name, part in spec.slices.items()]
    return Handshake(
        federation=federation,
        version=version,
        parameters=spec.parameters,
        layout=digest([layout, spec.detects]),
        samples=f"{list(shape)} -> {classes}",
        config=config,
        labels=labels,
        backbone=spec.frozen[:_SHOWN],
    )


def model_digest(model: Float[np.ndarray, "..."]) -> str:
    """A short digest of one model or several models."""
    return hashlib.sha256(np.ascontiguousarray(model, "<f4").tobytes()).hexdigest()[:_SHOWN]
