"""A world in which a training waits for the replies of earlier requests too, until the buffer of a
cluster is full."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_vector
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.asynchronous.buffer_rule import BufferRule
from fedkin.options.asynchronous.progress import Progress
from fedkin.options.asynchronous.recorded_order import Arrival, RecordedRound
from fedkin.options.asynchronous.reply_times import TimedOption
from fedkin.options.asynchronous.requests import Requests


class BufferedWorld(WorldProxy):
    """The world of one step.

    Args:
        world: the clients.
        rule: when a buffer is full, and the step of its cluster.
        times: how long simulated clients take.
        progress: what is kept between steps; changed in place.
        assignment: cluster of each client before the step.
        stream: seed and number of the round.
        recorded: the step of a recorded run that is repeated; None if there is none.
        replays: whether a recorded run is repeated.
    """

    def __init__(
        self,
        world: World,
        rule: BufferRule,
        times: TimedOption,
        progress: Progress,
        assignment: Int[np.ndarray, "N"],
        stream: Stream,
        recorded: RecordedRound | None,
        replays: bool,
    ) -> None:
        super().__init__(world)
        self.progress = progress
        self.averages = 0
        self.single = 0
        self.stepped: int | None = None
        self.chosen: dict[int, int] = {}  # cluster that clients chose, by client
        self._rule = rule
        self._times = times
        self._assignment = assignment
        self._stream = stream
        self._recorded = recorded
        self._replays = replays
        self._asked: tuple[int, ...] = ()
        self._arrivals: list[Arrival] = []

    def recorded_step(self) -> RecordedRound:
        """What the record of the round says about this step."""
        return RecordedRound(self._asked, tuple(self._arrivals), self.progress.clock)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply to a task. A request for means is answered by the full buffer of one
        cluster; any other task goes to the clients unchanged."""
        vector = mean_vector(task)
        single = task.single()
        if vector is None or single is None:
            self.single += task.charged == "sum"
            return self._world.run(task, clients, stream)
        self.averages += 1
        if self.averages > 1:
            raise MethodError(
                "asynchronous: the method trains twice in a round, but a step of buffered clusters "
                "has one training; use name = 'first_replies'"
            )
        self.progress.match_models(task.sizes()["K"])
        self._ask(task, vector, clients, stream)
        full = self._wait(chooses=getattr(task, INDEX, None) is None)
        return self._reply(task, vector, clients, full)

    def _ask(
        self, task: Task, vector: str, clients: Int[np.ndarray, "n"], stream: Stream | None
    ) -> None:
        """Ask the clients that have nothing to do. Their replies are computed now, from the present
        models, and arrive later."""
        requests = self.progress.requests
        # A client that has moved does not wait for the buffer of its former cluster.
        moved = requests.buffered & (self._assignment[requests.client] != requests.cluster)
        rows = np.flatnonzero(~np.isin(clients, requests.client[~moved]))
        if self._replays:
            rows = rows[np.isin(clients[rows], self._step_to_repeat().asked)]
        self._asked = tuple(clients[rows].tolist())
        if not len(rows):
            return
        single = task.select(rows).single()
        assert single is not None  # ``run`` has checked it
        reply = self._world.run(single, clients[rows], stream)
        arrived = np.flatnonzero(reply.arrived)
        asked = clients[rows][arrived]
        cluster = reply.arrays[INDEX][arrived].astype(np.int64)
        times = self._times.times(asked, self.total_clients, self._stream)
        sent = Requests(
            client=asked,
            cluster=cluster,
            version=self.progress.versions[cluster],
            models=np.full(len(asked), len(self.progress.versions)),
            examples=reply.arrays[WEIGHT][arrived].astype(np.int64),
            buffered=np.zeros(len(asked), bool),
            time=self.progress.clock + times,
            update=reply.arrays[vector][arrived].astype(np.float32),
            numbers=_numbers(_other_means(task, vector), reply)[arrived],
        )
        self.progress.requests = requests.and_others(sent)

    def _wait(self, chooses: bool) -> Requests:
        """Let replies arrive until the buffer of a cluster is full, and take the replies out of it.

        Args:
            chooses: whether clients choose the model that they train.

        Returns:
            The replies; none if no more replies arrive before a buffer is full.
        """
        while (row := self._next()) is not None:
            requests = self.progress.requests
            client = int(requests.client[row])
            cluster = int(requests.cluster[row])
            self._arrivals.append(Arrival(client, int(requests.version[row]), requests.digest(row)))
            cluster_now = int(self._assignment[client])
            if chooses:
                # The reply itself says which cluster the client has chosen.
                self.chosen[client] = cluster_now = cluster
            if self.progress.arrive(row, cluster_now, self._rule) and self._is_full(cluster):
                self.stepped = cluster
                return self.progress.take(cluster)
        return Requests.none()

    def _next(self) -> int | None:
        """Index of the request whose reply arrives next; None if no reply is on its way."""
        requests = self.progress.requests
        waiting = np.flatnonzero(~requests.buffered)
        if self._replays:
            return self._next_recorded(waiting)
        if not len(waiting):
            return None
        # Replies that come at the same time come in the order of client ids.
        first = waiting[np.lexsort((requests.client[waiting], requests.time[waiting]))[0]]
        self.progress.clock = max(self.progress.clock, float(requests.time[first]))
        return int(first)

    def _step_to_repeat(self) -> RecordedRound:
        """The recorded step. Raises ConfigError if the recorded run was shorter."""
        if self._recorded is None:
            raise ConfigError(
                f"asynchronous.replay: the recorded run has no round {self._stream.round}; set "
                f"run.rounds to at most {self._stream.round - 1}"
            )
        return self._recorded

    def _next_recorded(self, waiting: Int[np.ndarray, "w"]) -> int | None:
        """Index of the request whose reply came next in the recorded run.

        Raises:
            ConfigError: this run's replies differ from the recorded ones.
        """
        step = self._step_to_repeat()
        self.progress.clock = step.seconds
        place = len(self._arrivals)
        if place == len(step.arrivals):
            return None
        expected = step.arrivals[place]
        requests = self.progress.requests
        for row in waiting.tolist():
            found = Arrival(
                int(requests.client[row]), int(requests.version[row]), requests.digest(row)
            )
            if found == expected:
                return row
        raise ConfigError(
            f"asynchronous.replay: reply {place + 1} of round {self._stream.round} came from "
            f"client {expected.client} with the digest {expected.digest}, but this run has no such "
            "reply; repeat the run with the same data, model, method, seed and options"
        )

    def _is_full(self, cluster: int) -> bool:
        """Whether a cluster's buffer is full: it has ``buffer`` replies, or those of all clients
        that could reply for the cluster."""
        present = self._assignment[self._world.clients(self._stream.round)]
        # Clients without a cluster may still join this one.
        members = int(((present == cluster) | (present == UNASSIGNED)).sum())
        return self.progress.held(cluster) >= min(self._rule.buffer, max(members, 1))

    def _reply(
        self, task: Task, vector: str, clients: Int[np.ndarray, "n"], full: Requests
    ) -> Reply:
        """The reply that the method reads: the means over a full buffer, or zeros if none is full.

        Args:
            task: the task that asks for means.
            vector: name of the update in the reply.
            clients: client of each row.
            full: the replies in the buffer.
        """
        sizes = task.sizes()
        models = sizes["K"]
        arrays = {
            name: np.full((len(clients), *array.shape(sizes)), array.missing, array.dtype)
            for name, array in task.up.of("row").items()
        }
        arrived = np.isin(clients, full.client)
        place = np.searchsorted(full.client, clients[arrived])
        arrays[INDEX][arrived] = full.cluster[place]
        arrays[WEIGHT][arrived] = full.examples[place]
        for column, name in enumerate(_other_means(task, vector)):
            total = WeightedSum(models, 1)
            if len(full):
                total.add(full.numbers[:, [column]], full.examples, full.cluster)
            arrays[name] = total.mean(task.up.of("model")[name].dtype)[0][:, 0]
        if len(full):
            step, weight = self.progress.step(full, self._rule)
        else:
            step, weight = np.zeros((models, sizes["p"]), np.float32), np.zeros(models)
        return Reply(
            arrays=arrays | {vector: step},
            arrived=arrived,
            nonfinite=np.zeros(len(clients), bool),
            weight=weight,
        )


def _other_means(task: Task, vector: str) -> list[str]:
    """The numbers, other than the update, of which a task's reply has a mean for each model."""
    return [name for name in task.up.of("model") if name != vector]


def _numbers(names: list[str], reply: Reply) -> Float[np.ndarray, "n q"]:
    """The numbers of each client's reply of which methods read means."""
    columns = [reply.arrays[name].astype(np.float64) for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((len(reply.arrived), 0))
