"""Predictions for a file of samples, which is a table with a row for each sample or an npz file
with the array ``x``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Shaped

from fedkin.core.errors import ConfigError, DataError, ModelError, unknown
from fedkin.core.storage import user_path
from fedkin.data.client_ids import whole_ids
from fedkin.data.files import read_npz, read_table, table_kind
from fedkin.data.tables import without_row_numbers
from fedkin.data.user_arrays import missing_rows
from fedkin.export.columns import values_of
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import Classifier, Decisions, raw_samples
from fedkin.export.reader import NEWCOMER, Export

if TYPE_CHECKING:
    import pandas as pd

_SPLIT = "split"
PREDICTION = "prediction"
_PROBABILITY = "probability_"
# The text with which a file of predictions begins.
BEGINS = f"{PREDICTION},{_PROBABILITY}"


class Predictions(NamedTuple):
    """The predictions for a file.

    Attributes:
        table: a row for each sample: ``prediction``, and ``probability_LABEL`` for each class.
        accuracy: accuracy over the samples with a label; None if no sample has one.
        scored: number of samples with a label.
    """

    table: pd.DataFrame
    accuracy: float | None
    scored: int = 0


class _File(NamedTuple):
    """The samples of a file, with labels and clients if the file has them."""

    x: Shaped[np.ndarray, "B ..."]
    y: np.ndarray | None
    client: np.ndarray | None


def predict_file(
    export: Export,
    path: Path,
    model: str | None = None,
    client: str | None = None,
    cluster: int | None = None,
) -> Predictions:
    """Predict every sample of a file.

    Without ``model``, ``client`` and ``cluster``, each sample (row) is predicted with its client's
    model. A column of the file names the client. An export with one model needs no such column.
    Labels are optional: a sample without a label is predicted but not scored.

    Args:
        export: the export with the models.
        path: a CSV or Parquet table, or an npz file with ``x``.
        model: name of a model.
        client: name of a client.
        cluster: number of a cluster.

    Raises:
        DataError: the file is of another kind, a column is missing or not numeric, a value or a
            client is missing, or the run does not know a label.
        ConfigError: the model, client or cluster does not exist.
        ModelError: scores are NaN or infinite.
    """
    path = user_path(path)
    file = _npz(export, path) if table_kind(path) == "npz" else _table(export, path)
    x = _samples(export, file.x, path)
    chosen = any(choice is not None for choice in (model, client, cluster))
    models = len(export.card["models"])
    if not chosen and models > 1:
        if file.client is None:
            _, client_column = _columns(export)
            raise ConfigError(
                f"{path}: has no column {client_column!r} with the client of each row, and the "
                f"export {models} models; choose one by --client NAME or --cluster K"
            )
        classes, proba = _by_client(export, x, file.client, path)
    else:
        classes, proba = _decisions(export.model(model, client=client, cluster=cluster), x, path)
    table = _prediction_table(export, classes, proba)
    if file.y is None:
        return Predictions(table, None)
    return _scored(export=export, table=table, classes=classes, y=file.y, path=path)


def _prediction_table(export: Export, classes: np.ndarray, proba: np.ndarray) -> pd.DataFrame:
    """The table of predictions, with a row for each sample: the class, and the probability of each
    class."""
    import pandas as pd

    labels = export.card["labels"] or list(range(export.card["classes"]))
    table = pd.DataFrame({PREDICTION: np.asarray(labels)[classes]})
    for number, label in enumerate(labels):
        table[f"{_PROBABILITY}{label}"] = proba[:, number]
    return table


def _scored(
    export: Export, table: pd.DataFrame, classes: np.ndarray, y: np.ndarray, path: Path
) -> Predictions:
    """The predictions, with their accuracy over the samples that have a label."""
    # Only rows with a label are scored.
    rows = np.setdiff1d(np.arange(len(y)), missing_rows(y))
    if not len(rows):
        return Predictions(table, None)
    by_number = numbers_are_classes(export.card.get("columns"))
    try:
        labels = encoded_labels(
            y=y[rows],
            label_names=export.card["labels"],
            classes=export.card["classes"],
            by_number=by_number,
            rows=rows,
        )
    except DataError as error:
        label_column, _ = _columns(export)
        raise DataError(f"{path}: column {label_column!r}: {error}") from error
    accuracy = float(np.mean(labels == classes[rows]))
    return Predictions(table, accuracy, len(rows))


def _samples(export: Export, x: np.ndarray, path: Path) -> np.ndarray:
    """Check all samples of the file at once, so that an error names a row of the file. If each
    client's samples were checked separately, an error would give a position among these samples."""
    try:
        return raw_samples(x, export.samples)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _decisions(model: Classifier, x: np.ndarray, path: Path) -> Decisions:
    """The predictions of a model for samples of a file. Errors name the file."""
    try:
        return model.decide(x)
    except (DataError, ModelError) as error:
        raise type(error)(f"{path}: {error}") from error


def _by_client(export: Export, x: np.ndarray, clients: np.ndarray, path: Path) -> Decisions:
    """Predict each client's samples (rows of the file) with the client's model, and return all
    predictions in the order of the file."""
    _, column = _columns(export)
    missing = missing_rows(clients)
    if len(missing):
        raise DataError(
            f"{path}: column {column!r}, row {missing[0]} (rows count from 0) has no client "
            f"({len(missing)} such rows); fill it in, or predict all rows with one model: --client "
            "NAME or --cluster K"
        )
    names = np.array([str(name) for name in whole_ids(clients)])
    for name in np.unique(names):
        if name not in export.clients:
            row = int(np.argmax(names == name))
            wrong = unknown("client", str(name), export.clients)
            raise ConfigError(
                f"{path}: column {column!r}, row {row}: {wrong}; {NEWCOMER}; or use --client NAME"
            )
    classes = np.empty(len(x), np.int64)
    proba = np.empty((len(x), export.card["classes"]))
    for entry in export.card["models"]:
        rows = np.isin(names, entry["clients"])
        if rows.any():
            decisions = _decisions(export.model(entry["name"]), x[rows], path)
            classes[rows] = decisions.classes
            proba[rows] = decisions.probability
    return Decisions(classes, proba)


def _columns(export: Export) -> tuple[str, str]:
    """The names of the file's label column and client column, which are those of the run's data."""
    columns = export.card.get("columns", {})
    return columns.get("label", "y"), columns.get("client", "client_id")


def _npz(export: Export, path: Path) -> _File:
    """Read the samples to predict, with labels and clients if given, from an npz file."""
    arrays = read_npz(path, ("x",))
    label, client = _columns(export)
    return _File(x=arrays["x"], y=arrays.get(label), client=arrays.get(client))


def _table(export: Export, path: Path) -> _File:
    """Read the samples to predict, with labels and clients if given, from a CSV or Parquet
    table."""
    label, client = _columns(export)
    transform = export.samples.transform
    renamed = {} if transform is None else {new: old for old, new in transform.renamed.items()}
    in_file = renamed.get(client, client)
    table = read_table(path, in_file)
    if in_file != client and client in table:
        # The file has the new name already.
        table = read_table(path, client)
    if transform is not None:
        table = transform.rename(table)
    shape = export.card["input"]["shape"]
    names = export.card["input"]["features"]
    if names is None:
        others = [name for name in table if name not in (label, client, _SPLIT)]
        names = without_row_numbers(others, path)
    if len(names) != int(np.prod(shape)):
        raise DataError(
            f"{path}: the model needs {int(np.prod(shape))} features, but the file has "
            f"{len(names)} columns other than {label}, {client} and {_SPLIT}: "
            f"{', '.join(map(str, names[:8]))}{' ...' if len(names) > 8 else ''}"
        )
    dtype = export.samples.x.dtype if transform is None else np.float64
    x = values_of(table, [str(name) for name in names], path, dtype)
    return _File(
        x=x.reshape(-1, *shape),
        y=table[label].to_numpy() if label in table else None,
        client=table[client].to_numpy() if client in table else None,
    )
