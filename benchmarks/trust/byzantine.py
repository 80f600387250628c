"""Clustered methods under Byzantine clients: rule x attack x method, the accuracy of honest clients.

    python -m benchmarks.trust.byzantine [--methods fedavg,flexcfl,...] [--attacks ipm,alie,...] [--seeds 1]
        [--rules mean,nnm+trimmed_mean] [--rounds 30] [--spread evenly] [--cohort 100] [--write docs/robustness.md]

Data: MNIST, four rotations (kinds) of 25 clients with 60 samples each; 784-10 softmax regression, five local epochs of
SGD (batch 10, lr 0.05), 30 rounds of all of them; 30% attack, spread evenly over the kinds, and know the honest updates
of their model. A sleeper (``ipm@2``) attacks from round 2 on, after all clusters here are found. Printed: the mean
accuracy of honest clients after the last round, the agreement of their clusters with the kinds (ARI), and of each row
of a table the worst and the mean over attacks, and what the rule costs without one. The claim: the best recipe has a
worst of 0.81 or more, a mean of 0.83 or more, an ARI of 0.95 or more, and costs at most 0.01.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedkin as fk
from benchmarks.tables import put
from benchmarks.trust.privacy import TrueClusters
from fedkin.measures.cluster_agreement import adjusted_rand_index

METHODS: dict[str, Any] = {
    "fedavg": fk.FedAvg(),
    "flexcfl": fk.FlexCFL(clusters=4),
    "flexcfl8": fk.FlexCFL(clusters=8),
    "ifca": fk.IFCA(clusters=4, weighting="examples"),
    "flhc": fk.FLHC(distance="silhouette", metric="cosine", linkage="average", cluster_round=1),
    "true": TrueClusters(),
}
ATTACKS = (
    "none,sign_flip,own_sign_flip,label_flip,ipm,alie,stretch,mimic,sign_flip@2,own_sign_flip@2,ipm@2,alie@2,stretch@2"
)


class Outcome(NamedTuple):
    """Of honest clients: mean accuracy, and agreement of clusters and kinds."""

    accuracy: float
    ari: float


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust.byzantine", description=__doc__)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--attacks", default=ATTACKS)
    parser.add_argument("--rules", default="mean,nnm+trimmed_mean")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--spread", default="evenly")
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    attacks = options.attacks.split(",")
    head, table = ["method, rule", *attacks, "worst", "mean", "price"], list[list[str]]()
    print(" | ".join(head))
    for name in options.methods.split(","):
        plain = run(METHODS[name], "none", "mean", 0, options)
        for rule in options.rules.split(","):
            cells = {a: [run(METHODS[name], a, rule, seed, options) for seed in range(options.seeds)] for a in attacks}
            table.append(row(f"{name}, {rule}", cells, plain))
            print(" | ".join(table[-1]), flush=True)
    if options.write:
        put(options.write, "python -m benchmarks.trust.byzantine", head, table)


def run(method: Any, attack: str, rule: str, seed: int, options: argparse.Namespace) -> Outcome:
    """One run.

    Args:
        method: of the run.
        attack: its name, with ``@1`` from round 1 on; ``none``.
        rule: of the aggregation.
        seed: of everything.
        options: of the command line.
    """
    data = fk.planted("mnist", "rotation", clusters=4, clients=100, samples=60, test_samples=20, seed=seed)
    kind, _, start = attack.partition("@")
    attacking = None if kind == "none" else fk.Byzantine(kind, spread=options.spread, start=int(start or 0), seed=seed)
    robust = None if rule == "mean" else fk.RobustAggregation(rule, 0.3)
    work = fk.SGD(epochs=5, batch_size=10, lr=0.05)
    plan: dict[str, Any] = {"rounds": options.rounds, "cohort": options.cohort, "evaluate_every": 0, "seed": seed}
    model = fk.models.mclr(data)
    done = fk.simulate(method, data, model, local=work, attack=attacking, robust=robust, progress=False, **plan)
    assert data.true_clusters is not None
    lying = np.zeros(100, bool) if attacking is None else attacking.attackers(100, data.true_clusters)
    honest = ~lying[done.clients["client"].to_numpy(np.int64)]
    accuracy = done.clients["accuracy"].to_numpy(np.float64)[honest].mean()
    ari = adjusted_rand_index(done.assignment[~lying], data.true_clusters[~lying])
    return Outcome(float(accuracy), float(ari))


def row(label: str, cells: dict[str, list[Outcome]], plain: Outcome) -> list[str]:
    """A line of the table: means over the seeds, the ARI where it is below 1."""
    means = {attack: statistics.mean(one.accuracy for one in several) for attack, several in cells.items()}
    aris = {attack: statistics.mean(one.ari for one in several) for attack, several in cells.items()}
    told = [f"{means[a]:.3f}" + (f" ({aris[a]:.2f})" if aris[a] < 0.995 else "") for a in cells]
    under = [value for attack, value in means.items() if attack != "none"]
    price = f"{plain.accuracy - means['none']:+.3f}" if "none" in means else "-"
    ends = [f"{min(under):.3f}", f"{statistics.mean(under):.3f}"] if under else ["-", "-"]
    return [label, *told, *ends, price]


if __name__ == "__main__":
    main()
