"""How much is measured: in full on an accelerator, and in the smallest form in the tests."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.turns import EPOCHS


@dataclass(frozen=True)
class Size:
    """The sizes of all measurements.

    Attributes:
        clients: N.
        cohort: clients of a round.
        lanes: numbers of clients that train in parallel.
        of_loop: clients of the cohort that the PyTorch loop trains; a whole cohort takes minutes.
        turns: of each engine that count.
        epochs: of local training, by network.
        compiler: the backend of ``torch.compile``.
        rounds: of FLUTE's settings.
        hidden: units of the perceptron for the cold starts.
        alpha: clients per cluster of the cold starts.
        small: whether networks and data are replaced by tiny ones.
    """

    clients: int
    cohort: int
    lanes: tuple[int, ...]
    of_loop: int
    turns: int
    epochs: dict[str, int]
    compiler: str
    rounds: int
    hidden: int
    alpha: int
    small: bool = False


FULL = Size(
    clients=1000,
    cohort=128,
    lanes=(1, 8, 32, 128),
    of_loop=8,
    turns=5,
    epochs={name: EPOCHS[name] for name in ("784-128-10", "CNN")},
    compiler="inductor",
    rounds=30,
    hidden=1258,  # 1,000,120 parameters for 784 inputs and ten classes
    alpha=20,
)
# The CNN is left out, because its programs take long to compile.
SMALL = Size(
    clients=10,
    cohort=8,
    lanes=(1, 8),
    of_loop=2,
    turns=2,
    epochs={"784-128-10": 1},
    compiler="eager",
    rounds=6,
    hidden=4,
    alpha=2,
    small=True,
)
