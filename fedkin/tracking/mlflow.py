"""Tracker for MLflow. It logs to a local store ``mlruns`` next to the run's folder, or to the
server in $MLFLOW_TRACKING_URI."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from fedkin.core.records import Record
from fedkin.tracking.optional_import import import_library
from fedkin.tracking.tracker import TRACKED, flat_numbers, flat_settings, outermost_folder


class MLflow:
    """Logs each run as an MLflow run, which continues when the run is resumed."""

    def __init__(self) -> None:
        # Permit MLflow to log into a folder: without a server, its small client has no other store.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self._mlflow = import_library("mlflow", "mlflow")
        self._entities = import_library("mlflow.entities", "mlflow")

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """Create the MLflow run with the run's settings, or continue it if the run is resumed."""
        assert folder is not None
        store = (outermost_folder(folder).resolve().parent / "mlruns").as_uri()
        self._client = self._mlflow.MlflowClient(
            tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or store
        )
        # A resumed run continues the MLflow run whose id is stored in its folder.
        id_file = folder / TRACKED / "MLflow.id"
        if id_file.exists():
            self._run = id_file.read_text().strip()
            self._client.update_run(self._run, status="RUNNING")
            return
        self._run = self._client.create_run(self._experiment(), run_name=name).info.run_id
        id_file.parent.mkdir(exist_ok=True)
        id_file.write_text(f"{self._run}\n")
        flat = flat_settings(description).items()
        self._client.log_batch(
            self._run, params=[self._entities.Param(key, str(value)) for key, value in flat]
        )

    def __call__(self, record: Record) -> None:
        """Log the numbers of a round."""
        self._log(flat_numbers(record), record["round"])

    def end(self, summary: dict[str, Any] | None) -> None:
        """Log the numbers of the summary, and mark the MLflow run as finished; without a summary,
        mark this run as killed."""
        if summary is not None:
            self._log(
                {f"summary/{name}": number for name, number in flat_numbers(summary).items()},
                summary["rounds"],
            )
        self._client.set_terminated(self._run, "FINISHED" if summary is not None else "KILLED")

    def _experiment(self) -> str:
        """The id of the MLflow experiment, which is created if it does not exist."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "fedkin")
        experiment = self._client.get_experiment_by_name(name)
        return experiment.experiment_id if experiment else self._client.create_experiment(name)

    def _log(self, numbers: dict[str, float], step: int) -> None:
        """Log numbers by name as MLflow metrics. ``step`` is the number of the round."""
        now = int(time.time() * 1000)
        metrics = [
            self._entities.Metric(name, number, now, step) for name, number in numbers.items()
        ]
        self._client.log_batch(self._run, metrics=metrics)
