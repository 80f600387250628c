"""A training call: the input of a trainer of any library, for some rows.

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
    """Additional terms of each row's loss, as their gradients. They are added in every step before
    the gradient is clipped to ``clip_norm``.

    Every field has an entry for each row: a vector [r P], or a number [r]. A new term is a field
    and its lines in ``added_to``, which all libraries run. The arrays of a call are NumPy's; a
    trainer converts them to its library.
    """

    correction: Any = None  # [r P] a constant vector
    anchor: Any = None  # [r P] the centre of a proximal term, strength/2 |w - anchor|^2
    strength: Any = None  # [r] strength of the proximal term

    def added_to(self, gradient: Any, w: Any, add_scaled: AddScaled = _add_scaled) -> Any:
        """A gradient plus the terms.

        Args:
            gradient: gradient of the loss without them: of all rows, one row, or one entry of its
                model.
            w: the parameters where the gradient was taken, in the same shape.
            add_scaled: (a, factor, b) to a + factor b, with the library's rounding.
        """
        if self.correction is not None:
            gradient = gradient + self.correction
        if self.anchor is not None:
            gradient = add_scaled(gradient, self.strength, w - self.anchor)
        return gradient

    def select(self, rows: Any) -> GradientTerms:
        """The terms of some rows. If ``rows`` is a number, of one row, without the row axis."""
        return self.map(lambda term: term[rows])

    def map(self, function: Callable[[Any], Any]) -> GradientTerms:
        """The terms with a function applied to every array that is set."""
        return GradientTerms(*(None if term is None else function(term) for term in self))

    def by_entry(self, cut: Callable[[Any], Sequence[Any]], entries: int) -> list[GradientTerms]:
        """One row's terms for each entry of its model: vectors are cut, numbers stay the same.

        Args:
            cut: splits a vector [P] into its parts, one for each entry.
            entries: number of entries.
        """
        columns = self.map(lambda term: cut(term) if term.ndim else [term] * entries)
        return [columns.map(lambda parts, entry=entry: parts[entry]) for entry in range(entries)]


class MixedModel(NamedTuple):
    """A second model v of each row. It is trained with the same batches and optimiser as w, on the
    loss of share v + (1 - share) w, where w is held constant."""

    start: Any  # [r P] initial v
    share: Any  # [r] weight of v in the mix

    def select(self, rows: Any) -> MixedModel:
        """The models of some rows. If ``rows`` is a number, of one row, without the row axis."""
        return MixedModel(self.start[rows], self.share[rows])


class Envelope(NamedTuple):
    """Steps on the Moreau envelope of a batch's loss f. Its gradient is strength (w - theta), where
    theta minimises f(theta) + strength/2 |theta - w|^2."""

    strength: float
    steps: int  # steps of gradient descent from w that approximate theta
    lr: float  # learning rate of these steps


@dataclass(frozen=True)
class TrainCall:
    """Local training of r rows.

    Attributes:
        models: initial models, K of them.
        clients: the client of each row, a position in the data.
        model_index: the model of each row.
        work: batches and optimiser; ``work.positive`` has the classes of these rows' detectors.
        num_steps: epochs of each row, or steps if ``work.steps`` is set.
        stream: random numbers of the call.
        gradient: whether to return the full gradient of each row at the start. This and all
            following options do not apply to detectors.
        terms: added to the gradients; None: none.
        trained: which parameters are trained; None: all.
        mixed: a second model of each row, trained in a mix with the first; None: none.
        envelope: replaces the loss; ``own`` of the result is then the theta of the last batch,
            minus the initial model. None: training on the loss itself.
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
        """Names of the optional fields that this call uses."""
        optional = [field for field in fields(self) if field.default is not MISSING]
        return {field.name for field in optional if getattr(self, field.name) is not field.default}

    def select(self, rows: Int[np.ndarray, "q"]) -> TrainCall:
        """The call restricted to some rows. It has all models, since rows refer to them by
        index."""
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
