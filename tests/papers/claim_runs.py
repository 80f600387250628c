"""Runs that are made up, with which the parts of a claim have given values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import Any

from papers.athena.recipes import GIVEN
from papers.claims import CLAIMS
from papers.claims.athena import SETTINGS
from papers.claims.claim import Claim, Part
from papers.claims.rules import ABOVE, BELOW, NOT_BEHIND
from papers.panm.recipes import STAGE_ONE
from papers.result_store import Job

Line = dict[str, Any]
GOOD = {"fedgroup-figure5": 0.95, "fedsim-figure8": 8.0, "panm-federations": 100.0}
BAD = {
    "fedgroup-figure5": 0.85,
    "fedsim-figure8": 30.0,
    "panm-federations": 50.0,
}


def good_values(claim: Claim) -> list[float]:
    """A value of each part for which it is reproduced."""
    return [good_value(claim, part) for part in claim.parts]


def good_value(claim: Claim, part: Part) -> float:
    signs = {ABOVE.words: 1.0, BELOW.words: -1.0, NOT_BEHIND.words: 0.0}
    if part.rule.words in signs:
        return signs[part.rule.words]
    return GOOD[claim.table] if part.printed is None else part.printed


def bad_values(claim: Claim) -> list[float]:
    """A value of each part for which it is not."""
    if claim.table == "athena-eps":
        return [0.0, 3.0]
    if claim.table == "flexcfl-figure6":
        return [2.0, 9.0, 7.0, 9.0]  # FlexCFL above IFCA-MIG, whose ratio is the third part
    return [bad_value(claim, part) for part in claim.parts]


def bad_value(claim: Claim, part: Part) -> float:
    if claim.table in BAD and part.rule not in (ABOVE, NOT_BEHIND):
        return BAD[claim.table]
    return 9.0 if good_value(claim, part) < 0 else -9.0


def every_run() -> dict[str, list[Line]]:
    """A run of each cell of each claim."""
    results: dict[str, list[Line]] = {}
    for claim in CLAIMS:
        results.setdefault(claim.store, []).extend(made_up(claim, good_values(claim)))
    return results


def cell_line(table: str, row: str, column: str, seed: int, **figures: Any) -> Line:
    return {"table": table, "row": row, "column": column, "seed": seed, **figures}


def made_up(claim: Claim, values: list[float]) -> list[Line]:
    """Runs of each cell, of the recipe's seeds and at least five, with which the parts have these
    values. Gains have a standard deviation of 0.2."""
    lines: dict[tuple[str, str, int], Line] = {}
    for part, value in zip(claim.parts, values, strict=True):
        for job in jobs_of(claim, part):
            measured = job.column == part.columns[0] and job.row == part.rows[-1]
            for seed in range(max(5, len(job.seeds))):
                deviation = 0.2 * (seed % 5 - 2) / sqrt(2.5)
                figures = FIGURES[claim.table](part, job, value, deviation if measured else None)
                line = lines.setdefault((job.row, job.column, seed), {**job.key, "seed": seed})
                line.update(figures)
    return list(lines.values())


def jobs_of(claim: Claim, part: Part) -> Iterator[Job]:
    for job in claim.source.jobs:
        if job.row in part.rows and job.column in part.columns:
            yield job


# Each function makes the figures of a run from the part, the job, the part's value, and the
# deviation from it, which is None where the run is the other one of a pair.


def best(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    """The measured method is level, so that each of its baselines has a separate gap."""
    return {"best": 0.5 - value / 100 if deviation is None else 0.5 + deviation / 100}


def correlated(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    return {"correlation": sqrt(value)}


def discrepant(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    return {"discrepancy_mean": 15.0 if deviation is None else 15.0 + value + deviation}


def sent(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    if deviation is None:
        return {"bytes_down": 60, "bytes_up": 40, "bytes_servers": 0}
    return {"bytes_down": 60 * value + 20, "bytes_up": 40 * value - 20, "bytes_servers": 0}


def curved(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    if part.group.startswith("minus"):
        change = 200 if deviation is None else round(100 * (2 + value + deviation))
        return {"right": [5000, 5000, 5000, 5000 + change], "tested": 10_000}
    gap = 0 if deviation is None else round(100 * (value + deviation))
    return {"right": [5000] + [5000 + gap] * 3, "tested": 10_000}


def indexed(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    """A step for each beta, and one for alpha."""
    steps = ("beta 0", "beta 0.5", "beta 1").index(job.row) + (job.column != "0")
    return {"pni": 10.0 + steps * value}


def explained(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    return {"explained": [1 / value] * round(value)}


def clustered(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    """The first ``value`` splits are found."""
    found = part.rows.index(job.row) < value
    clusters = list(SETTINGS.values())[part.rows.index(job.row)].clusters
    labels = [client * clusters // 10 for client in range(10)] if found else [-1] * 10
    return {part.label.lower(): labels, "range": []}


def by_cluster(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    if deviation is None:
        return {"curve": [0.8, 0.4], "sizes": [10]}
    ahead = 0.4 + (value + deviation) / 100
    return {"clusters": [0.9, ahead, None], "curve": [0.8, ahead], "sizes": [5, 4, 1]}


def of_clients(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    if part.columns[0] == GIVEN:
        return _of_detectors(value) if deviation is not None else _of_network()
    middle = 0.4 if deviation is None else 0.4 + (value + deviation) / 100
    return {**_of_network(), "clients": [middle - 0.1, middle + 0.1]}


def _of_detectors(saved: float) -> Line:
    """Ten detectors that converge when the network does, and send this share of its bytes less."""
    parameters = round((1 - saved / 100) * 1e5)
    return {"detectors": [[0.5] * 10] * 5, "parameters": parameters, "clients": [0.5]}


def _of_network() -> Line:
    return {"curve": [0.5] * 5, "parameters": 10**6, "clients": [0.5]}


def of_peers(part: Part, job: Job, value: float, deviation: float | None) -> Line:
    of_lead = part.group != ""
    points = -value if deviation is None else deviation
    precision = 1.0 if of_lead else value / 100
    return {
        "accuracy": [0.0, 0.5 + points / 100],
        "neighbour_precision": [0.0] * STAGE_ONE + [precision, 0.0],
    }


FIGURES: Mapping[str, Callable[[Part, Job, float, float | None], Line]] = {
    "fedgroup-table3": best,
    "fedgroup-figure5": correlated,
    "fedgroup-table1": discrepant,
    "flexcfl-table3": best,
    "flexcfl-table4": best,
    "flexcfl-figure6": sent,
    "fedsim-table4": curved,
    "fedsim-table6": curved,
    "fedsim-table7": curved,
    "fedsim-figure10": indexed,
    "fedsim-figure8": explained,
    "athena-eps": clustered,
    "athena-figure1": by_cluster,
    "athena-figure2": of_clients,
    "panm-federations": of_peers,
}
