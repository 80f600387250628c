"""What a method may ask of its clients, and what it gets back: arrays, never data.

A model is a flat ``float32[P]`` vector here. Letters: N clients, n rows of a call, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import ConfigError
from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream

BYTES_PER_NUMBER = 4  # models and updates travel as float32
UPDATE_MEMORY = 2**28  # bytes of single updates that one call may hold for measurement, where its method needs means


@dataclass(frozen=True)
class ModelSpec:
    """What is known of a model without its code: its size, and which slice of the flat vector is which layer."""

    parameters: int
    slices: Mapping[str, slice] = field(default_factory=dict)  # "layer.weight" -> slice, in order of the vector
    head: slice | None = None  # last layer, weight and bias; None where it cannot be found
    head_bias: slice | None = None  # bias of the last layer, a number for each score
    detects: bool = False  # one score per sample: whether it is of one class


@dataclass(frozen=True)
class LocalTraining:
    """What a client does with a model that it trains.

    A field that may be an array holds one entry per row of the call. ``steps`` counts mini-batches and takes the
    place of ``epochs``. ``partial`` says what a client that runs out of time does: send the work it has done
    (True), or nothing (False). ``positive`` is the class that a detector learns to tell from all others.
    """

    epochs: int | Int[np.ndarray, "n"] = 1
    batch_size: int = 10
    lr: float = 0.01
    optimizer: str = "sgd"
    momentum: float = 0.0
    mu: float = 0.0  # proximal term, mu/2 |w - w_start|^2
    steps: int | None = None
    partial: bool = False
    positive: Int[np.ndarray, "n"] | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "steps"):
            value = getattr(self, name)
            if not (name == "steps" and value is None) and not _counts(value):
                raise ConfigError(f"{name} must be an integer of at least 1, got {value}")
        if self.positive is not None and self.positive.size and not _counts(self.positive + 1):
            raise ConfigError(f"positive must hold classes from 0 up, got {self.positive}")
        for name, low, high in (("lr", 0, np.inf), ("mu", 0, np.inf), ("momentum", 0, 1)):
            value = getattr(self, name)
            if (
                not isinstance(value, (int, float, np.number))
                or not low <= value < high
                or (name == "lr" and not value)
            ):
                kind = "positive number" if name == "lr" else "number from 0 up" if name == "mu" else "number in [0, 1)"
                raise ConfigError(f"{name} must be a {kind}, got {value!r}")
        if self.optimizer not in ("sgd", "adam"):
            raise ConfigError(f"optimizer must be 'sgd' or 'adam', got {self.optimizer!r}")
        if self.optimizer == "adam" and self.momentum:
            raise ConfigError(f"momentum = {self.momentum} means nothing to adam, which has its own; leave it out")


def _counts(value: object) -> bool:
    """Integers of at least 1, one or an array of them."""
    array = np.asarray(value)
    return bool(np.issubdtype(array.dtype, np.integer) and array.size and array.min() >= 1)


def SGD(epochs: int = 1, batch_size: int = 10, lr: float = 0.01, momentum: float = 0.0) -> LocalTraining:  # noqa: N802
    """Mini-batch stochastic gradient descent as local work."""
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, momentum=momentum)


def Adam(epochs: int = 1, batch_size: int = 32, lr: float = 1e-3) -> LocalTraining:  # noqa: N802
    """Adam (Kingma & Ba 2015) as local work; its moments start at zero in every call."""
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, optimizer="adam")


@dataclass(frozen=True)
class TrainingReply:
    """What came back from training. Rows that did not arrive hold zeros.

    ``update`` is the local solution minus the model it started from, one row per row asked; or, with ``reduce``,
    the example-weighted mean update of each model's rows, with their summed examples in ``weight`` (zero where no
    row arrived). Where only a part of the vector was asked for, it is that part.
    """

    update: Float[np.ndarray, "rows p"]
    model_index: Int[np.ndarray, "n"]  # which model each row trained
    examples: Int[np.ndarray, "n"]  # training examples of each row
    loss: Float[np.ndarray, "n"]  # mean training loss during the last local epoch
    first_loss: Float[np.ndarray, "n"]  # ... during the first local epoch
    arrived: Bool[np.ndarray, "n"]  # a finite update came back
    nonfinite: Bool[np.ndarray, "n"]  # something came back, not finite: set aside
    weight: Float[np.ndarray, "K"] | None = None  # only with reduce
    gradient: Float[np.ndarray, "n P"] | None = None  # where asked for: of the full loss, at the start
    before_training: Scores | None = (
        None  # one row, of all clients together: test results of the models before any training
    )


@dataclass(frozen=True)
class Scores:
    """Test results, one entry per row: counts, so that they can be summed over any set of clients."""

    correct: Int[np.ndarray, "n"]
    examples: Int[np.ndarray, "n"]
    loss: Float[np.ndarray, "n"]  # mean over the row's examples; 0 where it has none


@runtime_checkable
class World(Protocol):
    """The clients, as a method sees them. Row i of a call is the pair (``clients[i]``, ``which[i]``)."""

    spec: ModelSpec
    work: LocalTraining  # the run's own local work
    ledger: Ledger
    total_clients: int  # N: ids are 0 .. N-1, newcomers included

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """True clusters, where a simulation knows them; only the oracle may look."""
        ...

    def begin(self, stream: Stream) -> None:
        """Communication round ``stream.round`` begins; where clients are played here, their data move now."""
        ...

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A freshly initialised model."""
        ...

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that are known and reachable in a round, ascending."""
        ...

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"] | None = None,
        *,
        work: LocalTraining | None = None,
        reduce: bool = False,
        gradient: bool = False,
        part: slice | None = None,
        stream: Stream,
    ) -> TrainingReply:
        """Local training from ``models[which]``; ``which=None`` sends all K and each client takes the one with its
        lowest training loss. With ``gradient`` each sends, in the same message, that of its full training loss too, at
        the model it was given. With ``part`` a client sends that slice of its update and nothing else. Detectors of
        one client see the same batches."""
        ...

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client, with the penalty that training adds to it (L2); NaN from
        a client that gave no answer."""
        ...

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        """Gradient of each client's full training loss at its model; NaN from a client that gave no answer."""
        ...

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Root mean square error of the class *numbers* that each model predicts, on each client's training samples;
        NaN from a client that gave no answer. One number a model leaves a client, and nothing else."""
        ...

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        """Score each client's own data with its model; or, where models are detectors, with one of each class:
        ``model_index`` [n C] says which (-1: none). A sample is of the class whose detector gives the highest score, the
        first of equals."""
        ...

    def detections(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        *,
        split: str = "train",
    ) -> Int[np.ndarray, "n 2 bins"]:
        """Histograms of each detector's scores on a client's samples, of the ``positive`` class and of the others
        (``measures.calibration``); -1 everywhere from a client that gave no answer about its training samples."""
        ...

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        """Which classes each client has training samples of: one bit a class leaves it."""
        ...

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        """Give clients arrays to keep, such as the directions of the clusters."""
        ...

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        """Each client trains from ``start`` (the run's initial model, which it makes from the seed) and compares its
        update with directions that it was sent: K cosines come back, NaN from a client that gave no finite answer or
        whose update is zero."""
        ...

    def ask(self, askers: Int[np.ndarray, "m"], asked: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        """Client ``askers[i]`` asks ``asked[i]`` for so many vectors, such as its model and its last update; who gives
        an answer. It is counted down and up: one client receives what another sends."""
        ...

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        """These clients were placed: each remembers what its data are now."""
        ...

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        """Whether each client finds that its data have shifted since it was last placed (see ``LabelMemory``)."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """What the clients keep on their own disks, where they are played here; nothing in a real federation."""
        ...

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Put back what ``memory`` gave."""
        ...
