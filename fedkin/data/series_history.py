"""The past of many series: values some steps before, seasonal errors, and the forecasts that need
no training.

Shapes: M rows of a table, each a client at a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from fedkin.core.errors import DataError
from fedkin.core.object_repr import of_client
from fedkin.data.frequency import Frequency

# So many seasons back a value is looked for, where the last season has a gap.
_SEASONS_BACK = 3


@dataclass(frozen=True)
class SeriesHistory:
    """The values of all series. A client's past is its own: no lookup reads another client, or a
    later step.

    Attributes:
        client: number of the client of each row, 0 .. N-1.
        step: time of each row, in steps.
        value: value of each row; NaN where it is missing.
    """

    client: Int64[np.ndarray, "M"]
    step: Int64[np.ndarray, "M"]
    value: Float64[np.ndarray, "M"]

    def check(self, names: np.ndarray, frequency: Frequency, place: Path | str) -> None:
        """Raise DataError if a client has two rows at one step.

        Args:
            names: name of the client of each row.
            frequency: length of a step.
            place: file or name with which the message begins.
        """
        order = np.lexsort((self.step, self.client))
        same = (np.diff(self.step[order]) == 0) & (np.diff(self.client[order]) == 0)
        if same.any():
            row = int(order[1:][np.argmax(same)])
            raise DataError(
                f"{place}: row {row}{of_client(names, row)} is a second row at "
                f"{frequency.text(int(self.step[row]))} ({int(same.sum())} such rows); keep one "
                "row for each client and step, such as their sum: table.groupby([client, time])"
            )

    def before(self, steps: int) -> Float64[np.ndarray, "M"]:
        """The value of the same client some steps before each row; NaN where there is none.

        Args:
            steps: number of steps, at least 1.
        """
        # A gap of `steps` between the keys of two clients, so that none reaches the other.
        width = int(self.step.max() - self.step.min()) + 1 + steps
        key = self.client * width + (self.step - self.step.min()) + steps
        order = np.argsort(key)
        wanted = key - steps
        place = np.searchsorted(key[order], wanted)
        found = order[np.minimum(place, len(order) - 1)]
        return np.where(key[found] == wanted, self.value[found], np.nan)

    def last(self) -> Float64[np.ndarray, "M"]:
        """The last known value of the same client before each row; NaN where there is none."""
        order = np.lexsort((self.step, self.client))
        known = ~np.isnan(self.value[order])
        # The position of the last known value at or before each row, in this order.
        latest = np.maximum.accumulate(np.where(known, np.arange(len(order)), -1))
        before = np.concatenate([[-1], latest[:-1]])
        found = order[np.maximum(before, 0)]
        usable = (before >= 0) & (self.client[found] == self.client[order])
        last = np.full(len(order), np.nan)
        last[order] = np.where(usable, self.value[found], np.nan)
        return last

    def season_before(self, season: int) -> Float64[np.ndarray, "M"]:
        """The value of the same client one season before each row, or where it is missing, some
        seasons before; NaN where there is none."""
        value = self.before(season)
        for seasons in range(2, _SEASONS_BACK + 1):
            missing = np.isnan(value)
            if not missing.any():
                break
            value = np.where(missing, self.before(seasons * season), value)
        return value

    def seasonal_error(
        self, season: int, training: Bool[np.ndarray, "M"]
    ) -> Float64[np.ndarray, "N"]:
        """The unit of MASE of each client: the mean absolute error of the value one season before,
        within the training period; 0 where it is unknown.

        Args:
            season: number of steps in a season.
            training: rows of the training period.
        """
        of_training = SeriesHistory(self.client, self.step, np.where(training, self.value, np.nan))
        error = np.abs(of_training.value - of_training.before(season))
        known = ~np.isnan(error)
        clients = int(self.client.max()) + 1
        total = np.bincount(self.client[known], error[known], clients)
        count = np.bincount(self.client[known], minlength=clients)
        return total / np.maximum(count, 1)

    def seasonal_error_before(self, season: int) -> Float64[np.ndarray, "M"]:
        """The unit of MASE before each row: the mean absolute error of the value one season before,
        over the client's earlier rows; 0 where these have fewer such errors than a season has
        steps.

        Args:
            season: number of steps in a season.
        """
        import pandas as pd

        order = np.lexsort((self.step, self.client))
        client = self.client[order]
        error = np.abs(self.value - self.before(season))[order]
        known = ~np.isnan(error)
        terms = pd.DataFrame({"total": np.where(known, error, 0.0), "count": known.astype(int)})
        until_row = terms.groupby(client).cumsum()
        earlier = until_row.groupby(client).shift(fill_value=0)
        count = earlier["count"].to_numpy()
        mean = earlier["total"].to_numpy() / np.maximum(count, 1)
        before = np.empty(len(order))
        before[order] = np.where(count >= season, mean, 0.0)
        return before

    def scales(
        self, training: Bool[np.ndarray, "M"]
    ) -> tuple[Float64[np.ndarray, "N"], Float64[np.ndarray, "N"], Int64[np.ndarray, "N"]]:
        """Mean, standard deviation and number of each client's values of the training period. The
        deviation of equal values is 1."""
        rows = training & ~np.isnan(self.value)
        clients = int(self.client.max()) + 1
        client = self.client[rows]
        count = np.bincount(client, minlength=clients)
        mean = np.bincount(client, self.value[rows], clients) / np.maximum(count, 1)
        squares = np.bincount(client, (self.value[rows] - mean[client]) ** 2, clients)
        deviation = np.sqrt(squares / np.maximum(count, 1))
        # Equal values may differ from their mean by rounding.
        constant = deviation <= 1e-12 * np.abs(mean)
        return mean, np.where(constant, 1.0, deviation), count
