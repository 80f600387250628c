"""Clustered federated learning with scikit-learn's interface, ``fit(X, y, groups=clients)`` and
``predict(X, groups=)``.

Shapes: M samples, D features, N clients (scikit-learn's groups), K models, P parameters, C classes.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedkin.config import registry
from fedkin.config.plan import Cohort, Scoring
from fedkin.config.schema import check_integer
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, Method
from fedkin.core.plain import plain
from fedkin.core.progress import Progress
from fedkin.core.requirements import requirements_of
from fedkin.core.training import LocalTraining
from fedkin.data.client_ids import client_ids, whole_ids
from fedkin.data.from_arrays import from_arrays
from fedkin.data.labels import check_present
from fedkin.data.user_arrays import missing_rows, unmasked, user_array
from fedkin.export.predictor import Predictor
from fedkin.run.run import Run
from fedkin.run.simulate import simulate, trainable
from fedkin.run.simulate_arguments import check_method
from fedkin.run.trained.placement import Placement, newcomer_policy

_NO_GROUPS = (
    "Clustered.fit was given no groups, so all samples belong to one client and there is one "
    "cluster; give the client of each sample: fit(X, y, groups=clients). In a pipeline or a "
    "search, use metadata routing: set_fit_request(groups=True)"
)
# Attributes that hold compiled programs, which cannot be pickled.
_NOT_PICKLED = ("run_", "_predictors")


class OneSample(NamedTuple):
    """The part of the data that is needed to rebuild models: a sample and the number of classes."""

    x: Shaped[np.ndarray, "1 ..."]
    y: Int[np.ndarray, "1"]
    classes: int
    name: str = "estimator"


class Clustered(ClassifierMixin, BaseEstimator):
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
        X, y = validate_data(self, _samples(X), _labels(y), dtype=np.float32, allow_nd=True)
        check_classification_targets(y)
        if groups is None:
            warnings.warn(_NO_GROUPS, UserWarning, stacklevel=2)
        owners = np.zeros(len(X), int) if groups is None else _one_per_sample(groups, len(X))
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "Clustered needs labels of at least 2 classes, got 1 class: "
                f"{_plain(self.classes_[0])!r}"
            )
        self.groups_, clients = np.unique(owners, return_inverse=True)
        N = len(self.groups_)
        C = len(self.classes_)
        names = _names(self.classes_)
        data = from_arrays(
            X, labels, clients=clients, test=0, label_names=names, classes=C, name="estimator"
        )
        data = replace(data, client_names=_names(self.groups_))
        self._data = OneSample(X[:1].copy(), labels[:1].copy(), C)
        method = self._method(N)
        self._check_selected(method, N)
        self.run_ = simulate(
            method,
            data,
            self._model(data),
            rounds=plain(self.rounds),
            # Round robin selects every client early, so that each client soon has a cluster.
            cohort=Cohort(min(plain(self.cohort), N), selection="round_robin"),
            local=LocalTraining(epochs=self.epochs, batch_size=self.batch_size, lr=self.lr),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            scoring=Scoring(evaluate_every=0),  # there are no test samples
            callbacks=Progress(False),
        )
        self._keep(self.run_, X, labels, clients)
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
        check_is_fitted(self, "models_")
        X = validate_data(self, _samples(X), dtype=np.float32, allow_nd=True, reset=False)
        if groups is None:
            return self._mean_probabilities(X)
        models = self._model_index[self._positions(_one_per_sample(groups, len(X)))]
        probabilities = np.zeros((len(X), len(self.classes_)))
        for k in np.unique(models):
            probabilities[models == k] = self._predictor(int(k)).predict(X[models == k], proba=True)
        return probabilities

    def _mean_probabilities(self, X: np.ndarray) -> Float[np.ndarray, "M C"]:
        """Class probabilities averaged over the models of all clients."""
        if self.membership_ is not None:
            mean = self.membership_.mean(axis=0)
            return self._mixture(mean).predict(X, proba=True)
        counts = np.bincount(self._model_index, minlength=len(self.models_))
        shares = counts / len(self._model_index)
        parts = []
        for k in np.flatnonzero(shares):
            parts.append(shares[k] * self._predictor(int(k)).predict(X, proba=True))
        return np.sum(parts, axis=0)

    def score(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of the predictions; arguments and errors as for ``predict_proba``."""
        predicted = self.predict(X, groups)
        return float(accuracy_score(_labels(y), predicted, sample_weight=sample_weight))

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
        check_is_fitted(self, "models_")
        group = _one_group(group)
        groups = _wide_enough(self.groups_, group)
        if np.isin(group, groups):
            raise ValueError(f"client {group!r} was in fit already; its cluster is in labels_")
        if not hasattr(self, "run_"):
            raise MethodError(
                "assign needs the run of this estimator, which was not pickled; fit the estimator "
                "again"
            )
        if self.run_.trained.personal and self.membership_ is None:
            raise MethodError(
                f"{self.run_.trained.method} gives each client its own model, and a client "
                "that was not in fit has no model; fit again with this client"
            )
        X = validate_data(self, _samples(X), dtype=np.float32, allow_nd=True, reset=False)
        labels = column_or_1d(_labels(y))
        unseen = np.setdiff1d(labels, self.classes_)
        if len(unseen):
            raise ValueError(
                f"label {_plain(unseen[0])!r} was not in fit; the labels of fit are "
                f"{', '.join(map(str, self.classes_))}"
            )
        placed = self.run_.place(X, self._run_labels(np.searchsorted(self.classes_, labels)))
        if placed.cluster == UNASSIGNED:
            raise MethodError(
                f"client {group!r} is not similar to any cluster, so it has no model; fit again "
                "with this client"
            )
        position = int(np.searchsorted(groups, group))
        self.groups_ = np.insert(groups, position, group)
        self.labels_ = np.insert(self.labels_, position, placed.cluster)
        if self.membership_ is None or placed.model is None:
            self._model_index = np.insert(self._model_index, position, placed.cluster)
        else:
            shares = np.asarray(placed.model.shares)
            self.membership_ = np.insert(self.membership_, position, shares, axis=0)
            self._model_index = np.arange(len(self.groups_))
            # Predictors are cached by row of membership_, whose rows have changed positions.
            self._predictors = {}
        return placed

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _NOT_PICKLED}

    def _method(self, clients: int) -> Method:
        """The method object of ``fit``. A named method has no more clusters than clients."""
        method = self._named_method(clients) if isinstance(self.method, str) else self.method
        check_method(method)
        if requirements_of(method).model.detectors:
            raise MethodError(
                f"{type(method).__name__} trains detectors, not classifiers; run it with "
                "fk.simulate"
            )
        return method

    def _named_method(self, clients: int) -> Method:
        """The method that ``self.method`` names, with its options and at most N clusters."""
        methods = registry.methods()
        options = dict(self.method_options or {})
        values = registry.resolve("method", methods, {"name": self.method, **options}, str).values
        if "clusters" in values and "clusters" not in options:
            check_integer("clusters", self.clusters, 1)
            values["clusters"] = min(int(self.clusters), clients)
        return registry.make(methods, values)

    def _check_selected(self, method: Method, clients: int) -> None:
        """Raise MethodError if a run leaves out clients that no rule can assign to clusters."""
        cohort = plain(self.cohort)
        rounds = plain(self.rounds)
        integers = isinstance(cohort, int) and isinstance(rounds, int)
        places_newcomers = newcomer_policy(method) != "own"
        if places_newcomers or not integers or cohort * rounds >= clients:
            return
        raise MethodError(
            f"{type(method).__name__} with newcomers = 'own' assigns a client to a cluster in the "
            f"client's first round, but {rounds} rounds of {cohort} clients reach only "
            f"{cohort * rounds} of {clients} clients; use cohort={-(-clients // rounds)}, more "
            "rounds, or method_options={'newcomers': 'loss'}"
        )

    def _model(self, data: Any) -> Any:
        """The model as an object, made for ``data`` if it was given by name or as a function."""
        if isinstance(self.model, str):
            return registry.resolve_model({"name": self.model}, str).make(data)
        return self.model(data) if isinstance(self.model, types.FunctionType) else self.model

    def _keep(
        self, run: Run, x: np.ndarray, y: Int[np.ndarray, "M"], clients: Int[np.ndarray, "M"]
    ) -> None:
        """Store a run's models and clusters. Clients never selected are placed as newcomers."""
        self._predictors = {}
        self.membership_: Any = None
        if run.trained.personal:
            self._keep_models_of_clients(run, x, y, clients)
            return
        assignment = run.assignment.copy()
        for client in np.flatnonzero(assignment == UNASSIGNED):
            rows = clients == client
            assignment[client] = run.place(x[rows], self._run_labels(y[rows]), resamples=1).cluster
        if (assignment == UNASSIGNED).any():
            missing = self.groups_[assignment == UNASSIGNED]
            raise MethodError(
                f"the method leaves client {_plain(missing[0])!r} without a cluster "
                f"({len(missing)} such clients); train for more rounds"
            )
        self.models_ = run.models
        self.labels_ = assignment
        self._model_index = assignment

    def _keep_models_of_clients(
        self, run: Run, x: np.ndarray, y: Int[np.ndarray, "M"], clients: Int[np.ndarray, "M"]
    ) -> None:
        """Store a run's model of each client, or the mixed models and each client's shares."""
        N = len(self.groups_)
        predictors = [run.trained.of_client(client) for client in range(N)]
        self._model_index = np.arange(N)
        self.labels_ = run.assignment.copy()
        if predictors[0].shares is None:
            self.models_ = np.stack([predictor.vector for predictor in predictors])
            return
        self.models_ = run.models
        self.membership_ = np.stack([p.shares for p in predictors if p.shares is not None])
        # A client that was never selected still has the initial equal shares: place it now.
        for client in np.flatnonzero(np.ptp(self.membership_, axis=1) == 0):
            rows = clients == client
            placed = run.place(x[rows], self._run_labels(y[rows]), resamples=1)
            if placed.model is not None:
                self.membership_[client] = placed.model.shares
                self.labels_[client] = placed.cluster

    def _run_labels(self, positions: Int[np.ndarray, "s"]) -> Shaped[np.ndarray, "s"]:
        """The run's labels for class positions: names, or the positions if two names are equal."""
        names = _names(self.classes_)
        return positions if names is None else np.array(names)[positions]

    def _predictor(self, k: int) -> Predictor:
        """The predictor of cluster or client k (row of ``models_`` or ``membership_``), cached."""
        predictors = self.__dict__.setdefault("_predictors", {})
        if k not in predictors:
            if self.membership_ is None:
                model = trainable(self._model(self._data))
                predictors[k] = Predictor(f"cluster-{k}", model, self.models_[k][None], self._data)
            else:
                predictors[k] = self._mixture(self.membership_[k])
        return predictors[k]

    def _mixture(self, shares: Float[np.ndarray, "K"]) -> Predictor:
        """A predictor that mixes the probabilities of all models with the given shares."""
        model = trainable(self._model(self._data))
        return Predictor("mixture", model, self.models_, self._data, shares=shares)

    def _positions(self, groups: Shaped[np.ndarray, "M"]) -> Int[np.ndarray, "M"]:
        """The client of each sample, as a position in ``groups_``."""
        unknown = np.setdiff1d(groups, self.groups_)
        if len(unknown):
            raise ValueError(
                f"groups: client {_plain(unknown[0])!r} was not in fit ({len(unknown)} such "
                "clients); use assign(X, y, group) to find its cluster from labelled samples, or "
                "groups=None to average all models"
            )
        return np.searchsorted(self.groups_, groups)


def _samples(X: Any) -> Any:
    """Samples as an unmasked array. Data frames and sparse matrices are returned unchanged."""
    is_table = hasattr(X, "columns") or hasattr(X, "toarray")
    return X if is_table else user_array(X, "Clustered", "X")


def _labels(y: Any) -> Any:
    """The labels. Raises ValueError if one is masked or missing; scikit-learn checks the rest."""
    labels = unmasked(y, "Clustered", "y")
    is_column = isinstance(labels, list) or getattr(labels, "ndim", 0) == 1
    if is_column and (values := np.asarray(labels)).dtype == object:
        check_present(values, "Clustered")
    return labels


def _one_per_sample(groups: Any, samples: int) -> Shaped[np.ndarray, "M"]:
    """The checked client of each sample. Raises ValueError for a wrong length or missing client."""
    if np.ndim(groups) == 2:
        groups = column_or_1d(unmasked(groups, "Clustered", "groups"))
    clients = whole_ids(client_ids(groups, "Clustered", "groups"))
    if len(clients) != samples:
        raise ValueError(
            f"groups must have a client for each of {samples} samples, got {len(clients)}"
        )
    return clients


def _one_group(group: Any) -> Any:
    """The checked name or number of one client. Raises ValueError if it is missing."""
    if len(missing_rows(np.array([group], object))):
        raise ValueError(f"group must be the name or number of a client, got {group!r}")
    return plain(whole_ids(client_ids([group], "Clustered", "group"))[0])


def _names(values: Shaped[np.ndarray, "n"]) -> tuple[str, ...] | None:
    """Labels or clients as text, for the run; None if two of them have the same text."""
    names = tuple(map(str, values))
    return names if len(set(names)) == len(names) else None


def _wide_enough(groups: Shaped[np.ndarray, "N"], group: Any) -> Shaped[np.ndarray, "N"]:
    """The array of groups with a dtype that can also hold the new group, such as a longer name.
    Raises ValueError if the group is a name and the groups are numbers, or the reverse."""
    if groups.dtype == object:
        return groups
    added = np.asarray(group).dtype
    if (groups.dtype.kind in "US") != (added.kind in "US"):
        raise ValueError(
            f"client {group!r} and the clients of fit, such as {_plain(groups[0])!r}, must be all "
            "names or all numbers"
        )
    return groups.astype(np.result_type(groups, added))


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value, for messages."""
    return value.item() if isinstance(value, np.generic) else value
