"""False alarms and delays of the monitor of clusters, next to detectors of the library river.

    pip install river==0.26.1
    python -m benchmarks.monitor --part quiet
    python -m benchmarks.monitor --part changes
    python -m benchmarks.monitor --write

1. Quiet federations: a year of daily rounds on data that do not change. How many of 300 streams
   (clients) raise an alarm, with and without drop-outs? Also where all samples are new in each
   round.
2. Changes: in 100 runs one client's labels are permuted, or its features move by one standard
   deviation. How many rounds later is the alarm of this client?
3. The same streams of losses, read by Page-Hinkley and ADWIN at river's defaults, and by
   Page-Hinkley with thresholds that fit losses from 0 to 1.

The results are kept in ``benchmarks/monitor_results.json``; ``--write`` writes them into
``docs/monitor.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

import fedkin as fk
from benchmarks.tables import put_between
from fedkin.core.world_proxy import WorldProxy
from fedkin.data.federated import FederatedData
from fedkin.options.base import ActiveOption, Around, Call
from fedkin.scenarios.own_rows import with_own_rows
from fedkin.tasks.fit_checks import BoundedLoss

RESULTS = Path(__file__).with_name("monitor_results.json")
PAGE = Path("docs/monitor.md")
BEGIN = "<!-- monitor -->\n"
END = "<!-- end of monitor -->\n"
CLIENTS = 12
STREAMS = 300
RUNS = 100
YEAR = 365
CHANGE_AT = 60  # the first round of a change
ROUNDS_AFTER = 30
FEDERATIONS = "federations"  # key of the number of federations with an alarm
Kind = Literal["labels", "features"]


@dataclass(frozen=True)
class OneClientChanges:
    """A shift of one client's data: its labels are permuted, or its features move.

    Attributes:
        client: the client.
        kind: ``labels``: class c becomes c + 1. ``features``: every feature is larger by the
            standard deviation of the feature over all samples.
        at: the round.
    """

    client: int
    kind: Literal["labels", "features"]
    at: int

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: fk.Stream,
    ) -> tuple[FederatedData, Bool[np.ndarray, "N"]]:
        """The data of a round."""
        del reachable, stream
        shifted = np.zeros(original.clients, bool)
        if round != self.at:
            return current, shifted
        shifted[self.client] = True
        data = with_own_rows(original)
        parts = [data.part(split)[self.client] for split in ("train", "test", "validation")]
        rows = np.concatenate(parts)
        x = data.x.copy()
        y = data.y.copy()
        if self.kind == "labels":
            y[rows] = (y[rows] + 1) % original.classes
        else:
            x[rows] += original.x.std(axis=0)
        return with_samples(data, x, y), shifted


def with_samples(
    data: FederatedData, x: Float[np.ndarray, "s ..."], y: Int[np.ndarray, "s"]
) -> FederatedData:
    """The same federation with other features and labels."""
    return data.with_rows(
        train=data.train,
        test=data.test,
        validation=data.validation,
        x=x,
        y=y,
        unit=data.unit,
    )


def digits(seed: int) -> FederatedData:
    """Handwritten digits; clients hold different numbers of two classes each."""
    return fk.data.digits(clients=CLIENTS, seed=seed).with_validation(0.2)


def normal_samples(
    centres: Float[np.ndarray, "5 10"], rng: np.random.Generator
) -> tuple[Float[np.ndarray, "s 10"], Int[np.ndarray, "s"]]:
    """Features and labels of all clients: 100 samples each, of five normal classes."""
    labels = rng.integers(0, 5, CLIENTS * 100)
    features = centres[labels] + rng.standard_normal((len(labels), 10))
    return features, labels


def gaussians(seed: int) -> FederatedData:
    """Five normal classes in ten dimensions, 100 samples for each client."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((5, 10)) * 1.5
    features, labels = normal_samples(centres, rng)
    clients = np.repeat(np.arange(CLIENTS), 100)
    data = fk.data.from_arrays(features.astype(np.float32), labels, clients=clients, seed=seed)
    return data.with_validation(0.2)


@dataclass(frozen=True)
class NewSamples:
    """All samples of ``gaussians`` are new in each round, of the same distribution.

    Attributes:
        seed: seed of ``gaussians``.
        change: the change of one client; None for a quiet federation.
    """

    seed: int
    change: OneClientChanges | None

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: fk.Stream,
    ) -> tuple[FederatedData, Bool[np.ndarray, "N"]]:
        """The data of a round."""
        del current
        centres = np.random.default_rng(self.seed).standard_normal((5, 10)) * 1.5
        features, labels = normal_samples(centres, stream.child("samples").rng())
        x = features.astype(np.float32)
        data = with_samples(original, x, labels.astype(original.y.dtype))
        if self.change is None or round < self.change.at:
            return data, np.zeros(original.clients, bool)
        now = replace(self.change, at=round)
        return now.step(original, data, round, reachable, stream)


@dataclass(frozen=True)
class Setting:
    """A kind of federation that is watched.

    Attributes:
        name: its name in the results.
        data: the function that makes the data of a seed.
        method: the method.
        dropout: share of clients that are lost in each round.
        margin: the monitor's margin.
        features: whether the monitor watches features, too.
        new_samples: whether all samples are new in each round.
    """

    name: str
    data: Callable[[int], FederatedData]
    method: Any
    dropout: float = 0.0
    margin: float = fk.Monitor.margin
    features: bool = False
    new_samples: bool = False

    def shift(self, seed: int, change: OneClientChanges | None) -> Any:
        """The shift of the data: a change of one client, new samples, or both."""
        return NewSamples(seed, change) if self.new_samples else change


SETTINGS = (
    Setting("digits, one model", digits, fk.FedAvg()),
    Setting("digits, two clusters", digits, fk.FedGroup(clusters=2)),
    Setting("normal classes, one model", gaussians, fk.FedAvg()),
    Setting("digits, one model, 30% drop-outs", digits, fk.FedAvg(), dropout=0.3),
    Setting("normal classes, one model, 30% drop-outs", gaussians, fk.FedAvg(), dropout=0.3),
    Setting(
        "digits, one model, 30% drop-outs, margin 0.06",
        digits,
        fk.FedAvg(),
        dropout=0.3,
        margin=0.06,
    ),
    Setting("digits, one model, features watched", digits, fk.FedAvg(), features=True),
    Setting(
        "digits, two clusters, features watched", digits, fk.FedGroup(clusters=2), features=True
    ),
    Setting("normal classes, one model, features watched", gaussians, fk.FedAvg(), features=True),
    Setting(
        "normal classes, new samples in each round, features watched",
        gaussians,
        fk.FedAvg(),
        features=True,
        new_samples=True,
    ),
    Setting(
        "normal classes, new samples in each round, features watched, margin 0.06",
        gaussians,
        fk.FedAvg(),
        margin=0.06,
        features=True,
        new_samples=True,
    ),
)


class Recorded(fk.Option):
    """Keeps the losses that the monitor reads, for other detectors."""

    section = "recorded"

    def __init__(self) -> None:
        self.losses: list[Float[np.ndarray, "N"]] = []

    def bind(self, run: Any) -> ActiveOption:
        del run
        return _Recording(self.section, self.losses)


class _Recording(ActiveOption):
    """The option in a run."""

    def __init__(self, section: str, losses: list[np.ndarray]) -> None:
        super().__init__(section)
        self._losses = losses

    def around(self, world: Any, before: Any, call: Call) -> Around:
        return Around(_RecordingWorld(world, self._losses))


class _RecordingWorld(WorldProxy):
    """Keeps the replies to ``BoundedLoss``; NaN for clients without a reply."""

    def __init__(self, world: Any, losses: list[np.ndarray]) -> None:
        super().__init__(world)
        self._losses = losses

    def run(self, task: Any, clients: Int[np.ndarray, "n"], stream: Any = None) -> Any:
        reply = super().run(task, clients, stream)
        if isinstance(task, BoundedLoss):
            row = np.full(self.total_clients, np.nan)
            row[clients] = np.where(reply.arrived, reply.loss, np.nan)
            self._losses.append(row)
        return reply


@dataclass(frozen=True)
class Watched:
    """A run, what its monitor has found, and the losses that it has read."""

    alarms: list[tuple[int, int]]  # round and client
    losses: Float[np.ndarray, "T N"]


def watched(
    setting: Setting, seed: int, rounds: int, change: OneClientChanges | None = None
) -> Watched:
    """A run with the monitor.

    Args:
        setting: data, method, drop-outs and the monitor's options.
        seed: seed of the run and of the data.
        rounds: number of rounds.
        change: a change of one client's data.
    """
    data = setting.data(seed)
    monitor = fk.Monitor(act="watch", margin=setting.margin, features=setting.features)
    recorded = Recorded()
    run = fk.simulate(
        setting.method,
        data,
        fk.models.mclr(data),
        rounds=rounds,
        cohort=CLIENTS,
        seed=seed,
        local=fk.LocalTraining(lr=0.1, epochs=2),
        scenario=fk.Population(dropout=setting.dropout),
        scoring=fk.Scoring(evaluate_every=rounds),
        shift=setting.shift(seed, change),
        options=[monitor, recorded],
    )
    acts = [act for record in run.records for act in record["monitor_acts"]]
    found = [(act["round"], act["client"]) for act in acts if act["kind"] == "alarm"]
    return Watched(found, np.array(recorded.losses))


@cache
def detectors() -> dict[str, Callable[[], Any]]:
    """Detectors of the library river. Raises SystemExit with the way on if it is not installed."""
    try:
        from river import drift
    except ImportError as error:
        raise SystemExit("this benchmark needs river: pip install river==0.26.1") from error
    return {
        "Page-Hinkley, defaults": drift.PageHinkley,
        "Page-Hinkley, threshold 2": lambda: drift.PageHinkley(threshold=2),
        "ADWIN, defaults": drift.ADWIN,
    }


def detections(detector: Any, losses: Float[np.ndarray, "T"]) -> Iterator[int]:
    """The rounds, from 1, in which a detector finds a change in a client's losses."""
    for round, loss in enumerate(losses, 1):
        if np.isnan(loss):
            continue
        detector.update(float(loss))
        if detector.drift_detected:
            yield round


def quiet(setting: Setting) -> dict[str, int]:
    """How many streams of quiet federations raise an alarm in a year, for each detector; and how
    many federations have an alarm of the monitor."""
    counts = dict.fromkeys(["monitor", *detectors(), FEDERATIONS], 0)
    for seed in range(STREAMS // CLIENTS):
        run = watched(setting, seed, YEAR)
        counts["monitor"] += len({client for _, client in run.alarms})
        counts[FEDERATIONS] += bool(run.alarms)
        for name, make in detectors().items():
            found = [next(detections(make(), column), 0) for column in run.losses.T]
            counts[name] += int(np.count_nonzero(found))
        print(setting.name, seed, counts, flush=True)
    return counts


def delays(setting: Setting, kind: Kind) -> dict[str, list[int | None]]:
    """Rounds from a change to the alarm of the changed client, for each detector; None where there
    was none. An alarm in the first round of the change has the delay 1."""
    found: dict[str, list[int | None]] = {name: [] for name in ["monitor", *detectors()]}
    for seed in range(RUNS):
        client = seed % CLIENTS
        change = OneClientChanges(client, kind, CHANGE_AT)
        run = watched(setting, seed, CHANGE_AT + ROUNDS_AFTER - 1, change)
        rounds = {"monitor": [round for round, of in run.alarms if of == client]}
        for name, make in detectors().items():
            rounds[name] = list(detections(make(), run.losses[:, client]))
        for name, of_detector in rounds.items():
            after = [round - CHANGE_AT + 1 for round in of_detector if round >= CHANGE_AT]
            found[name].append(after[0] if after else None)
    return found


def measure(part: str, results: dict[str, Any]) -> None:
    """Measure a part of the results, and keep them after each setting. They take hours, so those
    that are measured already are left out."""
    for setting in SETTINGS:
        if part == "quiet":
            of_quiet = results.setdefault("quiet", {})
            if FEDERATIONS not in of_quiet.get(setting.name, {}):
                of_quiet[setting.name] = quiet(setting)
        elif not setting.dropout:
            for kind in ("labels", "features"):
                of_kind = results.setdefault(kind, {})
                if setting.name not in of_kind:
                    of_kind[setting.name] = delays(setting, kind)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def within(delays: list[int | None], rounds: int) -> str:
    """The share of changes that were found within a number of rounds, and the median delay."""
    known = [delay for delay in delays if delay is not None]
    share = sum(delay <= rounds for delay in known) / len(delays)
    median = f", median {int(np.median(known))}" if known else ""
    return f"{share:.0%}{median}"


def section(results: dict[str, Any]) -> str:
    """The tables of the page."""
    names = [name for name in next(iter(results["quiet"].values())) if name != FEDERATIONS]
    federations = STREAMS // CLIENTS
    lines = [
        f"Alarms in {YEAR} quiet rounds, of {STREAMS} clients:",
        "",
        f"| federations of {CLIENTS} clients | {' | '.join(names)} | federations with an alarm of "
        "the monitor |",
        f"|---|{'---|' * (len(names) + 1)}",
    ]
    for setting, counts in results["quiet"].items():
        cells = [f"{counts[name]} ({counts[name] / STREAMS:.1%})" for name in names]
        cells.append(f"{counts[FEDERATIONS]} of {federations}")
        lines.append(f"| {setting} | {' | '.join(cells)} |")
    for kind, rounds, words in (
        ("labels", 10, "The labels of one client are permuted"),
        ("features", 20, "The features of one client move by one standard deviation"),
    ):
        lines += [
            "",
            f"{words}: share of {RUNS} runs in which its alarm comes within {rounds} rounds:",
            "",
            f"| federations of {CLIENTS} clients | {' | '.join(names)} |",
            f"|---|{'---|' * len(names)}",
        ]
        for setting, of_setting in results[kind].items():
            cells = [within(of_setting[name], rounds) for name in names]
            lines.append(f"| {setting} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description="False alarms and delays of the monitor.")
    parser.add_argument("--part", choices=["quiet", "changes"], help="measure this part")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE}")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments.part:
        measure(arguments.part, results)
    text = section(results) if {"quiet", "labels", "features"} <= set(results) else ""
    if arguments.write:
        put_between(PAGE, BEGIN, END, text)
    print(text)


if __name__ == "__main__":
    main()
