"""Personal parts for any method that averages: each client keeps its own last layer (FedRep,
FedPer) or its own model (Ditto).

    head    w_i = (b_k, h_i): body b_k of the client's cluster, head h_i of the client (fedper.py)
    ditto   v_i in addition to w_k. v_i is regularised towards the w_k that the client received in
            this round (ditto.py)

With one cluster these are FedRep (``head_epochs=0``: FedPer) and Ditto, to the last bit. Clients
are tested with the part that they keep. A client that never trained is tested with the initial
head, or with its cluster's model. A client that changes its cluster keeps its personal part.

Clients use their personal parts only in the method's rounds. In a cold start, and when new clients
are assigned to clusters, clients train whole models. The head of every cluster's model is always
reset to the initial model's head. So heads are changed neither by server optimisers nor by sharing
between clusters. In rounds, the updates that the method sees (and may cluster by) are zero in the
head's entries.

Two kinds of methods cannot be used with personal parts (``refusal``): methods that compare clients
by last layers that they share (``ModelParts.shared_head``), and methods that keep a part of the
model on each client already (``ModelParts.own``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import Method, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive, check_positive_integer
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.base import ActiveOption, Around, Call, Option, RunFacts
from fedkin.tasks.ditto import TrainBeside
from fedkin.tasks.fedper import EvaluatePersonal, Personal, body_of, join
from fedkin.tasks.own_model import EvaluateOwn
from fedkin.tasks.train import Train


class PersonalPart(Option):
    """A part of a model that stays on each client."""

    section = "personal"
    head: ClassVar[bool]  # whether the part is the model's last layer, which is then not shared

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """The training that clients do, with their personal part, instead of the method's training.

        Args:
            task: the method's training.
            start: the run's initial model.
            head: the entries of the last layer in a flat model.
        """
        raise NotImplementedError

    def refusal(self, run: RunFacts) -> str:
        why = refusal(run.method, self)
        return why or (head_refusal(run.method, run.spec) if self.head else "")

    def requirements(self, needs: Requirements) -> Requirements:
        if self.head:
            return replace(needs, model=replace(needs.model, last_layer=True, hidden_layers=True))
        kept = needs.memory.kept_models + 1
        return replace(needs, memory=replace(needs.memory, kept_models=kept))

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActivePersonalPart(self)

    @classmethod
    def evaluation(
        cls, state: State, spec: ModelSpec, clients: Int[np.ndarray, "n"]
    ) -> Task | None:
        start = state.extras[cls.section]["start"]
        clusters = state.assignment[clients]
        # The initial model is stored only if clients keep heads; otherwise they keep whole models.
        if not len(start):
            return EvaluateOwn(state.models, clusters)
        bodies = body_of(state.models, spec.head)
        return EvaluatePersonal(bodies, clusters, start, spec.head)


@plain_options
@dataclass(frozen=True)
class PersonalHead(PersonalPart):
    """A separate last layer for each client. It is trained alone before the other layers, or
    together with them if ``head_epochs`` is 0.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mlp(data)
        >>> heads = [fk.PersonalHead(head_epochs=2)]
        >>> run = fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=6, options=heads)
        >>> run.models.shape
        (1, 9610)
    """

    head_epochs: int = 10  # epochs in which only the head is trained, before the body

    head = True
    shares_part = True

    def __post_init__(self) -> None:
        if self.head_epochs:
            check_positive_integer("head_epochs", self.head_epochs)

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """The training with personal heads (last layers).

        Raises MethodError if clients choose among models, or reply with gradients.
        """
        if task.model_index is None or task.gradient:
            raise MethodError(
                "personal heads: the method's clients compare models or send gradients, which "
                "needs models with a last layer, but clients share models without it; leave out "
                "personal heads, or use another method"
            )
        bodies = body_of(task.models, head)
        return Personal(
            models=bodies,
            work=task.work,
            model_index=task.model_index,
            start=start,
            head=head,
            head_epochs=self.head_epochs,
            reduce=task.reduce,
        )


@plain_options
@dataclass(frozen=True)
class PersonalModel(PersonalPart):
    """A personal model for each client, regularised towards its cluster's model (Ditto).

    Examples:
        >>> import fedkin as fk
        >>> fk.PersonalModel(strength=0.5, own_epochs=2)
        PersonalModel(strength=0.5, own_epochs=2, own_lr=None)
    """

    strength: float = 1.0  # lambda, the strength of the regularisation
    # Epochs of v_i, or steps if the run's training counts steps; None for the run's number.
    own_epochs: int | None = None
    own_lr: float | None = None  # learning rate of v_i; None for the run's

    head = False

    def __post_init__(self) -> None:
        check_not_negative("strength", self.strength)
        if self.own_epochs is not None:
            check_positive_integer("own_epochs", self.own_epochs)
        if self.own_lr is not None:
            check_positive("own_lr", self.own_lr)

    def task(self, task: Train, start: Float[np.ndarray, "P"], head: slice | None) -> Task:
        """The training of the cluster's model together with the client's personal model."""
        training = {field.name: getattr(task, field.name) for field in fields(Train)}
        return TrainBeside(
            **training,
            strength=float(self.strength),
            own_epochs=self.own_epochs,
            own_lr=self.own_lr,
        )


class ActivePersonalPart(ActiveOption):
    """A personal part in a run.

    The state holds the run's initial model, whose head (last layer) is the initial head of all
    clients.

    Args:
        part: the personal part.
    """

    def __init__(self, part: PersonalPart) -> None:
        super().__init__(part.section)
        self._part = part

    def around(self, world: World, before: State | None, call: Call) -> Around:
        start = self._first_model(world, call) if before is None else self.arrays(before)["start"]
        head = world.spec.head

        def personal(task: Train) -> Task:
            return self._part.task(task, start, head)

        def finish(after: State) -> State:
            return self._with_first_heads(world, start, after)

        seen = PersonalWorld(world, personal, head) if call.step == "round" else world
        return Around(seen, finish)

    def _first_model(self, world: World, call: Call) -> Float[np.ndarray, "P"]:
        """The run's initial model, from which clients take their initial head (last layer). The
        result is an empty array if clients keep whole models, since these start as the cluster's
        model."""
        if not self._part.head:
            return np.zeros(0, np.float32)
        return world.initial(call.stream.child("model"))

    def _with_first_heads(self, world: World, start: Float[np.ndarray, "P"], after: State) -> State:
        """The state that the method returned, with the last layer of the initial model in the
        models of all clusters, since no cluster's head is trained."""
        if self._part.head:
            models = after.models.copy()
            models[:, world.spec.head] = start[world.spec.head]
            after = replace(after, models=models)
        return self.with_arrays(after, {"start": start})


def refusal(method: Method, personal: PersonalPart) -> str:
    """Why a personal part cannot be used with a method; empty if it can."""
    needs = requirements_of(method)
    name = type(method).__name__
    personal_part = needs.parts.own
    if needs.model.detectors:
        personal_part = "detectors of single classes"
    if needs.peers:
        personal_part = "the model of each peer"
    if personal_part:
        return (
            f"{name} cannot have a personal part, since it already keeps {personal_part}; leave "
            "the personal part out"
        )
    compared = needs.parts.shared_head
    if personal.head and compared:
        return (
            f"{name} compares {compared}, which needs last layers that clients share; set "
            "personal.name=ditto, or use another method"
        )
    return ""


def head_refusal(method: Method, spec: ModelSpec) -> str:
    """Why clients of a method cannot keep a last layer of this model; empty if they can."""
    size = 0 if spec.head is None else len(range(spec.parameters)[spec.head])
    if 0 < size < spec.parameters:
        return ""
    why = "has no other layer" if size else "does not end in a weight [C, d] and a bias [C]"
    return (
        f"{type(method).__name__} with personal heads shares all layers except the last, but this "
        f"model {why}: use a model with hidden layers, such as model.name=mlp, or set "
        "personal.name=ditto"
    )


class PersonalWorld(WorldProxy):
    """A proxy of a world that replaces the training of whole models by personal training.

    Args:
        world: the clients.
        personal: function from the method's training to the training that clients do instead.
        head: the entries of the last layer in a flat model.
    """

    def __init__(self, world: World, personal: Callable[[Train], Task], head: slice | None) -> None:
        super().__init__(world)
        self._personal = personal
        self._head = head

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply. A training of whole models becomes personal training; any other task
        goes to the clients unchanged."""
        if type(task) is not Train or task.part is not None:
            return self._world.run(task, clients, stream)
        personal = self._personal(task)
        reply = self._world.run(personal, clients, stream)
        if isinstance(personal, Personal):
            return whole(reply, task.models.shape[1], self._head)
        return reply


def whole(reply: Reply, parameters: int, head: slice | None) -> Reply:
    """Extend updates of bodies to updates of whole models, with zeros in the head's entries.

    Args:
        reply: reply with updates of bodies (models without the last layer).
        parameters: number of parameters P of a whole model.
        head: the entries of the last layer in a flat model.
    """
    bodies: Float[np.ndarray, "n b"] = reply.update
    heads = np.zeros((len(bodies), parameters - bodies.shape[1]), np.float32)
    return replace(reply, arrays={**reply.arrays, "update": join(bodies, heads, head)})
