"""Numbers for the page's JSON: rounded to the visible precision, thinned, and None if missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.measures.number_texts import LABEL

POINTS = 400  # largest number of points of a curve
Json = dict[str, Any]


def rounded(values: Any, digits: int = 4) -> list[Any]:
    """Values as rounded numbers; None for NaN and infinity."""
    array = np.asarray(values, np.float64)
    return [round(float(v), digits) if np.isfinite(v) else None for v in array]


def rounded_scores(values: Any, unit: str) -> list[Any]:
    """Scores as rounded numbers; None for NaN and infinity. Scores in units of the label have six
    significant digits, because a label may be a share or an income."""
    if unit != LABEL:
        return rounded(values)
    array = np.asarray(values, np.float64)
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in array]


def thinned(length: int) -> Int[np.ndarray, "r"]:
    """Indices at which a long curve is drawn: at most POINTS of 0 .. length-1, evenly spaced,
    including both ends."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def cluster_name(cluster: int) -> str:
    """The name of a cluster, or of a special value: -1 for no cluster, -2 for all other
    clusters."""
    return {-1: "no cluster", -2: "other clusters"}.get(cluster, f"cluster {cluster}")
