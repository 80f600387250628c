"""FedSim's search for the clients of a round and the clusters of Table 2, on MNIST (section 4.2).

The paper tries 10, 20 and 30 clients with 5 clusters; and 3, 5, 7, 9 and 11 clusters with 10 and
with 20 clients. It reports the best values alone, and not by which statistic. Here it is the
accuracy in the last round. Ten clients in 11 clusters are left out: K-means refuses them.
"""

from __future__ import annotations

from dataclasses import replace

from papers.fedsim.recipes import METHODS, MNIST, measure
from papers.paper_tables import Table
from papers.recipe import Cell
from papers.reproduction_marks import (
    ComparedNumber,
    Mark,
    Results,
    average,
    compare_number,
    figures_of,
    mark_of_statement,
)
from papers.result_store import job_of

CLIENTS = (10, 20, 30)
CLUSTERS = (3, 5, 7, 9, 11)
# Clients of a round, clusters.
TRIED = (
    *((10, clusters) for clusters in CLUSTERS if clusters <= 10),
    *((20, clusters) for clusters in CLUSTERS),
    (30, 5),
)
BEST_PUBLISHED = (MNIST.cohort, MNIST.clusters)
WHY = "few seeds of a search of which the paper prints the best values alone"


def _cell(clients: int, clusters: int) -> Cell:
    """One try: five seeds, each on another draw of the data."""
    setting = replace(
        MNIST,
        row=f"MNIST, {clients} clients a round",
        cohort=clients,
        clusters=clusters,
        seeds=MNIST.seeds[:5],
        seconds=0.3 * clients,
        deviation=WHY,
    )
    return Cell(
        table="search",
        setting=setting,
        column=f"{clusters} clusters",
        method=METHODS["FedSim"],
        published=None,
    )


CELLS = [_cell(clients, clusters) for clients, clusters in TRIED]


def compared_numbers(results: Results) -> list[ComparedNumber]:
    """The accuracy of each try in the last round, and which try is the best one.

    Args:
        results: stored runs.
    """
    return [*(_accuracy(results, cell) for cell in CELLS), _best(results)]


def _last(results: Results, cell: Cell) -> list[float]:
    """Accuracy in the last round of each seed, in percent."""
    right = figures_of(results, cell, "right")
    tested = figures_of(results, cell, "tested")
    return [100 * curve[-1] / count for curve, count in zip(right, tested, strict=True)]


def _accuracy(results: Results, cell: Cell) -> ComparedNumber:
    runs = _last(results, cell)
    return compare_number(
        cell.setting.row,
        cell.column,
        None,
        average(runs),
        unit="%",
        seeds=len(runs),
        deviation=WHY,
        runs=runs,
        draws=len({cell.setting.draw(seed) for seed in figures_of(results, cell, "seed")}),
    )


def _best(results: Results) -> ComparedNumber:
    """The try with the highest accuracy, once all seeds of all tries were run."""
    runs = {tried: _last(results, cell) for tried, cell in zip(TRIED, CELLS, strict=True)}
    seeds = min(map(len, runs.values()))
    complete = seeds == len(CELLS[0].setting.seeds)
    best = max(runs, key=lambda tried: sum(runs[tried])) if complete else None
    mark = Mark.NOT_RUN if best is None else mark_of_statement(best == BEST_PUBLISHED)
    return ComparedNumber(
        row="MNIST, the best",
        column="clients a round, clusters",
        published="{}, {}".format(*BEST_PUBLISHED),
        ours="" if best is None else "{}, {}".format(*best),
        difference=None,
        mark=mark,
        unit="settings",
        seeds=seeds,
        deviation=WHY,
    )


TABLE = Table(
    name="fedsim-search",
    title="Table 2: the search for clients and clusters, MNIST",
    statistic="accuracy in the last round, percent, mean over the seeds",
    rule="the best of all tries is the paper's (it prints no accuracy)",
    jobs=tuple(job_of(cell, measure) for cell in CELLS),
    compare=compared_numbers,
)
