"""The columns of a table as a model takes them: by name, in the order of its data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import DataError
from fedkin.data.tables import check_columns


def is_table(x: Any) -> bool:
    """Whether samples are a DataFrame of pandas."""
    return hasattr(x, "columns") and hasattr(x, "loc")


def values_of(table: Any, names: Sequence[str], place: Path | str, dtype: Any) -> np.ndarray:
    """The columns of these names, in this order, as an array [B, d].

    Args:
        table: a DataFrame; its other columns are left out.
        names: of the features that the model was trained with.
        place: file or name to begin errors with.
        dtype: of the array; a missing value becomes NaN in one of floats.

    Raises:
        DataError: a column that is not there, with the nearest one; one that is there twice, or holds no numbers.
    """
    table = table.set_axis([str(name) for name in table.columns], axis=1)
    check_columns(table, names, place, dict.fromkeys(names, "the model needs it"))
    for name in names:
        if list(table.columns).count(name) > 1:
            raise DataError(f"{place}: expected columns of different names, got {name!r} twice")
        if table[name].dtype.kind not in "iufb":
            raise DataError(f"{place}: expected numbers in column {name!r}, got {table[name].dtype}")
    try:
        return table[list(names)].astype(dtype).to_numpy()
    except (TypeError, ValueError) as error:  # a missing value among integers
        raise DataError(
            f"{place}: columns {names[0]} .. {names[-1]} hold what is no {np.dtype(dtype)}: {error}"
        ) from error
