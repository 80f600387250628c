"""Personal parts for any method that averages: each client keeps its own last layer (FedRep,
FedPer), its own intercept, its own batch normalisation (FedBN) or its own model (Ditto).

    head    w_i = (b_k, h_i): body b_k of the client's cluster, head h_i of the client (fedper.py)
    fedbn   the same; h_i are the batch normalisation layers: scales, biases and running statistics
    bias    the same; h_i is the bias of the last layer: an intercept for each client
    ditto   v_i in addition to w_k. v_i is regularised towards the w_k that the client received in
            this round (ditto.py)

FedBN: X. Li, M. Jiang, X. Zhang, M. Kamp, Q. Dou: FedBN: Federated Learning on Non-IID Features via
Local Batch Normalization. ICLR 2021, arXiv 2102.07623.

With one cluster these are FedRep (``head_epochs=0``: FedPer) and Ditto, to the last bit, and FedBN.
Clients are tested with the part that they keep. A client that never trained is tested with the
initial part, or with its cluster's model (Ditto). A client that changes its cluster keeps its
personal part.

Clients use their personal parts only in the method's rounds. In a cold start, and when new clients
are assigned to clusters, clients train whole models. The personal entries of every cluster's model
are always reset to the initial model's. So they are changed neither by server optimisers nor by
sharing between clusters. In rounds, the updates that the method sees (and may cluster by) are zero
in the personal entries.

Two kinds of methods cannot be used with personal parts (``refusal``): methods that compare clients
by layers that would not be shared (``ModelParts.shared_head``), and methods that keep a part of the
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
from fedkin.tasks.fedper import EvaluatePersonal, Part, Personal, body_of, entries_of, join
from fedkin.tasks.own_model import EvaluateOwn
from fedkin.tasks.pulled_fit import INTERCEPT, MODEL, EvaluatePulled
from fedkin.tasks.train import Train

# Arrays of a run with own linear fits (linear.py): the pull to the shared model, and whether the
# whole model is fitted, or its intercept alone.
STRENGTH = "strength"
WHOLE_FIT = "whole_fit"


class PersonalPart(Option):
    """A part of a model that stays on each client."""

    section = "personal"
    # The layers that stay on the client and are not shared, for messages; empty if all layers are
    # shared.
    layers: ClassVar[str] = ""
    # Array in the state of a run by which these layers are known again; empty: the last layer.
    mark: ClassVar[str] = ""

    @staticmethod
    def entries(spec: ModelSpec) -> Part:
        """The entries of a flat model that stay on the client and are not shared."""
        return None

    def task(self, task: Train, start: Float[np.ndarray, "P"], own: Part) -> Task:
        """The training that clients do, with their personal part, instead of the method's training.

        Args:
            task: the method's training.
            start: the run's initial model.
            own: the entries of a flat model that stay on the client.
        """
        raise NotImplementedError

    def refusal(self, run: RunFacts) -> str:
        return refusal(run.method, self) or self.model_refusal(run.method, run.spec)

    def model_refusal(self, method: Method, spec: ModelSpec) -> str:
        """Why clients of a method cannot keep this part of a model; empty if they can."""
        return ""

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActivePersonalPart(self)

    @classmethod
    def evaluation(
        cls, state: State, spec: ModelSpec, clients: Int[np.ndarray, "n"]
    ) -> Task | None:
        arrays = state.extras[cls.section]
        start = arrays["start"]
        clusters = state.assignment[clients]
        if STRENGTH in arrays and not np.isnan(arrays[STRENGTH]):
            fits = MODEL if arrays[WHOLE_FIT] else INTERCEPT
            strength = float(arrays[STRENGTH])
            return EvaluatePulled(state.models, clusters, strength=strength, fits=fits)
        # The initial model is stored only if clients keep layers; otherwise they keep whole models.
        if not len(start):
            return EvaluateOwn(state.models, clusters)
        own = next((part.entries(spec) for part in _MARKED if part.mark in arrays), spec.head)
        return EvaluatePersonal(body_of(state.models, own), clusters, start, own)


@dataclass(frozen=True)
class PersonalLayers(PersonalPart):
    """Layers of the model that stay on each client, while the other layers are shared."""

    shares_part = True

    @property
    def first_epochs(self) -> int:
        """Epochs in which only the personal layers are trained, before the others; 0: together."""
        return 0

    def task(self, task: Train, start: Float[np.ndarray, "P"], own: Part) -> Task:
        """The training with personal layers.

        Raises MethodError if clients choose among models, or reply with gradients.
        """
        if task.model_index is None or task.gradient:
            raise MethodError(
                f"personal {self.layers}: the method's clients compare models or send gradients, "
                "which needs whole models, but clients share models without these layers; leave "
                f"out personal {self.layers}, or use another method"
            )
        return Personal(
            models=body_of(task.models, own),
            work=task.work,
            model_index=task.model_index,
            start=start,
            head=own,
            head_epochs=self.first_epochs,
            reduce=task.reduce,
        )


@plain_options
@dataclass(frozen=True)
class PersonalHead(PersonalLayers):
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

    layers = "heads"

    def __post_init__(self) -> None:
        if self.head_epochs:
            check_positive_integer("head_epochs", self.head_epochs)

    @staticmethod
    def entries(spec: ModelSpec) -> Part:
        return spec.head

    @property
    def first_epochs(self) -> int:
        return self.head_epochs

    def requirements(self, needs: Requirements) -> Requirements:
        return replace(needs, model=replace(needs.model, last_layer=True, hidden_layers=True))

    def model_refusal(self, method: Method, spec: ModelSpec) -> str:
        return head_refusal(method, spec)


@plain_options
@dataclass(frozen=True)
class PersonalBatchNorm(PersonalLayers):
    """Separate batch normalisation layers for each client (FedBN): scales, biases and running
    statistics never leave the client.

    Examples:
        >>> import fedkin as fk
        >>> fk.PersonalBatchNorm()
        PersonalBatchNorm()
    """

    layers = "batch normalisation"
    mark = "batch_norm"

    @staticmethod
    def entries(spec: ModelSpec) -> Part:
        return spec.batch_norm

    def model_refusal(self, method: Method, spec: ModelSpec) -> str:
        if spec.batch_norm:
            return ""
        return (
            f"{type(method).__name__} with personal batch normalisation needs a model with batch "
            "normalisation layers, and this model has none: use one such as model.name=mobilenet, "
            "or a PyTorch module with nn.BatchNorm2d, or set personal.name=head"
        )


@plain_options
@dataclass(frozen=True)
class FedBias(PersonalLayers):
    """A separate intercept for each client: the bias of the last layer never leaves the client.

    Clients whose labels differ only in level (some schools have better marks for equal pupils) need
    no more than this. For counts the intercept is on the scale of the log: it multiplies the mean.
    Clusters are worth their price only if they beat one shared model with such intercepts.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> model = fk.models.mclr(data)
        >>> run = fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=6, options=[fk.FedBias()])
        >>> run.models.shape
        (1, 650)
    """

    layers = "intercepts"
    mark = "bias"

    @staticmethod
    def entries(spec: ModelSpec) -> Part:
        return spec.head_bias

    def model_refusal(self, method: Method, spec: ModelSpec) -> str:
        if spec.head_bias is not None:
            return ""
        return (
            f"{type(method).__name__} with own intercepts needs a model whose last layer has one "
            "bias for each output, and this model has none that is known: use one such as "
            "model.name=mclr. A Cox model has no intercept, since it cancels out of the loss: the "
            "baseline hazard of each client takes its place"
        )


# The parts whose runs have a mark in the state.
_MARKED: tuple[type[PersonalPart], ...] = (PersonalBatchNorm, FedBias)


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

    def __post_init__(self) -> None:
        check_not_negative("strength", self.strength)
        if self.own_epochs is not None:
            check_positive_integer("own_epochs", self.own_epochs)
        if self.own_lr is not None:
            check_positive("own_lr", self.own_lr)

    def requirements(self, needs: Requirements) -> Requirements:
        kept = needs.memory.kept_models + 1
        return replace(needs, memory=replace(needs.memory, kept_models=kept))

    def task(self, task: Train, start: Float[np.ndarray, "P"], own: Part) -> Task:
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

    The state holds the run's initial model, whose personal layers are the initial ones of all
    clients.

    Args:
        part: the personal part.
    """

    def __init__(self, part: PersonalPart) -> None:
        super().__init__(part.section)
        self._part = part

    def around(self, world: World, before: State | None, call: Call) -> Around:
        start = self._first_model(world, call) if before is None else self.arrays(before)["start"]
        own = self._part.entries(world.spec)

        def personal(task: Train) -> Task:
            return self._part.task(task, start, own)

        def finish(after: State) -> State:
            return self._with_first_layers(own, start, after)

        seen = PersonalWorld(world, personal, own) if call.step == "round" else world
        return Around(seen, finish)

    def _first_model(self, world: World, call: Call) -> Float[np.ndarray, "P"]:
        """The run's initial model, from which clients take their initial layers. The result is an
        empty array if clients keep whole models, since these start as the cluster's model."""
        if not self._part.layers:
            return np.zeros(0, np.float32)
        return world.initial(call.stream.child("model"))

    def _with_first_layers(self, own: Part, start: Float[np.ndarray, "P"], after: State) -> State:
        """The state that the method returned, with the personal layers of the initial model in the
        models of all clusters, since clusters do not train these layers."""
        if self._part.layers:
            entries = entries_of(own)
            models = after.models.copy()
            models[:, entries] = start[entries]
            after = replace(after, models=models)
        arrays = {"start": start}
        if self._part.mark:
            arrays[self._part.mark] = np.array(True)
        return self.with_arrays(after, arrays)


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
    if personal.layers and compared:
        shared = "last layers" if personal.layers == "heads" else personal.layers
        return (
            f"{name} compares {compared}, which needs {shared} that clients share; set "
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
        own: the entries of a flat model that stay on the clients.
    """

    def __init__(self, world: World, personal: Callable[[Train], Task], own: Part) -> None:
        super().__init__(world)
        self._personal = personal
        self._own = own

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply. A training of whole models becomes personal training; any other task
        goes to the clients unchanged."""
        if type(task) is not Train or task.part is not None:
            return self._world.run(task, clients, stream)
        personal = self._personal(task)
        reply = self._world.run(personal, clients, stream)
        if isinstance(personal, Personal):
            return whole(reply, task.models.shape[1], self._own)
        return reply


def whole(reply: Reply, parameters: int, own: Part) -> Reply:
    """Extend updates of bodies to updates of whole models, with zeros in the personal entries.

    Args:
        reply: reply with updates of bodies (models without the personal layers).
        parameters: number of parameters P of a whole model.
        own: the entries of a flat model that stay on the clients.
    """
    bodies: Float[np.ndarray, "n b"] = reply.update
    heads = np.zeros((len(bodies), parameters - bodies.shape[1]), np.float32)
    return replace(reply, arrays={**reply.arrays, "update": join(bodies, heads, own)})
