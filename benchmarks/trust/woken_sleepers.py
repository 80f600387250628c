"""Attackers that are honest while clusters are found: the gain from splitting clusters when they
start to attack.

    python -m benchmarks.trust.woken_sleepers [--attacks sign_flip@2,...] [--seeds 3]
        [--first-seed 0] [--split-after 2] [--write docs/robustness.md]

Data and training as in ``papers.trust``: MNIST in four rotations (kinds) of 25 clients with 60
samples each, softmax regression, five local epochs of SGD (batch 10, lr 0.05), 30 rounds; attackers
know the honest updates of their model. A sleeper (``ipm@2``) attacks from round 2 on, after all
clusters here are found. FL+HC cut by the silhouette in round 1, and ``majority+`` in front of the
geometric median. *Evenly*: 30% of each kind attack, and all clients are in each round. *At random*:
30% of all clients attack, and 40 of 100 clients are in each round. The benchmark prints, by attack:
the mean accuracy of honest clients after the last round, the lowest agreement of their clusters
with the kinds (ARI) if it is below 1, and the share of attackers in clusters without honest
clients.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any, Literal, NamedTuple

import fedkin as fk
from benchmarks.tables import put

METHOD = fk.FLHC(distance="silhouette", metric="cosine", linkage="average", cluster_round=1)
ATTACKS = "none,sign_flip@2,own_sign_flip@2,label_flip@2,ipm@2,alie@2,stretch@2"


class Setting(NamedTuple):
    """The spread of the attackers, and the rule of the server."""

    spread: Literal["evenly", "random"]
    cohort: int
    memory: int
    split_after: int

    def __str__(self) -> str:
        where = "evenly" if self.spread == "evenly" else "at random"
        memory = f", memory {self.memory}" if self.memory else ""
        return (
            f"{where}{memory}, split after {self.split_after}"
            if self.split_after
            else f"{where}{memory}, no split"
        )


PLACES: tuple[tuple[Literal["evenly", "random"], int, int], ...] = (
    ("evenly", 100, 0),
    ("random", 40, 0),
    ("random", 40, 10),
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust.woken_sleepers", description=__doc__
    )
    parser.add_argument("--attacks", default=ATTACKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--split-after", type=int, default=2)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    attacks = options.attacks.split(",")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    head = ["attackers, server", *attacks]
    table = list[list[str]]()
    print(" | ".join(head))
    for setting in (
        Setting(*place, after) for place in PLACES for after in (0, options.split_after)
    ):
        table.append(
            [
                str(setting),
                *(cell([run(setting, attack, seed) for seed in seeds]) for attack in attacks),
            ]
        )
        print(" | ".join(table[-1]), flush=True)
    if options.write:
        put(options.write, "python -m benchmarks.trust.woken_sleepers", head, table)


def run(setting: Setting, attack: str, seed: int) -> dict[str, Any]:
    """The summary of one run.

    Args:
        setting: of attackers and server.
        attack: its name, with ``@2`` from round 2 on; ``none``.
        seed: of everything.
    """
    data = fk.planted(
        "mnist", "rotation", clusters=4, clients=100, samples=60, test_samples=20, seed=seed
    )
    kind, _, start = attack.partition("@")
    options: list[Any] = [
        fk.RobustAggregation(
            "majority+geometric_median",
            byzantine=0.45,
            least=3,
            memory=setting.memory,
            split_after=setting.split_after,
        )
    ]
    if kind != "none":
        options.append(
            fk.Byzantine(kind, share=0.3, spread=setting.spread, start=int(start or 0), seed=seed)
        )
    run = fk.simulate(
        METHOD,
        data,
        fk.models.mclr(data),
        rounds=30,
        cohort=setting.cohort,
        local=fk.SGD(epochs=5, batch_size=10, lr=0.05),
        options=options,
        seed=seed,
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=fk.Progress(False),
    )
    return run.summary()


def cell(summaries: list[dict[str, Any]]) -> str:
    """Accuracy, ARI and who is alone, of runs from several seeds."""
    accuracy = statistics.mean(
        summary.get("honest_accuracy", summary["final_accuracy"]) for summary in summaries
    )
    ari = min(summary.get("honest_ari", summary["ari"]) for summary in summaries)
    alone = [summary["attackers_alone"] for summary in summaries if "attackers_alone" in summary]
    agreement = f" ({ari:.2f})" if ari < 0.995 else ""
    return f"{accuracy:.3f}{agreement}" + (f", {statistics.mean(alone):.0%} alone" if alone else "")


if __name__ == "__main__":
    main()
