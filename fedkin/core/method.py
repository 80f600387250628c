"""The interface of a method: three steps on an immutable state. Shapes: N clients, K models, P
parameters, D detectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.model_spec import ModelSpec
from fedkin.core.object_repr import client_list
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.core.world import World

UNASSIGNED = -1  # cluster of a client that has none


@dataclass(frozen=True)
class AssignedModels:
    """The models that clients use, one per client. If models are detectors, one per client and
    class.

    Attributes:
        models: parameters of each model.
        model_index: row in ``models`` of each client's model. For detectors [n C], one for each
            class (-1: none).
        positive: the class that each detector separates from all others; None for other models.
        cluster: the cluster in which each detector was trained; None for other models.
    """

    models: Float[np.ndarray, "D P"]
    model_index: Int[np.ndarray, "n ..."]
    positive: Int[np.ndarray, "D"] | None = None
    cluster: Int[np.ndarray, "D"] | None = None


@dataclass(frozen=True)
class State:
    """The arrays that every method keeps from round to round. A method may add more in a subclass.

    All fields are NumPy arrays. An array with a row for each client may also be a ``SharedRows``
    table, which saves memory if a round changes only a few of the rows. A checkpoint stores exactly
    these fields.

    Examples:
        >>> import fedkin as fk
        >>> import numpy as np
        >>> state = fk.State(np.zeros((2, 650), np.float32), assignment=np.array([0, 1, 1]))
        >>> state.clusters
        2
    """

    models: Float[np.ndarray, "K P"]
    assignment: Int[np.ndarray, "N"]  # cluster of each client, or UNASSIGNED
    # Arrays of the run's options, by section and name. Methods neither read nor write them
    # (``options/``).
    extras: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict, kw_only=True)

    @property
    def clusters(self) -> int:
        """K, the number of clusters, for methods with one model per cluster."""
        return len(self.models)

    def models_for(self, clients: Int[np.ndarray, "n"]) -> AssignedModels:
        """The models with which ``clients`` predict and are evaluated. Every client must have a
        cluster."""
        return AssignedModels(self.models, self.assignment[clients])

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task | None:
        """The task that evaluates ``clients``, for a method whose clients keep a part of their
        model. Every client must have a cluster. The task replies with ``correct``, ``examples`` and
        ``loss``. None: the models from ``models_for`` are evaluated as usual."""
        return None

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        """Index of the model into which each client's update was aggregated, or UNASSIGNED.

        ``trained`` is the index of the model that each client trained.
        """
        return self.assignment[clients]

    def excluded(self) -> Bool[np.ndarray, "N"]:
        """Mask of the clients that never get a cluster."""
        return np.zeros(len(self.assignment), bool)


@runtime_checkable
class Method(Protocol):
    """A method: a frozen dataclass of hyper-parameters with three functions, each of which returns
    a new state. Each method chooses the type of its state.

    It may also declare ``requirements``: see ``requirements.requirements_of``.
    """

    def init(self, world: World, stream: Stream) -> Any:
        """The state before the first communication round."""
        ...

    def round(self, world: World, state: Any, cohort: Int[np.ndarray, "n"], stream: Stream) -> Any:
        """The state after one communication round with a cohort (ascending client ids). A client
        that ``place`` could not assign is still unassigned, and the method may leave it out."""
        ...

    def place(
        self, world: World, state: Any, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> Any:
        """The state with every newcomer (ascending client ids) assigned to a cluster. A newcomer
        that does not reply stays unassigned. A method that reassigns clients in every round may
        return the state unchanged.
        """
        ...


class ClientRemark(str):
    """A warning about some clients; ``with_names`` inserts their names.

    Args:
        text: the warning, with ``{}`` in place of the clients.
        clients: the clients' positions.
    """

    text: str
    clients: tuple[int, ...]

    def __new__(cls, text: str, clients: Iterable[int] | Int[np.ndarray, "c"]) -> ClientRemark:
        positions = tuple(int(client) for client in clients)
        remark = super().__new__(cls, text.format(client_list(positions)))
        remark.text = text
        remark.clients = positions
        return remark

    def with_names(self, names: Sequence[str] | None) -> str:
        """The warning, with the clients' names if they have any.

        Args:
            names: names of all clients.
        """
        return self.text.format(client_list(self.clients, names))


@runtime_checkable
class Checking(Protocol):
    """A method with a check of the run beyond its ``requirements``."""

    def check_run(self, spec: ModelSpec, clients: int, work: LocalTraining) -> None:
        """Raise MethodError before the run starts if the method cannot run with these settings.

        Args:
            spec: the model's spec.
            clients: number of clients.
            work: local training of the clients.
        """
        ...


@runtime_checkable
class Remarking(Protocol):
    """A method that can warn about the clusters it found."""

    def remarks(self, state: Any) -> tuple[str, ...]:
        """Warnings about the clusters in the state that ``init`` returned."""
        ...
