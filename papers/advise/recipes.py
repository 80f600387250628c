"""The promise of ``fedkin advise``: the true number of clusters, and "do not cluster" if there is
only one.

Planted clusters of MNIST and of scikit-learn's digits, with rotated images or permuted labels, and
plain IID data; ten seeds each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fedkin.analysis.advise.advisor import advise
from fedkin.analysis.advise.pilot_runs import BASELINE
from fedkin.analysis.advise.split_half_stability import estimate_cluster_count
from fedkin.core.training import SGD
from fedkin.data import digits, mnist
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.scenarios.planted_clusters import planted
from papers.result_store import Job, job_of_question

SEEDS = tuple(range(10))
LOCAL = SGD(epochs=10, batch_size=10, lr=0.03)
KINDS = ("label_permutation", "rotation")


@dataclass(frozen=True)
class Case:
    """One federation; ``clusters`` is the true number, 0 where it is unknown."""

    panel: str
    base: str
    kind: str
    clusters: int
    clients: int
    samples: int  # training samples of a client, on average where they differ


def _planted() -> list[Case]:
    """The same sizes whatever the number of clusters; of digits as many as there are images for."""
    several = [
        Case(
            panel="planted",
            base=base,
            kind=kind,
            clusters=clusters,
            clients=clients,
            samples=samples,
        )
        for base, clients, samples in (("mnist", 40, 50), ("digits", 40, 35))
        for kind in KINDS
        for clusters in (1, 2, 4, 8)
        # One cluster has the true labels, and upright images.
        if not (kind == KINDS[0] and clusters == 1)
    ]
    return [
        *several,
        Case(panel="planted", base="mnist", kind="iid", clusters=1, clients=40, samples=50),
        Case(panel="planted", base="digits", kind="iid", clusters=1, clients=40, samples=36),
    ]


PLANTED = _planted()
OTHERS = [
    Case(panel="others", base="mnist", kind="2 classes each", clusters=0, clients=40, samples=50),
    Case(panel="others", base="mnist", kind="Dirichlet 0.1", clusters=0, clients=40, samples=50),
    Case(panel="others", base="mnist", kind="Dirichlet 1", clusters=0, clients=40, samples=50),
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
        return planted(
            case.base,
            case.kind,
            clusters=case.clusters,
            clients=case.clients,
            samples=case.samples,
            test_samples=5,
            seed=seed,
        )
    options: dict[str, Any] = dict(_PARTITIONS[case.kind])
    if case.base == "mnist":
        options["samples"] = round(case.clients * case.samples / 0.8)
        options["scale"] = "unit"
    return _SETS[case.base](clients=case.clients, train_fraction=0.8, seed=seed, **options)


def measure(case: Case, seed: int) -> dict[str, Any]:
    """The number of clusters by each criterion; where the true number is unknown, the gain of
    clustering."""
    data = federation(case, seed)
    local = LOCAL
    start = time.perf_counter()
    results: dict[str, Any] = {}
    if case.panel == "planted":
        count = estimate_cluster_count(data, mclr(data), local, seed=seed)
    else:
        advice = advise(data, mclr(data), local, seed=seed)
        count = advice.cluster_count
        results = {"verdict": advice.verdict, "method": advice.method}
        if advice.pilots is not None:
            clustered = advice.pilots.drop(index=BASELINE)
            best = clustered.loc[clustered["gain"].idxmax()]
            results |= {name: round(float(best[name]), 2) for name in ("gain", "low", "high")}
    numbers = {
        "clusters_found": count.clusters,
        "estimates": count.estimates,
        "chance": round(count.chance, 3),
    }
    stability = [round(float(share), 3) for share in count.stability]
    seconds = round(time.perf_counter() - start, 1)
    return {
        **asdict(case),
        "seed": seed,
        **numbers,
        "stability": stability,
        **results,
        "seconds": seconds,
    }


def jobs() -> tuple[Job, ...]:
    """All cases as jobs: planted ones from ten seeds, the others from three."""
    cases = [(case, SEEDS) for case in PLANTED] + [(case, SEEDS[:3]) for case in OTHERS]
    return tuple(
        job_of_question(case, seeds, measure, *row_and_column(case), 15, {"local": LOCAL})
        for case, seeds in cases
    )


def row_and_column(case: Case) -> tuple[str, str]:
    """Row and column of a case in its table."""
    return f"{case.base}, {case.kind.replace('_', ' ')}", f"{case.clusters or 'unknown'} clusters"
