"""Predictions for a file of samples, which is a table with a row for each sample or an npz file
with the array ``x``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fedkin.core.errors import ConfigError, DataError, ModelError, unknown
from fedkin.core.storage import user_path
from fedkin.data.client_ids import whole_ids
from fedkin.data.files import read_npz, read_table, table_kind
from fedkin.data.label_statistics import RawLabels, label_columns, place_of
from fedkin.data.number_columns import numbers_of
from fedkin.data.number_scores import concordance_index, scores_of_numbers
from fedkin.data.patient_columns import are_patient_rows, column_count, has_patients
from fedkin.data.survival_columns import check_times, events_of
from fedkin.data.tables import without_row_numbers
from fedkin.data.user_arrays import missing_rows
from fedkin.export.columns import is_table, values_of
from fedkin.export.forecast_inputs import in_label_units, new_rows
from fedkin.export.input_samples import exposures, raw_samples
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import Classifier
from fedkin.export.reader import NEWCOMER, Export
from fedkin.export.text_inputs import text_column, text_samples
from fedkin.task_types.forecast import Forecast

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("fedkin")
_SPLIT = "split"
PREDICTION = "prediction"
_PROBABILITY = "probability_"
# The text with which a file of predictions begins.
BEGINS = PREDICTION
_Predicted = TypeVar("_Predicted")
# Models, each with the rows that it predicts: a mask, or all.
_ModelsOfRows = Iterator[tuple[Classifier, np.ndarray | slice]]


class Predictions(NamedTuple):
    """The predictions for a file.

    Attributes:
        table: a row for each sample: ``prediction``, and ``probability_LABEL`` for each class; of
            quantiles, ``prediction_LEVEL`` for each level.
        accuracy: accuracy over the samples with a label; None if no sample has one, and for labels
            that are numbers.
        scored: number of samples with a label.
        scores: for labels that are numbers, the scores over the samples with a label, by name.
    """

    table: pd.DataFrame
    accuracy: float | None
    scored: int = 0
    scores: dict[str, float] | None = None


class _File(NamedTuple):
    """The samples of a file, with labels, clients, exposures and events if the file has them.
    Samples of a table with text or missing values are a DataFrame."""

    x: Any
    y: np.ndarray | None
    client: np.ndarray | None
    exposure: np.ndarray | None = None
    event: np.ndarray | None = None


class _Choice(NamedTuple):
    """Which model the user has chosen for all samples. All None: none, so each sample is predicted
    with its client's model if the export has several."""

    model: str | None
    client: str | None
    cluster: int | None


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
    choice = _Choice(model, client, cluster)
    if isinstance(export.samples.task_type, Forecast):
        return _forecast_file(export, path, choice)
    file = _npz(export, path) if table_kind(path) == "npz" else _table(export, path)
    x = _samples(export, file.x, path)
    models = _models_of_rows(export, choice, file.client, path)
    if are_patient_rows(x, export.samples):
        return _predicted_risks(export, file, x, models, path=path)
    if export.samples.task_type.loss is not None:
        return _predicted_numbers(export, file, x, models, path=path)
    classes = np.empty(len(x), np.int64)
    proba = np.empty((len(x), export.card["classes"]))
    for one, rows in models:
        classes[rows], proba[rows] = _checked(one.decide, x[rows], path)
    table = _prediction_table(export, classes, proba)
    if file.y is None:
        return Predictions(table, None)
    return _scored(export=export, table=table, classes=classes, y=file.y, path=path)


def _by_row(export: Export, choice: _Choice) -> bool:
    """Whether each sample is predicted with its client's model: no model is chosen, and the export
    has several."""
    return choice == _Choice(None, None, None) and len(export.card["models"]) > 1


def _check_clients(export: Export, has_clients: bool, path: Path) -> None:
    """Raise ConfigError for a file without a column of clients."""
    if not has_clients:
        _, client_column = _columns(export)
        raise ConfigError(
            f"{path}: has no column {client_column!r} with the client of each row, and the export "
            f"has {len(export.card['models'])} models; choose one by --client NAME or --cluster K"
        )


def _predicted_numbers(
    export: Export, file: _File, x: Any, models: _ModelsOfRows, *, path: Path
) -> Predictions:
    """The predictions of models whose labels are numbers, in units of the label."""
    import pandas as pd

    task_type = export.samples.task_type
    scores = np.empty((len(x), int(export.samples.classes)))
    for one, rows in models:
        scores[rows] = _checked(one.finite_scores, x[rows], path)
    exposure = None
    if file.exposure is not None:
        exposure = _exposures(export, file.exposure, path)
    elif (column := export.card.get("columns", {}).get("exposure")) is not None:
        _log.warning(
            "%s: has no column %r of exposures, so predictions are for an exposure of 1",
            path,
            column,
        )
    predicted = task_type.predict(scores, exposure)
    table = pd.DataFrame({PREDICTION: predicted} if predicted.ndim == 1 else {})
    if predicted.ndim == 2:
        for level, column in zip(task_type.loss.levels, predicted.T, strict=True):  # type: ignore[union-attr]
            table[f"{PREDICTION}_{level:g}"] = column
    if file.y is None:
        return Predictions(table, None)
    rows = np.setdiff1d(np.arange(len(file.y)), missing_rows(file.y))
    if not len(rows):
        return Predictions(table, None)
    label_column, _ = _columns(export)
    labels = numbers_of(file.y[rows], "label", f"{path}: column {label_column!r}")
    raw = RawLabels(labels, None if exposure is None else exposure[rows])
    values = scores_of_numbers(task_type, scores[rows], label_columns(task_type, raw))
    return Predictions(table, None, len(rows), values)


def _predicted_risks(
    export: Export, file: _File, x: Any, models: _ModelsOfRows, *, path: Path
) -> Predictions:
    """The risk score of each patient. Patients with a time and an event are scored by the C-index
    within clients."""
    import pandas as pd

    risks = np.empty(len(x), np.float32)
    for one, rows in models:
        risks[rows] = _checked(one.risks, x[rows], path)
    table = pd.DataFrame({PREDICTION: risks})
    if file.y is None or file.event is None:
        return Predictions(table, None)
    rows = np.setdiff1d(np.arange(len(x)), [*missing_rows(file.y), *missing_rows(file.event)])
    if not len(rows):
        return Predictions(table, None)
    times, events = _times_and_events(export, file.y[rows], file.event[rows], path)
    owners = None if file.client is None else file.client[rows].astype(str)
    index = concordance_index(risks[rows], times, events, owners)
    if index is None:
        return Predictions(table, None)
    return Predictions(table, None, len(rows), {export.samples.task_type.measures[0]: index})


def _times_and_events(
    export: Export, times: np.ndarray, events: np.ndarray, path: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Times and events of a file, checked. Raises DataError, which names the file."""
    columns = export.card.get("columns", {})
    place = place_of("label", path, columns)
    numbers = numbers_of(times, "time", place)
    check_times(numbers, place)
    return numbers, events_of(events, place_of("event", path, columns))


def _forecast_file(export: Export, path: Path, choice: _Choice) -> Predictions:
    """The forecasts of the rows of a table of series, in units of the label; empty for rows without
    all lags."""
    import pandas as pd

    task_type = export.samples.task_type
    assert isinstance(task_type, Forecast)
    _, column = _columns(export)
    given = read_table(path, column)
    by_row = _by_row(export, choice)
    if by_row:
        transform = export.samples.transform
        named = given if transform is None else transform.rename(given)
        _check_clients(export, column in named, path)
    new = new_rows(given, export.samples, path, choice.client)
    inputs = new.table[new.complete]
    scores = np.empty((len(inputs), int(export.samples.classes)))
    clients = inputs[column].to_numpy() if by_row else None
    for one, rows in _models_of_rows(export, choice, clients, path):
        scores[rows] = _checked(one.finite_scores, inputs[rows], path)
    table = pd.DataFrame({PREDICTION: in_label_units(new, task_type, scores)})
    known = new.known[new.complete]
    if not known.any():
        return Predictions(table, None)
    y = new.rows.select(new.scorable).rows_with(new.label[new.scorable], None)
    return Predictions(
        table, None, int(known.sum()), scores_of_numbers(task_type, scores[known], y)
    )


def _exposures(export: Export, given: np.ndarray, path: Path) -> np.ndarray:
    """The checked exposures of a file. Raises DataError, which names the file."""
    try:
        checked = exposures(None, given, export.samples)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    assert checked is not None
    return checked


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


def _samples(export: Export, x: Any, path: Path) -> Any:
    """Check all samples of the file at once, so that an error names a row of the file. If each
    client's samples were checked separately, an error would give a position among these samples."""
    try:
        checked = raw_samples(x, export.samples)
        # A DataFrame becomes features in the model, by the encoding of the training data.
        return x if is_table(x) else checked
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _checked(predict: Callable[[Any], _Predicted], x: Any, path: Path) -> _Predicted:
    """The predictions of a model for samples of a file. Errors name the file.

    Args:
        predict: the method of the model that predicts.
        x: the samples.
        path: the file.
    """
    try:
        return predict(x)
    except (DataError, ModelError) as error:
        raise type(error)(f"{path}: {error}") from error


def _models_of_rows(
    export: Export, choice: _Choice, clients: np.ndarray | None, path: Path
) -> _ModelsOfRows:
    """The models that predict the samples of a file, each with its rows.

    Args:
        export: the export with the models.
        choice: the model that the user has chosen, if any.
        clients: the client of each row; None if the file has no such column.
        path: the file.

    Raises:
        ConfigError: the file has no clients, and no model is chosen; or a client or model does not
            exist.
        DataError: a row has no client.
    """
    if not _by_row(export, choice):
        one = export.model(choice.model, client=choice.client, cluster=choice.cluster)
        yield one, slice(None)
        return
    _check_clients(export, clients is not None, path)
    assert clients is not None
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
    for entry in export.card["models"]:
        rows = np.isin(names, entry["clients"])
        if rows.any():
            yield export.model(entry["name"]), rows


def _columns(export: Export) -> tuple[str, str]:
    """The names of the file's label column and client column, which are those of the run's data."""
    columns = export.card.get("columns", {})
    return columns.get("label", "y"), columns.get("client", "client_id")


def _optional_columns(export: Export) -> tuple[str | None, str | None]:
    """The names of the file's columns of exposures and of events; None if the run had none."""
    columns = export.card.get("columns", {})
    return columns.get("exposure"), columns.get("event")


def _npz(export: Export, path: Path) -> _File:
    """Read the samples to predict, with labels and clients if given, from an npz file."""
    arrays = read_npz(path, ("x",))
    label, client = _columns(export)
    exposure, event = _optional_columns(export)
    return _File(
        x=arrays["x"],
        y=arrays.get(label),
        client=arrays.get(client),
        exposure=None if exposure is None else arrays.get(exposure),
        event=None if event is None else arrays.get(event),
    )


def _table(export: Export, path: Path) -> _File:
    """Read the samples to predict, with labels and clients if given, from a CSV or Parquet
    table."""
    label, client = _columns(export)
    exposure, event = _optional_columns(export)
    transform = export.samples.transform
    renamed = {} if transform is None else {new: old for old, new in transform.renamed.items()}
    in_file = renamed.get(client, client)
    table = read_table(path, in_file)
    if in_file != client and client in table:
        # The file has the new name already.
        table = read_table(path, client)
    if transform is not None:
        table = transform.rename(table)
    of_file = _File(
        x=table,
        y=table[label].to_numpy() if label in table else None,
        client=table[client].to_numpy() if client in table else None,
        exposure=table[exposure].to_numpy() if exposure in table else None,
        event=table[event].to_numpy() if event in table else None,
    )
    if transform is not None and transform.encoding is not None:
        transform.encoding.warn_of_new_categories(table, path, of_file.client)
        return of_file
    text = text_column(export)
    if text is not None:
        return of_file._replace(x=text_samples(export, table, text, path))
    shape = export.card["input"]["shape"]
    if has_patients(export.samples):
        shape = [column_count(export.samples)]
    names = export.card["input"]["features"]
    if names is None:
        roles = (label, client, exposure, event, _SPLIT)
        others = [name for name in table if name not in roles]
        names = without_row_numbers(others, path)
    if len(names) != int(np.prod(shape)):
        raise DataError(
            f"{path}: the model needs {int(np.prod(shape))} features, but the file has "
            f"{len(names)} columns other than {label}, {client} and {_SPLIT}: "
            f"{', '.join(map(str, names[:8]))}{' ...' if len(names) > 8 else ''}"
        )
    dtype = export.samples.x.dtype if transform is None else np.float64
    x = values_of(table, [str(name) for name in names], path, dtype)
    return of_file._replace(x=x.reshape(-1, *shape))
