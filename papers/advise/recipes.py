"""What ``fedkin advise`` promises: the right number of kinds, and "do not cluster" where there is one.

Planted kinds of MNIST and of scikit-learn's digits, their images turned or their classes renamed, and plain IID data;
ten seeds each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fedkin.analysis.advise.advisor import advise
from fedkin.analysis.advise.pilot_runs import PLAIN
from fedkin.analysis.advise.split_half_stability import how_many_kinds
from fedkin.core.world import SGD
from fedkin.data import digits, mnist
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.scenarios.planted_clusters import planted
from papers.result_store import Job, job_of_question

SEEDS = tuple(range(10))
KINDS = ("label_permutation", "rotation")


@dataclass(frozen=True)
class Case:
    """One federation; ``clusters`` is the truth, 0 where there is none to tell."""

    panel: str
    base: str
    kind: str
    clusters: int
    clients: int
    samples: int  # training samples of a client, on average where they differ


def _planted() -> list[Case]:
    """The same sizes whatever the number of kinds; of digits as many as there are images for."""
    several = [
        Case("planted", base, kind, clusters, clients, samples)
        for base, clients, samples in (("mnist", 40, 50), ("digits", 40, 35))
        for kind in KINDS
        for clusters in (1, 2, 4, 8)
        if not (kind == KINDS[0] and clusters == 1)  # one kind has the true names, and upright images
    ]
    return [*several, Case("planted", "mnist", "iid", 1, 40, 50), Case("planted", "digits", "iid", 1, 40, 36)]


PLANTED = _planted()
OTHERS = [
    Case("others", "mnist", "2 classes each", 0, 40, 50),
    Case("others", "mnist", "Dirichlet 0.1", 0, 40, 50),
    Case("others", "mnist", "Dirichlet 1", 0, 40, 50),
]
_PARTITIONS: dict[str, dict[str, Any]] = {
    "iid": {"partition": "iid"},
    "2 classes each": {"partition": "shards", "classes_per_client": 2},
    "Dirichlet 0.1": {"partition": "dirichlet", "alpha": 0.1},
    "Dirichlet 1": {"partition": "dirichlet", "alpha": 1.0},
}
_SETS: dict[str, Callable[..., FederatedData]] = {"mnist": mnist, "digits": digits}


def federation(case: Case, seed: int) -> FederatedData:
    """The clients of a case."""
    if case.kind in KINDS:
        left = {"clusters": case.clusters, "clients": case.clients, "samples": case.samples, "test_samples": 5}
        return planted(case.base, case.kind, **left, seed=seed)
    options = {**_PARTITIONS[case.kind], "clients": case.clients, "train_fraction": 0.8, "seed": seed}
    if case.base == "mnist":
        options |= {"samples": round(case.clients * case.samples / 0.8), "scale": "unit"}
    return _SETS[case.base](**options)


def answer(case: Case, seed: int) -> dict[str, Any]:
    """The number of kinds that is found, and what the other ways of asking say; where there is no truth, what
    clustering gains."""
    data, local, began = federation(case, seed), SGD(epochs=10, batch_size=10, lr=0.03), time.perf_counter()
    measured: dict[str, Any] = {}
    if case.panel == "planted":
        kinds = how_many_kinds(data, mclr(data), local, seed=seed)
    else:
        advice = advise(data, mclr(data), local, seed=seed)
        kinds, measured = advice.kinds, {"verdict": advice.verdict, "method": advice.method}
        if advice.pilots is not None:
            tried = advice.pilots.drop(index=PLAIN)
            best = tried.loc[tried["gain"].idxmax()]
            measured |= {name: round(float(best[name]), 2) for name in ("gain", "low", "high")}
    found = {"found": kinds.clusters, "votes": kinds.votes, "chance": round(kinds.chance, 3)}
    returned = [round(float(share), 3) for share in kinds.returned]
    seconds = round(time.perf_counter() - began, 1)
    return {**asdict(case), "seed": seed, **found, "returned": returned, **measured, "seconds": seconds}


def jobs() -> tuple[Job, ...]:
    """All cases as jobs: planted ones from ten seeds, the others from three."""
    asked = [(case, SEEDS) for case in PLANTED] + [(case, SEEDS[:3]) for case in OTHERS]
    return tuple(job_of_question(case, seeds, answer, *named(case), seconds=15) for case, seeds in asked)


def named(case: Case) -> tuple[str, str]:
    """The row and the column in which a case is asked."""
    return f"{case.base}, {case.kind.replace('_', ' ')}", f"{case.clusters or 'unknown'} kinds"
