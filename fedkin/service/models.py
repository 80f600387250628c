"""The models of an export, loaded once, and which of them serves a client.

Shapes: B samples, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from fedkin import __version__
from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.data.label_statistics import RawLabels, label_columns
from fedkin.data.number_columns import numbers_of
from fedkin.data.number_scores import scores_of_numbers
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import Classifier, probabilities
from fedkin.export.reader import Export
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.survival import Survival

_FEWEST = 1  # labelled rows that a placement needs


class UnknownClientError(ConfigError):
    """The export has no model for a client, and no labelled rows were given."""


class ModelChoice(NamedTuple):
    """Which model serves a client that the run did not have.

    Attributes:
        model: name of the model.
        rows: number of labelled rows that decided.
        losses: the loss of each model on these rows, by the model's name.
    """

    model: str
    rows: int
    losses: dict[str, float]


class Prediction(NamedTuple):
    """Predictions of one model for rows.

    Attributes:
        model: name of the model.
        predictions: a class or number for each row; for quantiles, a list of numbers.
        probabilities: the probability of each class [B, C]; None for numbers.
    """

    model: str
    predictions: list[Any]
    probabilities: list[list[float]] | None


class LoadedModels:
    """The models of an export.

    Args:
        export: the export.

    Raises:
        ConfigError: the export is of another version of fedkin, its models forecast series, or a
            file has changed.
        ModelError, MissingExtra: a network or a library is not available.
    """

    def __init__(self, export: Export) -> None:
        check_version(export)
        if isinstance(export.samples.task_type, Forecast):
            raise ConfigError(
                f"{export.folder}: forecasts need the past of each series, which no request has; "
                "use fedkin predict EXPORT TABLE"
            )
        # One thread is enough for one row, and threads of several models would wait for each other.
        self.export = export = replace(export, threads=1)
        self.models: dict[str, Classifier] = {}
        for entry in export.card["models"]:
            self.models[entry["name"]] = export.model(entry["name"])
        self._by_client = {name: entry["name"] for name, entry in export.clients.items()}
        self.clusters = {
            int(entry["cluster"]): entry["name"]
            for entry in export.card["models"]
            if entry["cluster"] is not None and entry["name"] == f"cluster-{entry['cluster']}"
        }
        self._warm_up()

    def _warm_up(self) -> None:
        """Compute one prediction with each model, so that the first request is not slow."""
        zeros = np.zeros_like(self.export.samples.x)
        for model in self.models.values():
            model.scores_of(zeros)

    def named(self, name: str) -> Classifier:
        """A model by its name. Raises ConfigError for an unknown name."""
        if name not in self.models:
            raise ConfigError(unknown("model", name, self.models))
        return self.models[name]

    def name_of(self, client: str | None = None, cluster: int | None = None) -> str:
        """The name of the model for a client or a cluster; without both, of the only model.

        Raises:
            UnknownClientError: the run did not have the client.
            ConfigError: the cluster has no model, or nothing was given for several models.
        """
        if client is not None and cluster is not None:
            raise ConfigError("give client or cluster, not both")
        if client is not None:
            if client not in self._by_client:
                # The message names no other client, since the asker may not know them.
                raise UnknownClientError(f"client {client[:80]!r} is not known to this export")
            return self._by_client[client]
        if cluster is not None:
            if cluster not in self.clusters:
                known = ", ".join(map(str, sorted(self.clusters))) or "none"
                raise ConfigError(f"there is no model of cluster {cluster}; clusters: {known}")
            return self.clusters[cluster]
        if len(self.models) > 1:
            raise ConfigError(
                f"the export has {len(self.models)} models: name a client or a cluster"
            )
        return next(iter(self.models))

    def predict(self, name: str, x: Any) -> Prediction:
        """Predict rows with a model.

        Args:
            name: name of the model.
            x: the rows, as for ``Classifier.predict``.

        Raises:
            DataError: the rows have another shape or type.
            ModelError: scores are not finite.
        """
        model = self.named(name)
        if self.export.samples.task_type.loss is not None:
            return Prediction(name, model.predict(x).tolist(), None)
        classes, proba = model.decide(x)
        labels = model.label_names
        named = classes.tolist() if labels is None else [labels[k] for k in classes]
        return Prediction(name, named, proba.tolist())

    def place(self, x: Any, labels: Any) -> ModelChoice:
        """The cluster's model with the lowest loss on labelled rows of a new client.

        Args:
            x: the rows.
            labels: the label of each row.

        Raises:
            ConfigError: the labels are of a kind that has no loss here, or there is no cluster.
            DataError: rows or labels are invalid, or of different numbers.
        """
        if isinstance(self.export.samples.task_type, Survival):
            raise ConfigError("rows of survival times cannot place a client; name a cluster")
        if not self.clusters:
            raise ConfigError("the export has no models of clusters, so no client can be placed")
        losses = {name: self._loss(name, x, labels) for name in self.clusters.values()}
        best = min(losses, key=lambda name: losses[name])
        return ModelChoice(best, len(labels), losses)

    def _loss(self, name: str, x: Any, labels: Any) -> float:
        """The mean loss of a model on labelled rows."""
        scores = self.models[name].finite_scores(x)
        if not isinstance(labels, list) or not len(scores) == len(labels) >= _FEWEST:
            raise DataError(
                f"labelled: expected a label for each of {len(scores)} rows, at least {_FEWEST}"
            )
        given = _flat(labels)
        task_type = self.export.samples.task_type
        if task_type is not CLASSIFICATION and task_type.loss is not None:
            y = label_columns(task_type, RawLabels(numbers_of(given, "label", "labels")))
            values = scores_of_numbers(task_type, scores, y)
            loss = values[task_type.measures[0]] * -task_type.measure.sign
            if not np.isfinite(loss):
                raise DataError("labelled: labels are too large or not finite, so no loss is known")
            return loss
        card = self.export.card
        y = encoded_labels(
            given,
            label_names=card["labels"],
            classes=card["classes"],
            by_number=numbers_are_classes(card.get("columns")),
        )
        proba = probabilities(scores, self.models[name].detects)
        return cross_entropy(proba, y)


def _flat(labels: list[Any]) -> np.ndarray:
    """Labels as an array with one dimension. Raises DataError unless they are numbers or texts."""
    simple = all(isinstance(label, (str, int, float)) for label in labels)
    # Integers beyond 64 bits make an array of objects.
    if not simple or np.array(labels).dtype.kind == "O":
        raise DataError("labelled: labels must be a flat list of numbers or texts")
    return np.array(labels)


def cross_entropy(proba: Float[np.ndarray, "B C"], y: np.ndarray) -> float:
    """The mean negative log probability of the labels.

    A probability of 0 counts as the smallest positive number, so that the mean is finite.
    """
    chosen = np.maximum(proba[np.arange(len(y)), y], np.finfo(np.float64).tiny)
    return float(-np.log(chosen).mean())


def check_version(export: Export) -> None:
    """Raise ConfigError unless an export was written by this version of fedkin, but for the last
    number."""
    written = str(export.card.get("fedkin"))
    if written.split(".")[:2] != __version__.split(".")[:2]:
        raise ConfigError(
            f"{export.folder} was written by fedkin {written[:40]}, but this is fedkin "
            f"{__version__}; export the run again with this version"
        )


def described(export: Export) -> Mapping[str, Any]:
    """What the service tells about itself, without names of clients."""
    card = export.card
    return {
        "method": card.get("method"),
        "data": card.get("data"),
        "run": card.get("run"),
        "labels": card.get("labels"),
        "input": {key: card["input"].get(key) for key in ("shape", "dtype", "features")},
        "models": [entry["name"] for entry in card["models"]],
    }
