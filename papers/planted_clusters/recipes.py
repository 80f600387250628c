"""Planted clusters: which methods find them, how soon, and where each fails.

MNIST with images rotated or labels permuted by cluster, 100 clients. This is not a table of any
paper. Rotated images are IFCA's experiment, and permuted labels Sattler's. Every method runs on
both here, with IFCA's network (784-200-10, initial weights as in PyTorch) and its local training
(10 steps of lr 0.1 on all images of a client).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx

from fedkin.config.plan import Cohort, Scoring
from fedkin.core.method import Method
from fedkin.core.training import SGD
from fedkin.methods import FLHC, IFCA, FeSEM, FlexCFL, SattlerCFL
from fedkin.models import Model, as_model, mlp
from fedkin.run.simulate import simulate
from fedkin.scenarios.planted_clusters import planted
from fedkin.scenarios.swaps import SwapAll
from papers.result_store import Job, job_of_question

CLUSTER_ROUND = 5  # of FL+HC
CLIENTS = 100
EPOCHS = 10
LR = 0.1


@dataclass(frozen=True)
class Question:
    """One federation, one way to train, one method."""

    panel: str
    kind: str
    method: str
    images: int = 60
    clusters: int = 4
    participation: int = 100  # clients a round, of 100
    rounds: int = 12
    swaps: float = 0.0
    model: str = "784-200-10"  # or "784-128-10, Glorot": other initial weights, and another width


METHODS: dict[str, Callable[[int], Method]] = {
    "FlexCFL, EDC": lambda k: FlexCFL(clusters=k),
    "FlexCFL, MADC": lambda k: FlexCFL(clusters=k, measure="madc"),
    "FL+HC": lambda k: FLHC(clusters=k, cluster_round=CLUSTER_ROUND),
    "IFCA": lambda k: IFCA(clusters=k),
    # Norms of a run with 60 images.
    "Sattler CFL": lambda k: SattlerCFL(eps1=0.3, eps2=0.74, first_split=3),
    "FeSEM": lambda k: FeSEM(clusters=k),
}
ROUNDS = {
    "FlexCFL, EDC": 1,
    "FlexCFL, MADC": 1,
    "FL+HC": CLUSTER_ROUND,
    "IFCA": 12,
    "Sattler CFL": 20,
    "FeSEM": 12,
}
KINDS = ("rotation", "label_permutation")
# From ten seeds.
RECOVERY = [
    Question("found", kind, method, rounds=ROUNDS[method]) for kind in KINDS for method in METHODS
]


def _harder() -> Iterator[Question]:
    """Fewer images, more clusters, fewer clients a round."""
    for method in METHODS:
        base = Question("", "rotation", method, rounds=ROUNDS[method])
        yield from (replace(base, panel="images", images=n) for n in (5, 10, 20, 40, 60, 100))
        yield from (replace(base, panel="clusters", clusters=k) for k in (2, 4, 6, 8, 12, 16))
        # The cold starts of these methods take alpha m clients, whatever the cohort.
        if not method.startswith("FlexCFL"):
            yield from (
                replace(base, panel="participation", participation=n) for n in (5, 10, 20, 50, 100)
            )


HARDER = list(_harder())  # from three seeds
# Ten seeds.
GLOROT = [
    replace(q, panel="glorot", model="784-128-10, Glorot") for q in RECOVERY if q.method == "IFCA"
]
LIMITS: dict[str, Callable[[int], Method]] = {
    f"Sattler CFL, eps2 {limit}": lambda k, limit=limit: SattlerCFL(
        eps1=0.3, eps2=limit, first_split=3
    )
    for limit in (0.70, 0.78)
}
THRESHOLDS = [
    Question("thresholds", "rotation", method, rounds=ROUNDS["Sattler CFL"]) for method in LIMITS
]
MIGRATING: dict[str, Callable[[int], Method]] = {
    f"FlexCFL, {test.replace('_', '-')}": lambda k, test=test: FlexCFL(clusters=k, migration=test)
    for test in ("label_blind", "label_aware")
}
SWAPPED = [
    Question("swapped", kind, method, participation=20, rounds=50, swaps=0.05)
    for kind in KINDS
    for method in MIGRATING
]


@cache
def network() -> Model:
    """IFCA's network, with the initial weights that PyTorch gives it (and Equinox)."""
    return as_model(
        lambda key: eqx.nn.MLP(784, 10, width_size=200, depth=1, key=key), name="mlp-784-200-10"
    )


def questions() -> list[tuple[Question, tuple[int, ...]]]:
    """All questions, and the seeds of each."""
    questions = [(q, tuple(range(10))) for q in (*RECOVERY, *GLOROT)]
    return questions + [(q, (0, 1, 2)) for q in (*HARDER, *SWAPPED, *THRESHOLDS)]


def jobs(*panels: str) -> tuple[Job, ...]:
    """The questions of these panels as jobs."""
    selected = [(q, seeds) for q, seeds in questions() if q.panel in panels]
    return tuple(
        job_of_question(q, seeds, measure, *row_and_column(q), 15, _fixed(q))
        for q, seeds in selected
    )


def _fixed(question: Question) -> dict[str, Any]:
    """Further settings that determine a run."""
    return {"clients": CLIENTS, "epochs": EPOCHS, "lr": LR, "method": _method(question)}


def _method(question: Question) -> Method:
    return {**METHODS, **MIGRATING, **LIMITS}[question.method](question.clusters)


def row_and_column(question: Question) -> tuple[str, str]:
    """Row and column of a question in its table."""
    kind = question.kind.replace("_", " ")
    value = getattr(question, question.panel, None)
    row = f"{kind}: {value} {question.panel}" if isinstance(value, int) else kind
    return row, f"{question.method}, Glorot weights" if question in GLOROT else question.method


def measure(question: Question, seed: int) -> dict[str, Any]:
    """Agreement with the true clusters (ARI) after every round from 0 on, accuracy, and detected
    shifts."""
    q = question
    data = planted(
        "mnist", q.kind, clusters=q.clusters, clients=CLIENTS, samples=q.images, seed=seed
    )
    run = simulate(
        _method(q),
        data,
        network() if q.model == "784-200-10" else mlp(data),
        rounds=q.rounds,
        cohort=Cohort(q.participation, selection="round_robin"),
        local=SGD(epochs=EPOCHS, batch_size=q.images, lr=LR),
        seed=seed,
        shift=SwapAll(q.swaps) if q.swaps else None,
        scoring=Scoring(checkpoint_every=q.rounds),
    )
    summary = run.summary()
    return {
        **asdict(question),
        "seed": seed,
        "ari": [None if a is None else round(a, 4) for a in (r["ari"] for r in run.records)],
        "clusters_found": summary["clusters"],
        "accuracy": round(summary["final_accuracy"], 4),
        **{name: summary[name] for name in ("shift_recall", "shift_precision", "migration_recall")},
    }
