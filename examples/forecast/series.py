"""Writes the monthly growth of employment in 125 industries as one CSV file.

    python examples/forecast/series.py runs/employment.csv

The series are those of fk.data.natural("employment") if they are found on this machine; otherwise
they are made up, with the same columns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import fedkin as fk
from fedkin.core.errors import DataError

INDUSTRIES = 125
MONTHS = pd.period_range("2008-01", "2019-06", freq="M")
# Growth by month of the year: building, retail, schools, and industries without a season.
SEASONS = np.array(
    [
        [-6, -1, 3, 4, 3, 2, 1, 0, -1, 0, -2, -3],
        [-4, -2, 0, 0, 1, 0, 0, 0, -1, 1, 3, 2],
        [-2, 2, 0, 0, -1, -8, -6, 3, 9, 3, 1, -1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the CSV file, such as runs/employment.csv")
    parser.add_argument("--made-up", action="store_true", help="make up the series in any case")
    options = parser.parse_args()
    try:
        if options.made_up:
            raise DataError("--made-up")
        found = fk.data.natural("employment").table
        table = found[["client", "title", "year", "month", "growth"]]
        print("employment in industries of the US, 2000 to 2019")
    except DataError:
        table = made_up_series()
        print("the series are made up, since employment was not found or not wanted")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.file, index=False)
    print(f"{options.file}: {len(table):,} months of {table['client'].nunique()} industries")


def made_up_series() -> pd.DataFrame:
    """Industries of four kinds of seasons, which differ in size and noise."""
    rng = np.random.default_rng(2019)
    month = MONTHS.month.to_numpy()
    tables = []
    for number in range(INDUSTRIES):
        kind = int(rng.integers(len(SEASONS)))
        size = rng.lognormal(0, 0.5)
        noise = rng.normal(0, 0.8, len(MONTHS))
        growth = size * (SEASONS[kind][month - 1] + noise)
        tables.append(
            pd.DataFrame(
                {
                    "client": f"industry-{number + 1:03d}",
                    "title": ("building", "retail", "schools", "others")[kind],
                    "year": MONTHS.year,
                    "month": month,
                    "growth": growth.round(5),
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


if __name__ == "__main__":
    main()
