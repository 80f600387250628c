"""A training call: everything that a trainer of any library needs to train some rows.

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
    return a + factor * b


class GradientTerms(NamedTuple):
    """Terms of each row's loss, by what they add to the gradient of every step, before it is cut to
    ``clip_norm``.

    Every field has an entry for each row: a vector [r P], or a number [r]. A new term is a field
    and its lines in ``added_to``, which all libraries run: the arrays of a call are NumPy's, and a
    trainer makes them those of its library.
    """

    correction: Any = None  # [r P] a constant vector
    anchor: Any = None  # [r P] the centre of a proximal term, strength/2 |w - anchor|^2
    strength: Any = None  # [r] of the proximal term

    def added_to(self, gradient: Any, w: Any, add_scaled: AddScaled = _add_scaled) -> Any:
        """A gradient with the terms.

        Args:
            gradient: of the loss without them, of all rows, one row, or one entry of its model.
            w: where the gradient was taken, in the same shape.
            add_scaled: (a, factor, b) to a + factor b, in the rounding of the library.
        """
        if self.correction is not None:
            gradient = gradient + self.correction
        if self.anchor is not None:
            gradient = add_scaled(gradient, self.strength, w - self.anchor)
        return gradient

    def select(self, rows: Any) -> GradientTerms:
        """The terms of some rows; of one, without the axis of rows, where ``rows`` is a number."""
        return self.map(lambda term: term[rows])

    def map(self, function: Callable[[Any], Any]) -> GradientTerms:
        """The terms with a function of every array that there is."""
        return GradientTerms(*(None if term is None else function(term) for term in self))

    def by_entry(self, cut: Callable[[Any], Sequence[Any]], entries: int) -> list[GradientTerms]:
        """One row's terms for each entry of its model: vectors are cut, numbers stay the same.

        Args:
            cut: from a vector [P] to its parts, one for each entry.
            entries: how many there are.
        """
        columns = self.map(lambda term: cut(term) if term.ndim else [term] * entries)
        return [columns.map(lambda parts, entry=entry: parts[entry]) for entry in range(entries)]


class MixedModel(NamedTuple):
    """A second model v of each row, trained by the same batches and optimiser as w on the loss of
    share v + (1 - share) w, where w is a constant."""

    start: Any  # [r P] where v begins
    share: Any  # [r] of v in the mix

    def select(self, rows: Any) -> MixedModel:
        """The models of some rows; of one, without the axis of rows, where ``rows`` is a number."""
        return MixedModel(self.start[rows], self.share[rows])


class Envelope(NamedTuple):
    """Steps on the Moreau envelope of a batch's loss f, whose gradient is strength (w - theta),
    where theta minimises f(theta) + strength/2 |theta - w|^2."""

    strength: float
    steps: int  # of gradient descent from w that give theta
    lr: float  # of these steps


@dataclass(frozen=True)
class TrainCall:
    """Local training of r rows.

    Attributes:
        models: where training starts, K of them.
        clients: the client of each row, a position in the data.
        model_index: the model of each row.
        work: batches and optimiser; ``work.positive`` has the classes of these rows' detectors.
        num_steps: epochs of each row, or steps where ``work.steps`` is set.
        stream: random numbers of the call.
        gradient: whether the full gradient of each row at the start is wanted, too. Not of
            detectors, as are all other options.
        terms: added to the gradients; None: none.
        trained: which parameters move; None: all.
        mixed: a second model of each row, trained in a mix with the first; None: none.
        envelope: in place of the loss; ``own`` of the result is then the theta of the last batch,
            minus the model where training starts. None: training on the loss itself.
        weights: of the samples of each row's client in the loss; None: all 1. The loss of a batch
            of B samples is their weighted sum divided by B, so that half the weight is half the
            step. A full gradient has no weights.
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
        """Names of the optional fields that this call uses."""
        optional = [field for field in fields(self) if field.default is not MISSING]
        return {field.name for field in optional if getattr(self, field.name) is not field.default}

    def select(self, rows: Int[np.ndarray, "q"]) -> TrainCall:
        """The call of some of its rows, with all models, since rows refer to them by number."""
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
