"""Training calls: the input of a trainer. It is the same for models of all libraries.

A row is a client with a model. Shapes: r rows, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining

AddScaled = Callable[[Any, Any, Any], Any]  # (a, factor, b) -> a + factor b


def _add_scaled(a: Any, factor: Any, b: Any) -> Any:
    """a + factor * b, with the default rounding of the arrays' library (e.g. NumPy)."""
    return a + factor * b


class GradientTerms(NamedTuple):
    """Additional terms of the loss of each row (a client with its model), given by their gradients.
    In every step they are added to the gradient before it is clipped to ``clip_norm``.

    Every field has an entry for each row: a vector [r P], or a number [r]. To add a term, add a
    field and its lines in ``added_to``, which the trainers of all libraries run. The arrays of a
    ``TrainCall`` are NumPy arrays; a trainer converts them to its library.
    """

    correction: Any = None  # [r P] a constant vector
    anchor: Any = None  # [r P] the centre of a proximal term, strength/2 |w - anchor|^2
    strength: Any = None  # [r] strength of the proximal term

    def added_to(self, gradient: Any, w: Any, add_scaled: AddScaled = _add_scaled) -> Any:
        """A gradient plus the additional terms (correction and proximal term).

        Args:
            gradient: gradient of the loss without the terms, for all rows, for one row, or for one
                array of a model.
            w: the parameters where the gradient was taken, in the same shape.
            add_scaled: function that returns a + factor b for (a, factor, b), with the rounding of
                the trainer's library (e.g. JAX).
        """
        if self.correction is not None:
            gradient = gradient + self.correction
        if self.anchor is not None:
            gradient = add_scaled(gradient, self.strength, w - self.anchor)
        return gradient

    def select(self, rows: Any) -> GradientTerms:
        """The terms of the given rows (clients with one model each). If ``rows`` is a number, the
        terms have no row axis."""
        return self.map(lambda term: term[rows])

    def map(self, function: Callable[[Any], Any]) -> GradientTerms:
        """The terms after a function is applied to every array that is not None."""
        return GradientTerms(*(None if term is None else function(term) for term in self))

    def by_entry(self, cut: Callable[[Any], Sequence[Any]], entries: int) -> list[GradientTerms]:
        """Split the terms of one row (a client with its model) by the arrays (entries) of the
        model. Vectors are cut; numbers are repeated.

        Args:
            cut: splits a vector [P] into its parts, one for each entry of the model.
            entries: number of arrays of the model.
        """
        columns = self.map(lambda term: cut(term) if term.ndim else [term] * entries)
        return [columns.map(lambda parts, entry=entry: parts[entry]) for entry in range(entries)]


class MixedModel(NamedTuple):
    """A second model v for each row (a client with its first model w). It trains with the same
    batches and optimiser as w, on the loss of the mix share * v + (1 - share) * w, in which w is
    held constant."""

    start: Any  # [r P] initial v
    share: Any  # [r] weight of v in the mix

    def select(self, rows: Any) -> MixedModel:
        """The second models of the given rows (clients). If ``rows`` is a number, the models have
        no row axis."""
        return MixedModel(self.start[rows], self.share[rows])


class Envelope(NamedTuple):
    """Settings for training on the Moreau envelope of a batch's loss f. The envelope's gradient is
    strength * (w - theta), where theta minimises f(theta) + strength/2 |theta - w|^2."""

    strength: float
    steps: int  # steps of gradient descent from w that approximate theta
    lr: float  # learning rate of these steps


@dataclass(frozen=True)
class TrainCall:
    """A request for local training of r rows, each a client with one model.

    Attributes:
        models: the K models that rows start from.
        clients: the client of each row, a position in the data.
        model_index: the initial model of each row, an index of ``models``.
        work: batches and optimiser. ``work.positive`` holds the class of each row's detector.
        num_steps: epochs of each row, or steps if ``work.steps`` is set.
        stream: random numbers of the training.
        gradient: whether to return each row's full gradient at the initial model. Detectors support
            neither this option nor the following ones.
        terms: terms that are added to the gradients; None: none.
        trained: mask of the parameters that are trained; None: all.
        mixed: a second model of each row, trained in a mix with the first; None: none.
        envelope: train on the Moreau envelope of the loss. The result's field ``own`` is then the
            theta of the last batch, minus the initial model. None: train on the loss itself.
        weights: weight of each sample of a row's client in the loss; None: all 1. The loss of a
            batch of B samples is their weighted sum divided by B, so that half the weight gives
            half the step. A full gradient is not weighted.
    """

    models: Float[np.ndarray, "K P"]
    clients: Int[np.ndarray, "r"]
    model_index: Int[np.ndarray, "r"]
    work: LocalTraining
    num_steps: Int[np.ndarray, "r"]
    stream: Stream
    gradient: bool = False
    terms: GradientTerms | None = None
    trained: Bool[np.ndarray, "P"] | None = None
    mixed: MixedModel | None = None
    envelope: Envelope | None = None
    weights: Sequence[Float[np.ndarray, "_"]] | None = None

    @property
    def options(self) -> set[str]:
        """Names of the optional fields that this training request uses."""
        optional = [field for field in fields(self) if field.default is not MISSING]
        return {field.name for field in optional if getattr(self, field.name) is not field.default}

    def select(self, rows: Int[np.ndarray, "q"]) -> TrainCall:
        """The training request restricted to the given rows (clients with one model each). It keeps
        all models, since rows refer to them by index."""
        return replace(
            self,
            clients=self.clients[rows],
            model_index=self.model_index[rows],
            work=self.work.select(rows),
            num_steps=self.num_steps[rows],
            terms=None if self.terms is None else self.terms.select(rows),
            mixed=None if self.mixed is None else self.mixed.select(rows),
            weights=None if self.weights is None else [self.weights[row] for row in rows],
        )


def shortened(
    count: int, done: Int[np.ndarray, "r"], requested: int | Int[np.ndarray, "r"]
) -> Int[np.ndarray, "r"]:
    """How many epochs (or steps) of one training each row (a client) completes: the share ``done /
    requested``. A task may train several times, and a straggler completes this share of each
    training.

    Args:
        count: epochs (or steps) of the training.
        done: epochs (or steps) of the task's ``work`` that each row completes.
        requested: epochs (or steps) that the task requests (``LocalTraining.requested``); 0 if it
            requests none.
    """
    share = np.maximum(1, count * done // np.maximum(requested, 1))
    return np.where(done >= requested, count, share)
