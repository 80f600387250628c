"""Pilot runs: short simulations that measure the gain of clustered methods over FedAvg, with the
same data and the same clients in each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.config.plan import Cohort, Scoring
from fedkin.config.schema import check_integer
from fedkin.core.errors import DataError
from fedkin.core.progress import Progress
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.measures.run_scores import scores_in
from fedkin.measures.scores import names_in
from fedkin.measures.table import MEASURES
from fedkin.methods import IFCA, FedAvg, FlexCFL
from fedkin.run.run import Run
from fedkin.run.simulate import simulate
from fedkin.simulation.workers import AnyModel

BASELINE = "fedavg"
CLUSTERED: Mapping[str, Callable[[int], FlexCFL | IFCA]] = {
    "flexcfl": lambda clusters: FlexCFL(clusters=clusters),
    "ifca": lambda clusters: IFCA(clusters=clusters),
}
_POINTS = 100  # percentage points of a share of 1


@dataclass(frozen=True)
class PilotPlan:
    """The size of the pilots: rounds, clients per round (cohort) and seeds."""

    rounds: int = 10
    cohort: int = 20
    seeds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("cohort", 1), ("seeds", LEAST_SEEDS), ("seed", 0)):
            check_integer(f"pilots: {name}", getattr(self, name), least)


def run_pilots(
    data: FederatedData,
    model: AnyModel,
    local: LocalTraining,
    clusters: int,
    plan: PilotPlan,
    progress: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Run FedAvg and the clustered methods. Returns a table with a row for each method, FedAvg
    first.

    Values are means over seeds. The score is the first measure of the task type, on validation
    samples if the data have this split, otherwise on test samples: the accuracy of classes, or an
    error of numbers. Shares are in per cent, errors in units of the label.

    Cohorts, the clients of a round, are drawn round robin (``run.selection``): first every client
    is selected once, in the order of ids and identically for every seed; later draws are uniform.
    So all clients get a cluster as early as possible. Intervals hold for this federation only:
    seeds differ in initial models, later cohorts and batches, but not in clients or data.

    * ``accuracy``, ``bottom_decile`` (of numbers, the names of the error): final values over the
      clients with a cluster.
    * ``gain``, ``low``, ``high``: gain over FedAvg, paired by seeds, with its 95% interval
      (Student's t): in percentage points of a share, or in per cent of FedAvg's error
      (``gain_words``).
    * ``bytes``: download and upload per round and client, in the last round.
    * ``bytes_once``: all other traffic per client (cold start, i.e. the first clustering; cluster
      assignment).

    Args:
        data: the clients' data.
        model: the model to train.
        local: local training.
        clusters: number of clusters of the clustered methods.
        plan: rounds, clients per round and seeds.
        progress: called with a line about each seed.

    Raises:
        DataError: no client has samples to score.
    """
    split = data.scored_split
    if not data.part(split).sizes.any():
        raise DataError(
            f"{data.name}: no client has {split} samples, so the gain cannot be measured; add a "
            f"{split} split"
        )
    methods = {BASELINE: FedAvg(), **{name: make(clusters) for name, make in CLUSTERED.items()}}
    runs: dict[str, list[Run]] = {name: [] for name in methods}
    cohort = min(plan.cohort, data.clients)
    for number in range(plan.seeds):
        progress(
            f"pilot {number + 1} of {plan.seeds}: {', '.join(methods)}, {plan.rounds} rounds of "
            f"{cohort} clients"
        )
        for name, method in methods.items():
            run = simulate(
                method,
                data,
                model,
                rounds=plan.rounds,
                cohort=Cohort(cohort, selection="round_robin"),
                local=local,
                seed=plan.seed + number,
                scoring=Scoring(evaluate_every=plan.rounds, checkpoint_every=plan.rounds),
                callbacks=Progress(False),
            )
            runs[name].append(run)
    baseline = _of(runs[BASELINE], data.task_type.names.score)
    rows = {name: _row(several, baseline, cohort, data.clients) for name, several in runs.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")


def errors_in(pilots: pd.DataFrame) -> list[str]:
    """The columns with errors in a table of pilot runs; empty if its scores are shares.

    Args:
        pilots: the table of ``run_pilots``.
    """
    score = str(pilots.columns[0])
    is_error = score in MEASURES and MEASURES[score].direction == "lower"
    return list(map(str, pilots.columns[:2])) if is_error else []


def gain_words(pilots: pd.DataFrame) -> str:
    """The unit of the gains in a table of pilot runs: percentage points of a share, or per cent of
    FedAvg's error."""
    return "percent of its error" if errors_in(pilots) else "percentage points"


def _row(
    runs: list[Run], baseline: Float[np.ndarray, "S"], cohort: int, clients: int
) -> dict[str, float]:
    """The row of a method in the table of pilot runs. ``baseline`` has the scores of FedAvg, one
    for each seed."""
    names = names_in(runs[0].records[-1])
    final = _of(runs, names.score)
    if MEASURES[names.score].direction == "lower":
        gain = _POINTS * (baseline - final) / baseline
    else:
        gain = final - baseline
    band = interval(gain[:, None])
    every = np.mean([_last_round(run) for run in runs]) / cohort
    total = np.mean([_bytes(run, -1) for run in runs])
    rounds = runs[0].records[-1]["round"]
    return {
        names.score: float(final.mean()),
        names.worst: float(_of(runs, names.worst).mean()),
        "gain": float(band.mean[0]),
        "low": float(band.low[0]),
        "high": float(band.high[0]),
        "bytes": float(every),
        "bytes_once": max(0.0, float(total - rounds * cohort * every) / clients),
    }


def _of(runs: list[Run], name: str) -> Float[np.ndarray, "S"]:
    """The score ``name`` after the last round of each run (one run for each seed): shares in per
    cent, errors as they are. NaN if it is not known for all clients."""
    is_error = MEASURES[names_in(runs[0].records[-1]).score].direction == "lower"
    factor = 1 if is_error else _POINTS
    last = [_of_all_clients(run, name) for run in runs]
    return np.array([np.nan if value is None else factor * value for value in last])


def _of_all_clients(run: Run, name: str) -> float | None:
    """The score ``name`` after the last round, over the same clients for all methods; None if it is
    unknown."""
    record = run.records[-1]
    if not record["partial"]:
        return record[name]
    # Some clients had no cluster yet. Their test samples were scored on the model that they would
    # get now, but no other samples and measures.
    if name != names_in(record).score or run.scored_split != "test":
        return None
    summary = run.summary()
    return summary.get(scores_in(summary).final.over_all)


def _bytes(run: Run, record: int) -> int:
    """Downloaded plus uploaded bytes from the start of a run up to the round of a record."""
    return run.records[record]["bytes_down"] + run.records[record]["bytes_up"]


def _last_round(run: Run) -> int:
    """The bytes of a run's last round alone. Records have the bytes since the start of the run, so
    the bytes up to the round before are subtracted."""
    return _bytes(run, -1) - _bytes(run, -2)
