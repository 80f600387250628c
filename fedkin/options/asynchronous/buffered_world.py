"""A world in which a training waits for the replies of earlier requests too, until the buffer of a
cluster is full."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from fedkin.aggregation import WeightedSum
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_vector
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.asynchronous.buffer_rule import BufferRule
from fedkin.options.asynchronous.progress import BufferProgress
from fedkin.options.asynchronous.recorded_order import Arrival
from fedkin.options.asynchronous.reply_sources import ReplySource
from fedkin.options.asynchronous.requests import Requests, numbers_of, other_means


class BufferedWorld(WorldProxy):
    """The world of one step.

    Args:
        world: the clients.
        rule: when a buffer is full, and the step of its cluster.
        make_source: makes the source of replies for a task and the name of its update.
        progress: requests, buffers and versions; changed in place.
        assignment: cluster of each client before the step.
        round: the present round.
    """

    def __init__(
        self,
        world: World,
        rule: BufferRule,
        make_source: Callable[[Task, str], ReplySource],
        progress: BufferProgress,
        assignment: Int[np.ndarray, "N"],
        round: int,
    ) -> None:
        super().__init__(world)
        self.progress = progress
        self.averages = 0
        self.single = 0
        self.stepped: int | None = None
        self.asked: list[int] = []
        self.arrivals: list[Arrival] = []
        self.chosen: dict[int, int] = {}  # cluster that clients chose, by client
        self._rule = rule
        self._make_source = make_source
        self._assignment = assignment
        self._round = round

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply to a task. A request for means is answered by the full buffer of one
        cluster; any other task goes to the clients unchanged."""
        vector = mean_vector(task)
        if vector is None:
            self.single += task.charged == "sum"
            return self._world.run(task, clients, stream)
        self.averages += 1
        if self.averages > 1:
            raise MethodError(
                "asynchronous: the method trains twice in a round, but a step of buffered clusters "
                "has one training; use name = 'first_replies'"
            )
        self.progress.match_models(task.sizes()["K"])
        source = self._make_source(task, vector)
        source.prepare(self.progress)
        self._ask(source=source, task=task, vector=vector, clients=clients, stream=stream)
        full = self._wait(source, chooses=getattr(task, INDEX, None) is None)
        return self._reply(task, vector, clients, full)

    def _ask(
        self,
        source: ReplySource,
        task: Task,
        vector: str,
        clients: Int[np.ndarray, "n"],
        stream: Stream | None,
    ) -> None:
        """Ask the clients that have nothing to do. In a simulation their replies are computed now,
        from the present models, and arrive later.

        Args:
            source: decides which clients are asked, and when they reply.
            task: the task, which asks for means.
            vector: name of the update in the reply.
            clients: the clients that the method asks.
            stream: random numbers of the clients.
        """
        requests = self.progress.requests
        # A client that has moved does not wait for the buffer of its former cluster.
        moved = requests.buffered & (self._assignment[requests.client] != requests.cluster)
        idle = np.flatnonzero(~np.isin(clients, requests.client[~moved]))
        rows = idle[source.asks(clients[idle])]
        self.asked = clients[rows].tolist()
        single = task.select(rows).single()
        if not len(rows) or single is None:
            return
        reply = self._world.run(single, clients[rows], stream)
        times = source.sent(reply, clients[rows])
        given = getattr(task, INDEX, None)
        cluster = reply.arrays[INDEX] if given is None else given[rows]
        sent = Requests(
            client=clients[rows],
            cluster=cluster.astype(np.int64),
            version=self.progress.versions[cluster],
            models=np.full(len(rows), len(self.progress.versions)),
            examples=reply.arrays[WEIGHT].astype(np.int64),
            buffered=np.zeros(len(rows), bool),
            time=self.progress.clock + times,
            update=reply.arrays[vector].astype(np.float32),
            numbers=numbers_of(task, vector, reply),
        )
        # A client without a time never replies.
        self.progress.requests = requests.and_others(sent.select(~np.isnan(times)))

    def _wait(self, source: ReplySource, chooses: bool) -> Requests:
        """Let replies arrive until the buffer of a cluster is full, and take the replies out of it.

        Args:
            source: decides whose reply arrives next.
            chooses: whether clients choose the model that they train.

        Returns:
            The replies; none if no more replies arrive before a buffer is full.
        """
        # A buffer becomes full without a new reply if clients leave its cluster.
        before = self.progress.requests
        for cluster in np.unique(before.cluster[before.buffered]).tolist():
            if self._is_full(cluster):
                return self._take(cluster)
        while (row := source.next(self.progress)) is not None:
            requests = self.progress.requests
            client = int(requests.client[row])
            cluster = int(requests.cluster[row])
            self.arrivals.append(Arrival(client, int(requests.version[row]), requests.digest(row)))
            cluster_now = int(self._assignment[client])
            if chooses:
                # The reply itself says which cluster the client has chosen.
                self.chosen[client] = cluster_now = cluster
            if self.progress.arrive(row, cluster_now, self._rule) and self._is_full(cluster):
                return self._take(cluster)
        return Requests.none()

    def _take(self, cluster: int) -> Requests:
        """Take the replies out of the full buffer of a cluster, which makes a step with them."""
        self.stepped = cluster
        return self.progress.take(cluster)

    def _is_full(self, cluster: int) -> bool:
        """Whether a cluster's buffer is full: it has ``buffer`` replies, or those of all clients
        that could reply for the cluster."""
        present = self._assignment[self._world.clients(self._round)]
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
        for column, name in enumerate(other_means(task, vector)):
            total = WeightedSum(models, 1)
            if len(full):
                total.add(full.numbers[:, [column]], full.examples, full.cluster)
            arrays[name] = total.mean(task.up.of("model")[name].dtype)[0][:, 0]
        step = np.zeros((models, sizes["p"]), np.float32)
        weight = np.zeros(models)
        if len(full):
            step, weight = self.progress.step(full, self._rule)
        return Reply(
            arrays=arrays | {vector: step},
            arrived=arrived,
            nonfinite=np.zeros(len(clients), bool),
            weight=weight,
        )
