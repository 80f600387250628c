"""``fk.Clustered.fit`` against ``fk.simulate`` on the same 100 clients: the cost of the
scikit-learn interface.

    python -m benchmarks.estimator [--turns 7]

Both train FlexCFL on the same arrays with the same settings. They take turns in one process.
Programs are compiled before.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fedkin as fk
from fedkin.models.model import prepare_jax

CLIENTS = 100
SAMPLES = 60
FEATURES = 64
SETTINGS: dict[str, Any] = {"rounds": 30, "cohort": 20}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimator", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    prepare_jax()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * SAMPLES, FEATURES)).astype(np.float32)
    groups = np.repeat(np.arange(CLIENTS), SAMPLES)
    y = (x[:, :5].argmax(axis=1) + groups % 3) % 5

    def fit() -> None:
        fk.Clustered("flexcfl", clusters=3, epochs=5, lr=0.05, **SETTINGS).fit(x, y, groups=groups)

    def simulate() -> None:
        data = fk.data.from_arrays(x, y, clients=groups, test=0)
        model = fk.models.mclr(data)
        local = fk.SGD(epochs=5, lr=0.05)
        cohort = fk.Cohort(SETTINGS["cohort"], selection="round_robin")
        fk.simulate(
            fk.FlexCFL(clusters=3),
            data,
            model,
            rounds=SETTINGS["rounds"],
            cohort=cohort,
            local=local,
            scoring=fk.Scoring(evaluate_every=0),
            callbacks=fk.Progress(False),
        )

    fit()
    simulate()
    times = [(seconds(fit), seconds(simulate)) for _ in range(turns)]
    ratios = [ours / base for ours, base in times]
    ours, base = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{CLIENTS} clients, {SETTINGS['rounds']} rounds: fit {ours:.2f} s, simulate {base:.2f} s, "
        f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def seconds(call: Callable[[], None]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
