"""Numbers as the page's JSON holds them: rounded to what is visible, None where there is none,
thinned."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

POINTS = 400  # of a curve, at most
Json = dict[str, Any]


def rounded(values: Any, digits: int = 4) -> list[Any]:
    """Rounded numbers; None for what is not finite."""
    array = np.asarray(values, np.float64)
    return [round(float(v), digits) if np.isfinite(v) else None for v in array]


def thinned(length: int) -> Int[np.ndarray, "r"]:
    """Indices 0 .. length-1, evenly thinned to at most POINTS; both ends are among them."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def cluster_name(cluster: int) -> str:
    """The name of a cluster, or of what stands for one: -1 no cluster, -2 all others."""
    return {-1: "no cluster", -2: "other clusters"}.get(cluster, f"cluster {cluster}")
