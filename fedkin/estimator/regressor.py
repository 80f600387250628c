"""The clustered regressor with scikit-learn's interface, ``fit(X, y, groups=clients)`` and
``predict(X, groups=)``.

Shapes: M samples, D features, N clients (scikit-learn's groups), K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, no_type_check

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import column_or_1d

from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.data.column_summaries import scaling_of
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.label_statistics import RawLabels, label_columns, with_pooled
from fedkin.data.label_tasks import task_type_of
from fedkin.data.partition import by_owner
from fedkin.estimator.base import ClusteredEstimator, names_of
from fedkin.export.predictor import Predictor
from fedkin.run.trained.placement import Placement


class ClusteredRegressor(RegressorMixin, ClusteredEstimator):
    """A regressor that groups clients with similar data, and trains one model per cluster.

    Args:
        method: name of a method, or a method object (``fk.IFCA(clusters=4)``).
        loss: ``squared_error``, ``absolute_error``, ``huber`` or ``quantile`` for real numbers;
            ``poisson``, ``gamma``, ``tweedie`` or ``negative_binomial`` for counts and amounts.
        quantile: level of the loss ``quantile``.
        loss_options: further options of the loss, such as ``{"power": 1.2}`` of ``tweedie``.
        clusters: K, the number of clusters (at most N), for a named method with this option.
        method_options: further options of a named method.
        model: a name, a PyTorch module or other model for ``fk.simulate``, or a function of data.
        rounds: T, the number of communication rounds.
        cohort: n, the number of clients per round; at most N are used.
        epochs: E, the number of local epochs.
        batch_size: B, the number of samples in a mini-batch.
        lr: local learning rate, for features and labels in units of their standard deviations.
        random_state: seed of the run, or a generator that draws it; None: a new seed for each fit.

    Attributes:
        groups_: [N], the clients, in ascending order.
        labels_: [N], the cluster of each client.
        models_: [K, P], parameters of each cluster's model, on features and labels that are centred
            and scaled; [N, P]: of each client's model.
        membership_: [N, K], the clients' shares of models if they mix them (FedEM); or None.
        n_features_in_: D, the number of features.
        run_: the finished run. It is not pickled.

    Examples:
        >>> import fedkin as fk
        >>> from sklearn.datasets import load_diabetes
        >>> x, y = load_diabetes(return_X_y=True)
        >>> clients = [row % 6 for row in range(len(y))]  # the client of each sample
        >>> fitted = fk.ClusteredRegressor(clusters=2, rounds=2).fit(x, y, groups=clients)
        >>> fitted.labels_.shape, fitted.models_.shape
        ((6,), (2, 11))
    """

    # scikit-learn may set any value; fit checks them.
    @no_type_check
    def __init__(
        self,
        method: str | Method = "flexcfl",
        *,
        loss: str = "squared_error",
        quantile: float = 0.5,
        loss_options: Mapping[str, Any] | None = None,
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
        self.loss = loss
        self.quantile = quantile
        self.loss_options = loss_options
        self.clusters = clusters
        self.method_options = method_options
        self.model = model
        self.rounds = rounds
        self.cohort = cohort
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> ClusteredRegressor:
        """Train on the samples of all clients.

        Args:
            X: features [M, D], or [M ...] for models of images.
            y: labels [M], numbers. The models are trained on features and labels that are centred
                and scaled by all samples.
            groups: the client of each sample [M]; None: one client, so one cluster (UserWarning).

        Returns:
            The estimator.

        Raises:
            ValueError: inconsistent samples, labels and groups; labels that the loss cannot have.
            ConfigError, MethodError, ModelError: as ``fk.simulate``.
        """
        X, y, clients = self._checked(X, y, groups)
        labels = y.astype(np.float64)
        self._train(self._federation(X, labels, clients), X, labels, clients)
        return self

    def _federation(
        self, X: np.ndarray, labels: Float[np.ndarray, "M"], clients: Int[np.ndarray, "M"]
    ) -> FederatedData:
        """The samples of all clients, with scaled columns and labels."""
        if len(X) < 2:
            raise ValueError(f"{self._name} needs at least 2 samples, got 1 sample")
        quantiles = [self.quantile] if self.loss == "quantile" else None
        task_type = task_type_of(None, self.loss, quantiles, self.loss_options)
        if task_type is None or task_type.loss is None:
            raise ConfigError(
                f"loss = {self.loss!r} is a loss of classes; use fk.Clustered, or a loss of "
                "numbers, such as loss='squared_error'"
            )
        task_type.check_labels(labels, "y", self.groups_[clients])
        if task_type.name == "count" and not labels.any():
            raise ValueError(f"{self._name}: all labels are 0, so there is no rate to learn")
        train = by_owner(clients)
        raw = RawLabels(labels)
        task_type = with_pooled(task_type, raw, train.rows, "y")
        transform = scaling_of(X) if X.ndim == 2 else None
        return FederatedData(
            name="estimator",
            x=X if transform is None else transform.apply(X),
            y=label_columns(task_type, raw),
            classes=task_type.loss.outputs,  # type: ignore[union-attr]
            train=train,
            test=Ragged.empty(np.zeros(len(train), np.int64)),
            client_names=names_of(self.groups_),
            transform=transform,
            task_type=task_type,
        )

    def predict(self, X: Any, groups: Any = None) -> Float[np.ndarray, "M"]:
        """Predicted labels of samples, in the unit of the labels of ``fit``.

        Args:
            X: features [M, D].
            groups: the client of each sample; None: the mean over models, weighted by clients.

        Raises:
            ValueError: an unknown client; call ``assign`` first.
        """
        return self._outputs(X, groups)

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """R2 of the predictions about the mean of y; arguments and errors as for ``predict``."""
        predicted = self.predict(X, groups)
        return float(r2_score(self._labels_of(y), predicted, sample_weight=sample_weight))

    def assign(self, X: Any, y: Any, group: Any) -> Placement:
        """Assign a client that was not in ``fit`` to a cluster, and keep this cluster.

        Args:
            X: training samples of the client [M, D].
            y: their labels.
            group: name or number of the client.

        Raises:
            ValueError: the client was in ``fit``, or has a name although other clients have
                numbers.
            MethodError: the method has no rule for newcomers or gives each client its own model, no
                cluster is similar to the client, or the estimator was pickled.
        """
        X, group = self._checked_newcomer(X, group)
        return self._placed(X, column_or_1d(self._labels_of(y)).astype(np.float64), group)

    def _run_labels(self, labels: np.ndarray) -> np.ndarray:
        """The labels as they are."""
        return labels

    def _output(self, predictor: Predictor, X: np.ndarray) -> Float[np.ndarray, "M"]:
        """The predicted labels."""
        return predictor.predict(X).reshape(len(X))
