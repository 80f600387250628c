"""What can be each client's own beside a method's clusters (``personalized.py``): its last layer, or a model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import MethodError
from fedkin.core.layout import ModelSpec
from fedkin.core.method import Method
from fedkin.core.plain import plain_options
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive, check_positive_integer
from fedkin.tasks.own_model import TrainBeside
from fedkin.tasks.personal import Personal, body_of
from fedkin.tasks.train import Train


@runtime_checkable
class PersonalPart(Protocol):
    """What is each client's own."""

    head: bool  # whether it is a part of the cluster's model, which is then not shared

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """A training of the method, with the client's part.

        Args:
            task: the training.
            start: the run's initial model.
            head: which slice of a model is its last layer.
        """
        ...


@plain_options
@dataclass(frozen=True)
class PersonalHead:
    """The last layer of each client's own, trained alone before the body is; with 0 ``head_epochs``, with it."""

    head_epochs: int = 10  # of the head, before the body is trained

    head = True

    def __post_init__(self) -> None:
        if self.head_epochs:
            check_positive_integer("head_epochs", self.head_epochs)

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """As ``PersonalPart``. Raises MethodError where clients choose among models, or tell gradients of them."""
        if task.model_index is None or task.gradient:
            raise MethodError("personal heads: clients cannot compare models, or their gradients, without a last layer")
        bodies = body_of(task.models, head)
        return Personal(bodies, task.work, task.model_index, start, head, self.head_epochs, task.reduce)


@plain_options
@dataclass(frozen=True)
class PersonalModel:
    """A model of each client's own, close to that of its cluster (Ditto)."""

    strength: float = 1.0  # lambda
    own_epochs: int | None = None  # of the training of v_i (or steps, where the run's training has steps)
    own_lr: float | None = None  # None: the run's

    head = False

    def __post_init__(self) -> None:
        check_not_negative("strength", self.strength)
        if self.own_epochs is not None:
            check_positive_integer("own_epochs", self.own_epochs)
        if self.own_lr is not None:
            check_positive("own_lr", self.own_lr)

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """As ``PersonalPart``."""
        given = {f.name: getattr(task, f.name) for f in fields(Train)}
        return TrainBeside(**given, strength=float(self.strength), own_epochs=self.own_epochs, own_lr=self.own_lr)


PERSONAL: dict[str, type] = {"head": PersonalHead, "ditto": PersonalModel}


def refusal(method: Method, personal: PersonalPart) -> str | None:
    """Why a personal part does not go with a method; None where it does."""
    needs, name = requirements_of(method), type(method).__name__
    own = "the model of each peer" if needs.peers else "detectors of single classes" if needs.detectors else ""
    if own := own or needs.own_part:
        return f"{name} goes without a personal part, as it has {own}; leave it out"
    if personal.head and needs.shared_head:
        return (
            f"{name} compares {needs.shared_head}, which needs last layers that clients share; take personal.name="
            "ditto, or another method"
        )
    return None


def head_refusal(method: Method, spec: ModelSpec) -> str | None:
    """Why clients of a method cannot have a last layer of their own in such a model; None where they can."""
    size = 0 if spec.head is None else len(range(spec.parameters)[spec.head])
    if 0 < size < spec.parameters:
        return None
    why = "has no other layer" if size else "does not end in a weight [C, d] and a bias [C]"
    return (
        f"{type(method).__name__} with personal heads shares all layers but the last, and this model {why}: take one "
        "with hidden layers, such as model.name=mlp, or personal.name=ditto"
    )
