"""Buffered asynchronous clusters: the model of a cluster steps when its buffer of replies is full.

    B          ``buffer``: updates in a full buffer
    tau        staleness of an update: how often its cluster's model has stepped since it was sent
    s(tau)     (1 + tau)^-exponent
    w_k <- w_k + lr * sum_i n_i s(tau_i) u_i / sum_i n_i     over the B updates of cluster k

J. Nguyen et al.: Federated Learning with Buffered Asynchronous Aggregation. AISTATS 2022, arXiv
2106.06639. The paper has one model, and a plain mean over the buffer. Here every cluster has its
own buffer and counts its own steps, and samples weigh the updates as in synchronous rounds.

A round of the run is one step: it ends when a buffer is full. Before it, the clients of the cohort
that have nothing to do are asked. A client has at most one request or reply in a buffer. A reply is
dropped if its client is in another cluster by now, or if it is staler than ``max_staleness``.

In a simulation the times of replies are drawn (``TimedOption``). In a deployment replies count in
the order in which they come; a round ends at the server's deadline if no buffer is full by then.
The records hold the order in which replies arrived, and ``replay`` repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.requirements import requirements_of
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive, check_positive_integer
from fedkin.core.world import World, clients_at_work
from fedkin.options.asynchronous.buffer_rule import BufferRule
from fedkin.options.asynchronous.buffered_world import BufferedWorld
from fedkin.options.asynchronous.progress import BufferProgress
from fedkin.options.asynchronous.recorded_order import RecordedRound, read_order, record_of
from fedkin.options.asynchronous.reply_sources import (
    DrawnTimes,
    RealReplies,
    RecordedReplies,
    ReplySource,
)
from fedkin.options.asynchronous.reply_times import TimedOption
from fedkin.options.asynchronous.requests import Requests
from fedkin.options.base import ActiveOption, Around, Call, RunFacts
from fedkin.options.summed_tasks import averages_itself, check_asks_for_means

_NO_PLACE = "its buffers would have no effect"
# Options that need the replies of whole rounds, and why.
_REFUSED = {
    "privacy": "privacy counts the clients of a round, but buffers have no rounds",
    "secret": "secret sums need all clients of a round at once, but buffers have no rounds",
    "robust": "a robust rule compares the replies of one round, but a buffer has only a few",
    "late": "buffers use all late replies already",
    "quorum": "a buffer is full with a fixed number of replies already",
    "server_optimizer": "a server optimizer would step all clusters when one buffer is full",
    "personal": "a personal part would change before the client's reply arrives",
    "monitor": "the monitor acts after rounds, and would move clients that are at work",
}


@plain_options
@dataclass(frozen=True)
class BufferedClusters(TimedOption):
    """The model of a cluster steps when enough of its clients have replied, without rounds.

    Attributes:
        buffer: B, number of updates with which a cluster's model steps. A cluster with fewer
            clients steps when all of them have replied.
        exponent: exponent in (1 + staleness)^-exponent, the factor of an update; 0: no factor.
        max_staleness: largest staleness of a used update, in steps of its cluster.
        lr: factor of each step.
        replay: folder of a run (or its ``metrics.jsonl``) whose order of arrivals is repeated, in
            place of drawn times. Empty: none.

    Examples:
        >>> import fedkin as fk
        >>> fk.BufferedClusters(buffer=3, slow_share=0.1).max_staleness
        10
    """

    _simulated = (*TimedOption._simulated, "replay")

    buffer: int = 3
    exponent: float = 0.5
    max_staleness: int = 10
    lr: float = 1.0
    replay: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive_integer("buffer", self.buffer)
        check_not_negative("exponent", self.exponent)
        if self.max_staleness != 0:
            check_positive_integer("max_staleness", self.max_staleness)
        check_positive("lr", self.lr)

    def refusal(self, run: RunFacts) -> str:
        for section, why in _REFUSED.items():
            if section in run.options:
                return f"{why}; leave out asynchronous, or {section}"
        if self.buffer > run.clients:
            return (
                f"a buffer of {self.buffer} replies would never be full, because there are "
                f"{run.clients} clients; set asynchronous.buffer to at most this number"
            )
        return refusal(run.method) or self.times_refusal(run)

    def rule(self) -> BufferRule:
        """The rule of its buffers."""
        return BufferRule(self.buffer, self.exponent, self.max_staleness, self.lr)

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveBufferedClusters(self, run.method)


def refusal(method: Method) -> str:
    """Why a method's clusters cannot be asynchronous; empty if they can.

    Each model may change only by the training of its clients (``Requirements.separation``), and the
    method must ask for means.

    Args:
        method: the method.
    """
    needs = requirements_of(method)
    name = type(method).__name__
    cure = (
        "use fedavg, fedprox, fedgroup or flexcfl (eta_g=0), ifca (weighting='examples'), pacfl or "
        "given, or the first replies of each round (name = 'first_replies')"
    )
    if needs.peers:
        return f"{name} has no server that could keep buffers; {cure}"
    if needs.reads.because:
        return averages_itself(method, _NO_PLACE)
    separation = needs.separation
    if separation.models == "unknown":
        because = f" ({separation.because})" if separation.because else ""
        return (
            f"{name} changes a model in other ways than by the replies of its clients"
            f"{because}, and expects these in every round; {cure}"
        )
    if separation.models == "by_choice" and not separation.because and needs.reads.standing:
        return (
            f"clients of {name} store what their labels were when they choose a cluster, but here "
            f"their replies arrive in later rounds; set migration='none', or {cure}"
        )
    return ""


class ActiveBufferedClusters(ActiveOption):
    """Asynchronous clusters in a run. The state holds requests, buffers and versions.

    Args:
        settings: the option.
        method: the run's method.

    Raises:
        ConfigError: the recorded order cannot be read.
    """

    def __init__(self, settings: BufferedClusters, method: Method) -> None:
        super().__init__(settings.section)
        self._settings = settings
        self._method = method
        self._order = read_order(Path(settings.replay)) if settings.replay else None
        self._step = RecordedRound((), (), 0.0)
        self._stepped: int | None = None
        self._is_real = False

    def around(self, world: World, before: State | None, call: Call) -> Around:
        if before is None:
            return Around(world, self._started)
        if call.step != "round":
            return Around(world, lambda after: self._with(after, self._progress(before)))
        buffered = BufferedWorld(
            world=world,
            rule=self._settings.rule(),
            make_source=lambda task, vector: self._source(world, task, vector, call.stream),
            progress=self._progress(before),
            assignment=before.assignment,
            round=call.round,
        )
        return Around(buffered, lambda after: self._after_round(after, buffered, call.round))

    def _source(self, world: World, task: Task, vector: str, stream: Stream) -> ReplySource:
        """Where the order of replies comes from, in one step."""
        self._is_real = clients_at_work(world, task) is not None
        if self._order is not None:
            return RecordedReplies(self._order, stream.round)
        if not self._is_real:
            return DrawnTimes(self._settings, world.total_clients, stream)
        # A reply that comes after so many steps of any cluster is too stale, or nearly so.
        rounds = (self._settings.max_staleness + 1) * task.sizes()["K"]
        return RealReplies(world, task, vector, rounds)

    def _started(self, state: State) -> State:
        """The first state. Raises MethodError if the buffer of a cluster can never be full."""
        self._step = RecordedRound((), (), 0.0)
        self._stepped = None
        self._check_sizes(state.assignment)
        return self._with(state, BufferProgress.begin(state.clusters))

    def _check_sizes(self, assignment: Int[np.ndarray, "N"]) -> None:
        """Raise MethodError if a cluster has fewer clients than its buffer needs."""
        # Clients without a cluster, such as those that come later, may still join one.
        if (assignment == UNASSIGNED).any():
            return
        clusters, sizes = np.unique(assignment, return_counts=True)
        if sizes.min(initial=self._settings.buffer) < self._settings.buffer:
            smallest = int(np.argmin(sizes))
            raise MethodError(
                f"asynchronous: cluster {clusters[smallest]} has {sizes[smallest]} clients, so a "
                f"buffer of {self._settings.buffer} replies would never be full; set "
                f"asynchronous.buffer to at most {sizes[smallest]}"
            )

    def _after_round(self, after: State, world: BufferedWorld, round: int) -> State:
        """The state after a step, with the clusters that clients chose."""
        check_asks_for_means(
            section=self.section,
            method=self._method,
            so_that=_NO_PLACE,
            round=round,
            single=world.single,
            averages=world.averages,
        )
        self._step = RecordedRound(
            asked=tuple(world.asked),
            arrivals=tuple(world.arrivals),
            seconds=None if self._is_real else world.progress.clock,
        )
        self._stepped = world.stepped
        if world.chosen:
            assignment = after.assignment.copy()
            assignment[list(world.chosen)] = list(world.chosen.values())
            after = replace(after, assignment=assignment)
        return self._with(after, world.progress)

    def _progress(self, state: State) -> BufferProgress:
        """The requests, versions and counts in a state."""
        arrays = dict(self.arrays(state))
        return BufferProgress(
            versions=arrays.pop("versions").copy(),
            counts=arrays.pop("counts").copy(),
            clock=float(arrays.pop("clock")[0]),
            requests=Requests(**arrays),
        )

    def _with(self, state: State, progress: BufferProgress) -> State:
        """The state with this progress."""
        numbers = {
            "versions": progress.versions,
            "counts": progress.counts,
            "clock": np.array([progress.clock]),
        }
        return self.with_arrays(state, numbers | progress.requests.arrays())

    def record(self, state: State) -> Record:
        """The cluster that has stepped, the used and dropped replies since the start, and the order
        of arrivals."""
        used, dropped = self.arrays(state)["counts"]
        return {
            "stepped": self._stepped,
            "replies_used": int(used),
            "replies_dropped": int(dropped),
            **record_of(self._step),
        }
