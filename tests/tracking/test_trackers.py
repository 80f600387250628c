"""Trackers: their calls, that nothing they do changes a run, and that their files can be read
again."""

from __future__ import annotations

import json
import logging
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.data.federated import FederatedData
from fedkin.tracking import tensorboard
from fedkin.tracking.registry import make_trackers
from fedkin.tracking.tracker import flat_numbers, flat_settings, run_name
from tests.option_lists import simulate_arguments
from tests.refusals import refused

MODELS: dict[int, fk.models.Model] = {}


class Notes:
    """A tracker that writes everything down."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, dict, Path | None]] = []
        self.rounds: list[tuple[str, int]] = []
        self.ended: list[dict | None] = []

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        self.begun.append((name, description, folder))

    def __call__(self, record: dict[str, Any]) -> None:
        self.rounds.append((record["method"], record["round"]))

    def end(self, summary: dict[str, Any] | None) -> None:
        self.ended.append(summary)


def simulate(
    data: FederatedData, out: Path | None = None, rounds: int = 4, **options: Any
) -> fk.Run:
    # One object, so that it compiles once.
    model = MODELS.setdefault(id(data), fk.models.mclr(data))
    return fk.simulate(
        fk.IFCA(clusters=2),
        data,
        model,
        rounds=rounds,
        cohort=6,
        out=out,
        **simulate_arguments({"scoring": fk.Scoring(checkpoint_every=2)} | options),
    )


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def stopped_at(round: int) -> Any:
    def stop(record: dict[str, Any]) -> None:
        if record["round"] == round:
            raise KeyboardInterrupt

    return stop


# --- calls of a tracker


def test_every_round_of_every_method_and_how_it_ended(tiny: FederatedData, tmp_path: Path) -> None:
    notes = Notes()
    run = simulate(tiny, tmp_path / "mine", rounds=2, against=[fk.FedAvg()], callbacks=notes)
    assert [begun[0] for begun in notes.begun] == ["mine ifca seed 0", "mine fedavg seed 0"]
    assert [begun[2] for begun in notes.begun] == [
        tmp_path / "mine",
        tmp_path / "mine/against/fedavg",
    ]
    assert notes.begun[0][1]["method"]["clusters"] == 2
    assert notes.rounds == [(method, round) for method in ("ifca", "fedavg") for round in (0, 1, 2)]
    assert notes.ended == [run.summary(), run.against["fedavg"].summary()]


def test_without_a_folder_a_run_is_called_after_its_data(tiny: FederatedData) -> None:
    notes = Notes()
    simulate(tiny, rounds=1, seed=3, callbacks=notes)
    assert notes.begun[0][0] == "tiny ifca seed 3" and notes.begun[0][2] is None
    assert notes.rounds == [("ifca", 0), ("ifca", 1)]


def test_seeds_keep_the_name_of_the_folder_that_was_asked_for() -> None:
    description = {"data": {"name": "digits"}, "method": {"name": "fedavg"}, "run": {"seed": 3}}
    assert run_name(description, Path("runs/many/seeds/3/against/fedavg")) == "many fedavg seed 3"


def test_a_resumed_run_tells_no_round_twice(tiny: FederatedData, tmp_path: Path) -> None:
    """It stops in round 3 and goes on from the checkpoint of round 2."""
    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        simulate(tiny, tmp_path / "run", callbacks=[notes, stopped_at(3)])
    assert notes.ended == [None]
    simulate(tiny, tmp_path / "run", resume=True, callbacks=notes)
    assert notes.rounds == [("ifca", round) for round in range(5)]
    assert len(notes.ended) == 2 and notes.ended[1]


def test_a_run_that_is_tracked_later_sends_its_records(tiny: FederatedData, tmp_path: Path) -> None:
    simulate(tiny, tmp_path / "run", rounds=2)
    early = Notes()
    late = Notes()
    # Nothing is left to do.
    simulate(tiny, tmp_path / "run", rounds=2, resume=True, callbacks=early)
    simulate(tiny, tmp_path / "run", rounds=3, resume=True, callbacks=late)
    assert early.rounds == [("ifca", round) for round in range(3)] and early.ended[0]
    assert late.rounds == [("ifca", 3)]  # of the same kind: it knows the others


def test_figures_are_flat_numbers() -> None:
    record = {
        "round": 4,
        "method": "ifca",
        "accuracy": 0.5,
        "ari": None,
        "partial": False,
        "trust": "ff",
    }
    record |= {
        "accuracy_by_cluster": [0.25, None],
        "bytes_by_operation": {"train": [3, 7]},
        "cluster_sizes": [1] * 33,
    }
    expected = {"accuracy": 0.5, "partial": 0.0, "accuracy_by_cluster/0": 0.25}
    assert flat_numbers(record) == expected | {
        "bytes_by_operation/train/0": 3.0,
        "bytes_by_operation/train/1": 7.0,
    }


def test_settings_are_flat_too() -> None:
    description = {"method": {"name": "ifca", "clusters": 2}, "run": {"against": []}}
    assert flat_settings(description) == {
        "method.name": "ifca",
        "method.clusters": 2,
        "run.against": "[]",
    }


# --- nothing they do changes a run


class Meddler(Notes):
    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        description["method"].clear()

    def __call__(self, record: dict[str, Any]) -> None:
        record["accuracy"] = 1.0
        record["cluster_sizes"].clear()

    def end(self, summary: dict[str, Any] | None) -> None:
        assert summary
        summary.clear()


class Failing(Notes):
    def __call__(self, record: dict[str, Any]) -> None:
        super().__call__(record)
        if record["round"] == 1:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("tracker", [Meddler, Failing, Notes])
def test_a_run_is_the_same_with_and_without(
    tiny: FederatedData, tmp_path: Path, tracker: type[Notes]
) -> None:
    simulate(tiny, tmp_path / "without")
    simulate(tiny, tmp_path / "with", callbacks=tracker())
    for file in ("config.toml", "metrics.jsonl", "migrations.jsonl", "clients.parquet"):
        assert (tmp_path / "with" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()


def test_a_tracker_that_fails_is_dropped_with_one_warning(
    tiny: FederatedData, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing()
    notes = Notes()
    with caplog.at_level(logging.WARNING, "fedkin"):
        simulate(tiny, tmp_path / "run", callbacks=[failing, notes])
    assert len(caplog.records) == 1
    assert "tracker Failing failed" in caplog.text and "No space left on device" in caplog.text
    assert [round for _, round in failing.rounds] == [0, 1] and not failing.ended
    assert [round for _, round in notes.rounds] == [0, 1, 2, 3, 4] and notes.ended


# --- TensorBoard


def events(folder: Path) -> list[Any]:
    """All events of a folder's files, by the frame of TFRecord: length (8), checksum (4), bytes,
    checksum (4)."""
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for file in sorted(folder.glob("events.out.tfevents.*")):
        raw = file.read_bytes()
        while raw:
            (length,) = struct.unpack("<Q", raw[:8])
            data = raw[12 : 12 + length]
            sums = (
                struct.unpack("<I", raw[8:12]),
                struct.unpack("<I", raw[12 + length : 16 + length]),
            )
            assert sums == ((masked_crc32c(raw[:8]),), (masked_crc32c(data),))
            event = Event()
            event.ParseFromString(data)
            found.append(event)
            raw = raw[16 + length :]
    return found


def scalars(folder: Path) -> list[tuple[int, str, float]]:
    return [
        (e.step, v.tag, v.simple_value)
        for e in events(folder)
        for v in e.summary.value
        if not v.HasField("metadata")
    ]


def test_tensorboard_has_every_figure_once_though_the_run_was_interrupted(
    tiny: FederatedData, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        simulate(tiny, out, callbacks=["tensorboard", stopped_at(3)])
    simulate(tiny, out, resume=True, callbacks="tensorboard")
    written = scalars(out)
    assert max(Counter((step, tag) for step, tag, _ in written).values()) == 1
    for name in ("accuracy", "bottom_decile", "loss", "bytes_down", "ari"):
        kept = [
            (r["round"], pytest.approx(r[name], rel=1e-6))
            for r in records(out)
            if r[name] is not None
        ]
        assert kept and [(step, value) for step, tag, value in written if tag == name] == kept
    sizes = [
        value for step, tag, value in written if step == 4 and tag.startswith("cluster_sizes/")
    ]
    assert sizes == records(out)[4]["cluster_sizes"]
    assert all(e.file_version == "brain.Event:2" for e in events(out) if e.file_version)


def test_tensorboard_has_the_hyper_parameters(tiny: FederatedData, tmp_path: Path) -> None:
    from tensorboardX.proto.plugin_hparams_pb2 import (
        HParamsPluginData,  # pyright: ignore[reportAttributeAccessIssue]
    )

    simulate(tiny, tmp_path / "run", rounds=1, callbacks="tensorboard")
    simulate(tiny, tmp_path / "run", rounds=2, resume=True, callbacks="tensorboard")
    starts = []
    for event in events(tmp_path / "run"):
        for value in event.summary.value:
            if value.tag == "_hparams_/session_start_info":
                content = HParamsPluginData()
                content.ParseFromString(value.metadata.plugin_data.content)
                starts.append(content.session_start_info.hparams)
    assert len(starts) == 1
    assert (
        starts[0]["method.name"].string_value == "ifca"
        and starts[0]["method.clusters"].number_value == 2
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_tensorboard_on_a_full_disk_is_dropped_with_one_warning(
    tiny: FederatedData,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The thread of its writer dies without notice: the file no longer grows."""
    from tensorboardX.event_file_writer import EventsWriter

    write = EventsWriter.write_event

    def full(self: Any, event: Any) -> Any:
        if event.step == 3:
            raise OSError(28, "No space left on device")
        return write(self, event)

    simulate(tiny, tmp_path / "run", rounds=2, callbacks="tensorboard")
    monkeypatch.setattr(tensorboard, "_PATIENCE", 0.1)
    monkeypatch.setattr(EventsWriter, "write_event", full)
    with caplog.at_level(logging.WARNING, "fedkin"):
        run = simulate(tiny, tmp_path / "run", rounds=4, resume=True, callbacks="tensorboard")
    assert len(run.records) == 5 and len(caplog.records) == 1
    assert "tracker TensorBoard failed" in caplog.text


def test_every_seed_and_every_method_has_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ["run.rounds=1", "run.cohort=3", "local.epochs=1", "data.clients=8", "run.seeds=2"]
    done = CliRunner().invoke(app, ["run", *quick, "--track", "tensorboard", "--out", "many"])
    assert done.exit_code == 0, done.output
    for inner in ("seeds/0", "seeds/1", "seeds/0/against/fedavg", "seeds/1/against/fedavg"):
        assert {step for step, _, _ in scalars(tmp_path / "many" / inner)} == {0, 1}


# --- MLflow and Weights & Biases


def test_mlflow_keeps_one_run_in_a_local_store(
    tiny: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip(
        "mlflow", reason="mlflow-skinny is not installed: pip install 'fedkin[mlflow]'"
    )
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    with pytest.raises(KeyboardInterrupt):
        simulate(tiny, tmp_path / "run", callbacks=["mlflow", stopped_at(3)])
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("fedkin")
    assert experiment
    assert [run.info.status for run in client.search_runs([experiment.experiment_id])] == ["KILLED"]
    summary = simulate(tiny, tmp_path / "run", resume=True, callbacks="mlflow").summary()
    (kept,) = client.search_runs([experiment.experiment_id])
    assert (kept.info.run_name, kept.info.status) == ("run ifca seed 0", "FINISHED")
    assert kept.data.params["method.clusters"] == "2" and kept.data.params["data.name"] == "tiny"
    history = sorted(
        (m.step, m.value) for m in client.get_metric_history(kept.info.run_id, "accuracy")
    )
    assert history == [
        (r["round"], r["accuracy"]) for r in records(tmp_path / "run") if r["accuracy"] is not None
    ]
    assert kept.data.metrics["summary/bytes_up"] == summary["bytes_up"]


def wandb_records(file: Path) -> list[Any]:
    """The records of an offline file: after a header of 7 bytes, blocks of 32 kB, in them chunks
    behind a checksum (4), a length (2) and a kind (1): whole (1), first (2), middle (3) or last
    (4)."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    raw = file.read_bytes()
    found = []
    part = b""
    at = 7
    while at + 7 <= len(raw):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", raw[at : at + 7])
        part += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(part)
            found.append(record)
            part = b""
    return found


def test_wandb_stays_offline_and_asks_nothing(
    tiny: FederatedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed: pip install 'fedkin[wandb]'")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        simulate(tiny, tmp_path / "run", rounds=3, callbacks=["wandb", stopped_at(1)])
    simulate(tiny, tmp_path / "run", rounds=3, resume=True, callbacks="wandb")
    files = sorted((tmp_path / "run/wandb").glob("offline-run-*/run-*.wandb"))
    assert files and len({file.stem for file in files}) == 1  # a run that goes on keeps its id
    written = [record for file in files for record in wandb_records(file)]
    assert {r.run.display_name for r in written if r.HasField("run")} == {"run ifca seed 0"}
    history = [
        {i.key or i.nested_key[0]: json.loads(i.value_json) for i in r.history.item}
        for r in written
    ]
    told = [(row["_step"], row["accuracy"]) for row in history if "accuracy" in row]
    assert told == [
        (r["round"], pytest.approx(r["accuracy"]))
        for r in records(tmp_path / "run")
        if r["accuracy"]
    ]


# --- refusals


def test_unknown_and_missing_trackers_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    refused(
        run(app, ["run", "--track", "tensorbord"]),
        "unknown tracker 'tensorbord'",
        "did you mean 'tensorboard'?",
    )
    twice = ["run", "--track", "tensorboard", "--track", "tensorboard"]
    refused(run(app, twice), "TensorBoard", "twice")
    monkeypatch.setitem(sys.modules, "wandb", None)
    refused(run(app, ["run", "--track", "wandb"]), "wandb", "pip install 'fedkin[wandb]'")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("track", [[print], [Notes], "tensorboard", ["tensorboard"]])
def test_objects_that_are_no_tracker_or_have_no_folder_are_refused(track: Any) -> None:
    with pytest.raises(fk.ConfigError, match="track"):
        make_trackers(track, None)
