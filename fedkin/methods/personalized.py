"""Any method that averages, with a part of each client's own: its last layer (FedRep, FedPer), or a model (Ditto).

    head    w_i = (b_k, h_i): body b_k of the client's cluster, head h_i of the client (fedper.py)
    ditto   v_i beside w_k, pulled to the w_k that the client received in this round (ditto.py)

With one cluster these are FedRep (``head_epochs=0``: FedPer) and Ditto, to the last bit. Clients are tested with what
is theirs; one that never trained is tested with the first head, or with its cluster's model. A client that changes its
cluster keeps its part.

What the method trains in its rounds is personal: clients of a cold start, and newcomers that are placed, train whole
models. All clusters' heads stay that of the initial model, whatever a cold start made of them, so that sharing between
clusters and server optimisers leave them alone. Updates that a method clusters by in a round are zero there.

Not every method goes with it (``refusal``): one may cluster clients by what shared last layers do
(``Requirements.shared_head``), or have something of each client's own already (``Requirements.own_part``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.extended_state import extended_type, own_state, values
from fedkin.core.layout import ModelSpec
from fedkin.core.method import Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.methods.personal_parts import PersonalPart, head_refusal, refusal
from fedkin.methods.personal_world import PersonalWorld
from fedkin.tasks.own_model import EvaluateOwn
from fedkin.tasks.personal import EvaluatePersonal, body_of

MARKS = {"personal_start": True, "personal_model": False}  # what a state has besides -> whether heads are personal


@dataclass(frozen=True)
class Personalized:
    """A method whose clients have a part of their own. Raises MethodError for one that it does not go with."""

    method: Method
    personal: PersonalPart

    def __post_init__(self) -> None:
        if why := refusal(self.method, self.personal):
            raise MethodError(why)

    def requirements(self) -> Requirements:
        needs = requirements_of(self.method)
        if self.personal.head:
            return replace(needs, last_layer=True, hidden_layers=True)
        return replace(needs, kept_models=needs.kept_models + 1)

    def init(self, world: World, stream: Stream) -> State:
        """The method's first state. Raises MethodError where the last layer is not known, or is the whole model."""
        if self.personal.head and (why := head_refusal(self.method, world.spec)):
            raise MethodError(why)
        start = world.initial(stream.child("model")) if self.personal.head else np.zeros(0, np.float32)
        return self._next(world, start, self.method.init(world, stream))

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        start = self._start(state)
        own = PersonalWorld(world, lambda task: self.personal.task(task, start, world.spec.head), world.spec.head)
        return self._next(world, start, self.method.round(own, own_state(state), cohort, stream))

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return self._next(world, self._start(state), self.method.place(world, own_state(state), newcomers, stream))

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(own_state(state)) if isinstance(self.method, Remarking) else ()

    def _start(self, state: Any) -> Float[np.ndarray, "P"]:
        return state.personal_start if self.personal.head else state.personal_model

    def _next(self, world: World, start: Float[np.ndarray, "P"], after: State) -> State:
        """The method's next state, with the mark of a personal part, and with the first head in all models."""
        arrays = values(after)
        mark = next(name for name, head in MARKS.items() if head == self.personal.head)
        if self.personal.head:
            models = after.models.copy()
            models[:, world.spec.head] = start[world.spec.head]
            arrays["models"] = models
        return with_personal(type(after), mark)(**arrays, **{mark: start})


@cache
def with_personal(kind: type[State], mark: str) -> type[Any]:
    """A type of states that are tested with what is each client's own; its name and all else are another's.

    Args:
        kind: the method's.
        mark: the array that it has besides, one of ``MARKS``.
    """

    def of_head(self: Any, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        bodies = body_of(self.models, spec.head)
        return EvaluatePersonal(bodies, self.assignment[clients], self.personal_start, spec.head)

    def of_model(self: State, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateOwn(self.models, self.assignment[clients])

    return extended_type(kind, (mark,), {"evaluation": of_head if MARKS[mark] else of_model})
