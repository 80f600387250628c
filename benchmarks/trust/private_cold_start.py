"""Clusters found under client-level differential privacy, with all costs charged: accuracy,
agreement and epsilon.

    python -m benchmarks.trust.private_cold_start [--seeds 3] [--first-seed 0] [--noise 1] [--start
    4,8,16]

Data, work and rounds are those of ``benchmarks.trust.privacy``. The true clusters are not known to
any of these methods: ``PrivateClusters`` finds them by three noisy sums of all clients, with
``--start`` times the noise multiplier of the rounds. IFCA begins from random models, which cost no
privacy. The agreement (ARI) is measured after the last round. Noise comes from the system's
generator, so no two runs are equal. The claim: accuracy 0.82 or more at epsilon <= 3 (delta 0.001),
with an ARI of 0.95 or more.
"""

from __future__ import annotations

import argparse
import statistics
from functools import partial

import fedkin as fk
from benchmarks.trust.privacy import run

HEAD = """| method | noise of the start | epsilon | accuracy, by seed | mean | ARI, by seed |
|---|---|---|---|---|---|"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust.private_cold_start", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--first-seed", type=int, default=0, help="the design was chosen on 10, 11 and 12"
    )
    parser.add_argument("--noise", type=float, default=1.0, help="noise multiplier of the rounds")
    parser.add_argument("--start", default="4,8,16", help="of the cold start, in multiples of that")
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    private = partial(run, noise=options.noise, clip=options.clip, rounds=options.rounds)
    print(HEAD, flush=True)
    for times in map(float, options.start.split(",")):
        method = fk.PrivateClusters(clusters=4)
        start_noise = times * options.noise
        runs = [private(method, seed, start_noise=start_noise) for seed in seeds]
        print(row(f"{start_noise:g}", runs), flush=True)
    ifca = fk.IFCA(4, weighting="examples")
    print(row("-", [private(ifca, seed) for seed in seeds]))


def row(start_noise: str, runs: list[fk.Run]) -> str:
    """A line of the table."""
    summaries = [run.summary() for run in runs]
    accuracy = [summary["final_accuracy"] for summary in summaries]
    each, agreement = (
        ", ".join(f"{summary[name]:.3f}" for summary in summaries)
        for name in ("final_accuracy", "ari")
    )
    epsilon = summaries[0]["privacy"]["epsilon"]
    shown = epsilon if isinstance(epsilon, str) else f"{epsilon:.2f}"
    name = summaries[0]["method"]
    return (
        f"| {name} | {start_noise} | {shown} | {each} | {statistics.mean(accuracy):.3f} | "
        f"{agreement} |"
    )


if __name__ == "__main__":
    main()
