"""Trackers that many use already: TensorBoard, MLflow, and Weights & Biases. None needs a server or a network."""

from __future__ import annotations

import importlib
import netrc
import os
import struct
import time
from pathlib import Path
from typing import Any

from fedkin.core.errors import MissingExtra
from fedkin.core.records import Record
from fedkin.core.storage import storing
from fedkin.tracking.tracker import TRACKED, figures, outermost, settings


class TensorBoard:
    """Event files in the run's own folder, for ``tensorboard --logdir runs``; every process writes its own."""

    def __init__(self) -> None:
        self._event = _imported("tensorboardX.proto.event_pb2").Event
        self._summary = _imported("tensorboardX.proto.summary_pb2").Summary
        self._hparams = _imported("tensorboardX.summary").hparams
        self._checksum = _imported("tensorboardX.record_writer").masked_crc32c

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        assert folder is not None
        self._known = any(folder.glob("events.out.tfevents.*"))
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.fedkin"
        self._open = False
        watched = dict.fromkeys(("accuracy", "bottom_decile", "loss", "ari"), 0.0)
        self._parts = self._hparams(settings(description), watched)  # what there is, where it starts, that it ended

    def __call__(self, record: Record) -> None:
        if not self._open:
            self._append(file_version="brain.Event:2")
            self._open = True
            for part in () if self._known else self._parts[:2]:
                self._append(summary=part)
        values = [self._summary.Value(tag=tag, simple_value=number) for tag, number in figures(record).items()]
        self._append(step=record["round"], summary=self._summary(value=values))

    def end(self, summary: dict[str, Any] | None) -> None:
        if self._open and summary is not None:
            self._append(summary=self._parts[2])

    def _append(self, **content: Any) -> None:
        """One event, framed as TFRecord: length, its checksum, the bytes, theirs. It is written when this returns, so
        that a full disk is noticed here."""
        data = self._event(wall_time=time.time(), **content).SerializeToString()
        head = struct.pack("<Q", len(data))
        frame = (head, struct.pack("<I", self._checksum(head)), data, struct.pack("<I", self._checksum(data)))
        with storing(self._path), self._path.open("ab") as file:
            file.write(b"".join(frame))


class MLflow:
    """A local store, ``mlruns`` beside the run's folder; or the server that $MLFLOW_TRACKING_URI names."""

    def __init__(self) -> None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # the small client has no other store without a server
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self._mlflow = _imported("mlflow", "mlflow")
        self._entities = _imported("mlflow.entities", "mlflow")

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        assert folder is not None
        store = (outermost(folder).resolve().parent / "mlruns").as_uri()
        self._client = self._mlflow.MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or store)
        kept = folder / TRACKED / "MLflow.id"
        if kept.exists():
            self._run = kept.read_text().strip()
            return self._client.update_run(self._run, status="RUNNING")
        self._run = self._client.create_run(self._experiment(), run_name=name).info.run_id
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(f"{self._run}\n")
        flat = settings(description).items()
        self._client.log_batch(self._run, params=[self._entities.Param(key, str(value)) for key, value in flat])

    def __call__(self, record: Record) -> None:
        self._log(figures(record), record["round"])

    def end(self, summary: dict[str, Any] | None) -> None:
        if summary is not None:
            self._log({f"summary/{name}": number for name, number in figures(summary).items()}, summary["rounds"])
        self._client.set_terminated(self._run, "FINISHED" if summary is not None else "KILLED")

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "fedkin")
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)

    def _log(self, numbers: dict[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(name, number, now, step) for name, number in numbers.items()]
        self._client.log_batch(self._run, metrics=metrics)


class WandB:
    """Weights & Biases: offline, in the run's folder, unless someone is logged in or $WANDB_MODE says otherwise."""

    def __init__(self) -> None:
        self._wandb = _imported("wandb", "wandb")

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        assert folder is not None
        earlier = sorted((folder / "wandb").glob("*run-*-*"))  # run-TIME-ID; what goes on keeps its id
        mode = os.environ.get("WANDB_MODE") or ("online" if _logged_in() else "offline")
        quiet = self._wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True)
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "fedkin"),
            group=outermost(folder).resolve().name,
            name=name,
            id=earlier[-1].name.rsplit("-", 1)[1] if earlier else None,
            resume="allow" if earlier and mode == "online" else None,
            dir=str(folder),
            mode=mode,  # type: ignore[arg-type]
            config=description,
            reinit="create_new",  # a run that the caller has open stays open
            settings=quiet,
        )

    def __call__(self, record: Record) -> None:
        self._run.log(figures(record), step=record["round"])

    def end(self, summary: dict[str, Any] | None) -> None:
        self._run.summary.update(summary or {})
        self._run.finish(exit_code=0 if summary is not None else 1)


def _logged_in() -> bool:
    """Whether Weights & Biases has a key: in the environment, or where its ``login`` puts it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        known = netrc.netrc().hosts
    except (OSError, netrc.NetrcParseError):
        return False
    return any(host.endswith("wandb.ai") for host in known)


def _imported(module: str, extra: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        what = f"pip install 'fedkin[{extra}]'" if extra else f"pip install {package}"
        raise MissingExtra(f"tracking needs {package}, which is not installed: {what} ({error})") from error


TRACKERS: dict[str, type] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
