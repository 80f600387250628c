"""The operations of a method on clients (``World``), and the types of the replies: arrays, never data.

A model is a flat ``float32[P]`` vector. Shapes: N clients, n rows of a call, K models, P parameters, C classes.
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
    """A model without its code: its size, and which slice of the flat vector is which layer."""

    parameters: int
    slices: Mapping[str, slice] = field(default_factory=dict)  # "layer.weight" -> slice, in order of the vector
    head: slice | None = None  # last layer, weight and bias; None where it is not known
    head_bias: slice | None = None  # bias of the last layer, a number for each score
    detects: bool = False  # one score per sample: whether it is of one class


@dataclass(frozen=True)
class LocalTraining:
    """Settings of local training. A field that may be an array holds one entry per row of the call."""

    epochs: int | Int[np.ndarray, "n"] = 1
    batch_size: int = 10
    lr: float = 0.01
    optimizer: str = "sgd"  # or "adam"
    momentum: float = 0.0  # of sgd
    mu: float = 0.0  # proximal term, mu/2 |w - w_start|^2
    steps: int | None = None  # mini-batches, in place of epochs
    partial: bool = False  # a client that runs out of time sends the steps it has done; else nothing
    positive: Int[np.ndarray, "n"] | None = None  # the class that a detector learns to separate from all others

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "steps"):
            value = getattr(self, name)
            if not (name == "steps" and value is None) and not _is_count(value):
                raise ConfigError(f"{name} must be an integer of at least 1, got {value}")
        if self.positive is not None and self.positive.size and not _is_count(self.positive + 1):
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
            raise ConfigError(f"momentum = {self.momentum} does not apply to adam, which has its own; leave it out")


def _is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1, or an array of them."""
    array = np.asarray(value)
    return bool(np.issubdtype(array.dtype, np.integer) and array.size and array.min() >= 1)


def SGD(epochs: int = 1, batch_size: int = 10, lr: float = 0.01, momentum: float = 0.0) -> LocalTraining:  # noqa: N802
    """Local training by mini-batch stochastic gradient descent.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
        momentum: in [0, 1).
    """
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, momentum=momentum)


def Adam(epochs: int = 1, batch_size: int = 32, lr: float = 1e-3) -> LocalTraining:  # noqa: N802
    """Local training by Adam (Kingma & Ba 2015), whose moments start at zero in every call.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
    """
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, optimizer="adam")


@dataclass(frozen=True)
class Scores:
    """Evaluation results, one entry per row: counts, so that they can be summed over any set of clients."""

    correct: Int[np.ndarray, "n"]
    examples: Int[np.ndarray, "n"]
    loss: Float[np.ndarray, "n"]  # mean over the row's examples; 0 where it has none


@dataclass(frozen=True)
class TrainingReply:
    """Result of local training. Rows that did not arrive hold zeros.

    ``update`` is the local model minus the model it started from, one row per row of the call; or, with ``reduce``,
    the example-weighted mean update of each model. Where only a part of the vector was requested, it is that part.
    """

    update: Float[np.ndarray, "rows p"]
    model_index: Int[np.ndarray, "n"]  # the model that each row trained
    examples: Int[np.ndarray, "n"]  # training examples of each row
    loss: Float[np.ndarray, "n"]  # mean training loss during the last local epoch
    first_loss: Float[np.ndarray, "n"]  # ... during the first local epoch
    arrived: Bool[np.ndarray, "n"]  # a finite update arrived
    nonfinite: Bool[np.ndarray, "n"]  # an update arrived that is not finite, and is excluded
    weight: Float[np.ndarray, "K"] | None = None  # with reduce: examples behind each mean, 0 where no row arrived
    gradient: Float[np.ndarray, "n P"] | None = None  # where requested: of the full training loss, at the start
    before_training: Scores | None = None  # one row for all clients: test results of the models before training


@runtime_checkable
class World(Protocol):
    """The clients of a federation, simulated or real. Row i of a call is (``clients[i]``, ``model_index[i]``)."""

    spec: ModelSpec
    work: LocalTraining  # the run's settings of local training
    ledger: Ledger
    total_clients: int  # N: ids are 0 .. N-1, newcomers included

    @property
    def true_clusters(self) -> Int[np.ndarray, "N"] | None:
        """True clusters, in a simulation; only the oracle may use them."""
        ...

    def begin(self, stream: Stream) -> None:
        """Begin communication round ``stream.round``; a simulation applies the data shifts of the round."""
        ...

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A newly initialised model."""
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
        """Local training of ``models[model_index]``. Detectors of one client see the same batches.

        Args:
            models: where training starts.
            clients: those that train.
            model_index: the model of each row; None: all K are sent, and each client trains the one of its lowest
                training loss.
            work: settings; those of the run by default.
            reduce: return the mean update of each model in place of single updates.
            gradient: return, from the same message, the gradient of the full training loss at the start too.
            part: the slice of the update that clients send; all by default.
            stream: of the clients' random numbers.
        """
        ...

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client, with the L2 penalty of training; NaN without a reply."""
        ...

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        """Gradient of each client's full training loss at its model; NaN without a reply."""
        ...

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Root mean square error of the class *numbers* that each model predicts for each client's training samples;
        NaN without a reply. Nothing but these numbers is sent."""
        ...

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        """Evaluation of each client's model on its own data (``split``: ``test`` or ``train``).

        Where models are detectors, ``model_index`` [n C] has one for each class (-1: none). A sample is of the class
        whose detector gives the highest score, the first of equals.
        """
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
        """Histograms of each detector's scores on a client's samples of the ``positive`` class and on all others
        (see ``measures.calibration``); -1 everywhere without a reply about training samples."""
        ...

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        """Which classes each client has training samples of; a client sends one bit per class."""
        ...

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        """Send clients arrays to keep, such as the directions of the clusters."""
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
        """Cosines of each client's update with directions that it was sent; NaN without a finite reply, or where the
        update is zero.

        Clients train from ``start``, the run's initial model, which they make from the seed.
        """
        ...

    def ask(self, askers: Int[np.ndarray, "m"], targets: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        """Whether peer ``targets[i]`` replies to peer ``askers[i]`` with so many vectors, such as its model and its
        last update. Bytes count as download and upload: one client receives what another sends."""
        ...

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        """Let clients, which were just placed, store their present label counts."""
        ...

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        """Whether each client's data have shifted since it was last placed (see ``LabelMemory``)."""
        ...

    def memory(self) -> dict[str, np.ndarray]:
        """What simulated clients keep on their disks; empty in a real federation."""
        ...

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore what ``memory`` returned."""
        ...
