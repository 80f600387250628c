"""PANM and other methods on planted clusters of peers: neighbours, communication, and where PANM
fails.

The poster has no numbers. So these are ours alone, and only the order of the methods can be
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from fedkin.config.plan import Scoring
from fedkin.core.method import Method
from fedkin.core.training import SGD
from fedkin.methods import IFCA, PANM, PENS, FedAvg, FedProx, Gossip, Local, Oracle, PANMLoss
from fedkin.models import mlp
from fedkin.run.simulate import simulate
from fedkin.scenarios.planted_clusters import planted
from fedkin.scenarios.population import Population
from papers.result_store import Job, job_of_question

PEERS = 100
STAGE_ONE = 20
ROUNDS = 100
SEEDS = (0, 1, 2)
# k, l, T1, tau.
SETTINGS: dict[str, int] = {
    "neighbours": 5,
    "candidates": 10,
    "stage_one": STAGE_ONE,
    "period": 2,
}
# Of CIFAR-10's five training batches, as in ATHENA's recipe: more images than all peers need.
BATCHES = 2
LOCAL = SGD(epochs=1, batch_size=10, lr=0.05)


@dataclass(frozen=True)
class Question:
    """One federation of peers, one method."""

    panel: str
    method: str
    base: str = "mnist"
    kind: str = "rotation"
    images: int = 60
    clusters: int = 4
    alpha: float = 0.5
    absent: str = ""  # which peers are missing, of ABSENT


LATE = "20 come in round 30, 10 leave in round 60"
ABSENT: dict[str, Population] = {
    "": Population(),
    "a fifth drop out in each round": Population(dropout=0.2),
    "a fifth never answer": Population(mute=0.2),
    LATE: Population(arrivals={30: 20}, departures={60: 10}),
}
METHODS: dict[str, Callable[[Question], Method]] = {
    "PANMGrad": lambda q: PANM(alpha=q.alpha, **SETTINGS),
    "PANMLoss": lambda q: PANMLoss(**SETTINGS),
    "oracle": lambda q: Oracle(neighbours=5),
    "PENS": lambda q: PENS(sampled=10, top=2, stage_one=50),
    "gossip": lambda q: Gossip(neighbours=5),
    "local": lambda q: Local(),
    "IFCA": lambda q: IFCA(clusters=q.clusters),
    "FedAvg": lambda q: FedAvg(),
    "FedProx": lambda q: FedProx(),
}
PANMS = ("PANMGrad", "PANMLoss")
COMPARED = [Question("compared", method) for method in METHODS]
Place = tuple[str, str, int]  # images, the difference between the clusters, K
BASES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
KINDS = {
    "rotation": "rotated images",
    "label_swap": "swapped labels",
    "disjoint_labels": "disjoint labels",
}
FEDERATIONS: tuple[Place, ...] = (
    ("mnist", "label_swap", 2),
    ("mnist", "label_swap", 4),
    ("mnist", "disjoint_labels", 5),
    ("fashion_mnist", "rotation", 4),
    ("fashion_mnist", "label_swap", 4),
    ("fashion_mnist", "disjoint_labels", 5),
    ("cifar10", "rotation", 4),
    ("cifar10", "label_swap", 4),
    ("cifar10", "disjoint_labels", 5),
)
OTHERS = [
    Question("federations", method, base, kind, clusters=clusters)
    for base, kind, clusters in FEDERATIONS
    for method in (*PANMS, "oracle", "gossip", "local")
]

FIRST: Place = ("mnist", "rotation", 4)  # the federation on which the methods are compared
# PANMGrad by its alpha; federations of CIFAR-10 take four times as long
BY_ALPHA: tuple[Place, ...] = (FIRST, *(place for place in FEDERATIONS if place[0] != "cifar10"))
ALPHAS = (0.0, 0.25, 1.0)
QUARTER = 0.25


def name_of(place: Place) -> str:
    """A federation in words."""
    base, kind, clusters = place
    return f"{BASES.get(base, base)}, {KINDS[kind]}, {clusters} clusters"


def in_federation(place: Place, method: str, alpha: float = Question.alpha) -> Question:
    """The question of a method on one of the federations of ``BY_ALPHA`` and ``FEDERATIONS``."""
    base, kind, clusters = place
    of_first = "compared" if alpha == Question.alpha else "alpha"
    return Question(
        of_first if place == FIRST else "federations",
        method,
        base,
        kind,
        clusters=clusters,
        alpha=alpha,
    )


OTHER_ALPHAS = [
    *(
        in_federation(place, "PANMGrad", alpha)
        for place in BY_ALPHA
        if place != FIRST
        for alpha in ALPHAS
    ),
    *(Question("clusters", "PANMGrad", clusters=k, alpha=QUARTER) for k in (8, 16)),
    Question("absent", "PANMGrad", absent=LATE, alpha=QUARTER),
]


def _harder() -> Iterator[Question]:
    """Fewer images, more clusters, another alpha, and missing peers."""
    for method in PANMS:
        base = Question("", method)
        yield from (replace(base, panel="images", images=n) for n in (5, 10, 20, 40))
        yield from (replace(base, panel="clusters", clusters=k) for k in (2, 8, 16))
        yield from (replace(base, panel="absent", absent=who) for who in ABSENT if who)
    yield from (Question("alpha", "PANMGrad", alpha=alpha) for alpha in (0.0, 0.25, 0.75, 1.0))


HARDER = list(_harder())


def questions() -> list[tuple[Question, tuple[int, ...]]]:
    """All questions, and the seeds of each."""
    return [(question, SEEDS) for question in (*COMPARED, *HARDER, *OTHERS, *OTHER_ALPHAS)]


def jobs(*panels: str) -> tuple[Job, ...]:
    """The questions of these panels as jobs."""
    selected = [(q, seeds) for q, seeds in questions() if q.panel in panels]
    return tuple(
        job_of_question(
            question=q,
            seeds=seeds,
            measure=measure,
            row=_row(q),
            column=column_of(q),
            seconds=_seconds(q),
            fixed=_fixed(q),
        )
        for q, seeds in selected
    )


def of_federations() -> tuple[Job, ...]:
    """The jobs of the other federations, after those of the same methods on the first one."""
    others = jobs("federations")
    columns = {job.column for job in others}
    first = [job for job in jobs("compared") if job.column in columns]
    return (*first, *others)


def _seconds(question: Question) -> int:
    """Estimated seconds of a run; an image of CIFAR-10 has four times as many numbers."""
    return 220 if question.base == "cifar10" else 55


def _fixed(question: Question) -> dict[str, Any]:
    """Further settings that determine a run."""
    method = METHODS[question.method](question)
    population = ABSENT[question.absent]
    common = {
        "rounds": ROUNDS,
        "peers": PEERS,
        "local": LOCAL,
        "method": method,
        "population": population,
    }
    return {**common, **_files(question)}


def _files(question: Question) -> dict[str, int]:
    """The number of files of the data set that are used, if not all."""
    return {"batches": BATCHES} if question.base == "cifar10" else {}


def _row(question: Question) -> str:
    """The row of a question in its table."""
    if question.panel in ("images", "clusters", "alpha"):
        return f"{question.panel} {getattr(question, question.panel):g}"
    return question.absent or name_of((question.base, question.kind, question.clusters))


def column_of(question: Question) -> str:
    """The column of a question: its method, and its differences to the row's other columns."""
    other = question in OTHER_ALPHAS
    return f"{question.method}, alpha {question.alpha:g}" if other else question.method


def measure(question: Question, seed: int) -> dict[str, Any]:
    """Accuracy and neighbours after every round from 0 on, and messages and bytes of all."""
    q = question
    data = planted(
        q.base,
        q.kind,
        clusters=q.clusters,
        clients=PEERS,
        samples=q.images,
        **_files(q),
        seed=seed,
    )
    run = simulate(
        METHODS[q.method](q),
        data,
        mlp(data),
        rounds=ROUNDS,
        cohort=PEERS,
        local=LOCAL,
        seed=seed,
        scenario=ABSENT[q.absent],
        scoring=Scoring(evaluate_every=10, checkpoint_every=ROUNDS),
    )
    columns = ("accuracy", "bottom_decile", "neighbour_precision", "neighbour_recall")
    curves = {name: [_short(r.get(name)) for r in run.records] for name in columns}
    last = run.records[-1]
    traffic = {"messages": last.get("messages"), "bytes": last["bytes_up"] + last["bytes_down"]}
    return {**asdict(question), "seed": seed, **curves, **traffic, "seconds": round(run.seconds, 1)}


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
