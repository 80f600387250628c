"""What computes with a model on clients' samples: a trainer and a scorer, whatever library the model is written in.

Shapes: n or r rows, K models, P parameters, t samples of all rows together.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining


class LocalUpdates(NamedTuple):
    """Results of local training; arrays of JAX within a compiled program, of NumPy outside."""

    update: Any  # [r P] local solution minus the model it started from
    loss: Any  # [r] mean training loss during the last local epoch
    first_loss: Any  # [r] ... during the first local epoch
    gradient: Any  # [r P] gradient of the full training loss at the start; None unless requested
    own: Any = None  # [r P] the same as ``update``, of a client's own model; None where the terms have none


class Envelope(NamedTuple):
    """Steps on the Moreau envelope of a batch's loss f, whose gradient is strength (w - theta), where theta minimises
    f(theta) + strength/2 |theta - w|^2."""

    strength: float
    steps: int  # of gradient descent from w that give theta
    lr: float  # of these steps


class GradientTerms(NamedTuple):
    """What is added to every step's gradient of local training, before it is cut to ``clip_norm``; and a model that is
    trained beside it, by the same batches and optimiser."""

    correction: Float[np.ndarray, "r P"] | None = None  # a constant vector of each row
    anchor: Float[np.ndarray, "r P"] | None = None  # the point of a proximal term, strength/2 |w - anchor|^2
    strength: Float[np.ndarray, "r"] | None = None  # of each row's proximal term
    trained: Bool[np.ndarray, "P"] | None = None  # which parameters move; None: all
    own: Float[np.ndarray, "r P"] | None = None  # a model v beside w, trained on the loss of share v + (1 - share) w
    share: Float[np.ndarray, "r"] | None = None  # of v in that mix; w is a constant there
    envelope: Envelope | None = None  # in place of the loss; the theta of the last batch is then the own model


NO_TERMS = GradientTerms()
ROW_TERMS = ("correction", "anchor", "strength", "own", "share")  # those that have an entry for each row


class ScoreSums(NamedTuple):
    """Scores summed over the samples of each row."""

    correct: Float[np.ndarray, "n"]  # correct predictions
    loss: Float[np.ndarray, "n"]  # summed, not averaged
    examples: Int[np.ndarray, "n"]


@runtime_checkable
class Trainer(Protocol):
    """Trains the clients of one data set. A row is a client (its position in the data) with a model."""

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
        terms: GradientTerms = NO_TERMS,
        weights: Float[np.ndarray, "t"] | None = None,
    ) -> LocalUpdates:
        """Local training of every row.

        Args:
            models: K models.
            clients: client of each row.
            model_index: model that it starts from.
            work: batches and optimiser; ``work.positive`` has the classes of these rows' detectors.
            num_steps: epochs of each row, or steps where ``work.steps`` is set.
            stream: randomness of the call.
            gradient: whether to return full gradients at the start too.
            terms: added to the gradients; not of detectors.
            weights: of the samples in the loss, those of all rows end to end; None: all 1. The loss of a batch of B
                samples is their weighted sum divided by B, so that half the weight is half the step. Not of detectors;
                a full gradient has none.
        """
        ...

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode; 0 where nothing is trained."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores models on the clients of one data set."""

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        """Mean training losses, with the penalty of training."""
        ...

    def score(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        split: str,
    ) -> ScoreSums:
        """Correct predictions, summed loss and number of samples of each row; of detectors, one of each class."""
        ...

    def predict(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], split: str
    ) -> list[Int[np.ndarray, "t"]]:
        """The classes that each model predicts for the samples of all rows, end to end."""
        ...

    def raw_scores(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        split: str,
    ) -> Float[np.ndarray, "t"]:
        """The scores of each row's detector on its samples, those of all rows end to end; NaN is -inf."""
        ...

    def sample_losses(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "K t"]:
        """The loss of each model on each training sample of all rows, end to end, without a penalty."""
        ...

    def scores(
        self, model: Float[np.ndarray, "P"], clients: Int[np.ndarray, "n"], split: str
    ) -> Float[np.ndarray, "t C"]:
        """All scores that one model gives the samples of all rows, end to end."""
        ...
