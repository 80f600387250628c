"""The models of a finished run on data that it has not seen: clients are matched by name, features
and labels too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.config.comparison_grid import slug
from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import Samples
from fedkin.core.storage import user_path
from fedkin.data.digest import data_digest
from fedkin.data.federated import FederatedData
from fedkin.data.files import read_npz, read_table, table_kind
from fedkin.data.load import ENDINGS
from fedkin.data.tables import check_columns
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import Decisions
from fedkin.run.trained.evaluation import DIGEST, Evaluation, tables
from fedkin.run.trained.models import TrainedModels

ALL = "all"


def evaluate_other(
    trained: TrainedModels,
    data: FederatedData,
    split: str | None = None,
    cluster: int | None = None,
) -> Evaluation:
    """Evaluate the models of a run on other data.

    Args:
        trained: the models.
        data: whose clients have the names of the run's, or any with ``cluster``.
        split: ``test``, ``train`` or ``validation`` of these data; None for all samples.
        cluster: whose model predicts everything; None for the model of each client.

    Raises:
        ConfigError: a client that the run has not seen, or no such cluster.
        DataError: features or labels that are not those of the run.
        ModelError: a model whose scores are NaN or infinite.
    """
    if not isinstance(data, FederatedData):
        raise DataError(
            "data must be federated data (fk.data.load, from_pandas, ...), got "
            f"{type(data).__name__}"
        )
    x = matched_features(data, trained.parts.samples)
    y = matched_labels(data, trained.parts.samples)
    facts: dict[int, dict[str, Any]] = {}
    labels: dict[int, np.ndarray] = {}
    decisions: dict[int, Decisions] = {}
    without = 0
    for client, name in enumerate(data.client_names or map(str, range(data.clients))):
        rows = _rows(data, client, split)
        number = None if cluster is not None else _number(trained, name)
        if number is not None and trained.state.assignment[number] == UNASSIGNED:
            without += 1
        elif len(rows):
            model = (
                trained.of_cluster(cluster or 0) if number is None else trained.of_client(number)
            )
            facts[client] = {"client": client, "name": name, "cluster": model.cluster}
            labels[client] = y[rows]
            decisions[client] = model.decide(x[rows])
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
        name=_name(data.name, cluster),
    )


def _name(data: str, cluster: int | None) -> str:
    """Of an evaluation: what its data are called, without the ending of a file, and the cluster
    that predicts all."""
    stem = next((data.removesuffix(ending) for ending in ENDINGS if data.endswith(ending)), data)
    return slug(Path(stem).name) + ("" if cluster is None else f"-cluster-{cluster}")


def load_other(
    path: Path, own: dict[str, Any], samples: Samples, options: dict[str, Any], pooled: bool
) -> FederatedData:
    """The data of a file, with the columns of the run's own where no others are named. Columns that
    the run does not know are left out.

    Args:
        path: a table or an npz file.
        own: the run's section [data].
        samples: the run's.
        options: of ``fk.data.load``, such as ``label`` and ``client``.
        pooled: whether a file that does not say whose its samples are is one client's.

    Raises:
        ConfigError, DataError: as ``fk.data.load``; an option of another kind.
    """
    from fedkin.data import load
    from fedkin.data.load import CLIENT

    path = user_path(path)
    known = ("label", "client", "features")
    for name in options:
        if name not in known:
            raise ConfigError(
                f"{unknown('option', name, known)}; fedkin evaluate --help says what there is"
            )
    chosen = {
        name: own[name] for name in (*known, "label_names") if own.get(name) is not None
    } | options
    if "label_names" not in chosen:
        chosen["classes"] = int(samples.classes)
    names = getattr(samples, "feature_names", None)
    is_table = path.is_file() and table_kind(path) != "npz"
    if is_table and names is not None and "features" not in chosen:
        check_columns(read_table(path), names, path, dict.fromkeys(names, "the model needs it"))
        chosen["features"] = list(names)
    if pooled and path.is_file():
        columns = read_table(path).columns if is_table else read_npz(path)
        if str(chosen.get("client", CLIENT)) not in columns and "client" not in options:
            chosen = {**chosen, "partition": "iid", "clients": 1}
            chosen.pop("client", None)
    data = load(path, **chosen)
    _refuse_numbers(data, samples, path)
    return data


def _refuse_numbers(data: FederatedData, samples: Samples, path: Path) -> None:
    """Refuse (DataError) labels that are numbers, where those of the run were names."""
    names = getattr(samples, "label_names", None)
    of_run = getattr(samples, "columns", None)
    if names is None or not numbers_are_classes(data.columns) or numbers_are_classes(of_run):
        return
    try:
        encoded_labels(data.y, names, int(samples.classes), by_number=False)
    except DataError as error:
        raise DataError(f"{path}: column {(data.columns or {})['label']!r}: {error}") from error


def matched_features(data: FederatedData, own: Samples) -> Shaped[np.ndarray, "M ..."]:
    """The features of other data in the order of the run's, by name where both have names. Raises
    DataError for one that is missing, and for words of another vocabulary."""
    ours = getattr(own, "feature_names", None)
    theirs = data.feature_names
    words = getattr(own, "vocabulary", None)
    if words is not None and data.vocabulary != words:
        raise DataError(
            f"{data.name}: its words are not numbered as those of the run; make it with the run's "
            "vocabulary"
        )
    if ours is None or theirs is None or ours == theirs:
        return data.x
    for name in ours:
        if name not in theirs:
            raise DataError(f"{data.name}: {unknown('column', name, theirs)}; the model needs it")
    return data.x[:, [theirs.index(name) for name in ours]]


def matched_labels(data: FederatedData, own: Samples) -> Int[np.ndarray, "M"]:
    """The labels of other data as the run numbers them, by name where they have names. Raises
    DataError for a label that the run has not seen."""
    labels = data.y if data.label_names is None else np.array(data.label_names)[data.y]
    by_number = numbers_are_classes(getattr(own, "columns", None))
    try:
        return encoded_labels(
            labels, getattr(own, "label_names", None), int(own.classes), by_number
        )
    except DataError as error:
        raise DataError(f"{data.name}: {error}") from error


def _rows(data: FederatedData, client: int, split: str | None) -> Int[np.ndarray, "s"]:
    splits = data.splits if split is None else (split,)
    return np.concatenate([data.part(name)[client] for name in splits])


def _number(trained: TrainedModels, name: str) -> int | None:
    """The client of the run with this name; None where all clients have one model."""
    try:
        return trained.client_number(name)
    except ConfigError as error:
        if not trained.personal and trained.state.clusters == 1:
            return None
        raise ConfigError(f"{error} (evaluate(data=..., cluster=K), --cluster K)") from error
