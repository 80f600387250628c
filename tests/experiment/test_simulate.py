"""From data, model and method to a run, and its folder, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.data.federated import FederatedData
from fedkin.errors import CheckpointError, ConfigError, MethodError, StorageError
from fedkin.experiment.results import Run
from fedkin.models import mclr
from tests.experiment.toy import Toy

LOCAL = fk.SGD(epochs=2, batch_size=5, lr=0.5)
FILES = {
    *("config.toml", "environment.json", "metrics.jsonl", "timings.jsonl", "clients.parquet"),
    *("checkpoints", "summary.json", "figure.png", "figure.svg"),
}


def go(data: FederatedData, against: Sequence[Any] = (), **options: Any) -> Run:
    settings: dict[str, Any] = {"rounds": 5, "cohort": 4, "local": LOCAL, "seed": 1} | options
    return fk.simulate(fk.FedGroup(clusters=2), data, mclr(data), against=against, **settings)


def test_clusters_win_where_labels_contradict(tiny: FederatedData) -> None:
    run = go(tiny, [fk.FedAvg()], rounds=10)
    ours, theirs = run.summary(), run.against["fedavg"].summary()
    assert ours["best_accuracy"] > 0.8 > theirs["best_accuracy"]  # one model cannot serve both halves
    assert (ours["ari"], ours["nmi"]) == (1.0, 1.0)
    assert theirs["ari"] == 0.0


def test_the_summary_agrees_with_the_history(tiny: FederatedData) -> None:
    run = go(tiny, target=0.6)
    summary, history = run.summary(), run.history
    assert list(history.index) == list(range(6))
    assert summary["best_accuracy"] == history["accuracy"].max() == history["accuracy"][summary["best_round"]]
    assert summary["final_accuracy"] == history["accuracy"].iloc[-1]
    reached = [record["round"] for record in run.records if record["accuracy"] >= 0.6]
    assert summary["rounds_to_target"] == reached[0]
    assert summary["discrepancy_mean"] == pytest.approx(history["discrepancy_sum"].dropna().mean())
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
    changed = Run(run.config, cheat, run.state, run.clients, run.seconds)
    assert changed.summary()["best_round"] >= 4
    assert changed.summary()["best_accuracy"] == max(r["accuracy"] for r in cheat[4:])


def test_clients_are_listed_one_by_one(tiny: FederatedData) -> None:
    run = go(tiny)
    table = run.clients
    assert list(table["client"]) == list(range(12))
    np.testing.assert_array_equal(table["cluster"], run.assignment)
    np.testing.assert_array_equal(table["train_samples"], tiny.train.sizes)
    np.testing.assert_array_equal(table["test_samples"], tiny.test.sizes)
    np.testing.assert_array_equal(table["truth"], tiny.truth)
    assert table["correct"].sum() / table["test_samples"].sum() == run.summary()["final_accuracy"]
    assert np.isnan(table["accuracy"].iloc[11])  # it has no test samples


def test_bytes_are_models_sent(tiny: FederatedData) -> None:
    run = go(tiny, [fk.FedAvg()])
    model = 4 * (2 * 2 + 2)
    assert run.against["fedavg"].summary()["bytes_down"] == 5 * 4 * model == run.against["fedavg"].summary()["bytes_up"]
    assert run.summary()["bytes_down"] == (12 + 5 * 4) * model  # all clients are pre-trained once
    assert run.history["bytes_by_verb"].iloc[-1]["scoring.evaluate"] == [6 * 12 * model, 0]


def test_watching_and_keeping_change_nothing(tiny: FederatedData, tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    bare, kept = go(tiny), go(tiny, [fk.FedAvg()], out=tmp_path / "run", on_round=told.append)
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
    assert json.loads((tmp_path / "run/summary.json").read_text()) == again.summary() == run.summary()


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
        for file in ("metrics.jsonl", "clients.parquet", "figure.svg"):
            assert (tmp_path / "cut" / name / file).read_bytes() == (tmp_path / "whole" / name / file).read_bytes()
    assert again.models.tobytes() == whole.models.tobytes()


def test_a_finished_run_resumes_to_itself(tiny: FederatedData, tmp_path: Path) -> None:
    run = go(tiny, out=tmp_path / "run")
    same(run, go(tiny, out=tmp_path / "run", resume=True))


def test_other_data_are_noticed(tiny: FederatedData, tmp_path: Path) -> None:
    go(tiny, out=tmp_path / "run")
    other = replace(tiny, y=1 - tiny.y)
    with pytest.raises(CheckpointError, match="belongs to another run"):
        go(other, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cohort": 13}, ConfigError, r"run\.cohort must be at most the number of clients \(12\), got 13"),
        ({"against": [fk.FedGroup(clusters=13)]}, ConfigError, r"method\.clusters must be at most"),
        ({"against": [fk.FedAvg(), fk.FedAvg()]}, ConfigError, "named twice"),
        ({"rounds": 0}, ConfigError, r"run\.rounds"),
        ({"devices": 10_000}, ConfigError, "devices must be between"),
        ({"scenario": fk.Population(dropout=1.0)}, MethodError, "cold start of 2 clusters: 0 of"),
    ],
)
def test_what_cannot_be_leaves_nothing_behind(
    tiny: FederatedData, tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        go(tiny, out=tmp_path / "new" / "run", **options)
    assert not list(tmp_path.iterdir())


def test_ones_own_method_is_called_by_its_class(tiny: FederatedData, tmp_path: Path) -> None:
    run = fk.simulate(Toy(clusters=3), tiny, mclr(tiny), rounds=2, cohort=4, local=LOCAL, out=tmp_path / "run")
    assert run.summary()["method"] == "toy"
    assert run.config["method"] == {"name": "toy", "clusters": 3, "warm": 100}
    same(run, Run.load(tmp_path / "run"))


def test_a_damaged_table_of_clients_is_an_error(tiny: FederatedData, tmp_path: Path) -> None:
    go(tiny, out=tmp_path / "run")
    (tmp_path / "run/clients.parquet").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"clients\.parquet cannot be read"):
        Run.load(tmp_path / "run")
