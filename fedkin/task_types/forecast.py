"""Forecasts: the label is the next value of a client's series, such as next month's sales.

By default, each client's labels are scaled by the mean and the standard deviation of the client's
own training labels. So clusters are about shape (slopes, seasons), not about level or size. The
scale of a client travels with its samples, in the columns of ``FederatedData.y``, and measures are
in units of the label.

A model is compared with two forecasts that need no training: the value one season before (seasonal
naive), and the last value. Source of the scaled error (MASE): Hyndman & Koehler 2006
(``fedkin.measures.forecasts``). There is no R2: of series with different levels it says only that
the levels differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Real

from fedkin.task_types.loss import Loss, targets_of
from fedkin.task_types.regression import SquaredError
from fedkin.task_types.task_type import LabelScale, Sums, TaskType, check_finite, share_of

CLIENT = "client"
POOLED = "pooled"
LABEL_SCALES = (CLIENT, POOLED)
_SQUARES = SquaredError()


class ForecastColumn(IntEnum):
    """The columns of ``FederatedData.y``. Forecasts are in the unit of the scaled label."""

    LABEL = 0
    OFFSET = 1
    WEIGHT = 2
    MEAN = 3  # of the client's scale, in units of the label
    SCALE = 4  # one unit of the scaled label, in units of the label
    SEASONAL_ERROR = (
        5  # unit of MASE: error of the seasonal naive forecast in training; 0 if unknown
    )
    SEASONAL_NAIVE = 6  # the value one season before
    LAST_VALUE = 7


@dataclass(frozen=True)
class Series:
    """How a table became the samples of a forecast, so that a newer table can become samples in the
    same way.

    Attributes:
        time: columns of the time.
        unit: what a step is measured in: ``months``, ``seconds`` or ``steps``.
        every: length of a step in this unit.
        season: number of steps in a season, such as 12 for months.
        lags: the steps of the past that are features, made by the reader.
        given_lags: features of the table that are the label some steps before.
        label: column of the label.
        client: column of the client.
        label_scale: ``client`` or ``pooled``.
    """

    time: tuple[str, ...]
    unit: str
    every: int
    season: int
    lags: tuple[int, ...]
    given_lags: tuple[str, ...]
    label: str
    client: str
    label_scale: str = CLIENT


@dataclass(frozen=True)
class Forecast(TaskType):
    """The label is the next value of a client's series.

    Args:
        loss: the training loss, one of those of regression.

    Attributes:
        series: how a table became samples; None for other data.
        scales: scale of the labels of each client, by the client's name. With the scale ``pooled``
            it is empty, and ``label`` is the scale of all clients.
        seasonal_errors: the unit of MASE of each client, from its training period, by the client's
            name; 0 if it is unknown.
        test_from: the date of the first test sample, such as ``2018-01-01``; empty for a share of
            the samples, and for a run that is loaded.
    """

    name = "forecast"
    by_time = True
    sums = (
        "scaled_absolute_error",
        "squared_error",
        "absolute_error",
        "scaled",
        "seasonal_naive_error",
        "last_value_error",
    )
    counts = ("scaled",)
    loss: Loss = _SQUARES  # type: ignore[assignment]
    series: Series | None = field(default=None, compare=False, kw_only=True)
    scales: Mapping[str, LabelScale] = field(default_factory=dict, compare=False, kw_only=True)
    seasonal_errors: Mapping[str, float] = field(default_factory=dict, compare=False, kw_only=True)
    # It is no part of ``own_values``, since it says nothing that the split does not say.
    test_from: str = field(default="", compare=False, kw_only=True)

    @property
    def measures(self) -> tuple[str, ...]:
        return (
            "mean_absolute_scaled_error",
            "root_mean_squared_error",
            "mean_absolute_error",
            "seasonal_naive_error",
            "last_value_error",
        )

    @property
    def scales_by_client(self) -> bool:
        """Whether each client has a scale."""
        return self.series is None or self.series.label_scale == CLIENT

    def labels_of(self, y: Real[np.ndarray, "M ..."]) -> Float64[np.ndarray, "M"]:
        """The labels of samples in their own unit, by the scales in ``y``."""
        rows = np.asarray(y, np.float64)
        scaled = rows[:, ForecastColumn.LABEL]
        return scaled * rows[:, ForecastColumn.SCALE] + rows[:, ForecastColumn.MEAN]

    @property
    def smallest_scale(self) -> float:
        return min((one.scale for one in self.scales.values()), default=self.label.scale)

    def sample_scores(self, xp: Any, scores: Any, y: Any) -> tuple[Any, ...]:
        targets = targets_of(y)
        error = targets.label - self.loss.mean(xp, scores, targets.offset)
        in_label_units = xp.abs(error) * y[:, ForecastColumn.SCALE]
        scaled, known = _over_seasonal_error(xp, in_label_units, y)
        return scaled, in_label_units**2, in_label_units, known

    def constant_scores(self, y: Any) -> tuple[Float[np.ndarray, "B"], ...]:
        """The scaled errors of the seasonal naive forecast and of the last value."""
        rows = np.asarray(y, np.float64)
        errors = []
        for column in (ForecastColumn.SEASONAL_NAIVE, ForecastColumn.LAST_VALUE):
            error = np.abs(rows[:, ForecastColumn.LABEL] - rows[:, column])
            in_label_units = error * rows[:, ForecastColumn.SCALE]
            errors.append(_over_seasonal_error(np, in_label_units, rows)[0])
        return tuple(errors)

    def constant_loss_sums(self, named: Sums) -> Float[np.ndarray, "n"]:
        # An error of one seasonal error for each sample whose client has one.
        return named["scaled"]

    def values(self, sums: Sums, examples: Any) -> dict[str, Any]:
        # A client whose seasonal error is unknown or 0 has no MASE.
        scaled = sums["scaled"]
        return {
            "mean_absolute_scaled_error": share_of(sums["scaled_absolute_error"], scaled),
            "root_mean_squared_error": np.sqrt(share_of(sums["squared_error"], examples)),
            "mean_absolute_error": share_of(sums["absolute_error"], examples),
            "seasonal_naive_error": share_of(sums["seasonal_naive_error"], scaled),
            "last_value_error": share_of(sums["last_value_error"], scaled),
        }

    def check_labels(self, labels: Float[np.ndarray, "M"], place: str, clients: Any = None) -> None:
        check_finite(labels, place, clients)

    def own_values(self) -> dict[str, Any]:
        if self.series is None:
            return {}
        scales = {client: [one.mean, one.scale] for client, one in self.scales.items()}
        return {
            "series": asdict(self.series),
            "scales": scales,
            "seasonal_errors": dict(self.seasonal_errors),
        }

    @classmethod
    def own_fields(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        if "series" not in values:
            return {}
        series: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values["series"].items()
        }
        scales = {
            client: LabelScale(float(mean), float(scale))
            for client, (mean, scale) in values["scales"].items()
        }
        errors = values["seasonal_errors"].items()
        return {
            "series": Series(**series),
            "scales": scales,
            "seasonal_errors": {client: float(error) for client, error in errors},
        }


def _over_seasonal_error(xp: Any, error: Any, y: Any) -> tuple[Any, Any]:
    """Errors divided by the seasonal error of the client, and 1 for each; both 0 if it is unknown.

    Args:
        xp: module of the arrays.
        error: absolute errors [B] in units of the label.
        y: rows of ``FederatedData.y``.
    """
    unit = y[:, ForecastColumn.SEASONAL_ERROR]
    known = unit > 0
    divisor = xp.where(known, unit, xp.ones_like(unit))
    none = xp.zeros_like(unit)
    return xp.where(known, error / divisor, none), xp.where(known, xp.ones_like(unit), none)
