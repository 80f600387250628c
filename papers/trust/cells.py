"""The measured federations, methods, rules and attacks, and the order of their runs.

Data: MNIST, four rotations (kinds) of 25 clients with 60 samples each; 784-10 softmax regression,
five local epochs of SGD (batch 10, lr 0.05), 30 rounds; 30% of the clients attack, and know the
honest updates of their model. Names of attacks: ``ipm@2`` sleeps, and attacks from round 2 on,
after the clusters are found; ``blob>ipm@2`` is disguised before that; ``sizes:sign_flip`` also
lies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

import fedkin as fk
from benchmarks.trust.privacy import TrueClusters
from fedkin.data.federated import FederatedData

SHARE = 0.3
ROUNDS = 30
SEEDS = (0, 1, 2)
NONE = "none"
METHODS: dict[str, Any] = {
    "flhc": fk.FLHC(distance="silhouette", metric="cosine", linkage="average", cluster_round=1),
    "true": TrueClusters(),
    "ifca": fk.IFCA(clusters=4, weighting="examples"),
    "flexcfl": fk.FlexCFL(clusters=4),
    "flexcfl8": fk.FlexCFL(clusters=8),
    "fedavg": fk.FedAvg(),
}
BEST = "flhc"
CEILING = "true"
RECIPE = "majority+geometric_median"
SPLIT = f"{RECIPE}, split"  # a client that the recipe leaves out twice in a row leaves its cluster
RULES: dict[str, fk.RobustAggregation | None] = {
    RECIPE: fk.RobustAggregation(RECIPE, byzantine=0.45, least=3, memory=10),
    **{
        rule: fk.RobustAggregation(rule, SHARE)
        for rule in ("geometric_median", "nnm+trimmed_mean", "median")
    },
    "mean": None,
    SPLIT: fk.RobustAggregation(RECIPE, byzantine=0.45, least=3, memory=10, split_after=2),
    # Parts of the recipe alone, and alternatives to them.
    "geometric_median, memory": fk.RobustAggregation("geometric_median", SHARE, memory=10),
    "majority, no memory": fk.RobustAggregation(RECIPE, byzantine=0.45, least=3),
    "geometric_median, least 10": fk.RobustAggregation("geometric_median", SHARE, least=10),
    # Rules that are told another share of attackers than the true one.
    "majority+geometric_median, told 0.1": fk.RobustAggregation(
        RECIPE, byzantine=0.1, least=3, memory=10
    ),
    "nnm+trimmed_mean, told 0.45": fk.RobustAggregation("nnm+trimmed_mean", byzantine=0.45),
}
TRIED = (
    *(
        RECIPE,
        "majority, no memory",
        "geometric_median",
        "geometric_median, memory",
        "geometric_median, least 10",
    ),
    *("majority+geometric_median, told 0.1", "nnm+trimmed_mean", "nnm+trimmed_mean, told 0.45"),
)
TRIED_AGAINST = ("sign_flip@2", "ipm@2", "stretch@2", "alie@2")
# Attacks that the claim is about.
_OF_CLAIM = (
    "sign_flip",
    "own_sign_flip",
    "label_flip",
    "ipm",
    "alie",
    "stretch",
)
_MORE = ("mimic", "min_max", "min_sum", "gaussian")
_OPTIMAL = ("optimal_alie", "optimal_ipm")  # each run takes a minute
CLAIM = (*_OF_CLAIM, *(f"{name}@2" for name in _OF_CLAIM))
SUITE = (*CLAIM, *_MORE, *(f"{name}@2" for name in _MORE), *(f"{name}@2" for name in _OPTIMAL))
CLUSTERING = (
    *("imitation>sign_flip@2", "imitation>ipm@2", "splitting>ipm@2", "blob>ipm@2", "bridge>ipm@2"),
    *("lowest:ipm", "highest:ipm", "sizes:ipm", "bits:ipm", "choice:ipm", "choice:sign_flip"),
    *("backdoor", "backdoor_replacement"),
)
MINORITY_ATTACKS = (
    "sign_flip",
    "label_flip",
    "ipm",
    "sign_flip@2",
    "label_flip@2",
    "ipm@2",
    "stretch@2",
)


@dataclass(frozen=True)
class Federation:
    """Clients, and the spread of the attackers among them.

    Attributes:
        name: in tables.
        about: description for the page.
        data: of a seed.
        spread: of attackers over the kinds.
        cohort: clients of a round, of 100.
    """

    name: str
    about: str
    data: Callable[[int], FederatedData]
    spread: Literal["evenly", "random"] = "evenly"
    cohort: int = 100


def four_kinds(seed: int) -> FederatedData:
    """25 clients of each kind."""
    return fk.planted(
        "mnist", "rotation", clusters=4, clients=100, samples=60, test_samples=20, seed=seed
    )


def minority(seed: int) -> FederatedData:
    """32, 32 and 31 clients of three kinds, and 5 of the fourth."""
    data = fk.planted(
        "mnist", "rotation", clusters=4, clients=128, samples=60, test_samples=20, seed=seed
    )
    assert data.true_clusters is not None
    kept: list[int] = []
    for kind, count in enumerate((32, 32, 31, 5)):
        kept += np.flatnonzero(data.true_clusters == kind)[:count].tolist()
    clients = np.sort(kept)
    return data.with_rows(
        data.train.select(clients), data.test.select(clients), data.true_clusters[clients]
    )


FEDERATIONS = {
    federation.name: federation
    for federation in (
        Federation(
            name="random",
            about="attackers at random, 40 of 100 clients a round",
            data=four_kinds,
            spread="random",
            cohort=40,
        ),
        Federation("even", "attackers spread evenly, all clients in each round", four_kinds),
        Federation("minority", "a kind of 5 clients, attackers spread evenly", minority),
    )
}


@dataclass(frozen=True)
class Cell:
    """A method with a rule under an attack in a federation."""

    federation: str
    method: str
    rule: str
    attack: str


def attack_of(
    name: str, spread: Literal["evenly", "random"], rule: str, seed: int
) -> fk.Byzantine | None:
    """An attack by its name.

    Args:
        name: as above.
        spread: over the kinds.
        rule: of the server, by its name in tables; optimal attacks know it.
        seed: of who attacks.
    """
    if name == NONE:
        return None
    attack_name, _, start = name.partition("@")
    disguise, _, attack = attack_name.rpartition(">")
    lie, _, attack = attack.rpartition(":")
    defence = RULES[rule]
    settings = {"disguise": disguise or NONE, "lie": lie or NONE, "start": int(start or 0)}
    settings["against"] = "mean" if defence is None else defence.rule
    return fk.Byzantine(attack, share=SHARE, spread=spread, seed=seed, **settings)


@cache
def cells() -> tuple[Cell, ...]:
    """All cells, the most informative first."""
    slow = {f"{name}@2" for name in _OPTIMAL}
    recipe = [(f, BEST, RECIPE, a) for f in ("random", "even") for a in (NONE, *CLAIM)]
    recipe += [("minority", BEST, RECIPE, a) for a in (NONE, *MINORITY_ATTACKS)]
    recipe += [("even", BEST, "mean", NONE), ("random", BEST, "mean", NONE)]
    recipe += [(f, BEST, RECIPE, a) for f in ("random", "even") for a in SUITE if a not in slow]
    recipe += [(f, BEST, SPLIT, a) for f in ("random", "even") for a in (NONE, *CLAIM)]
    recipe += [("minority", BEST, SPLIT, a) for a in (NONE, *MINORITY_ATTACKS)]
    shown = [("random", BEST, rule, a) for rule in TRIED for a in TRIED_AGAINST]
    shown += [("even", BEST, rule, a) for a in CLUSTERING for rule in (RECIPE, SPLIT)]
    ceiling = [(f, CEILING, RECIPE, a) for f in ("random", "even") for a in (NONE, *CLAIM)]
    others = [
        ("even", m, r, a) for m in ("ifca", "flexcfl") for r in (RECIPE, "mean") for a in CLUSTERING
    ]
    simpler = [(f, BEST, "geometric_median", a) for f in ("random", "even") for a in (NONE, *CLAIM)]
    optimal = [(f, BEST, RECIPE, a) for f in ("random", "even") for a in slow]
    grid = [("even", m, r, a) for r in list(RULES)[:5] for m in METHODS for a in (NONE, *CLAIM)]
    grid += [("random", m, r, a) for r in list(RULES)[:3] for m in METHODS for a in (NONE, *CLAIM)]
    grid += [(f, BEST, SPLIT, a) for f in ("random", "even") for a in SUITE]
    every = [*recipe, *shown, *ceiling, *others, *simpler, *sorted(optimal), *grid]
    return tuple(Cell(*names) for names in dict.fromkeys(every))
