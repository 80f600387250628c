"""A smallest number of replies for each cluster, as an option of any method that trains models.

The mean of a single reply is that client's update: it shows the client to all others of its
cluster, and it is a noisy step. So a cluster with fewer replies than ``least`` keeps its model in
this round, as if these replies had not come. Bonawitz et al. (Towards Federated Learning at Scale,
SysML 2019) abandon a whole round below such a number; here each cluster is judged alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply, mean_reply, without_rows
from fedkin.core.requirements import requirements_of
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.core.validation import check_positive_integer
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.base import ActiveOption, Around, Call, Option, RunFacts


@plain_options
@dataclass(frozen=True)
class MinimumReplies(Option):
    """A cluster with too few replies keeps its model in a round.

    Attributes:
        least: smallest number of replies with which a cluster's model changes.

    Examples:
        >>> import fedkin as fk
        >>> fk.MinimumReplies(least=3)
        MinimumReplies(least=3)
    """

    section = "quorum"

    least: int = 2

    def __post_init__(self) -> None:
        check_positive_integer("least", self.least)

    def refusal(self, run: RunFacts) -> str:
        needs = requirements_of(run.method)
        name = type(run.method).__name__
        if needs.peers:
            return f"{name} has no server that could wait for replies; leave out the quorum"
        if "privacy" in run.options:
            return (
                "privacy divides by an expected number of clients, whatever number replies; leave "
                "out the quorum, or privacy"
            )
        if "secret" in run.options:
            return (
                "secret sums have their own smallest number of clients (secret.least); leave "
                "out the quorum, or secret sums"
            )
        if self.least > run.plan.cohort:
            return (
                f"no cluster can have {self.least} replies, because a round has "
                f"{run.plan.cohort} clients; set quorum.least to at most this number"
            )
        return ""

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveMinimumReplies(self)


class ActiveMinimumReplies(ActiveOption):
    """The smallest number of replies in a run.

    Args:
        settings: the option.
    """

    def __init__(self, settings: MinimumReplies) -> None:
        super().__init__(settings.section)
        self._least = settings.least
        self._waiting = 0

    def around(self, world: World, before: State | None, call: Call) -> Around:
        self._waiting = 0
        # A cold start compares clients, and forms clusters that do not exist yet.
        if call.step != "round":
            return Around(world)
        return Around(_QuorumWorld(world, self._least, self))

    def count(self, clusters: int) -> None:
        """Add clusters that keep their model in this round."""
        self._waiting += clusters

    def record(self, state: State) -> Record:
        """How many clusters kept their model in the round, because too few replies came."""
        return {"clusters_waiting": self._waiting}


class _QuorumWorld(WorldProxy):
    """A world that drops the replies of clusters with too few of them."""

    def __init__(self, world: World, least: int, counter: ActiveMinimumReplies) -> None:
        super().__init__(world)
        self._least = least
        self._counter = counter

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply to a task. Of a training, rows of a model with too few replies count as not
        arrived."""
        # Only trainings are charged as a sum, and say which model each row has trained.
        if task.charged != "sum":
            return self._world.run(task, clients, stream)
        single = task.single()
        asked = task if single is None else single
        if INDEX not in asked.up.of("row"):
            return self._world.run(task, clients, stream)
        reply = self._world.run(asked, clients, stream)
        reply = without_rows(asked, reply, self._few(reply, clients))
        return reply if single is None else mean_reply(task, reply, clients)

    def _few(self, reply: Reply, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """The rows of models with too few clients."""
        index = reply.arrays[INDEX]
        came = reply.arrived
        # A client with several rows of a model is one client.
        pairs = np.unique(np.stack([index[came], clients[came]], axis=1), axis=0)
        counts = np.bincount(pairs[:, 0], minlength=int(index.max(initial=0)) + 1)
        self._counter.count(int(((counts > 0) & (counts < self._least)).sum()))
        return came & (counts[index] < self._least)
