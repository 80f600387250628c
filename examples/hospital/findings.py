"""Each hospital's own file: images (handwritten digits, in place of scans) and what is seen on them.

Hospitals 0 and 1 see mostly findings 0 to 4, hospitals 2, 3 and 4 mostly findings 5 to 9. No two have an image in
common.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

KIND = (0, 0, 1, 1, 1)  # of each hospital; the last one comes late
USUAL, IMAGES = 0.95, 160  # share of a hospital's images with its usual findings, and how many it has


def findings(seed: int = 0) -> pd.DataFrame:
    """All hospitals' images in one table: columns p0 .. p63, y and client_id. For the simulation beforehand."""
    x, y = load_digits(return_X_y=True)
    order, taken, tables = np.random.default_rng(seed).permutation(len(y)), np.zeros(len(y), bool), []
    for hospital, kind in enumerate(KIND):
        usual = round(USUAL * IMAGES)
        own = [*_next(order, taken, (y >= 5) == kind, usual), *_next(order, taken, (y >= 5) != kind, IMAGES - usual)]
        table = pd.DataFrame(x[own] / 16, columns=[f"p{i}" for i in range(64)])
        tables.append(table.assign(y=y[own], client_id=hospital))
    return pd.concat(tables, ignore_index=True)


def write(folder: Path, hospital: int) -> None:
    """One hospital's file, ``findings.csv``, in its own folder."""
    everybody = findings()
    everybody[everybody.client_id == hospital].to_csv(folder / "findings.csv", index=False)


def _next(order: np.ndarray, taken: np.ndarray, wanted: np.ndarray, count: int) -> list[int]:
    """The next images in a random order that are wanted, and nobody has."""
    found = [int(i) for i in order if wanted[i] and not taken[i]][:count]
    taken[found] = True
    return found
