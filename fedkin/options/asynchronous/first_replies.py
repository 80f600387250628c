"""Rounds that end with the first k replies of the n clients that were asked (k of n).

    n   clients of the round that are asked to train
    k   ``count``, or the share ``share`` of n, rounded up
    t   time of the k-th reply, at most ``deadline``

A round takes t seconds. Later replies are not used, and their clients keep their cluster. Bonawitz
et al. (Towards Federated Learning at Scale, SysML 2019) ask more clients than they need in this
way. The mean is then over fast clients: where speed depends on the data, it is biased.

In a simulation the times are drawn (``TimedOption``). A deployment waits for the first k replies to
each training, and at most for the deadline of its server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply, mean_reply, without_rows
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task
from fedkin.core.validation import check_fraction, check_positive, check_positive_integer
from fedkin.core.world import World, ends_early
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.asynchronous.reply_times import TimedOption
from fedkin.options.base import ActiveOption, Around, Call, RunFacts

# Options whose sums or comparisons need all replies of a round, and what to do.
_REFUSED = {
    "privacy": "privacy draws clients at random, but the first replies come from fast clients",
    "secret": "secret sums have their own smallest number of clients (secret.least)",
    "late": "the buffers of name = 'buffered' use replies that come later",
}


@plain_options
@dataclass(frozen=True)
class FirstReplies(TimedOption):
    """A round ends as soon as enough clients have replied.

    Attributes:
        count: k, the number of replies; None: ``share`` decides.
        share: k as a share of the clients that are asked; 1: all of them.
        deadline: longest time of a round in seconds, in a simulation; None: no limit. A deployment
            has ``federation.deadline``.

    Examples:
        >>> import fedkin as fk
        >>> fk.FirstReplies(count=8, slow_share=0.1).count
        8
    """

    _simulated = (*TimedOption._simulated, "deadline")

    count: int | None = None
    share: float = 1.0
    deadline: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count is not None:
            check_positive_integer("count", self.count)
        check_fraction("share", self.share)
        if self.count is not None and self.share != 1:
            raise MethodError(
                f"count = {self.count} and share = {self.share:g} both say how many replies end a "
                "round; leave out one of them"
            )
        if self.deadline is not None:
            check_positive("deadline", self.deadline)

    def refusal(self, run: RunFacts) -> str:
        if requirements_of(run.method).peers:
            name = type(run.method).__name__
            return f"{name} has no server that could wait for replies; leave out asynchronous"
        for section, why in _REFUSED.items():
            if section in run.options:
                return f"{why}; leave out asynchronous, or {section}"
        cohort = run.plan.cohort
        if self.count is not None and self.count > cohort:
            return (
                f"{self.count} replies can never come, because a round asks {cohort} clients; set "
                "asynchronous.count to at most this number, or a larger run.cohort"
            )
        least = getattr(run.options.get("quorum"), "least", 0)
        if least > self.enough(cohort):
            return (
                f"a round ends with {self.enough(cohort)} replies, but quorum.least asks for "
                f"{least} in each cluster; set quorum.least to at most this number"
            )
        return self.times_refusal(run)

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveFirstReplies(self)

    def enough(self, asked: int) -> int:
        """k: how many replies end a round in which ``asked`` clients were asked."""
        if self.count is not None:
            return min(self.count, asked)
        # 0.55 * 100 is 55.00000000000001 in floating point, and 55 replies are enough.
        return math.ceil(round(self.share * asked, 9))


class ActiveFirstReplies(ActiveOption):
    """The option in a run. The state holds the simulated seconds since the run's start.

    Args:
        settings: the option.
    """

    def __init__(self, settings: FirstReplies) -> None:
        super().__init__(settings.section)
        self._settings = settings
        self._unused = 0
        self._is_real = False

    def around(self, world: World, before: State | None, call: Call) -> Around:
        self._unused = 0
        clock = float(self.arrays(before).get("clock", np.zeros(1))[0])
        # The clients of a cold start are compared, so all of them are waited for.
        if call.step != "round":
            return Around(world, lambda after: self._at(after, clock))
        timed = _FirstRepliesWorld(world, self._settings, call.stream)
        return Around(timed, lambda after: self._after_round(after, clock, timed))

    def _after_round(self, after: State, clock: float, world: _FirstRepliesWorld) -> State:
        """The state after a round, with the time that its trainings took."""
        self._unused = world.unused
        self._is_real = world.is_real
        return self._at(after, clock + world.seconds)

    def _at(self, state: State, clock: float) -> State:
        """The state at a time of the simulation's clock."""
        return self.with_arrays(state, {"clock": np.array([clock])})

    def record(self, state: State) -> Record:
        """The simulated seconds since the start (None in a deployment), and how many replies of the
        round came too late."""
        clock = None if self._is_real else float(self.arrays(state)["clock"][0])
        return {"simulated_seconds": clock, "replies_unused": self._unused}


class _FirstRepliesWorld(WorldProxy):
    """A world whose trainings end with the first replies.

    Args:
        world: the clients.
        settings: the option.
        stream: seed and number of the round.
    """

    def __init__(self, world: World, settings: FirstReplies, stream: Stream) -> None:
        super().__init__(world)
        self._settings = settings
        self._stream = stream
        self.seconds = 0.0
        self.unused = 0
        self.is_real = False  # whether the clients of a training were real

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply to a task. Of a training, only the first replies have arrived."""
        # Other tasks are short, and decide about clusters.
        if task.charged != "sum" or not len(clients):
            return self._world.run(task, clients, stream)
        enough = self._settings.enough(len(np.unique(clients)))
        self.is_real = ends_early(self._world, enough)
        if self.is_real:
            reply = self._world.run(task, clients, stream)
            self.unused += int((~reply.arrived & ~reply.nonfinite).sum())
            return reply
        single = task.single()
        asked = task if single is None else single
        reply = self._world.run(asked, clients, stream)
        late = self._late(reply.arrived, clients, enough)
        self.unused += int(late.sum())
        reply = without_rows(asked, reply, late)
        return reply if single is None else mean_reply(task, reply, clients)

    def _late(
        self, arrived: Bool[np.ndarray, "n"], clients: Int[np.ndarray, "n"], enough: int
    ) -> Bool[np.ndarray, "n"]:
        """The rows whose replies come after the round's end. The time of the round is added."""
        ids, row = np.unique(clients, return_inverse=True)
        times = self._settings.times(ids, self.total_clients, self._stream)
        replied = np.unique(row[arrived])
        # Clients that reply at the same time come in the order of their ids.
        order = replied[np.argsort(times[replied], kind="stable")]
        limit = self._settings.deadline or math.inf
        in_time = order[:enough][times[order[:enough]] <= limit]
        self.seconds += self._duration(times, in_time, enough, limit)
        return arrived & ~np.isin(row, in_time)

    @staticmethod
    def _duration(
        times: np.ndarray, in_time: Int[np.ndarray, "a"], enough: int, limit: float
    ) -> float:
        """Seconds until the round ends.

        Args:
            times: seconds of each client that was asked.
            in_time: clients whose replies are used, in the order of arrival.
            enough: number of replies that end a round.
            limit: the deadline; infinite if there is none.
        """
        if len(in_time) == enough:
            return float(times[in_time[-1]])
        # Too few replies came: a server waits until its deadline. Without one, the simulation waits
        # as long as the slowest client would have taken.
        return float(limit if math.isfinite(limit) else times.max())
