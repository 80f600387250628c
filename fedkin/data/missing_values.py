"""Missing values of a table: filled with the pooled mean of the training samples, with an indicator
column for each column that misses often.

Clients send the number of present values and their sum for each column, nothing else. The indicator
columns are decided once, from the sums of all clients, so that all clients have the same features.
The result is scikit-learn's ``SimpleImputer(strategy="mean", add_indicator=True)`` of the pooled
table, except that a column that hardly ever misses has no indicator.

Shapes: M samples, N clients, d columns, f features: the columns and their indicators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Real

from fedkin.core.errors import DataError
from fedkin.core.object_repr import listed

# Smallest share of missing values with which a column gets an indicator.
LEAST_MISSING = 0.005


class PresentSums(NamedTuple):
    """Sums over the training samples of each client, from which missing values are filled.

    Attributes:
        samples: number of samples [N].
        present: number of values that are present, by column [N d].
        total: sum of the present values, by column [N d].
    """

    samples: Int[np.ndarray, "N"]
    present: Int[np.ndarray, "N d"]
    total: Float64[np.ndarray, "N d"]


@dataclass(frozen=True)
class Imputation:
    """How missing values are filled. It travels with the model, as ``TableTransform`` does.

    Attributes:
        columns: names of the d columns.
        mean: the value that replaces a missing one, by column.
        indicated: columns with an indicator, which is 1 where a value is missing. The indicators
            come after all columns, in the same order.
    """

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    indicated: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the filled columns and of the indicators."""
        return (*self.columns, *(f"{name}_missing" for name in self.indicated))

    def apply(self, x: Real[np.ndarray, "M d"]) -> Float64[np.ndarray, "M f"]:
        """Samples without missing values, and their indicators. Columns that were complete in
        training are filled as well.

        Args:
            x: raw values, NaN where they are missing.
        """
        raw = np.asarray(x, np.float64)
        missing = np.isnan(raw)
        filled = np.where(missing, np.array(self.mean), raw)
        places = [self.columns.index(name) for name in self.indicated]
        return np.concatenate([filled, missing[:, places].astype(np.float64)], axis=1)

    def values(self) -> dict[str, Any]:
        """The imputation as values for JSON, from which ``of_values`` makes it again."""
        return {
            "columns": list(self.columns),
            "mean": list(self.mean),
            "indicated": list(self.indicated),
        }

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Imputation:
        """The imputation with these ``values``."""
        return cls(
            columns=tuple(map(str, values["columns"])),
            mean=tuple(map(float, values["mean"])),
            indicated=tuple(map(str, values["indicated"])),
        )


def present_sums(x: Real[np.ndarray, "M d"]) -> PresentSums:
    """The sums of one client's training samples [1].

    Args:
        x: raw values, NaN where they are missing.

    Raises:
        DataError: a value is infinite.
    """
    raw = np.asarray(x, np.float64)
    infinite = np.isinf(raw)
    if infinite.any():
        row, column = (int(place) for place in np.argwhere(infinite)[0])
        raise DataError(
            f"row {row}, column {column} is {raw[row, column]} ({int(infinite.sum())} such "
            "values); correct it, or leave the cell empty if the value is missing"
        )
    missing = np.isnan(raw)
    return PresentSums(
        samples=np.array([len(raw)]),
        present=(~missing).sum(axis=0)[None],
        total=np.where(missing, 0.0, raw).sum(axis=0)[None],
    )


def stacked(clients: Sequence[PresentSums]) -> PresentSums:
    """The sums of several clients, a row for each."""
    return PresentSums(*(np.concatenate(parts) for parts in zip(*clients, strict=True)))


def imputation(
    sums: PresentSums,
    columns: Sequence[str],
    least_missing: float = LEAST_MISSING,
    allow_empty: bool = False,
) -> Imputation:
    """Decide how missing values are filled, from the sums of all clients.

    Args:
        sums: the clients' sums.
        columns: names of the d columns.
        least_missing: a column gets an indicator if a larger share of its pooled training values is
            missing.
        allow_empty: whether a column without any value is filled with 0.

    Raises:
        DataError: a column has no value at all, and ``allow_empty`` is False.
    """
    present = sums.present.sum(axis=0)
    if not present.all() and not allow_empty:
        empty = [name for name, count in zip(columns, present, strict=True) if not count]
        raise DataError(
            f"column {empty[0]!r} has no value in any training sample (such columns: "
            f"{listed(empty)}); leave it out, such as with drop = [{empty[0]!r}]"
        )
    samples = int(sums.samples.sum())
    often = samples - present > least_missing * samples
    return Imputation(
        columns=tuple(columns),
        mean=tuple((sums.total.sum(axis=0) / np.maximum(present, 1)).tolist()),
        indicated=tuple(name for name, misses in zip(columns, often, strict=True) if misses),
    )


def absent_columns(sums: PresentSums, columns: Sequence[str]) -> dict[str, Int[np.ndarray, "_"]]:
    """Clients that have no value in a column, by the column's name. For them its indicator is 1 in
    all samples, and so acts as an intercept that these clients share.

    Args:
        sums: the clients' sums.
        columns: names of the d columns.
    """
    absent = (sums.present == 0) & (sums.samples > 0)[:, None]
    return {
        name: np.flatnonzero(absent[:, place])
        for place, name in enumerate(columns)
        if absent[:, place].any()
    }
