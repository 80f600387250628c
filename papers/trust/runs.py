"""A run of a cell from a seed, and the figures that are stored; the jobs of all cells."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import fedkin as fk
from fedkin.core.errors import FedkinError
from fedkin.data.federated import FederatedData
from fedkin.run.metrics.accuracy import score
from fedkin.run.run_repr import SUSPECT
from fedkin.scenarios.poisoning import triggered_test
from fedkin.simulation.engine import SimulatedWorld
from papers.result_store import Job, Line
from papers.setting_digest import digest
from papers.trust.cells import (
    FEDERATIONS,
    METHODS,
    ROUNDS,
    RULES,
    SEEDS,
    SHARE,
    Cell,
    attack_of,
    cells,
)

STORE = Path("papers/results/trust.jsonl")
WORK = fk.SGD(epochs=5, batch_size=10, lr=0.05)
SECONDS = 3.0  # of a run, about


def measure(cell: Cell, seed: int) -> Line:
    """Run a cell: accuracy of honest clients, agreement of their clusters with the kinds, and
    shares of attackers and suspects. A refusal of a method is stored under ``refused``."""
    federation = FEDERATIONS[cell.federation]
    began = time.monotonic()
    data = federation.data(seed)
    attack = attack_of(cell.attack, federation.spread, cell.rule, seed)
    robust = RULES[cell.rule]
    try:
        run = fk.simulate(
            METHODS[cell.method],
            data,
            fk.models.mclr(data),
            rounds=ROUNDS,
            cohort=federation.cohort,
            local=WORK,
            options=[option for option in (attack, robust) if option is not None],
            seed=seed,
            scoring=fk.Scoring(evaluate_every=0),
            callbacks=fk.Progress(False),
        )
    except FedkinError as error:
        return {"refused": str(error)}
    line = figures(run, data)
    if cell.attack.startswith("backdoor"):
        line["backdoor"] = backdoor_share(run, data)
    return line | {"seconds": round(time.monotonic() - began, 2)}


def figures(run: fk.Run, data: FederatedData) -> Line:
    """Figures of a run. ``suspected`` is the share of honest clients with less than half of the
    weight that a mean gives, and ``worst_kind`` the accuracy of the kind with the lowest
    accuracy."""
    assert data.true_clusters is not None
    summary = run.summary()
    attacks = np.zeros(data.clients, bool)
    attacks[summary.get("attackers", [])] = True
    clients = run.clients["client"].to_numpy(np.int64)
    accuracy = np.full(data.clients, np.nan)
    accuracy[clients] = run.clients["accuracy"].to_numpy(np.float64)
    kinds = [
        accuracy[(data.true_clusters == kind) & ~attacks] for kind in np.unique(data.true_clusters)
    ]
    weights = summary.get("rule_weights", [None] * data.clients)
    suspects = np.array([weight is not None and weight < SUSPECT for weight in weights])
    line = {
        "accuracy": float(np.nanmean(accuracy[~attacks])),
        "bottom_decile": summary.get("honest_bottom_decile", summary["bottom_decile"]),
        "worst_kind": min(float(np.nanmean(accuracies)) for accuracies in kinds),
        "ari": summary.get("honest_ari", summary["ari"]),
        "alone": summary.get("attackers_alone"),
        "suspected": float(suspects[~attacks].mean()),
        "caught": float(suspects[attacks].mean()) if attacks.any() else None,
        "clusters": int(run.state.clusters),
    }
    return {
        name: round(value, 5) if isinstance(value, float) else value for name, value in line.items()
    }


def backdoor_share(run: fk.Run, data: FederatedData) -> float:
    """The share of honest clients' test images with the trigger, and not of class 0, that are
    classified as 0."""
    test = triggered_test(data)
    world = SimulatedWorld(test, fk.models.mclr(test), WORK)
    scored = score(world, run.state, ROUNDS)
    honest = ~np.isin(scored.clients, run.summary()["attackers"])
    return round(
        float(scored.scores.correct[honest].sum() / scored.scores.examples[honest].sum()), 5
    )


@cache
def jobs() -> list[Job]:
    """All runs, in the order of their cells."""
    return [_job(cell) for cell in cells()]


def _job(cell: Cell) -> Job:
    federation = FEDERATIONS[cell.federation]
    key = {
        "federation": cell.federation,
        "method": cell.method,
        "rule": cell.rule,
        "attack": cell.attack,
    }
    fixed = {
        "spread": federation.spread,
        "cohort": federation.cohort,
        "share": SHARE,
        "rounds": ROUNDS,
    }
    attack = attack_of(cell.attack, federation.spread, cell.rule, 0)
    believed = (
        None if attack is None or "optimal" in cell.attack else replace(attack, against="mean")
    )
    believed = attack if believed is None else believed
    setting = digest(
        {
            **key,
            **fixed,
            "of method": METHODS[cell.method],
            "of attack": believed,
            "of rule": RULES[cell.rule],
            "work": WORK,
        }
    )
    row = f"{cell.federation}, {cell.method}, {cell.rule}"
    column = cell.attack
    return Job(
        row=row,
        column=column,
        seeds=SEEDS,
        key=key,
        measure=lambda seed: {**key, "seed": seed, **measure(cell, seed)},
        seconds=SECONDS,
        setting=lambda seed: setting,
    )
