"""The trained models of a finished run: for each cluster, for each client, and after fine-tuning.

Shapes: N clients, P parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import CheckpointError, ConfigError, MethodError, unknown
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.task import Task
from fedkin.data.client_names import ClientNames
from fedkin.export.predictor import Predictor
from fedkin.options.with_options import evaluation_task
from fedkin.run.trained.ingredients import Ingredients
from fedkin.run.trained.newcomer_data import has_labels, newcomer_data, newcomer_samples
from fedkin.run.trained.personal_models import check_head, check_shared, whole_model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import check_samples
from fedkin.tasks.fedem import EvaluateMixture
from fedkin.tasks.fedper import EvaluatePersonal
from fedkin.tasks.fedrouter import EvaluateRouted
from fedkin.tasks.train import train

_NEWCOMER = (
    "for a client that the run has not seen, find its cluster with run.place(x, y), and predict "
    "with cluster="
)


@dataclass(frozen=True, eq=False)
class TrainedModels:
    """The models at the end of a run.

    Attributes:
        method: the method's name.
        parts: method, model, data and local training of the run.
        state: the method's final state.
        memory: arrays that clients store.
        named_clients: positions of the clients with known names, ascending.
        names: names of these clients.
        seed: the run's seed.
        rounds: number of rounds of the run.
    """

    method: str
    parts: Ingredients
    state: State
    memory: Mapping[str, np.ndarray]
    named_clients: Int[np.ndarray, "m"]
    names: ClientNames
    seed: int
    rounds: int

    def __post_init__(self) -> None:
        expected = self.state.models.shape[1]
        clients = len(self.state.assignment)
        if self.parts.model.spec.parameters != expected:
            raise CheckpointError(
                f"the run's models have {expected} parameters, but {self.parts.model.name!r} has "
                f"{self.parts.model.spec.parameters}; give the model that was trained"
            )
        if hasattr(self.parts.samples, "train") and self.parts.data.clients != clients:
            raise CheckpointError(
                f"the run has {clients} clients, but the data have {self.parts.data.clients}; give "
                "the run's data"
            )

    @cached_property
    def spec(self) -> ModelSpec:
        """Size and layers of the model on the run's data."""
        return check_samples(self.parts.model, self.parts.samples)

    @property
    def personal(self) -> bool:
        """Whether each client has a separate model, as for peers and for last layers that stay on
        clients."""
        # A state with its own rule for clients' models gives each client a separate one, unless the
        # models are detectors, which clients of a cluster share.
        own = type(self.state).models_for is not State.models_for and not self._detects
        return own or self._own_task is not None

    @property
    def _own_task(self) -> Task | None:
        """The task that evaluates clients with the model parts that they store; None if clients
        store no parts."""
        return evaluation_task(self.state, self.spec, np.zeros(0, np.int64))

    @property
    def _detects(self) -> bool:
        """Whether the models are detectors (of one class against all others)."""
        return self.parts.model.spec.detects

    def _position(self, name: str) -> int | None:
        """The position of a client in the data, from its name or from its position as text; None if
        there is no such client."""
        clients = self.named_clients[self.names.positions(name)]
        if len(clients):
            return int(clients[-1])
        # A position in digits. 19 or more digits may not fit into 64 bits.
        if not (name.isascii() and name.isdecimal() and len(name) < 19):
            return None
        position = int(name)
        unnamed = position < len(self.state.assignment) and self._known_name(position) is None
        return position if unnamed and str(position) == name else None

    def client_number(self, client: int | str) -> int:
        """The position of a client. An integer is a position from 0, unless clients' names are
        integers.

        Args:
            client: the client's name or position. An integer is first compared with the names.

        Raises:
            ConfigError: the client is unknown.
        """
        total = len(self.state.assignment)
        if isinstance(client, bool) or not isinstance(client, (str, int, np.integer)):
            raise ConfigError(
                f"client must be a position from 0 to {total - 1}, or a name; got {client!r}"
            )
        if (position := self._position(str(client))) is not None:
            return position
        if not self.names:
            raise ConfigError(
                f"clients of this run have positions from 0 to {total - 1}, and no names; got "
                f"{client!r}"
            )
        if isinstance(client, str):
            raise ConfigError(f"{unknown('client', client, self._all_names())}; {_NEWCOMER}")
        if any(name.removeprefix("-").isdecimal() for name in self.names):
            raise ConfigError(
                f"{unknown('client', str(client), self._all_names())}; the names of clients are "
                f"integers here, so a number is a name and not a position; {_NEWCOMER}"
            )
        if not 0 <= client < total:
            raise ConfigError(
                f"client must be a position from 0 to {total - 1}, or a name; got {client!r}"
            )
        return int(client)

    def client_name(self, number: int) -> str:
        """The name of a client; its position as text if it has no name."""
        return self._known_name(number) or str(number)

    def _known_name(self, number: int) -> str | None:
        """The name of a client; None if no name of this client is known."""
        place = int(np.searchsorted(self.named_clients, number))
        return (
            self.names[place]
            if place < len(self.named_clients) and self.named_clients[place] == number
            else None
        )

    def _all_names(self) -> set[str]:
        """The names of all clients; a client without a name has its position as text."""
        return {self.client_name(number) for number in range(len(self.state.assignment))}

    def of_client(self, number: int) -> Predictor:
        """The model that a client uses: its cluster's model, or its personal model.

        Args:
            number: the client's position.

        Raises:
            MethodError: the client has no cluster, or its model is on its own device.
        """
        cluster = int(self.state.assignment[number])
        if cluster == UNASSIGNED:
            raise MethodError(
                f"client {self.client_name(number)} has no cluster in this run, so it has no "
                "model; run.place finds the cluster for its samples"
            )
        clients = np.array([number])
        task = evaluation_task(self.state, self.spec, clients)
        own = f"client-{self.client_name(number)}"
        if isinstance(task, EvaluateMixture):
            return replace(self._predictor(own, task.models, cluster), shares=task.membership[0])
        if isinstance(task, EvaluateRouted):
            usable = task.usable[0]
            of_texts = self._predictor(own, task.models[usable], cluster)
            return replace(of_texts, routes=task.centroids[usable])
        # The client stores a part of its model.
        if task is not None:
            memory = self.memory if hasattr(self.parts.samples, "train") else None
            vector = whole_model(
                task, number, total=len(self.state.assignment), memory=memory, method=self.method
            )
            return self._predictor(own, vector[None], cluster)
        assigned = self.state.models_for(clients)
        index = np.asarray(assigned.model_index[0])
        if assigned.positive is not None:
            classes = np.flatnonzero(index >= 0)
            rows = index[classes]
            return replace(
                self._predictor(f"cluster-{cluster}", assigned.models[rows], cluster),
                positive=classes,
            )
        name = own if self.personal else f"cluster-{cluster}"
        return self._predictor(name, assigned.models[int(index)][None], cluster)

    def check_trained(self, number: int) -> None:
        """Raise MethodError for a client that has not trained its personal last layer yet, since
        the initial layer predicts at random.

        Args:
            number: the client's position.
        """
        if hasattr(self.parts.samples, "train"):
            task = evaluation_task(self.state, self.spec, np.array([number]))
            check_head(
                task,
                number,
                total=len(self.state.assignment),
                memory=self.memory,
                name=self.client_name(number),
            )

    def of_cluster(self, cluster: int) -> Predictor:
        """The model of a cluster.

        Args:
            cluster: the cluster's number, from 0.

        Raises:
            ConfigError: the cluster does not exist.
            MethodError: clients have separate models or last layers, so the cluster has no model;
                or a cluster of detectors has no clients.
        """
        clusters = self.state.clusters
        if (
            isinstance(cluster, bool)
            or not isinstance(cluster, (int, np.integer))
            or not 0 <= cluster < clusters
        ):
            raise ConfigError(f"cluster must be a number from 0 to {clusters - 1}, got {cluster!r}")
        check_shared(self._own_task, self.personal, self.method)
        if not self._detects:
            return self._shared(int(cluster))
        members = np.flatnonzero(self.state.assignment == cluster)
        if not len(members):
            raise MethodError(
                f"cluster {cluster} has no clients, so it has no detectors; choose another cluster"
            )
        return self.of_client(int(members[0]))

    def all(self) -> list[Predictor]:
        """All models that clients use: one for each cluster with clients, or one for each client if
        clients have separate models."""
        assigned = np.flatnonzero(self.state.assignment != UNASSIGNED)
        if self.personal:
            return [self.of_client(int(client)) for client in assigned]
        return [
            self.of_cluster(int(cluster)) for cluster in np.unique(self.state.assignment[assigned])
        ]

    def fine_tune(self, number: int, epochs: int) -> Predictor:
        """The model of a client after local training on its training samples. The run's settings of
        local training are used, but its schedule of the learning rate over rounds is not, since a
        schedule may end at 0.

        Args:
            number: the client's position.
            epochs: E, the number of epochs; 0: no training.

        Raises:
            ConfigError: the number of epochs is not an integer from 0 up.
            MethodError: as for ``of_client``, or the models are detectors or mixtures.
            DataError: the client's data are on its own machine.
        """
        predictor = self.tunable(self.of_client(number), epochs)
        tuned = self.tuned(predictor.vectors, np.array([number]), int(epochs))
        return replace(predictor, name=f"client-{self.client_name(number)}", vectors=tuned)

    def fine_tune_newcomer(self, cluster: int, x: Any, y: Any, epochs: int) -> Predictor:
        """The model of a cluster after local training on the samples of a client that the run has
        not seen, with the settings of ``fine_tune``.

        Args:
            cluster: the cluster's number.
            x: the client's samples [s ...].
            y: the samples' labels [s]: names if the run's labels are names, otherwise numbers;
                None if a table x has them (series, patients).
            epochs: E, the number of epochs; 0: no training.

        Raises:
            ConfigError, MethodError: as for ``of_cluster`` and ``fine_tune``; or y is missing.
            DataError: the samples or labels do not fit the run's.
        """
        # If last layers are personal, a cluster's model lacks one. Training makes a new one.
        # Without training (0 epochs), ``of_cluster`` refuses it with an error.
        heads = isinstance(self._own_task, EvaluatePersonal) and epochs
        known = heads and 0 <= cluster < self.state.clusters
        predictor = self.tunable(
            self._shared(int(cluster)) if known else self.of_cluster(cluster), epochs
        )
        if not has_labels(self.parts.samples, x, y):
            raise ConfigError("fine_tune needs the labels of the new client's samples; give y=")
        samples, labels = newcomer_samples(self.parts.samples, x, y)
        data = newcomer_data(self.parts.samples, samples, labels, [np.arange(len(samples))])
        world = SimulatedWorld(data, self.parts.model, self.parts.local)
        clients = np.zeros(1, np.int64)
        tuned = (
            self._tuned(world, predictor.vectors, clients, int(epochs))
            if epochs
            else predictor.vectors
        )
        return replace(predictor, name=f"{predictor.name}-fine-tuned", vectors=tuned)

    def tunable(self, predictor: Predictor, epochs: int) -> Predictor:
        """Check that a model can be fine-tuned, and return it.

        Raises ConfigError for an invalid number of epochs, MethodError for detectors and mixtures.
        """
        if isinstance(epochs, bool) or not isinstance(epochs, (int, np.integer)) or epochs < 0:
            raise ConfigError(f"epochs must be an integer of at least 0, got {epochs!r}")
        if predictor.detects or predictor.has_components:
            kind = "detectors" if predictor.detects else "mixtures"
            if predictor.routes is not None:
                kind = "models of kinds of texts"
            raise MethodError(
                f"{self.method} trains {kind}, with several models for a client; only a single "
                "model can be fine-tuned"
            )
        return predictor

    def tuned(
        self, models: Float[np.ndarray, "n P"], clients: np.ndarray, epochs: int
    ) -> Float[np.ndarray, "n P"]:
        """The models of clients after local training, each on its client's training samples. The
        run's settings of local training are used, but its schedule of the learning rate over rounds
        is not, since a schedule may end at 0.

        Args:
            models: initial parameters, one row for each client.
            clients: positions of the clients.
            epochs: E, the number of epochs.
        """
        return self._tuned(self.world(), models, clients, epochs) if epochs else models

    def _tuned(
        self,
        world: SimulatedWorld,
        models: Float[np.ndarray, "n P"],
        clients: np.ndarray,
        epochs: int,
    ) -> Float[np.ndarray, "n P"]:
        """The models of clients after local training, as ``tuned``, in a given simulated world."""
        work = replace(self.parts.local, epochs=epochs, steps=None, schedule=None)
        stream = Stream(self.seed, self.rounds, "fine_tune")
        reply = train(world, models, clients, np.arange(len(clients)), work=work, stream=stream)
        if not reply.arrived.all():
            bad = ", ".join(self.client_name(int(number)) for number in clients[~reply.arrived])
            raise MethodError(
                f"fine-tuning of client {bad} diverged; a lower learning rate may help"
            )
        return models + reply.update

    def world(self) -> SimulatedWorld:
        """A simulated world of the clients with their data at the end of the run, in which all
        clients reply."""
        world = SimulatedWorld(
            self.parts.data, self.parts.model, self.parts.local, shift=self.parts.shift
        )
        world.begin(Stream(self.seed, self.rounds, "scenario"))
        return world

    def _predictor(self, name: str, vectors: Float[np.ndarray, "D P"], cluster: int) -> Predictor:
        """A predictor with the run's model and the given parameters. If ``vectors`` has several
        rows, each is a model (detectors, or models that are mixed)."""
        labels = getattr(self.parts.samples, "label_names", None)
        return Predictor(
            name=name,
            model=self.parts.model,
            vectors=vectors,
            samples=self.parts.samples,
            label_names=labels,
            cluster=cluster,
        )

    def _shared(self, cluster: int) -> Predictor:
        """The predictor for the model that all clients of a cluster share."""
        return self._predictor(f"cluster-{cluster}", self.state.models[cluster][None], cluster)
