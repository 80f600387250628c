"""The cost of scoring clients in each round, for the convolutional networks of FlexCFL's authors.

    python -m benchmarks.scoring [--turns 5] [--write]

Clients are as many as in FlexCFL's Table II, with the same mean size, and a tenth of their samples
are test samples. A round trains 20 of them for ten epochs in batches of 10. Rounds, scoring all
clients and scoring a sample take turns. The sample is the one that ``fedkin run`` suggests after a
long run. A share is of the time of the round: the median over the turns, and their range.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.convolutions import VARIANTS
from benchmarks.report import OF_SCORING
from benchmarks.tables import put
from benchmarks.turns import Times, federated, take_turns
from benchmarks.work import BATCH, LR, clients
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.models.cnn import cnn
from fedkin.models.model import prepare_jax
from fedkin.reporting.scoring_share import sample_for
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.train import train

PAGE = Path("docs/benchmarks.md")
HEAD = ["network", "clients", "a round (s)", "scoring all", "clients in the sample", "scoring it"]
# Clients and their mean number of samples (FlexCFL, Table II).
FEDERATIONS = {"CNN": (1000, 69), "FEMNIST's CNN": (200, 92), "FashionMNIST's CNN": (500, 145)}
COHORT = 20
EPOCHS = 10
ROUND = "round"
ALL = "all"
SAMPLE = "sample"


def times_of(network: str, count: int, mean: int, turns: int) -> tuple[Times, int]:
    """Seconds of a round, of scoring all clients and of scoring a sample, and the sample's size.

    Args:
        network: its name.
        count: number of clients.
        mean: their mean number of samples.
        turns: of each.
    """
    data = federated(clients(count, mean=mean))
    model = cnn(data, variant=VARIANTS[network])
    world = SimulatedWorld(data, model, LocalTraining(epochs=EPOCHS, batch_size=BATCH, lr=LR))
    start = world.initial(Stream(0))[None]
    everyone = np.arange(count)
    first = np.zeros(count, np.int64)

    def a_round(turn: int) -> object:
        cohort = np.sort(np.random.default_rng(turn).choice(count, COHORT, replace=False))
        stream = Stream(0, turn)
        return train(world, start, cohort, first[:COHORT], reduce=True, stream=stream)

    def scoring_all(_: int) -> object:
        return evaluate(world, start, everyone, first)

    before = take_turns({ROUND: a_round, ALL: scoring_all}, turns)
    size = sample_for(count, float(before[ALL].sum() / before[ROUND].sum()))
    sample = np.sort(np.random.default_rng(0).choice(count, size, replace=False))
    # A world keeps the samples of its last scoring on the device.
    apart = SimulatedWorld(data, model, LocalTraining(epochs=EPOCHS, batch_size=BATCH, lr=LR))

    def scoring_sample(_: int) -> object:
        return evaluate(apart, start, sample, first[:size])

    operations = {ROUND: a_round, ALL: scoring_all, SAMPLE: scoring_sample}
    return take_turns(operations, turns), size


def row(network: str, turns: int) -> list[str]:
    """A line of the table."""
    count, mean = FEDERATIONS[network]
    seconds, size = times_of(network, count=count, mean=mean, turns=turns)
    return [
        network,
        f"{count:,}",
        f"{np.median(seconds[ROUND]):.2f}",
        _share(seconds[ALL] / seconds[ROUND]),
        f"{size:,}",
        _share(seconds[SAMPLE] / seconds[ROUND]),
    ]


def _share(shares: np.ndarray) -> str:
    percent = 100 * shares
    return f"**{np.median(percent):.1f} %** ({percent.min():.1f}-{percent.max():.1f})"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    options = parser.parse_args()
    prepare_jax()
    rows = [row(network, options.turns) for network in VARIANTS]
    print("\n".join(" | ".join(line) for line in [HEAD, *rows]))
    if options.write:
        put(PAGE, OF_SCORING, HEAD, rows)


if __name__ == "__main__":
    main()
