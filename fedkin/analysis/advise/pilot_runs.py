"""Does clustering help: clustered methods against plain averaging, on the same data and cohorts, from a few seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.config.schema import check_integer
from fedkin.core.errors import DataError
from fedkin.core.world import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.methods import IFCA, FedAvg, FlexCFL
from fedkin.run.results import Run
from fedkin.run.simulate import simulate
from fedkin.simulation.workers import AnyModel

PLAIN = "fedavg"
CLUSTERED: Mapping[str, Callable[[int], FlexCFL | IFCA]] = {
    "flexcfl": lambda clusters: FlexCFL(clusters=clusters),
    "ifca": lambda clusters: IFCA(clusters=clusters),
}
_POINTS = 100  # of a share


@dataclass(frozen=True)
class Plans:
    """How long the pilots are, with how many clients a round, from how many seeds."""

    rounds: int = 10
    cohort: int = 20
    seeds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("cohort", 1), ("seeds", LEAST_SEEDS), ("seed", 0)):
            check_integer(f"pilots: {name}", getattr(self, name), least)


def pilots(
    data: FederatedData,
    model: AnyModel,
    local: LocalTraining,
    clusters: int,
    plans: Plans,
    say: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """One row a method (its index), the plain one first. Accuracies in per cent, gains over plain averaging in
    percentage points; means over seeds.

    Cohorts are drawn round robin (``run.selection``): every client takes its turn once, in the order of ids and so
    alike from every seed, and draws are uniform after that; so all have a cluster as early as can be. An interval
    speaks for this one federation: seeds differ in initial models, later cohorts and batches, and it says nothing of
    other clients or other data.

    ``accuracy``, ``bottom_decile``: at the end, of the clients that have a cluster by then; ``gain``, ``low``, ``high``:
    of ``accuracy``, paired by seeds, with Student's 95% interval; ``bytes``: per round and client, down and up, in the
    last round; ``bytes_once``: per client of the federation, what was sent beside that (a cold start, placing).

    Raises:
        DataError: nobody has test samples.
    """
    if not data.test.sizes.any():
        raise DataError(f"{data.name}: no client has test samples; a gain cannot be measured without them")
    methods = {PLAIN: FedAvg(), **{name: make(clusters) for name, make in CLUSTERED.items()}}
    runs: dict[str, list[Run]] = {name: [] for name in methods}
    cohort = min(plans.cohort, data.clients)
    for number in range(plans.seeds):
        say(f"trial {number + 1} of {plans.seeds}: {', '.join(methods)}, {plans.rounds} rounds of {cohort} clients")
        for name, method in methods.items():
            plan = {"rounds": plans.rounds, "cohort": cohort, "seed": plans.seed + number}
            rare = {"evaluate_every": plans.rounds, "checkpoint_every": plans.rounds, "selection": "round_robin"}
            runs[name].append(simulate(method, data, model, local=local, **plan, **rare))
    plain = _of(runs[PLAIN], "accuracy")
    rows = {name: _row(some, plain, cohort, data.clients) for name, some in runs.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def _row(runs: list[Run], plain: Float[np.ndarray, "S"], cohort: int, clients: int) -> dict[str, float]:
    accuracy = _of(runs, "accuracy")
    band = interval((accuracy - plain)[:, None])
    every = np.mean([_last_round(run) for run in runs]) / cohort
    total = np.mean([_bytes(run, -1) for run in runs])
    rounds = runs[0].records[-1]["round"]
    return {
        "accuracy": float(accuracy.mean()),
        "bottom_decile": float(_of(runs, "bottom_decile").mean()),
        "gain": float(band.mean[0]),
        "low": float(band.low[0]),
        "high": float(band.high[0]),
        "bytes": float(every),
        "bytes_once": max(0.0, float(total - rounds * cohort * every) / clients),
    }


def _of(runs: list[Run], figure: str) -> Float[np.ndarray, "S"]:
    """A figure of the last round, per cent."""
    last = [run.records[-1][figure] for run in runs]
    return np.array([np.nan if value is None else _POINTS * value for value in last])


def _bytes(run: Run, record: int) -> int:
    return run.records[record]["bytes_down"] + run.records[record]["bytes_up"]


def _last_round(run: Run) -> int:
    return _bytes(run, -1) - _bytes(run, -2)
