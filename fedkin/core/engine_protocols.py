"""Interfaces of the trainer and the scorer. They compute with a model on clients' samples, and are
the same for models of all libraries (JAX, PyTorch).

A row is a client with a model. Shapes: n or r rows, K models, P parameters, t samples of all rows
together.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.train_call import TrainCall


class LocalUpdates(NamedTuple):
    """Results of local training, with an entry for each row (a client with one model). Within a
    compiled program they are JAX arrays, elsewhere NumPy arrays."""

    update: Any  # [r P] local solution minus the model it started from
    loss: Any  # [r] mean training loss during the last local epoch
    first_loss: Any  # [r] mean training loss during the first local epoch
    gradient: Any  # [r P] gradient of the full training loss at the start; None unless requested
    own: Any = None  # [r P] update of clients' personal models, like ``update``; None without them

    def row(self, index: int) -> LocalUpdates:
        """The results of one row (a client with one model), without the row axis."""
        return LocalUpdates(*(None if part is None else part[index] for part in self))

    def as_rows(self) -> LocalUpdates:
        """Add a row axis of length 1 to the results of a single row, which have no row axis."""
        return LocalUpdates(*(None if part is None else part[None] for part in self))


class ScoreSums(NamedTuple):
    """Scores summed over the samples of each row (a client with one model)."""

    # What the data's task type sums (``TaskType.sums``), such as the correct predictions.
    sums: Float[np.ndarray, "n S"]
    loss: Float[np.ndarray, "n"]  # summed, not averaged
    examples: Int[np.ndarray, "n"]

    @property
    def correct(self) -> Float[np.ndarray, "..."]:
        """The number of correct predictions, for classes."""
        return self.sums[..., 0]


@runtime_checkable
class Trainer(Protocol):
    """Trains the clients of one data set. A row is a client (its position in the data) with a
    model."""

    def train(self, call: TrainCall) -> LocalUpdates:
        """Local training of every row (a client with one model) of a ``TrainCall``."""
        ...

    def gradients(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode; 0 for
        parameters that are not trained."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores models on the clients of one data set."""

    def losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n K"]:
        """Mean training loss of every model on every client, with the regularisation used in
        training."""
        ...

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """Number of correct predictions, summed loss and number of samples of each row (a client
        with its models). A row has one model, or for each class one detector (a model of this class
        against all others)."""
        ...

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Int[np.ndarray, "t"]]:
        """For each model, the classes that it predicts for the samples of all clients,
        concatenated."""
        ...

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """The scores that the detector (a model of one class against all others) of each row (a
        client with one detector) gives to the client's samples, concatenated over rows. NaN becomes
        -inf, the lowest score."""
        ...

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of every model on every training sample of all clients (concatenated), without
        regularisation."""
        ...

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """The scores of all classes that one model gives to the samples of all clients
        (concatenated)."""
        ...

    def embeddings(self, clients: Int[np.ndarray, "n"], split: str) -> Float[np.ndarray, "t e"]:
        """The embeddings of the samples of all clients (concatenated) by the model's frozen
        network, if ``spec.embedding`` is not 0."""
        ...
