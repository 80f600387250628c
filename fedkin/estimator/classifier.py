"""The clustered classifier with scikit-learn's interface, ``fit(X, y, groups=clients)`` and
``predict(X, groups=)``.

Shapes: M samples, D features, N clients (scikit-learn's groups), K models, P parameters, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from fedkin.core.method import Method
from fedkin.data.from_arrays import from_arrays
from fedkin.estimator.base import ClusteredEstimator, names_of, plain_value
from fedkin.export.predictor import Predictor
from fedkin.run.trained.placement import Placement


class Clustered(ClassifierMixin, ClusteredEstimator):
    """A classifier that groups clients with similar data, and trains one model per cluster.

    Args:
        method: name of a method, or a method object (``fk.IFCA(clusters=4)``).
        clusters: K, the number of clusters (at most N), for a named method with this option.
        method_options: further options of a named method.
        model: a name, a PyTorch module or other model for ``fk.simulate``, or a function of data.
        rounds: T, the number of communication rounds.
        cohort: n, the number of clients per round; at most N are used.
        epochs: E, the number of local epochs.
        batch_size: B, the number of samples in a mini-batch.
        lr: local learning rate.
        random_state: seed of the run, or a generator that draws it; None: a new seed for each fit.

    Attributes:
        classes_: [C], the labels.
        groups_: [N], the clients, in ascending order.
        labels_: [N], the cluster of each client.
        models_: [K, P], parameters of each cluster's model; [N, P]: of each client's model.
        membership_: [N, K], the clients' shares of models if they mix them (FedEM, FedRC); or None.
        n_features_in_: D, the number of features.
        run_: the finished run. It is not pickled.

    Examples:
        >>> import fedkin as fk
        >>> from sklearn.datasets import load_digits
        >>> x, y = load_digits(return_X_y=True)
        >>> clients = [row % 6 for row in range(len(y))]  # the client of each sample
        >>> fitted = fk.Clustered("ifca", clusters=2, rounds=2).fit(x, y, groups=clients)
        >>> fitted.labels_.shape, fitted.models_.shape
        ((6,), (2, 650))
    """

    # scikit-learn may set any value; fit checks them.
    @no_type_check
    def __init__(
        self,
        method: str | Method = "flexcfl",
        *,
        clusters: int = 3,
        method_options: Mapping[str, Any] | None = None,
        model: Any = "mclr",
        rounds: int = 20,
        cohort: int = 10,
        epochs: int = 5,
        batch_size: int = 10,
        lr: float = 0.05,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.clusters = clusters
        self.method_options = method_options
        self.model = model
        self.rounds = rounds
        self.cohort = cohort
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Clustered:
        """Train on the samples of all clients.

        Args:
            X: features [M, D], or [M ...] for models of images.
            y: labels [M] of any type.
            groups: the client of each sample [M]; None: one client, so one cluster (UserWarning).

        Returns:
            The estimator.

        Raises:
            ValueError: inconsistent samples, labels and groups; fewer than two classes.
            ConfigError, MethodError, ModelError: as ``fk.simulate``.
        """
        X, y, clients = self._checked(X, y, groups)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{self._name} needs labels of at least 2 classes, got 1 class: "
                f"{plain_value(self.classes_[0])!r}"
            )
        C = len(self.classes_)
        names = names_of(self.classes_)
        data = from_arrays(
            X, labels, clients=clients, test=0, label_names=names, classes=C, name="estimator"
        )
        self._train(replace(data, client_names=names_of(self.groups_)), X, labels, clients)
        return self

    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Predicted labels of samples [M]; arguments and errors as for ``predict_proba``."""
        scores = self.predict_proba(X, groups)
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any, groups: Any = None) -> Float[np.ndarray, "M C"]:
        """Class probabilities of each sample, from the model of its client.

        Args:
            X: features [M, D].
            groups: the client of each sample; None: the mean over models, weighted by clients.

        Raises:
            ValueError: an unknown client; call ``assign`` first.
        """
        return self._outputs(X, groups)

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of the predictions; arguments and errors as for ``predict_proba``."""
        predicted = self.predict(X, groups)
        return float(accuracy_score(self._labels_of(y), predicted, sample_weight=sample_weight))

    def assign(self, X: Any, y: Any, group: Any) -> Placement:
        """Assign a client that was not in ``fit`` to a cluster, and keep this cluster.

        Args:
            X: training samples of the client [M, D].
            y: their labels.
            group: name or number of the client.

        Raises:
            ValueError: the client was in ``fit``, has a name although other clients have numbers,
                or has labels that were not in ``fit``.
            MethodError: the method has no rule for newcomers or gives each client its own model, no
                cluster is similar to the client, or the estimator was pickled.
        """
        X, group = self._checked_newcomer(X, group)
        labels = column_or_1d(self._labels_of(y))
        unseen = np.setdiff1d(labels, self.classes_)
        if len(unseen):
            raise ValueError(
                f"label {plain_value(unseen[0])!r} was not in fit; the labels of fit are "
                f"{', '.join(map(str, self.classes_))}"
            )
        return self._placed(X, np.searchsorted(self.classes_, labels), group)

    def _run_labels(self, positions: Int[np.ndarray, "s"]) -> Shaped[np.ndarray, "s"]:
        """The run's labels for class positions: names, or the positions if two names are equal."""
        names = names_of(self.classes_)
        return positions if names is None else np.array(names)[positions]

    def _output(self, predictor: Predictor, X: np.ndarray) -> Float[np.ndarray, "M C"]:
        """The probability of each class."""
        return predictor.predict(X, proba=True)
