"""Writes the stays of patients in 17 hospitals as one CSV file.

    python examples/length_of_stay/stays.py runs/stays.csv

The stays are those of fk.data.natural("azpro") if they are found on this machine; otherwise they
are made up, with the same columns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import fedkin as fk
from fedkin.core.errors import DataError

HOSPITALS = 17
CHECK_EVERY = 5  # every fifth patient of a hospital is kept for the check


def main() -> None:
    """Write the file."""
    options = read_options()
    try:
        if options.made_up:
            raise DataError("--made-up")
        stays = fk.data.natural("azpro").table.rename(columns={"client": "hospital"})
        print("stays of Arizona hospitals, 1991 (azpro)")
    except DataError:
        stays = made_up_stays()
        print("the stays are made up, since azpro was not found or not wanted")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    stays.to_csv(options.file, index=False)
    print(f"{options.file}: {len(stays):,} patients of {stays['hospital'].nunique()} hospitals")


def made_up_stays() -> pd.DataFrame:
    """Patients of hospitals that differ in size, in their share of bypass operations, and in the
    level of their stays."""
    rng = np.random.default_rng(1991)
    tables = []
    for number in range(HOSPITALS):
        patients = int(rng.integers(20, 300))
        bypass_share = rng.uniform(0.25, 0.75)
        table = pd.DataFrame(
            {
                "hospital": f"h{number + 1}",
                "los": 0,
                "procedure": rng.random(patients) < bypass_share,
                "male": rng.random(patients) < 0.66,
                "age75": rng.random(patients) < 0.26,
                "urgent": rng.random(patients) < 0.6,
            }
        )
        log_days = 1.1 + rng.normal(0, 0.15) + table["procedure"] * 1.0 + table["urgent"] * 0.4
        # Stays vary more than a Poisson count, and last one day at least.
        days = np.exp(log_days) * rng.gamma(3, 1 / 3, patients)
        table["los"] = np.maximum(rng.poisson(days), 1)
        is_check = np.arange(patients) % CHECK_EVERY == 0
        table["split"] = np.where(is_check, "test", "train")
        tables.append(table)
    numbers = {name: int for name in ("procedure", "male", "age75", "urgent")}
    return pd.concat(tables, ignore_index=True).astype(numbers)


def read_options() -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="the CSV file to write")
    parser.add_argument("--made-up", action="store_true", help="make the stays up in any case")
    return parser.parse_args()


if __name__ == "__main__":
    main()
