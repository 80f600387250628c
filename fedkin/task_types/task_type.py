"""The class ``TaskType``: what the labels of a data set are, and all that follows from it: the
loss, the outputs of a model, the measures with their directions, and the constant to beat.

A method never asks for the task type. A new one is a file in this folder and a line in
``fedkin/task_types/catalogue.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Float64, Int, Real

from fedkin.core.errors import DataError
from fedkin.core.object_repr import of_client
from fedkin.measures.measure import Measure
from fedkin.measures.scores import ScoreNames
from fedkin.measures.table import MEASURES
from fedkin.measures.worse_than_alone import LEAST_SAMPLES
from fedkin.task_types.loss import Loss, targets_of

Sums = Mapping[str, Any]  # arrays or single numbers


@dataclass(frozen=True)
class LabelScale:
    """How labels became the numbers on which models are trained: (label - mean) / scale.

    Attributes:
        mean: mean of the pooled training labels; 0 if labels are not centred.
        scale: their standard deviation (of the population); 1 if labels are not scaled.
    """

    mean: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class TaskType(ABC):
    """What the labels of a data set are. Instances are compared by their options, so equal ones
    share compiled programs.

    Attributes:
        label: scale of the labels. It is not compared, since no compiled program uses it.
        constant: scores of the best constant model of the pooled training samples, one for each
            output: the mean, the median (of absolute errors), the rate or the quantiles. D2 is
            measured against it, and R2 always against the mean. It is not compared either.
        centre: the score of the mean of the training labels: 0, unless the user has given another
            scale of the labels. R2 is measured against it. It is not compared either.
        rate: of counts, the pooled rate of the training samples, which is part of every offset:
            sum of labels / sum of exposures, without weights. It is not compared either.
        deviation: standard deviation of the pooled training labels as models see them: 1 for
            scaled labels. Shift tests use it as their unit. It is not compared either.
        is_given: whether the user has given these statistics, so that they stay the same whatever
            the training samples are. It is not compared either.
    """

    name: ClassVar[str]
    # Names of the sums over a client's samples: those of the model, then of the constant model.
    sums: ClassVar[tuple[str, ...]]
    # A client with fewer scored samples is not ranked among the worst clients.
    least_ranked: ClassVar[int] = LEAST_SAMPLES
    # Names of the sums that count samples, so that each sample adds at most 1.
    counts: ClassVar[tuple[str, ...]] = ()
    by_time: ClassVar[bool] = False  # whether samples are divided by time, never at random

    label: LabelScale = field(default_factory=LabelScale, compare=False, kw_only=True)
    constant: tuple[float, ...] = field(default=(0.0,), compare=False, kw_only=True)
    centre: float = field(default=0.0, compare=False, kw_only=True)
    rate: float = field(default=1.0, compare=False, kw_only=True)
    deviation: float = field(default=1.0, compare=False, kw_only=True)
    is_given: bool = field(default=False, compare=False, kw_only=True)

    @property
    @abstractmethod
    def loss(self) -> Loss | None:
        """The loss of a sample; None for the cross entropy of classes."""

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """Names of the measures of a model. The first one chooses rounds, options and methods."""

    @property
    def measure(self) -> Measure:
        """The measure that chooses rounds, options and methods."""
        return MEASURES[self.measures[0]]

    @property
    def score_sum(self) -> str:
        """Name of the sum from which the score follows. The score is a monotone function of it,
        and models are compared by it, sample by sample."""
        return self.sums[0]

    @property
    def highest(self) -> float:
        """The largest number that a sample adds to ``score_sum``."""
        return 1.0 if self.score_sum in self.counts else np.inf

    @property
    def counted(self) -> tuple[int, ...]:
        """Positions of the sums that count samples. Replies with larger sums than samples are
        refused."""
        return tuple(self.sums.index(name) for name in self.counts)

    def named(self, sums: Float[np.ndarray, "... S"]) -> dict[str, Any]:
        """Sums by their names (``sums``), from an array with a column for each."""
        return dict(zip(self.sums, np.moveaxis(sums, -1, 0), strict=True))

    @property
    def names(self) -> ScoreNames:
        """The names of this measure in records and summaries."""
        return ScoreNames(self.measures[0])

    def sizes(self) -> dict[str, int]:
        """Sizes of axes of replies: the sums of a client (``sums``), and those of a test before
        training (``test_sums``: the sums, the number of samples and the loss)."""
        return {"sums": len(self.sums), "test_sums": len(self.sums) + 2}

    @abstractmethod
    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        """The terms of the sums over samples, an array [B] for each of the first names in ``sums``.

        Args:
            xp: module of the arrays: ``numpy``, ``jax.numpy`` or ``torch``.
            scores: outputs of the model [B C].
            y: rows of ``FederatedData.y``.
        """

    def residuals(self, scores: Float[np.ndarray, "B C"], y: np.ndarray) -> Float[np.ndarray, "B"]:
        """Label minus predicted mean of each sample, for labels that are numbers.

        Args:
            scores: outputs of a model.
            y: rows of ``FederatedData.y``.
        """
        assert self.loss is not None
        targets = targets_of(y)
        return targets.label - self.loss.mean(np, scores, targets.offset)

    def sample_losses(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        """The training loss of each sample in NumPy, times the sample's weight.

        Args:
            scores: outputs of a model.
            y: rows of ``FederatedData.y``.
        """
        assert self.loss is not None
        targets = targets_of(y)
        losses = self.loss.of(np, scores, targets)
        return losses if targets.weight is None else losses * targets.weight

    def score_losses(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        """The loss of each sample by which models are compared: the terms of ``score_sum``, or the
        log loss of classes.

        Args:
            scores: outputs of a model.
            y: rows of ``FederatedData.y``.
        """
        terms = self.sample_scores(np, scores.astype(np.float64), y)
        return np.asarray(terms[self.sums.index(self.score_sum)], np.float64)

    def score_loss_sums(
        self,
        sums: Float[np.ndarray, "n S"],
        loss: Float[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n"]:
        """The sums of ``score_losses`` over the samples of each client.

        Args:
            sums: the sums of each client.
            loss: mean training loss of each client's samples.
            examples: number of each client's samples.
        """
        del loss, examples
        return self.named(sums)[self.score_sum]

    def sample_errors(
        self, scores: Float[np.ndarray, "B C"], y: np.ndarray
    ) -> Float[np.ndarray, "B"]:
        """The error by which two models are compared on a sample: whether the class is wrong (0 or
        1), or the term of ``score_sum`` for labels that are numbers.

        Args:
            scores: outputs of a model.
            y: rows of ``FederatedData.y``.
        """
        return self.score_losses(scores, y)

    def bounded_losses(
        self,
        sums: Float[np.ndarray, "n S"],
        loss: Float[np.ndarray, "n"],
        examples: Int[np.ndarray, "n"],
    ) -> Float[np.ndarray, "n"]:
        """A loss from 0 to 1 for each client; 0 without samples. For labels that are numbers it
        is L / (L + L_0), with the sum L of the model and L_0 of the constant model, so a model that
        is as good as a constant has 1/2. In forecasts, L_0 is the number of samples with a scaled
        error, so a model that is as good as the seasonal naive forecast in training has 1/2.

        Args:
            sums: the sums of each client.
            loss: summed training loss of each client's samples.
            examples: number of each client's samples.
        """
        del loss
        named = self.named(sums)
        model = named[self.score_sum]
        constant = self.constant_loss_sums(named)
        with np.errstate(invalid="ignore"):
            share = model / (model + constant)
        # The loss of a model that has diverged is infinite.
        share = np.where(np.isposinf(model), 1.0, share)
        return np.where(examples > 0, np.nan_to_num(share), 0.0)

    def constant_loss_sums(self, named: Sums) -> Float[np.ndarray, "n"]:
        """L_0 of ``bounded_losses`` for each client: the sum of the constant model's losses.

        Args:
            named: the sums of each client, by name.
        """
        return named[f"constant_{self.score_sum}"]

    def constant_scores(self, y: Any) -> tuple[Any, ...]:
        """The same sums for the constant model, for the other names in ``sums``."""
        scores = np.tile(np.array(self.constant, np.float64), (len(y), 1))
        return self.sample_scores(np, scores, np.asarray(y, np.float64))

    @property
    def statistics(self) -> Float64[np.ndarray, "L"]:
        """The statistics of the labels in one array, from which ``with_statistics`` makes them:
        mean, scale, rate, deviation and the constant scores."""
        head = (self.label.mean, self.label.scale, self.rate, self.deviation)
        return np.array([*head, *self.constant], np.float64)

    @property
    def released(self) -> bool:
        """Whether pooled statistics of the labels come from the clients' samples."""
        statistics = (self.label, self.rate, self.deviation)
        return not self.is_given and statistics != (LabelScale(), 1.0, 1.0)

    def with_statistics(self, numbers: Float64[np.ndarray, "L"]) -> TaskType:
        """The task type with other ``statistics`` of the labels."""
        mean, scale, rate, deviation, *constant = (float(number) for number in numbers)
        return replace(
            self,
            label=LabelScale(mean, scale),
            constant=tuple(constant),
            rate=rate,
            deviation=deviation,
        )

    def as_given(self) -> TaskType:
        """The task type without numbers that come from samples, if its statistics are given: the
        constant model, too, predicts the given mean or rate. For places where the training samples
        of all clients are unknown, or may not be used."""
        if not self.is_given or self.loss is None:
            return self
        # A label that equals the given mean is 0.
        return replace(self, constant=self.constant_of(np.zeros(1)), centre=0.0)

    @property
    def constant_levels(self) -> tuple[float, ...]:
        """The quantiles of the labels that the constant model predicts, one for each output; empty
        if it predicts the mean or the rate."""
        return ()

    @property
    def scales_by_rate(self) -> bool:
        """Whether labels keep their unit, and the pooled rate is part of every offset (counts)."""
        return False

    def constant_of(self, labels: Float[np.ndarray, "t"]) -> tuple[float, ...]:
        """The scores of the best constant model, from the pooled training labels as models see
        them. The default is 0: labels are centred, or the offset holds the pooled rate."""
        del labels
        return (0.0,)

    def predict(
        self,
        scores: Float[np.ndarray, "B C"],
        exposure: Float[np.ndarray, "B"] | None = None,
    ) -> Float[np.ndarray, "B ..."]:
        """Predictions in units of the label, from outputs of a model in any precision.

        Args:
            scores: outputs of the model.
            exposure: exposure of each sample, for counts; None if all are 1.
        """
        assert self.loss is not None
        time = 1.0 if exposure is None else np.asarray(exposure, np.float64)
        offset = np.log(self.rate * time)
        mean = self.loss.mean(np, scores.astype(np.float64), offset)
        return mean * self.label.scale + self.label.mean

    def labels_of(self, y: Real[np.ndarray, "M ..."]) -> Float64[np.ndarray, "M"]:
        """The labels of samples in their own unit.

        Args:
            y: rows of ``FederatedData.y``.
        """
        rows = np.asarray(y, np.float64)
        label = rows if rows.ndim == 1 else rows[:, 0]
        return label * self.label.scale + self.label.mean

    @property
    def smallest_scale(self) -> float:
        """The smallest scale of any label. Labels in their own unit are exact to 7 digits of it."""
        return self.label.scale

    @abstractmethod
    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        """The measures of clients, clusters or the federation, by name; NaN where undefined.

        Args:
            sums: sums over the samples, by name.
            examples: number of samples.
        """

    def per_client(self, sums: Sums, examples: Any) -> dict[str, Any]:
        """The measures in which every client has the same weight, by name: those of the mean of the
        clients' means.

        Args:
            sums: sums over the samples of each client, by name.
            examples: number of samples of each client, at least 1.
        """
        means = {name: np.mean(np.divide(column, examples)) for name, column in sums.items()}
        return self.values(means, np.int64(1))

    def intervals(self, sums: Sums, examples: Any) -> dict[str, tuple[float, float]]:
        """95% intervals of some measures over all samples together, by name. The default has none.

        Args:
            sums: sums over all samples, by name.
            examples: number of samples.
        """
        del sums, examples
        return {}

    def check_labels(self, labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
        """Raise DataError for labels that this task type cannot have, with row, client and cure.

        The default accepts all labels.

        Args:
            labels: the labels of all samples.
            place: file or name with which the message begins.
            clients: the client of each sample, for the message; None if it is unknown.
        """
        del labels, place, clients

    def own_values(self) -> dict[str, Any]:
        """Further values for JSON, from which ``own_fields`` makes fields. The default has none."""
        return {}

    @classmethod
    def own_fields(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a task type that ``own_values`` turned into values."""
        del values
        return {}


def row_of(wrong: np.ndarray) -> int:
    """The first row that is wrong."""
    return int(np.argmax(wrong))


def check_finite(labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
    """Raise DataError for a label that is NaN or infinite.

    Args:
        labels: the labels of all samples.
        place: file or name with which the message begins.
        clients: the client of each sample, for the message; None if it is unknown.
    """
    wrong = ~np.isfinite(labels)
    if wrong.any():
        row = row_of(wrong)
        raise DataError(
            f"{place}: the label in row {row}{of_client(clients, row)} is {labels[row]} "
            f"({int(wrong.sum())} such rows); "
            "leave out these rows, or correct them"
        )


def share_of(part: Any, whole: Any) -> np.ndarray:
    """part / whole; NaN where ``whole`` is 0."""
    part = np.asarray(part, np.float64)
    whole = np.asarray(whole, np.float64)
    ratio = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    return np.divide(part, whole, out=ratio, where=whole != 0)


def gain_over(loss: Any, constant: Any) -> np.ndarray:
    """1 - loss / constant: the share of the constant's loss that a model saves (R2, D2); NaN where
    the constant has no loss."""
    return np.asarray(1 - share_of(loss, constant))
