"""From data, model and method to a run, and its folder, and back."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import CheckpointError, ConfigError, MethodError, StorageError
from fedkin.data.federated import FederatedData
from fedkin.models import mclr
from fedkin.run.run import Run
from tests.mappings import merged
from tests.option_lists import simulate_arguments
from tests.run.toy_method import Toy

LOCAL = fk.SGD(epochs=2, batch_size=5, lr=0.5)
FILES = {
    *(
        "config.toml",
        "environment.json",
        "metrics.jsonl",
        "migrations.jsonl",
        "timings.jsonl",
        "clients.parquet",
    ),
    *("checkpoints", "summary.json", "SHA256SUMS"),
}


def go(data: FederatedData, against: Sequence[Any] = (), **options: Any) -> Run:
    settings: dict[str, Any] = {"rounds": 5, "cohort": 4, "local": LOCAL, "seed": 1} | options
    return fk.simulate(
        fk.FedGroup(clusters=2), data, mclr(data), against=against, **simulate_arguments(settings)
    )


def test_clusters_win_where_labels_contradict(tiny: FederatedData) -> None:
    run = go(tiny, [fk.FedAvg()], rounds=10)
    ours = run.summary()
    theirs = run.against["fedavg"].summary()
    # One model cannot serve both halves.
    assert ours["best_accuracy"] > 0.8 > theirs["best_accuracy"]
    assert (ours["ari"], ours["nmi"]) == (1.0, 1.0)
    assert theirs["ari"] == 0.0


def test_the_summary_agrees_with_the_history(tiny: FederatedData) -> None:
    run = go(tiny, target=0.6)
    summary = run.summary()
    history = run.history
    assert list(history.index) == list(range(6))
    assert (
        summary["best_accuracy"]
        == history["accuracy"].max()
        == history["accuracy"][summary["best_round"]]
    )
    assert summary["final_accuracy"] == history["accuracy"].iloc[-1]
    reached = [record["round"] for record in run.records if record["accuracy"] >= 0.6]
    assert summary["rounds_to_target"] == reached[0]
    sums = history["discrepancy_sum"].dropna()
    assert summary["discrepancy_sum_mean"] == pytest.approx(sums.mean())
    assert summary["discrepancy_sum_variance"] == pytest.approx(sums.var(ddof=0))
    # There, they are of clients.
    assert not set(summary) & set(history) & {"discrepancy_mean", "discrepancy_variance"}
    assert summary["clusters"] == len(run.models) == 2
    assert (summary["bytes_down"], summary["bytes_up"]) == (
        history["bytes_down"].iloc[-1],
        history["bytes_up"].iloc[-1],
    )
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_partial_rounds_do_not_count_for_the_best(tiny: FederatedData) -> None:
    run = go(tiny)
    cheat = [{**record, "partial": record["round"] < 4} for record in run.records]
    cheat[2] = {**cheat[2], "accuracy": 1.0}
    changed = Run(
        config=run.config,
        records=cheat,
        state=run.state,
        client_columns=run.client_columns,
        seconds=run.seconds,
    )
    assert changed.summary()["best_round"] >= 4
    assert changed.summary()["best_accuracy"] == max(r["accuracy"] for r in cheat[4:])


def test_clients_are_listed_one_by_one(tiny: FederatedData) -> None:
    run = go(tiny)
    table = run.clients
    assert list(table["client"]) == list(range(12))
    np.testing.assert_array_equal(table["cluster"], run.assignment)
    np.testing.assert_array_equal(table["train_samples"], tiny.train.sizes)
    np.testing.assert_array_equal(table["test_samples"], tiny.test.sizes)
    np.testing.assert_array_equal(table["true_cluster"], tiny.true_clusters)
    assert table["correct"].sum() / table["test_samples"].sum() == run.summary()["final_accuracy"]
    assert np.isnan(table["accuracy"].iloc[11])  # it has no test samples


def test_bytes_are_models_sent(tiny: FederatedData) -> None:
    run = go(tiny, [fk.FedAvg()])
    model = 4 * (2 * 2 + 2)
    assert (
        run.against["fedavg"].summary()["bytes_down"]
        == 5 * 4 * model
        == run.against["fedavg"].summary()["bytes_up"]
    )
    assert run.summary()["bytes_down"] == (12 + 5 * 4) * model  # all clients are pre-trained once
    assert run.history["bytes_by_operation"].iloc[-1]["scoring.evaluate"] == [6 * 12 * model, 0]


def test_watching_and_keeping_change_nothing(tiny: FederatedData, tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    bare = go(tiny)
    kept = go(tiny, [fk.FedAvg()], out=tmp_path / "run", on_round=told.append)
    assert bare.models.tobytes() == kept.models.tobytes()
    assert bare.records == kept.records
    assert [r["method"] for r in told] == ["fedgroup"] * 6 + ["fedavg"] * 6


def test_a_run_folder_can_be_read_again(tiny: FederatedData, tmp_path: Path) -> None:
    run = go(tiny, [fk.FedAvg()], out=tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == FILES | {"against"}
    assert {p.name for p in (tmp_path / "run/against/fedavg").iterdir()} == FILES
    again = Run.load(tmp_path / "run")
    same(run, again)
    same(run.against["fedavg"], again.against["fedavg"])
    assert (
        json.loads((tmp_path / "run/summary.json").read_text()) == again.summary() == run.summary()
    )


def same(one: Run, other: Run) -> None:
    assert one.config == other.config
    assert one.records == other.records
    assert type(one.state) is type(other.state)
    assert one.models.tobytes() == other.models.tobytes()
    assert one.assignment.tobytes() == other.assignment.tobytes()
    pd.testing.assert_frame_equal(one.clients, other.clients)
    pd.testing.assert_frame_equal(one.history, other.history)


def test_a_run_in_memory_can_be_saved(tiny: FederatedData, tmp_path: Path) -> None:
    run = go(tiny, [fk.FedAvg()])
    assert run.save(tmp_path / "run") == tmp_path / "run"
    same(run, Run.load(tmp_path / "run"))
    with pytest.raises(StorageError, match="already holds a run"):
        run.save(tmp_path / "run")


def test_a_saved_run_can_be_resumed(tiny: FederatedData, tmp_path: Path) -> None:
    whole = go(tiny, [fk.FedAvg()], out=tmp_path / "whole", rounds=7)
    go(tiny, [fk.FedAvg()]).save(tmp_path / "once")
    Run.load(tmp_path / "once").save(tmp_path / "twice")
    for kept in ("once", "twice"):
        again = go(tiny, [fk.FedAvg()], out=tmp_path / kept, rounds=7, resume=True)
        assert again.models.tobytes() == whole.models.tobytes()
        assert again.records == whole.records
        assert again.against["fedavg"].records == whole.against["fedavg"].records


@pytest.mark.parametrize("number", [1, 4, 9, 14])
def test_saving_on_a_disk_that_fills_up_leaves_nothing(
    tiny: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    run = go(tiny, [fk.FedAvg()])
    fsync = os.fsync
    calls = iter(range(1, 100))

    def full(descriptor: int) -> None:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode) and next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    (tmp_path / "run").mkdir()
    (tmp_path / "run/notes.txt").write_text("mine")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        run.save(tmp_path / "run")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["notes.txt", "run"]
    run.save(tmp_path / "run")
    same(run, Run.load(tmp_path / "run"))


def test_a_failure_before_the_first_checkpoint_leaves_nothing(
    tiny: FederatedData, tmp_path: Path
) -> None:
    class Huge(Toy):
        def init(self, world: Any, stream: Any) -> Any:
            raise MemoryError

    with pytest.raises(MemoryError):
        fk.simulate(Huge(), tiny, mclr(tiny), rounds=1, cohort=2, out=tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())


UNTYPED = """
import sys, numpy as np, fedkin as fk

data = fk.data.digits(clients=4)
model = fk.models.mclr(data)
for options in (
    {"rounds": 2.5},
    {"cohort": True},
    {"seed": "x"},
    {"shift": fk.SwapAll},
    {"shift": "swap_all"},
    {"scoring": {"target": 1}},
    {"compute": 2},
    {"callbacks": 3},
):
    try:
        fk.simulate(fk.FedAvg(), data, model, **{"rounds": 1, "cohort": 2} | options)
    except fk.ConfigError as error:
        print(error)
for make in (
    lambda: fk.Scoring(target="all"),
    lambda: fk.Scoring(evaluate_every=None),
    lambda: fk.Compute(devices=1.5),
    lambda: fk.Compute(clients_per_batch=2.5),
):
    try:
        make()
    except fk.ConfigError as error:
        print(error)
scoring = fk.Scoring(target=np.float32(0.5))
compute = fk.Compute(clients_per_batch=np.int64(2))
numbers = {"rounds": np.int64(1), "cohort": np.int64(2), "scoring": scoring, "compute": compute}
print(fk.simulate(fk.FedAvg(), data, model, **numbers, out=sys.argv[1]).summary()["rounds"])
"""


def test_wrong_types_are_refused_without_a_type_checker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNTYPED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "run.rounds: expected a valid integer, got 2.5; for example rounds=50",
        "run.cohort: expected a valid integer, got True; for example cohort=10",
        "run.seed: expected a valid integer, got 'x'; for example seed=1",
        "shift must be an instance of a shift, such as SwapAll(), got <class "
        "'fedkin.scenarios.swaps.SwapAll'>",
        "shift must be an instance of a shift, such as SwapAll(), got 'swap_all'",
        "scoring must be an instance, fk.Scoring(...), got {'target': 1}",
        "compute must be an instance, fk.Compute(...), got 2",
        "callbacks must be functions of a round's record, trackers, or names of trackers "
        "(tensorboard, mlflow, wandb, prometheus); got 3",
        "scoring.target: expected a valid number, got 'all'; for example target=0.8",
        "scoring.evaluate_every: expected a valid integer, got None; for example evaluate_every=1",
        "compute.devices: expected a valid integer, got 1.5; for example devices=1",
        "compute.clients_per_batch: expected a valid integer, got 2.5; for example "
        "clients_per_batch=4",
        "1",  # numbers of NumPy's are numbers, and go into a run's folder
    ]


def test_resuming_from_python(tiny: FederatedData, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["method"] == "fedavg" and record["round"] == 3:
            raise Stop

    whole = go(tiny, [fk.FedAvg()], out=tmp_path / "whole")
    with pytest.raises(Stop):
        go(tiny, [fk.FedAvg()], out=tmp_path / "cut", on_round=stop)
    with pytest.raises(CheckpointError, match="not finished"):
        Run.load(tmp_path / "cut")
    again = go(tiny, [fk.FedAvg()], out=tmp_path / "cut", resume=True)
    for name in (".", "against/fedavg"):
        for file in ("metrics.jsonl", "clients.parquet"):
            assert (tmp_path / "cut" / name / file).read_bytes() == (
                tmp_path / "whole" / name / file
            ).read_bytes()
    assert again.models.tobytes() == whole.models.tobytes()


def test_a_finished_run_resumes_to_itself(tiny: FederatedData, tmp_path: Path) -> None:
    run = go(tiny, out=tmp_path / "run")
    same(run, go(tiny, out=tmp_path / "run", resume=True))


def test_other_data_are_noticed(tiny: FederatedData, tmp_path: Path) -> None:
    go(tiny, out=tmp_path / "run")
    other = replace(tiny, y=1 - tiny.y)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        go(other, out=tmp_path / "run", resume=True)


def test_another_model_is_noticed(tiny: FederatedData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rounds": 1, "cohort": 4, "local": LOCAL, "out": tmp_path / "run"}
    fk.simulate(fk.FedAvg(), tiny, mclr(tiny), **simulate_arguments(settings))
    with pytest.raises(CheckpointError, match="belongs to another run"):
        fk.simulate(
            fk.FedAvg(), tiny, mclr(tiny, l2=5.0), resume=True, **simulate_arguments(settings)
        )
    fk.simulate(fk.FedAvg(), tiny, mclr(tiny), resume=True, **simulate_arguments(settings))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"cohort": 13},
            ConfigError,
            r"run\.cohort must be at most the number of clients \(12\), got 13",
        ),
        (
            {"against": [fk.FedGrouProx(clusters=13)]},
            ConfigError,
            r"^run\.against: fedgrouprox: FedGrouProx needs at least 13 clients \(clusters = "
            r"13\), .* set clusters=12$",
        ),
        ({"against": [fk.FedGroup(clusters=3)]}, ConfigError, "'fedgroup' is given twice"),
        (
            {"local": fk.LocalTraining(mu=0.1)},
            ConfigError,
            r"local: mu and partial belong to the method",
        ),
        (
            {"local": fk.LocalTraining(partial=True)},
            ConfigError,
            r"local: mu and partial belong to the method",
        ),
        (
            {"target": 7.0},
            ConfigError,
            r"scoring\.target: expected a value less than or equal to 1, got 7",
        ),
        (
            {"clients_per_batch": -3},
            ConfigError,
            r"compute\.clients_per_batch: .* greater than or equal to 1, got -3",
        ),
        ({"resume": True, "out": None}, ConfigError, r"resume=True needs out="),
        ({"against": [fk.FedAvg(), fk.FedAvg()]}, ConfigError, "given twice"),
        ({"rounds": 0}, ConfigError, r"run\.rounds"),
        ({"devices": 10_000}, ConfigError, "devices must be between"),
        (
            {"scenario": fk.Population(dropout=1.0)},
            MethodError,
            "cold start of 2 clusters: only 0 of",
        ),
        (
            {"scenario": fk.Population(departures={3: 12})},
            ConfigError,
            "^scenario: departures .* in round 3: 12 have",
        ),
        (
            {"scenario": fk.Population(arrivals={4: 6}, departures={2: 6})},
            ConfigError,
            "^scenario: departures .* in round 2: 6 h",
        ),
        (
            {"scenario": fk.Population(arrivals={1: 12})},
            ConfigError,
            "^scenario: arrivals .* in round 0: 12 of 12",
        ),
    ],
)
def test_a_refused_call_leaves_nothing_behind(
    tiny: FederatedData,
    tmp_path: Path,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        go(tiny, **merged({"out": tmp_path / "new" / "run"}, options))
    assert not list(tmp_path.iterdir())


def test_departures_after_the_last_round_do_not_matter(tiny: FederatedData) -> None:
    assert len(go(tiny, scenario=fk.Population(departures={6: 12})).records) == 6


def test_ones_own_method_is_called_by_its_class(tiny: FederatedData, tmp_path: Path) -> None:
    run = fk.simulate(
        Toy(clusters=3), tiny, mclr(tiny), rounds=2, cohort=4, local=LOCAL, out=tmp_path / "run"
    )
    assert run.summary()["method"] == "toy"
    assert run.config.method == {"name": "toy", "clusters": 3, "warm": 100}
    same(run, Run.load(tmp_path / "run"))


def test_a_damaged_table_of_clients_is_an_error(tiny: FederatedData, tmp_path: Path) -> None:
    go(tiny, out=tmp_path / "run")
    (tmp_path / "run/clients.parquet").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"clients\.parquet cannot be read"):
        Run.load(tmp_path / "run")
