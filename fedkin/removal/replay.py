"""A method that runs again without some clients, and trains only the clusters that need it.

A cluster that the removed clients never touched has the models of the recorded run. Its clients are
not asked to train: the method gets empty updates for them, and the models of such clusters are
replaced by the recorded ones, in the rounds in which these are stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.removal.history import RecordedRun
from fedkin.removal.plan import ReplayPlan
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import Train

_log = logging.getLogger("fedkin")


class PartitionChangedError(Exception):
    """Without the removed clients, others train other clusters than in the recorded run, and the
    models of these clusters at that time are not stored."""


@dataclass
class ReplayCost:
    """What a replay has cost so far.

    Attributes:
        client_rounds: number of clients asked to train in rounds, without the removed ones.
        start_trainings: number of clients asked to train at the start or for a placement.
    """

    client_rounds: int = 0
    start_trainings: int = 0


class ReplayedMethod:
    """A method whose rounds train only some of its clusters. All else is the method's.

    Args:
        method: the method.
        history: what the run has recorded.
        plan: which clusters are trained again, and from which round on.
    """

    def __init__(self, method: Method, history: RecordedRun, plan: ReplayPlan) -> None:
        self.method = method
        self.cost = ReplayCost()
        self._history = history
        self._removed = np.array(plan.clients)
        # The round after which each cluster is trained again. Clusters are added during the replay
        # if clients choose them, or leave them, because of the removal.
        self.starts = plan.starts.copy()
        self._skips = not plan.why_all
        # The number of each recorded cluster in this replay, since a clustering may number the same
        # clusters in another order.
        self.numbers = np.arange(history.clusters)

    def __getattr__(self, name: str) -> Any:
        replayed = self.__dict__["method"]
        return getattr(replayed, name)

    def init(self, world: World, stream: Stream) -> State:
        """The method's initial state without the removed clients."""
        state = self.method.init(self._counted(world), stream)
        if self._skips:
            self._check_start(state)
        return state

    def place(
        self, world: World, state: Any, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        """The method's placement of newcomers."""
        state = self.method.place(self._counted(world), state, newcomers, stream)
        self._check_clusters(state)
        return state

    def round(
        self, world: World, state: Any, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        """A round in which only the clients of some clusters train."""
        proxy = ReplayWorld(
            world, lambda rows: self._trained_rows(rows, cohort, stream.round), self._removed
        )
        after = self.method.round(proxy, state, cohort, stream)
        self.cost.client_rounds += len(np.setdiff1d(proxy.asked, self._removed))
        self._check_clusters(after)
        return self._with_recorded(after, stream.round) if self._skips else after

    def skipped(self, round: int) -> Bool[np.ndarray, "K"]:
        """Mask of the clusters that are not trained in a round."""
        return (round <= self.starts) & self._skips

    def _counted(self, world: World) -> CountingWorld:
        """The world with a count of the clients that are asked to train."""
        return CountingWorld(world, self.cost, self._removed)

    def _check_start(self, state: State) -> None:
        """Train the clusters whose clients differ from those of the recorded start."""
        self._check_clusters(state)
        others = np.setdiff1d(np.arange(len(state.assignment)), self._removed)
        now = state.assignment[others]
        self.numbers = same_numbers(self._history.assignments[0][others], now, len(self.starts))
        starts = self.starts.copy()
        self.starts[self.numbers] = starts
        moved = now != self._recorded(0)[others]
        changed = np.concatenate([now[moved], self._recorded(0)[others][moved]])
        self._train_also(changed, round=0)

    def _recorded(self, round: int) -> Int[np.ndarray, "N"]:
        """The recorded assignment after a round, with the replay's numbers of clusters."""
        recorded = self._history.assignments[round]
        return np.where(recorded == UNASSIGNED, UNASSIGNED, self.numbers[recorded])

    def _train_also(self, changed: Int[np.ndarray, "c"], round: int) -> None:
        """Train further clusters after a round. ``changed`` may have repetitions and UNASSIGNED."""
        changed = np.unique(changed[changed != UNASSIGNED])
        changed = changed[self.starts[changed] > round]
        self.starts[changed] = round
        if len(changed):
            _log.warning(
                "without the removed clients, cluster %s gets other clients than in the recorded "
                "run, so its model is trained again from round %d on",
                ", ".join(map(str, changed.tolist())),
                round + 1,
            )

    def _check_clusters(self, state: State) -> None:
        """Raise PartitionChangedError if there are not as many clusters as in the recorded run."""
        if self._skips and len(state.models) != self._history.clusters:
            raise PartitionChangedError(
                f"without the site there are {len(state.models)} clusters in place of "
                f"{self._history.clusters}"
            )

    def _trained_rows(
        self, rows: AskedRows, cohort: Int[np.ndarray, "a"], round: int
    ) -> Bool[np.ndarray, "n"]:
        """Mask of the rows (clients) that must train.

        Args:
            rows: the clients that the method asks to train, and the models that they train.
            cohort: all clients of the round.
            round: the round.
        """
        if not self.skipped(round).any():
            return np.ones(len(rows.clients), bool)
        cluster = rows.clusters()
        self._add_changed(rows.clients, cluster, cohort, round)
        known = cluster != UNASSIGNED
        skipped = known & self.skipped(round)[cluster]
        return ~skipped

    def _add_changed(
        self,
        clients: Int[np.ndarray, "n"],
        cluster: Int[np.ndarray, "n"],
        cohort: Int[np.ndarray, "a"],
        round: int,
    ) -> None:
        """Train clusters from this round on whose clients differ from those of the recorded round.

        Args:
            clients: clients that are asked to train.
            cluster: the cluster that each of them trains; UNASSIGNED if it does not reply.
            cohort: all clients of the round.
            round: the round.
        """
        recorded = self._recorded(round)
        replied = clients[cluster != UNASSIGNED]
        trained = cluster[cluster != UNASSIGNED]
        moved = recorded[replied] != trained
        absent = np.setdiff1d(cohort, np.concatenate([clients, self._removed]))
        left = self._removed[np.isin(self._removed, cohort)]
        changed = np.concatenate(
            [trained[moved], recorded[replied[moved]], recorded[absent], recorded[left]]
        )
        changed = np.unique(changed[changed != UNASSIGNED])
        changed = changed[self.skipped(round)[changed]]
        if not len(changed):
            return
        if round - 1 and self._history.models(round - 1) is None:
            raise PartitionChangedError(
                f"in round {round} cluster {changed[0]} gets other clients than in the recorded "
                f"run, which has no checkpoint of round {round - 1}"
            )
        self._train_also(changed, round - 1)

    def _with_recorded(self, state: State, round: int) -> State:
        """The state with the recorded models of the clusters that were not trained."""
        skipped = self.skipped(round)
        if not skipped.any():
            return state
        recorded = self._history.models(round)
        if recorded is None:
            return state
        renumbered = np.empty_like(recorded)
        renumbered[self.numbers] = recorded
        models = state.models.copy()
        models[skipped] = renumbered[skipped]
        return replace(state, models=models)


@dataclass(frozen=True)
class AskedRows:
    """The rows of a training task: the clients, and how to learn which model each trains.

    Attributes:
        clients: the client of each row.
        clusters: the model that each client trains; UNASSIGNED for a client that does not reply.
    """

    clients: Int[np.ndarray, "n"]
    clusters: Callable[[], Int[np.ndarray, "n"]]


class CountingWorld(WorldProxy):
    """A world that counts the clients that are asked to train at the start or for a placement.

    Args:
        world: the wrapped world.
        cost: where they are counted.
        removed: clients that do not count.
    """

    def __init__(self, world: World, cost: ReplayCost, removed: Int[np.ndarray, "g"]) -> None:
        super().__init__(world)
        self._cost = cost
        self._removed = removed

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task in the wrapped world, and count its clients if they train."""
        if task.work is not None:
            self._cost.start_trainings += len(np.setdiff1d(clients, self._removed))
        return self._world.run(task, clients, stream)


class ReplayWorld(WorldProxy):
    """A world in which only some clients of a training task train. The others have empty updates.

    Args:
        world: the wrapped world.
        trained: which rows of a training task must train.
        removed: clients that never reply.
    """

    def __init__(
        self,
        world: World,
        trained: Callable[[AskedRows], Bool[np.ndarray, "n"]],
        removed: Int[np.ndarray, "g"],
    ) -> None:
        super().__init__(world)
        self._trained = trained
        self._removed = removed
        self.asked = np.zeros(0, np.int64)  # clients that were asked to train

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Run a task. Of a training task, only the rows that must train are run."""
        if type(task) is not Train:
            if task.work is not None:
                self.asked = np.append(self.asked, clients)
            return self._world.run(task, clients, stream)
        cluster = _Clusters(self._world, task, clients, stream=stream, removed=self._removed)
        trains = self._trained(AskedRows(clients, cluster))
        self.asked = np.append(self.asked, clients[trains])
        if trains.all():
            return self._world.run(task, clients, stream)
        rows = np.flatnonzero(trains)
        part = self._world.run(task.select(rows), clients[rows], stream)
        return _completed(task, part, rows, cluster())


class _Clusters:
    """The model that each row of a training task trains. Clients that choose are asked once.

    Args:
        world: the clients.
        task: the training task.
        clients: the client of each row.
        stream: the stream of the task, so that the same clients do not reply.
        removed: clients that never reply, so that they are not asked for losses.
    """

    def __init__(
        self,
        world: World,
        task: Train,
        clients: Int[np.ndarray, "n"],
        stream: Stream | None,
        removed: Int[np.ndarray, "g"],
    ) -> None:
        self._world = world
        self._task = task
        self._clients = clients
        self._stream = stream
        self._removed = removed
        self._chosen: Int[np.ndarray, "n"] | None = None

    def __call__(self) -> Int[np.ndarray, "n"]:
        if self._task.model_index is not None:
            return np.asarray(self._task.model_index, np.int64)
        if self._chosen is None:
            self._chosen = self._ask()
        return self._chosen

    def _ask(self) -> Int[np.ndarray, "n"]:
        """Ask the clients for their losses, by which they choose as in ``Train``."""
        rows = np.flatnonzero(~np.isin(self._clients, self._removed))
        reply = self._world.run(Losses(self._task.models), self._clients[rows], self._stream)
        losses: Float[np.ndarray, "r K"]
        losses = np.where(np.isnan(reply.losses), np.inf, reply.losses)
        chosen = np.full(len(self._clients), UNASSIGNED)
        chosen[rows] = np.where(reply.arrived, np.argmin(losses, axis=1), UNASSIGNED)
        return chosen


def same_numbers(
    recorded: Int[np.ndarray, "n"], now: Int[np.ndarray, "n"], clusters: int
) -> Int[np.ndarray, "K"]:
    """The number that each recorded cluster has now: each is paired with the cluster that has most
    of its clients, so that as many clients as possible are in the same cluster.

    Args:
        recorded: recorded cluster of each client, or UNASSIGNED.
        now: the client's present cluster, or UNASSIGNED.
        clusters: K, the number of clusters.
    """
    from scipy.optimize import linear_sum_assignment  # slow to load

    both = (recorded != UNASSIGNED) & (now != UNASSIGNED)
    overlap = np.zeros((clusters, clusters), np.int64)
    np.add.at(overlap, (recorded[both], now[both]), 1)
    # In a tie, a cluster keeps its number.
    rows, numbers = linear_sum_assignment(2 * overlap * clusters + np.eye(clusters), maximize=True)
    return numbers[np.argsort(rows)].astype(np.int64)


def _completed(
    task: Train, part: Reply, rows: Int[np.ndarray, "r"], cluster: Int[np.ndarray, "n"]
) -> Reply:
    """The reply of all rows of a task, of which only some have trained. The others have arrived
    with an update of zeros.

    Args:
        task: the task.
        part: the reply of the rows that have trained.
        rows: indices of these rows.
        cluster: the model of each row of the task.
    """
    arrays = dict(part.arrays)
    for name in task.up.of("row"):
        values = part.arrays[name]
        arrays[name] = np.zeros((len(cluster), *values.shape[1:]), values.dtype)
        arrays[name][rows] = values
    chosen = np.maximum(cluster, 0)
    chosen[rows] = part.arrays["model_index"]
    arrays["model_index"] = chosen
    arrived = np.ones(len(cluster), bool)
    arrived[rows] = part.arrived
    nonfinite = np.zeros(len(cluster), bool)
    nonfinite[rows] = part.nonfinite
    return replace(part, arrays=arrays, arrived=arrived, nonfinite=nonfinite, faults={})
