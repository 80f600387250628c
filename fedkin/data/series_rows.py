"""The scale and the simple forecasts of a sample, as columns of ``FederatedData.y``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64

from fedkin.task_types.forecast import ForecastColumn


@dataclass(frozen=True)
class SeriesRows:
    """Numbers of each sample of a forecast, in units of the label: the client's scale, the unit of
    MASE (0 if it is unknown), and the forecasts that need no training."""

    mean: Float64[np.ndarray, "m"]
    scale: Float64[np.ndarray, "m"]
    seasonal_error: Float64[np.ndarray, "m"]
    seasonal_naive: Float64[np.ndarray, "m"]
    last_value: Float64[np.ndarray, "m"]

    def select(self, rows: Bool[np.ndarray, "M"]) -> SeriesRows:
        """The same for some rows."""
        return SeriesRows(
            mean=self.mean[rows],
            scale=self.scale[rows],
            seasonal_error=self.seasonal_error[rows],
            seasonal_naive=self.seasonal_naive[rows],
            last_value=self.last_value[rows],
        )

    def rows_with(
        self, label: Float64[np.ndarray, "m"], weight: Float64[np.ndarray, "m"] | None
    ) -> Float32[np.ndarray, "m q"]:
        """Rows of ``FederatedData.y``.

        Args:
            label: labels in their unit.
            weight: weights of samples; None if all are 1.
        """
        columns: dict[ForecastColumn, Any] = {
            ForecastColumn.LABEL: (label - self.mean) / self.scale,
            ForecastColumn.OFFSET: 0.0,
            ForecastColumn.WEIGHT: 1.0 if weight is None else weight,
            ForecastColumn.MEAN: self.mean,
            ForecastColumn.SCALE: self.scale,
            ForecastColumn.SEASONAL_ERROR: self.seasonal_error,
            ForecastColumn.SEASONAL_NAIVE: (self.seasonal_naive - self.mean) / self.scale,
            ForecastColumn.LAST_VALUE: (self.last_value - self.mean) / self.scale,
        }
        y = np.zeros((len(label), len(columns)), np.float32)
        for column, values in columns.items():
            y[:, column] = values
        return y
