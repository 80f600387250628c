"""FedSim's Figure 1: the similarity of the clients' data, pair by pair, without any training.

The paper names the Kolmogorov-Smirnov statistic and "three datasets commonly used in FL research".
It does not say which data sets and clients it shows, nor which values it compares. Here they are
three data sets of its evaluation, the first 30 clients of each, and the mean over the features.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedkin.analysis.ks_similarity import ks_similarity
from papers.accuracy_numbers import figure_of_job
from papers.fedsim.recipes import AUTHORS, FEMNIST, METHODS, MNIST
from papers.paper_tables import Table
from papers.recipe import Cell, load
from papers.reproduction_marks import Results
from papers.result_store import job_of

TABLE_NAME = "Fig. 1"
CLIENTS = 30
CELLS = [
    Cell(
        table=TABLE_NAME,
        setting=replace(
            setting,
            seeds=(0,),
            seconds=5,
            deviation="the paper does not name the data, the clients and the values that it shows",
        ),
        column="similarity",
        method=METHODS["FedSim"],
        published=None,
    )
    for setting in (MNIST, FEMNIST, AUTHORS)
]


def measure(cell: Cell, seed: int) -> dict[str, Any]:
    """Similarities of the pairs of clients: of client i with each client before it, row by row."""
    s = cell.setting
    data = load(s.data, s.data_options, s.draw(seed))
    similarity = ks_similarity(data, range(CLIENTS))
    return {
        "table": cell.table,
        "row": s.row,
        "column": cell.column,
        "seed": seed,
        "similarity": [
            [round(float(value), 3) for value in similarity[i, :i]] for i in range(1, CLIENTS)
        ],
    }


def mean_of_pairs(line: dict[str, Any]) -> float:
    """The mean similarity of two clients in a stored line."""
    return float(np.mean([value for row in line["similarity"] for value in row]))


def matrix(line: dict[str, Any]) -> Float64[np.ndarray, "n n"]:
    """The similarities of a stored line as a symmetric matrix; NaN on the diagonal.

    Args:
        line: of the store.
    """
    rows = line["similarity"]
    similarity = np.full((len(rows) + 1, len(rows) + 1), np.nan)
    for i, row in enumerate(rows, 1):
        similarity[i, :i] = row
        similarity[:i, i] = row
    return similarity


def stored_line(results: Results, cell: Cell) -> dict[str, Any] | None:
    """The stored line of a cell; None if there is none.

    Args:
        results: stored runs.
        cell: of Figure 1.
    """
    names = (cell.table, cell.setting.row)
    return next((line for line in results if (line["table"], line["row"]) == names), None)


_JOBS = tuple(job_of(cell, measure) for cell in CELLS)
TABLE = Table(
    name="fedsim-figure1",
    title="Figure 1: similarity of the clients' data, pair by pair",
    statistic="1 minus the Kolmogorov-Smirnov statistic, mean over the features and the pairs",
    rule="no paper prints a number",
    jobs=_JOBS,
    compare=lambda results: [
        figure_of_job(job, results, mean_of_pairs, "similarity") for job in _JOBS
    ],
)
