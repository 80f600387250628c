"""Evaluation of a finished run's models on external data. Clients, features and labels are matched
by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from fedkin.config.comparison_grid import slug
from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import Samples
from fedkin.core.storage import user_path
from fedkin.core.strict_json import json_value
from fedkin.data.column_checks import check_columns
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.files import read_npz, read_table, table_kind
from fedkin.data.load import ENDINGS
from fedkin.data.number_scores import converted_rows
from fedkin.data.parquet import column_names
from fedkin.data.patient_columns import has_patients
from fedkin.data.table_encoding import TableEncoding
from fedkin.data.table_scaling import converted
from fedkin.data.table_transform import UNCHANGED, TableTransform, transform_of
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import Decisions
from fedkin.export.text_inputs import TEXT
from fedkin.run.trained.client_sums import ClientSums, client_sums
from fedkin.run.trained.evaluation import DIGEST, Evaluation, tables
from fedkin.run.trained.load_patients import load_patients
from fedkin.run.trained.load_series import load_series
from fedkin.run.trained.load_texts import load_texts
from fedkin.run.trained.models import TrainedModels
from fedkin.run.trained.number_evaluation import NumberTables, number_tables
from fedkin.task_types.classification import CLASSIFICATION, task_type_of_samples
from fedkin.task_types.survival import Survival

ALL = "all"  # name of the split if all samples are evaluated


def evaluate_other(
    trained: TrainedModels,
    data: FederatedData,
    split: str | None = None,
    cluster: int | None = None,
) -> Evaluation:
    """Evaluate the models of a run on external data.

    Args:
        trained: the models.
        data: the external data. Their clients must have names of the run's clients, unless
            ``cluster`` is given.
        split: ``test``, ``train`` or ``validation`` of these data; None: all samples.
        cluster: the cluster whose model predicts all samples; None: each client's model predicts
            its samples.

    Raises:
        ConfigError: the run has not seen a client, or the cluster does not exist.
        DataError: the features or labels differ from the run's.
        ModelError: a model's scores are NaN or infinite.
    """
    if not isinstance(data, FederatedData):
        raise DataError(
            "data must be federated data (fk.data.load, from_pandas, ...), got "
            f"{type(data).__name__}"
        )
    x = matched_features(data, trained.parts.samples)
    y = matched_labels(data, trained.parts.samples)
    task_type = task_type_of_samples(trained.parts.samples)
    has_classes = task_type.name == CLASSIFICATION.name
    splits = data.splits if split is None else (split,)
    matched = data if has_classes else replace(data, x=x, y=y, task_type=task_type)
    sums: dict[int, ClientSums] = {}
    facts: dict[int, dict[str, Any]] = {}
    labels: dict[int, np.ndarray] = {}
    decisions: dict[int, Decisions] = {}
    without = 0
    for client, name in enumerate(data.client_names or map(str, range(data.clients))):
        rows = np.concatenate([data.part(name)[client] for name in splits])
        number = None if cluster is not None else _number(trained, name)
        if number is not None and trained.state.assignment[number] == UNASSIGNED:
            without += 1
        elif len(rows):
            # ``number`` is None if a cluster was given, or if all clients share one model.
            model = (
                trained.of_cluster(cluster or 0) if number is None else trained.of_client(number)
            )
            facts[client] = {"client": client, "name": name, "cluster": model.cluster}
            if not has_classes:
                sums[client] = client_sums(model, matched, client, splits)
                continue
            labels[client] = y[rows]
            decisions[client] = model.decide(x[rows], prepared=True)
    name = _name(data.name, cluster)
    if not has_classes:
        found = number_tables(
            task_type, trained.method, split or ALL, without=without, facts=facts, sums=sums
        )
        return _evaluation(found, split or ALL, data, name)
    by_client, by_cluster, summary = tables(
        trained.method,
        split or ALL,
        without=without,
        facts=facts,
        labels=labels,
        decisions=decisions,
    )
    return Evaluation(
        split or ALL,
        by_client,
        clusters=by_cluster,
        summary=summary | {DIGEST: data_digest(data)},
        name=name,
    )


def _evaluation(found: NumberTables, split: str, data: FederatedData, name: str) -> Evaluation:
    """The evaluation of labels that are numbers.

    Args:
        found: the tables.
        split: the evaluated split.
        data: the external data.
        name: name of the evaluation in file names.
    """
    summary = json_value(found.summary)
    summary[DIGEST] = data_digest(data)
    return Evaluation(split, found.clients, found.clusters, summary=summary, name=name)


def _name(data: str, cluster: int | None) -> str:
    """The name of an evaluation in file names: the data's name without a file ending, and the
    cluster that predicts all samples."""
    stem = next((data.removesuffix(ending) for ending in ENDINGS if data.endswith(ending)), data)
    return slug(Path(stem).name) + ("" if cluster is None else f"-cluster-{cluster}")


def load_other(
    path: Path,
    own: dict[str, Any],
    samples: Samples,
    options: dict[str, Any],
    pooled: bool,
    command: str = "evaluate",
    model: Any = None,
) -> FederatedData:
    """Load external data from a file. By default its columns have the names of the run's columns;
    columns that the run does not know are ignored.

    Args:
        path: a table or an npz file.
        own: the run's section [data].
        samples: the run's samples.
        options: options of ``fk.data.load``, such as ``label`` and ``client``.
        pooled: whether a file without a column of clients is taken as one client's data.
        command: the command whose help lists the options, for messages.
        model: the run's model, which has the backbone of a run with texts.

    Raises:
        ConfigError, DataError: as for ``fk.data.load``, or an option is unknown.
    """
    from fedkin.data import load
    from fedkin.data.load import CLIENT
    from fedkin.data.load_with import load_with

    path = user_path(path)
    task_type = task_type_of_samples(samples)
    is_survival = isinstance(task_type, Survival)
    known = ("label", "client", "features", *(["event"] if is_survival else []))
    for name in options:
        if name not in known:
            raise ConfigError(
                f"{unknown('option', name, known)}; fedkin {command} --help lists the options"
            )
    is_table = path.is_file() and table_kind(path) != "npz"
    if task_type.by_time and is_table:
        return load_series(path, samples)
    if TEXT in (getattr(samples, "columns", None) or {}) and is_table:
        return load_texts(path, own, samples, model=model, options=options, pooled=pooled)
    has_classes = task_type.name == CLASSIFICATION.name
    chosen = _column_options(own, samples, options, known=known)
    transform = transform_of(samples)
    names = getattr(samples, "feature_names", None)
    if transform is not None and transform.encoding is not None:
        names = transform.inputs
    if is_table:
        columns = _warned_columns(path, transform, str(chosen.get("client", CLIENT)))
        chosen |= _transform_options(columns, samples)
        columns = [chosen["rename"].get(name, name) for name in columns]
    elif path.is_file():
        columns = list(read_npz(path))
    if is_table and names is not None and "features" not in chosen:
        _check_features(columns, names, path)
        chosen["features"] = list(names)
    if pooled and path.is_file():
        if str(chosen.get("client", CLIENT)) not in columns and "client" not in options:
            # One client gets all samples.
            chosen = {**chosen, "partition": "iid", "clients": 1}
            chosen.pop("client", None)
    if is_survival and path.is_file():
        return load_patients(task_type, path, places=int(samples.classes), options=chosen)
    if not has_classes and path.is_file():
        roles = getattr(samples, "columns", None) or {}
        optional = ("exposure", "weight")
        others = {name: roles[name] for name in optional if roles.get(name) in columns}
        return load_with(task_type, path, **chosen, **others)
    data = load(path, **chosen)
    _refuse_numbers(data, samples, path)
    return data


def _column_options(
    own: dict[str, Any], samples: Samples, options: dict[str, Any], known: Sequence[str]
) -> dict[str, Any]:
    """The options of ``fk.data.load`` that name the columns of a file: those of the user, and for
    the others the run's.

    Args:
        own: the run's section [data].
        samples: the run's samples.
        options: options of the user.
        known: names of the options that a user may give.
    """
    chosen = {name: own[name] for name in (*known, "label_names") if own.get(name) is not None}
    chosen |= options
    if task_type_of_samples(samples).name == CLASSIFICATION.name:
        if "label_names" not in chosen:
            chosen["classes"] = int(samples.classes)
        return chosen
    # A natural federation names its columns itself.
    roles = getattr(samples, "columns", None) or {}
    named = {name: roles[name] for name in known if name != "features" and name in roles}
    chosen.pop("label_names", None)
    return named | chosen


def _warned_columns(path: Path, transform: TableTransform | None, client: str) -> list[str]:
    """The names of the columns in a table's file. Warn of its categories that training never saw.

    Args:
        path: the file.
        transform: the transform of the run's samples.
        client: the run's name of the column of clients.
    """
    encoding = _encoding(transform)
    if encoding is None and table_kind(path) == "parquet":
        return [str(name) for name in column_names(path).columns]
    table = read_table(path)
    if transform is not None and encoding is not None:
        renamed = transform.rename(table)
        encoding.warn_of_new_categories(renamed, path, renamed.get(client))
    return [str(name) for name in table.columns]


def _check_features(columns: list[str], names: Sequence[str], path: Path) -> None:
    """Raise DataError for a feature of the run that a table does not have."""
    import pandas as pd

    cures = dict.fromkeys(names, "the model needs it")
    check_columns(pd.DataFrame(columns=columns), names, path, cures)


def _transform_options(columns: list[str], samples: Samples) -> dict[str, Any]:
    """The options of ``fk.data.load`` that rename and scale a file's columns as in the run.

    Args:
        columns: names of the columns in the file, which may have the run's new names already.
        samples: the run's samples.
    """
    transform = transform_of(samples) or UNCHANGED
    return {"scale_from": transform, "rename": transform.renaming(columns)}


def _refuse_numbers(data: FederatedData, samples: Samples, path: Path) -> None:
    """Raise DataError if the labels of external data are class numbers although the run's labels
    are names."""
    names = getattr(samples, "label_names", None)
    of_run = getattr(samples, "columns", None)
    if names is None or not numbers_are_classes(data.columns) or numbers_are_classes(of_run):
        return
    try:
        encoded_labels(data.y, names, int(samples.classes), by_number=False)
    except DataError as error:
        raise DataError(f"{path}: column {(data.columns or {})['label']!r}: {error}") from error


def matched_features(data: FederatedData, own: Samples) -> Shaped[np.ndarray, "M ..."]:
    """The features of external data in the order of the run's features, matched by name if both
    have names. Columns of a table are scaled as in the run.

    Raises DataError for a missing feature, and for words of another vocabulary."""
    ours = getattr(own, "feature_names", None)
    theirs = None if data.feature_names is None else list(data.feature_names)
    words = getattr(own, "vocabulary", None)
    if words is not None and data.vocabulary != words:
        raise DataError(
            f"{data.name}: its word indices belong to another vocabulary; make the data with the "
            "run's vocabulary"
        )
    x = data.x
    scaled = data.transform
    wanted = transform_of(own)
    if _encoding(scaled) != _encoding(wanted):
        raise DataError(
            f"{data.name}: its columns of text or with missing values became other features than "
            "those of the run; load it with the run's own: fk.data.load(path, scale_from="
            "'RUN/transform.json')"
        )
    names = theirs
    if theirs is not None and wanted is not None:
        theirs = wanted.new_names(theirs)
    if ours is not None and theirs is not None and list(ours) != theirs:
        for name in ours:
            if name not in theirs:
                raise DataError(
                    f"{data.name}: {unknown('column', name, theirs)}; the model needs it"
                )
        order = [theirs.index(name) for name in ours]
        # The last feature of a patient in a risk set is the patient's weight.
        x = x[..., [*order, -1]] if has_patients(data) else x[:, order]
        if scaled is not None and names is not None:
            selected = [names[theirs.index(name)] for name in ours]
            scaled = scaled.of_columns(selected, data.name)
    return converted(x, scaled, wanted)


def matched_labels(data: FederatedData, own: Samples) -> Shaped[np.ndarray, "M ..."]:
    """The labels of external data as the run's class numbers, matched by name if labels have names.
    Labels that are numbers are rows of ``FederatedData.y`` with the run's statistics.

    Raises DataError for a label that the run has not seen, and for labels of another task type."""
    task_type = task_type_of_samples(own)
    if data.task_type.name != task_type.name:
        raise DataError(
            f"{data.name}: labels of {data.task_type.name}, but the run was trained on labels of "
            f"{task_type.name}; load the data with task={task_type.name!r}"
        )
    if task_type.loss is not None:
        return converted_rows(data.y, data.task_type, task_type)
    labels = data.y if data.label_names is None else np.array(data.label_names)[data.y]
    by_number = numbers_are_classes(getattr(own, "columns", None))
    try:
        return encoded_labels(
            labels, getattr(own, "label_names", None), int(own.classes), by_number
        )
    except DataError as error:
        raise DataError(f"{data.name}: {error}") from error


def _encoding(transform: TableTransform | None) -> TableEncoding | None:
    """The encoding of a transform, if there is one."""
    return None if transform is None else transform.encoding


def _number(trained: TrainedModels, name: str) -> int | None:
    """The position of the run's client called ``name``. None for an unknown name if all clients
    share one model, which then predicts for it. Otherwise an unknown name raises ConfigError."""
    try:
        return trained.client_number(name)
    except ConfigError as error:
        if not trained.personal and trained.state.clusters == 1:
            return None
        raise ConfigError(
            f"{error}; to use one cluster's model for all samples, call evaluate(data=..., "
            "cluster=K), or add --cluster K to the command"
        ) from error
