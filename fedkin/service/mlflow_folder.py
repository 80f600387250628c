"""An MLflow model (pyfunc) of all clusters, from code: ``fedkin export --format mlflow``."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.errors import StorageError
from fedkin.core.storage import storage_errors
from fedkin.export import load
from fedkin.export.formats import library
from fedkin.export.reader import Export
from fedkin.service.models import LoadedModels

INNER = "safetensors"  # the format of the export in the folder
_EXPORT = "export"  # its name among the artifacts
CODE = Path(__file__).with_name("mlflow_code.py")


def write_mlflow(write: Callable[[Path], Path], path: Path) -> Path:
    """Write an MLflow model whose artifact is an export. ``mlflow.pyfunc.load_model`` reads it.

    Args:
        write: writes the export into a folder.
        path: the new folder.

    Returns:
        The path of the export's ``card.json`` in the folder.

    Raises:
        MissingExtra: MLflow is not installed.
        ModelError: the export cannot be loaded without the user's code.
        StorageError: the folder exists and is not empty, or cannot be written.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StorageError(f"{path} exists and is not empty; name a new folder for the export")
    pyfunc = _library("mlflow.pyfunc")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.")
    with temporary as name:
        folder = Path(name) / _EXPORT
        write(folder)
        export = load(folder)
        # An export that cannot be loaded is refused now, not when it is served.
        served = LoadedModels(export)
        with storage_errors(path), warnings.catch_warnings():
            # Warnings of MLflow about its own code do not concern the user.
            warnings.simplefilter("ignore")
            pyfunc.save_model(
                path=str(path),
                python_model=str(CODE),
                # Keys that loading may set.
                model_config={"client": "", "cluster": -1},
                artifacts={_EXPORT: str(folder)},
                signature=signature_of(export),
                pip_requirements=[f"fedkin=={__version__}"],
                metadata=_facts(export, served),
            )
    return path / "artifacts" / _EXPORT / "card.json"


def _library(module: str) -> Any:
    """A module of MLflow. Raises MissingExtra without it."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library(module, "format 'mlflow'", "mlflow")


def signature_of(export: Export) -> Any:
    """The input of an export, and the parameters that choose a model, in MLflow's form."""
    models = _library("mlflow.models")
    types = _library("mlflow.types")
    schema = _library("mlflow.types.schema")
    samples = export.card["input"]
    if samples["features"] and samples.get("transform", {}).get("encoding") is None:
        columns = [types.ColSpec("double", str(name)) for name in samples["features"]]
        inputs = types.Schema(columns)
    elif samples["features"]:
        inputs = None  # columns of text and of numbers, some of them missing
    else:
        shape = (-1, *samples["shape"])
        inputs = types.Schema([types.TensorSpec(np.dtype(samples["dtype"]), shape)])
    parameters = types.ParamSchema(
        [
            schema.ParamSpec("client", "string", ""),
            schema.ParamSpec("cluster", "long", -1),
        ]
    )
    return models.ModelSignature(inputs=inputs, params=parameters)


def _facts(export: Export, served: LoadedModels) -> dict[str, Any]:
    """What MLflow shows about the model."""
    card = export.card
    method = card.get("method") or {}
    return {
        "fedkin.run": card.get("run"),
        "fedkin.method": method.get("name"),
        "fedkin.rounds": card.get("rounds"),
        "fedkin.data": card.get("data"),
        "fedkin.models": list(served.models),
    }
