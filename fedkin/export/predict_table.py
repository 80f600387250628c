"""Predictions for a file of samples: a table with a row for each, or the array ``x`` of an npz file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from fedkin.core.errors import ConfigError, DataError, ModelError, unknown
from fedkin.data.files import read_npz, read_table
from fedkin.export.columns import values_of
from fedkin.export.predictor import Classifier, Decisions, encoded_labels
from fedkin.export.reader import NEWCOMER, Export

if TYPE_CHECKING:
    import pandas as pd

_SPLIT = "split"
_PROBABILITY = "probability_"


class Predictions(NamedTuple):
    """Predictions of a file.

    Attributes:
        table: a row for each sample: ``prediction``, and ``probability_LABEL`` for each class.
        accuracy: where the file has labels.
    """

    table: pd.DataFrame
    accuracy: float | None


class _File(NamedTuple):
    """What a file holds: samples, and labels and clients where it has them."""

    x: Shaped[np.ndarray, "B ..."]
    y: np.ndarray | None
    client: np.ndarray | None


def predict_file(
    export: Export, path: Path, model: str | None = None, client: str | None = None, cluster: int | None = None
) -> Predictions:
    """Predictions for every sample of a file.

    Without a model, a client or a cluster, each row is predicted by the model of its own client, where the file says
    whose it is; an export of one model needs none of them.

    Args:
        export: the models.
        path: a CSV or Parquet table, or an npz file with ``x``.
        model: name of a model.
        client: name of a client.
        cluster: number of a cluster.

    Raises:
        DataError: columns that are missing, too many or not numeric; labels that the run has not seen.
        ConfigError: no such model, client or cluster.
        ModelError: scores that are NaN or infinite.
    """
    import pandas as pd

    file = _npz(export, path) if path.suffix == ".npz" else _table(export, path)
    chosen = any(choice is not None for choice in (model, client, cluster))
    if not chosen and file.client is None and len(export.card["models"]) > 1:
        column = export.card.get("columns", {}).get("client", "client_id")
        raise ConfigError(
            f"{path}: has no column {column!r} that says whose a row is, and the export {len(export.card['models'])} "
            "models; say --client NAME or --cluster K"
        )
    if chosen or file.client is None or len(export.card["models"]) == 1:
        classes, proba = _decisions(export.model(model, client=client, cluster=cluster), file.x, path)
    else:
        classes, proba = _by_client(export, file, path)
    labels = export.card["labels"] or list(range(export.card["classes"]))
    table = pd.DataFrame({"prediction": np.asarray(labels)[classes]})
    for number, label in enumerate(labels):
        table[f"{_PROBABILITY}{label}"] = proba[:, number]
    if file.y is None:
        return Predictions(table, None)
    try:
        known = encoded_labels(file.y, export.card["labels"], export.card["classes"])
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return Predictions(table, float(np.mean(known == classes)))


def _decisions(model: Classifier, x: np.ndarray, path: Path) -> Decisions:
    try:
        return model.decide(x)
    except (DataError, ModelError) as error:
        raise type(error)(f"{path}: {error}") from error


def _by_client(export: Export, file: _File, path: Path) -> Decisions:
    """What each client's own model decides of its rows."""
    assert file.client is not None
    names = np.array([str(name) for name in file.client])
    for name in np.unique(names):
        if name not in export.clients:
            wrong = unknown("client", str(name), export.clients)
            raise ConfigError(f"{path}: {wrong}; {NEWCOMER}; or say --client NAME")
    classes, proba = np.empty(len(file.x), np.int64), np.empty((len(file.x), export.card["classes"]))
    for entry in export.card["models"]:
        rows = np.isin(names, entry["clients"])
        if rows.any():
            classes[rows], proba[rows] = _decisions(export.model(entry["name"]), file.x[rows], path)
    return Decisions(classes, proba)


def _npz(export: Export, path: Path) -> _File:
    arrays = read_npz(path, ("x",))
    columns = export.card.get("columns", {})
    return _File(arrays["x"], arrays.get(columns.get("label", "y")), arrays.get(columns.get("client", "client_id")))


def _table(export: Export, path: Path) -> _File:
    columns = export.card.get("columns", {})
    label, client = columns.get("label", "y"), columns.get("client", "client_id")
    table = read_table(path, client)
    shape, names = export.card["input"]["shape"], export.card["input"]["features"]
    if names is None:
        names = [name for name in table if name not in (label, client, _SPLIT)]
    if len(names) != int(np.prod(shape)):
        raise DataError(
            f"{path}: the model takes {int(np.prod(shape))} features, and the file has {len(names)} columns besides "
            f"{label}, {client} and {_SPLIT}: {', '.join(map(str, names[:8]))}{' ...' if len(names) > 8 else ''}"
        )
    x = values_of(table, [str(name) for name in names], path, export.card["input"]["dtype"]).reshape(-1, *shape)
    own: dict[str, Any] = {name: table[name].to_numpy() if name in table else None for name in (label, client)}
    return _File(x, own[label], own[client])
