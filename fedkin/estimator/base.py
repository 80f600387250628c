"""What the clustered estimators of scikit-learn share: runs, models of clients, placement of new
clients.

Shapes: M samples, D features, N clients (scikit-learn's groups), K models, P parameters, C outputs.
"""

from __future__ import annotations

import types
import warnings
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
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
from fedkin.data.federated import FederatedData
from fedkin.data.labels import check_present
from fedkin.data.table_transform import TableTransform
from fedkin.data.user_arrays import missing_rows, unmasked, user_array
from fedkin.export.predictor import Predictor
from fedkin.run.run import Run
from fedkin.run.simulate import simulate, trainable
from fedkin.run.simulate_arguments import check_method
from fedkin.run.trained.placement import Placement, newcomer_policy
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

_NO_GROUPS = (
    "%s.fit was given no groups, so all samples belong to one client and there is one cluster; "
    "give the client of each sample: fit(X, y, groups=clients). In a pipeline or a search, use "
    "metadata routing: set_fit_request(groups=True)"
)
# Attributes that hold compiled programs, which cannot be pickled.
_NOT_PICKLED = ("run_", "_predictors")


class OneSample(NamedTuple):
    """The part of the data that is needed to rebuild models: a sample, the number of outputs and
    what the labels are."""

    x: Shaped[np.ndarray, "1 ..."]
    y: Shaped[np.ndarray, "1 ..."]
    classes: int
    name: str = "estimator"
    task_type: TaskType = CLASSIFICATION
    transform: TableTransform | None = None


class ClusteredEstimator(BaseEstimator):
    """The part of a clustered estimator that does not depend on its labels. A subclass has the
    arguments of ``Clustered``."""

    method: Any
    clusters: int
    method_options: Any
    model: Any
    rounds: int
    cohort: int
    epochs: int
    batch_size: int
    lr: float
    random_state: Any

    @abstractmethod
    def _run_labels(self, labels: np.ndarray) -> np.ndarray:
        """The labels that ``Run.place`` takes, from labels as ``_train`` gets them."""

    @abstractmethod
    def _output(self, predictor: Predictor, X: np.ndarray) -> np.ndarray:
        """What the estimator averages over models: probabilities [M, C], or numbers [M]."""

    def _checked(self, X: Any, y: Any, groups: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Checked samples and labels of ``fit``, and the client of each sample."""
        numeric = {} if isinstance(self, ClassifierMixin) else {"y_numeric": True}
        X, y = validate_data(
            self,
            self._samples_of(X),
            self._labels_of(y),
            dtype=np.float32,
            allow_nd=True,
            **numeric,
        )
        if groups is None:
            warnings.warn(_NO_GROUPS % self._name, UserWarning, stacklevel=3)
        owners = np.zeros(len(X), int) if groups is None else self._one_per_sample(groups, len(X))
        self.groups_, clients = np.unique(owners, return_inverse=True)
        return X, y, clients

    def _train(
        self, data: FederatedData, X: np.ndarray, labels: np.ndarray, clients: np.ndarray
    ) -> None:
        """Run the method on the data, and keep its models.

        Args:
            data: the samples of all clients.
            X: the same samples.
            labels: the label of each sample; of classes, the position of its class.
            clients: the client of each sample, as a position in ``groups_``.
        """
        N = len(self.groups_)
        self._data = OneSample(
            data.x[:1].copy(),
            data.y[:1].copy(),
            int(data.classes),
            task_type=data.task_type,
            transform=data.transform,
        )
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

    def _outputs(self, X: Any, groups: Any) -> np.ndarray:
        """Probabilities or numbers of each sample, from the model of its client; without groups,
        the mean over models, weighted by clients."""
        check_is_fitted(self, "models_")
        X = validate_data(self, self._samples_of(X), dtype=np.float32, allow_nd=True, reset=False)
        if groups is None:
            return self._mean_output(X)
        models = self._model_index[self._positions(self._one_per_sample(groups, len(X)))]
        first = self._output(self._predictor(int(models[0])), X[:1])
        outputs = np.zeros((len(X), *first.shape[1:]))
        for k in np.unique(models):
            outputs[models == k] = self._output(self._predictor(int(k)), X[models == k])
        return outputs

    def _mean_output(self, X: np.ndarray) -> np.ndarray:
        """The output averaged over the models of all clients."""
        if self.membership_ is not None:
            return self._output(self._mixture(self.membership_.mean(axis=0)), X)
        counts = np.bincount(self._model_index, minlength=len(self.models_))
        shares = counts / len(self._model_index)
        parts = []
        for k in np.flatnonzero(shares):
            parts.append(shares[k] * self._output(self._predictor(int(k)), X))
        return np.sum(parts, axis=0)

    def _checked_newcomer(self, X: Any, group: Any) -> tuple[np.ndarray, Any]:
        """Checked samples and name of a client that ``assign`` places."""
        check_is_fitted(self, "models_")
        group = self._one_group(group)
        if np.isin(group, wide_enough(self.groups_, group)):
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
        X = validate_data(self, self._samples_of(X), dtype=np.float32, allow_nd=True, reset=False)
        return X, group

    def _placed(self, X: np.ndarray, labels: np.ndarray, group: Any) -> Placement:
        """Place a client by its labelled samples, and keep its cluster."""
        groups = wide_enough(self.groups_, group)
        placed = self.run_.place(X, self._run_labels(labels))
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
                f"{type(method).__name__} trains detectors, not models that {self._name} can use; "
                "run it with fk.simulate"
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
        self, run: Run, x: np.ndarray, y: Shaped[np.ndarray, "M"], clients: Int[np.ndarray, "M"]
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
                f"the method leaves client {plain_value(missing[0])!r} without a cluster "
                f"({len(missing)} such clients); train for more rounds"
            )
        self.models_ = run.models
        self.labels_ = assignment
        self._model_index = assignment

    def _keep_models_of_clients(
        self, run: Run, x: np.ndarray, y: Shaped[np.ndarray, "M"], clients: Int[np.ndarray, "M"]
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
                f"groups: client {plain_value(unknown[0])!r} was not in fit ({len(unknown)} such "
                "clients); use assign(X, y, group) to find its cluster from labelled samples, or "
                "groups=None to average all models"
            )
        return np.searchsorted(self.groups_, groups)

    @property
    def _name(self) -> str:
        """The name of the class, with which messages begin."""
        return type(self).__name__

    def _samples_of(self, X: Any) -> Any:
        """Samples as an unmasked array. Data frames and sparse matrices are returned unchanged."""
        is_table = hasattr(X, "columns") or hasattr(X, "toarray")
        return X if is_table else user_array(X, self._name, "X")

    def _labels_of(self, y: Any) -> Any:
        """The labels. Raises ValueError if one is masked or missing; scikit-learn checks the
        rest."""
        labels = unmasked(y, self._name, "y")
        is_column = isinstance(labels, list) or getattr(labels, "ndim", 0) == 1
        if is_column and (values := np.asarray(labels)).dtype == object:
            check_present(values, self._name)
        return labels

    def _one_per_sample(self, groups: Any, samples: int) -> Shaped[np.ndarray, "M"]:
        """The checked client of each sample. Raises ValueError for a wrong length or missing
        client."""
        if np.ndim(groups) == 2:
            groups = column_or_1d(unmasked(groups, self._name, "groups"))
        clients = whole_ids(client_ids(groups, self._name, "groups"))
        if len(clients) != samples:
            raise ValueError(
                f"{self._name}: groups must have a client for each of {samples} samples, got "
                f"{len(clients)}"
            )
        return clients

    def _one_group(self, group: Any) -> Any:
        """The checked name or number of one client. Raises ValueError if it is missing."""
        if len(missing_rows(np.array([group], object))):
            raise ValueError(
                f"{self._name}: group must be the name or number of a client, got {group!r}"
            )
        return plain(whole_ids(client_ids([group], self._name, "group"))[0])


def names_of(values: Shaped[np.ndarray, "n"]) -> tuple[str, ...] | None:
    """Labels or clients as text, for the run; None if two of them have the same text."""
    names = tuple(map(str, values))
    return names if len(set(names)) == len(names) else None


def wide_enough(groups: Shaped[np.ndarray, "N"], group: Any) -> Shaped[np.ndarray, "N"]:
    """The array of groups with a dtype that can also hold the new group, such as a longer name.
    Raises ValueError if the group is a name and the groups are numbers, or the reverse."""
    if groups.dtype == object:
        return groups
    added = np.asarray(group).dtype
    if (groups.dtype.kind in "US") != (added.kind in "US"):
        raise ValueError(
            f"client {group!r} and the clients of fit, such as {plain_value(groups[0])!r}, must be "
            "all names or all numbers"
        )
    return groups.astype(np.result_type(groups, added))


def plain_value(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value, for messages."""
    return value.item() if isinstance(value, np.generic) else value
