"""The simulated world: runs every task on this machine, for the clients of one data set."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client import ClientRows
from fedkin.core.client_engine import ClientEngine, ClientSamples
from fedkin.core.client_memory import LIMIT, ClientMemory
from fedkin.core.columns import has_patient_rows
from fedkin.core.errors import ConfigError
from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, ReplyBuilder, mean_vector
from fedkin.core.task import Task, call_clients, call_sizes, traffic
from fedkin.core.training import LocalTraining
from fedkin.core.world import UPDATE_MEMORY
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.packed_files import check_files, mapped_files
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift, ShiftedData, clients_detect
from fedkin.simulation.run_rows import add_replies
from fedkin.simulation.workers import (
    AnyModel,
    check_samples,
    decided,
    program_release,
    worker_factory,
)
from fedkin.task_types.task_type import TaskType


class SimulatedWorld:
    """All clients of a data set, simulated on this machine.

    Args:
        data: samples of all clients.
        model: a JAX ``Model``, or a ``TorchModel``, which PyTorch trains.
        work: settings of local training.
        population: which clients take part, drop out or straggle.
        shift: how the clients' data change from round to round; None if they do not change.
        devices: number of XLA devices; None for all. Results do not depend on it. Ignored by
            PyTorch models.
        clients_per_batch: clients trained at a time on one device. None: 1 on a CPU, elsewhere the
            fastest number. PyTorch always trains one client after another.
        ids: the clients' ids in the random streams, ascending; None for 0 .. N-1. A world that has
            only the clients 7 and 9 gives them the random numbers that they have among all clients.
        compiled: whether tasks run in their form for all clients at once (``compute_rows``) if they
            have one; otherwise every task runs client by client.
        memory_limit: bytes that one client may keep between rounds.
        engine: where clients compute. None: in this process. ``ray``, or ``ray:`` and the address
            of a cluster: in Ray actors (processes on one or many machines).
        actors: number of Ray actors. None: one on each machine, or one on each core of a single
            machine.
        sum_by_actor: whether each actor adds up its clients' updates before it sends them. This
            changes the last bits of the sums.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> world = fk.SimulatedWorld(data, fk.models.mclr(data))
        >>> world.total_clients, world.spec.parameters
        (6, 650)
    """

    def __init__(
        self,
        data: FederatedData,
        model: AnyModel,
        work: LocalTraining | None = None,
        *,
        population: Population | None = None,
        shift: Shift | None = None,
        devices: int | None = None,
        clients_per_batch: int | None = None,
        ids: Int[np.ndarray, "N"] | None = None,
        compiled: bool = True,
        memory_limit: int = LIMIT,
        engine: str | None = None,
        actors: int | None = None,
        sum_by_actor: bool = False,
    ) -> None:
        self.data = data
        self.model = model
        self.spec = check_samples(model, data)
        self.work = work or LocalTraining()
        self.work.check_classes(
            data.classes, self.spec.detects, numbers=data.task_type.loss is not None
        )
        self.work.check_precision(model.name, bool(self.spec.untrained))
        self.population = population or Population()
        self.ledger = Ledger()
        self.total_clients = data.clients
        self._ids = _check_ids(ids, data.clients)
        self._first_data = data
        self._compiled = compiled
        self._workers_for = partial(
            worker_factory, model, devices=devices, clients_per_batch=clients_per_batch
        )
        self._workers = self._workers_for(self._ids)
        if engine is not None:
            from fedkin.simulation.ray.workers import ray_factory

            self._workers = ray_factory(
                engine=engine,
                # Decided here, so that the actors do not choose between PyTorch and JAX again.
                model=decided(model, data),
                ids=self._ids,
                clients_per_batch=clients_per_batch,
                actors=actors,
            )
        self._sum_by_actor = sum_by_actor and engine is not None
        self._scorer, self._trainer = self._workers(data)
        self._release_programs = program_release(model)
        self._shifted_data = None if shift is None else ShiftedData(data, shift, self.clients)
        self._detects_shifts = clients_detect(shift)
        self._memory = ClientMemory(data.clients, memory_limit, self._ids, data.client_names)
        self.true_clusters = data.true_clusters
        # Clients whose data shift in this round; None without a shift.
        self.shifted_clients: Bool[np.ndarray, "N"] | None = None
        # Files that map the caller's arrays; packed data check their files themselves.
        arrays = (data.x, data.y, data.train.rows, data.test.rows)
        self._files = {} if data.packed else mapped_files(arrays)
        self._now = Stream(0)  # stream of the current round
        self.identity: Any = None  # signing key of a real site's clients

    @property
    def task_type(self) -> TaskType:
        """What the labels of the clients' samples are."""
        return self.data.task_type

    @property
    def client_names(self) -> Sequence[str] | None:
        """Names of all clients, for messages; None if the data have no client names."""
        return self.data.client_names

    @property
    def silent_clients(self) -> tuple[int, ...]:
        """Ids of clients that never reply and are in no score."""
        return self.population.silent or ()

    @property
    def update_memory(self) -> int:
        """Bytes that the updates of all clients of one task may take together, if the method needs
        only their means.

        Up to this size, each client's update is returned too, because measurements use it. If the
        updates are larger, only the means are computed.
        """
        return UPDATE_MEMORY

    @property
    def scored_split(self) -> str:
        """The split on which rounds are scored."""
        return self.data.scored_split

    def rehearsal(self) -> SimulatedWorld:
        """A copy of this world with the present data, for measurements without side effects.

        In the copy all clients reply in full, and whatever they store in their memory is discarded
        with the copy. The ledger (bytes by task) is shared, so communication is still counted.
        """
        other = copy.copy(self)
        other.population = replace(self.population, dropout=0.0, mute=0.0, stragglers=0.0)
        other._memory = self._memory.copy()
        return other

    def begin(self, stream: Stream) -> None:
        """Begin a round: check the sample files, let clients leave, and apply the round's data
        shift."""
        self._now = stream
        self._release_programs()
        self.check_samples()
        self._memory.forget(self.population.departed(stream.round))
        if self._shifted_data is None:
            return
        data, self.shifted_clients = self._shifted_data.at(stream)
        if data is not self.data:
            self.data = data
            self.true_clusters = data.true_clusters
            self._scorer, self._trainer = self._workers(data)

    def check_samples(self) -> None:
        """Raise DataError for sample files that have changed or disappeared since the start."""
        if self._first_data.packed is not None:
            self._first_data.packed.check()
        check_files(self._files)

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A new model, drawn from the stream's random numbers."""
        return self.model.initial(stream.words())

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that can be reached in a round."""
        return self.population.reachable(self.total_clients, round)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Let clients do a task, and return their replies. The ledger (bytes by task) counts the
        transferred bytes."""
        task.check(self.model.name, self.spec, self.data.classes)
        sizes = call_sizes(task, len(clients), self._sizes())
        clients = call_clients(task, clients, self.total_clients)
        rows = self._rows(task, clients, stream)
        builder = ReplyBuilder(task, len(clients), sizes, self.task_type.counted)
        if self._sums_at_actors(task):
            trainer: Any = self._trainer
            trainer.add_sums(builder, rows, self._compiled)
        else:
            add_replies(builder, rows, self._compiled)
        reply = builder.reply()
        count = traffic(task, rows.clients, reply.arrived | reply.nonfinite, sizes)
        if count:
            self.ledger.add(task.name, *count)
        return reply

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Delete what clients keep only for their present cluster, because their cluster has
        changed."""
        self._memory.forget(clients, "assignment")

    def memory(self) -> dict[str, np.ndarray]:
        """The arrays that clients keep between rounds, for a checkpoint."""
        return self._memory.arrays()

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore the arrays that ``memory`` returned."""
        self._memory.restore(memory)

    @property
    def memory_changes(self) -> int:
        """How often clients have stored or deleted something in their memory."""
        return self._memory.changes

    def _sums_at_actors(self, task: Task) -> bool:
        """Whether Ray actors (processes) add up the clients' replies to a task.

        Actors know neither the clients' memory nor shifted data, so the task may use neither. Its
        reply must also contain exactly one vector that is averaged over clients, such as the
        update.
        """
        wanted = self._sum_by_actor and not task.memory and self._shifted_data is None
        return wanted and mean_vector(task) is not None

    def _sizes(self) -> dict[str, int]:
        """Sizes that every world knows: parameters P, classes C, and features d of a sample, or of
        a patient in risk sets."""
        features = int(np.prod(self.data.x.shape[1:]))
        if has_patient_rows(self.data):
            # The last feature of a patient in a risk set is the patient's weight.
            features = self.data.x.shape[2] - 1
        return {
            "P": self.spec.parameters,
            "C": self.data.classes,
            **self.task_type.sizes(),
            "d": features,
        }

    def _rows(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None) -> ClientRows:
        """The rows of one call of ``run`` (a row is a client that is asked, with its model):
        whether each client replies, and its number of training epochs or steps."""
        # A call without a stream draws its failures from the stream of the round.
        drawn = stream or self._now
        failed = self._failed(task, clients, drawn)
        steps = np.zeros(len(clients), np.int64)
        work = task.work
        if work is not None:
            asked = work.epochs if work.steps is None else work.steps
            steps = np.broadcast_to(asked, len(clients)).astype(np.int64)
        if work is not None and self.population.stragglers:
            straggling = self.population.straggling(clients, drawn)
            if work.partial:
                done = self.population.partial_steps(clients, steps, drawn)
                steps = np.where(straggling, done, steps)
            else:
                # A straggler's unfinished work is not used, so it counts as no reply.
                failed = failed | straggling
        return ClientRows(
            task=task.name,
            clients=clients,
            active=~failed,
            steps=steps,
            samples=self._client_samples(),
            engine=self._client_engine(),
            memory=self._memory,
            declared=task.memory,
            stream=stream,
            identity=self.identity,
        )

    def _client_samples(self) -> ClientSamples:
        """The samples of all clients, for the code of a task (``ClientRows.samples``)."""
        return ClientSamples(
            ids=self._ids,
            data=self.data,
            first_data=self._first_data,
            detects_shifts=self._detects_shifts,
        )

    def _client_engine(self) -> ClientEngine:
        """Scorer and trainer of all clients, for the code of a task (``ClientRows.engine``)."""
        return ClientEngine(
            scorer=self._scorer,
            trainer=self._trainer,
            together=self.spec.detects,
            limited=self._limited,
        )

    def _limited(
        self,
        clients: Int[np.ndarray, "r"],
        own: list[np.ndarray],
    ) -> tuple[ClientSamples, ClientEngine]:
        """Samples, and scorer and trainer (``ClientEngine``), of clients that use only some of
        their training samples.

        One more client, the one with the most samples in the data set, is added at the end. It does
        no work, but makes batches as wide as in a training on all samples, so that dropout draws
        the same random numbers.

        Args:
            clients: positions of the clients in the data set.
            own: for each client, the samples that it uses, as positions among its training samples.
        """
        largest = int(np.argmax(self.data.train.sizes))
        rows = [
            self.data.train[int(client)][positions]
            for client, positions in zip(clients, own, strict=True)
        ]
        clients = np.append(clients, largest)
        ids = self._ids[clients]
        data = self.data.select(clients)
        data = data.with_rows(Ragged.of([*rows, self.data.train[largest]]), data.test)
        scorer, trainer = self._workers_for(ids)(data)
        samples = ClientSamples(ids, data, first_data=data, detects_shifts=self._detects_shifts)
        return samples, ClientEngine(scorer, trainer, together=self.spec.detects)

    def _failed(
        self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream
    ) -> Bool[np.ndarray, "n"]:
        """Which rows fail, i.e. get no reply from their client (a row is a client and its model).

        A client that never replies does not fail in a local task (``task.local``), for which no
        message is sent. A silent client fails in every task.
        """
        population = self.population
        silent = np.isin(clients, self.silent_clients)
        if not (task.can_be_lost and (population.dropout or population.mute or task.between_peers)):
            return silent
        # A client fails in all its rows or in none.
        distinct, row = np.unique(clients, return_inverse=True)
        failed = np.zeros(len(distinct), bool)
        if population.dropout:
            failed |= population.dropped_out(distinct, stream)
        if population.mute and not task.local:
            failed |= population.never_responding(distinct, stream)
        if task.between_peers:
            failed |= ~np.isin(distinct, self.clients(self._now.round))
        return failed[row.ravel()] | silent


def _check_ids(ids: Int[np.ndarray, "N"] | None, clients: int) -> Int[np.ndarray, "N"]:
    """The clients' ids in the random streams: 0 .. N-1 by default.

    Raises:
        ConfigError: there is not one id per client, or they do not ascend from 0 or above.
    """
    if ids is None:
        return np.arange(clients)
    if len(ids) != clients or ids.min(initial=0) < 0 or (np.diff(ids) <= 0).any():
        raise ConfigError(
            f"ids must be one number for each of {clients} clients, ascending from 0 or above, "
            f"got {ids}"
        )
    return ids
