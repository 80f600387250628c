"""Each hospital's own file: images (handwritten digits, in place of scans) and their findings.

Hospitals 0 and 1 see mostly findings 0 to 4, hospitals 2, 3 and 4 mostly findings 5 to 9. No image
is in two files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

CLUSTERS = (0, 0, 1, 1, 1)  # of each hospital; the last one joins late
SHARE = 0.95  # of a hospital's images with its cluster's findings
IMAGES = 160  # of a hospital


def findings(seed: int = 0) -> pd.DataFrame:
    """All hospitals' images in one table: columns p0 .. p63, y and client_id."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    taken = np.zeros(len(y), bool)
    count = round(SHARE * IMAGES)
    tables = []
    for hospital, cluster in enumerate(CLUSTERS):
        typical = (y >= 5) == cluster
        images = _next(order, taken, typical, count)
        images += _next(order, taken, ~typical, IMAGES - count)
        table = pd.DataFrame(x[images] / 16, columns=[f"p{i}" for i in range(64)])
        tables.append(table.assign(y=y[images], client_id=hospital))
    return pd.concat(tables, ignore_index=True)


def write(folder: Path, hospital: int) -> None:
    """One hospital's file, ``findings.csv``, in its own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    table = findings()
    table[table.client_id == hospital].to_csv(folder / "findings.csv", index=False)


def _next(order: np.ndarray, taken: np.ndarray, eligible: np.ndarray, count: int) -> list[int]:
    """The next eligible images, in random order, that no hospital has. Marks them as taken."""
    images = [int(i) for i in order if eligible[i] and not taken[i]][:count]
    taken[images] = True
    return images
