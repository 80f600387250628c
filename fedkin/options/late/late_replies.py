"""Late replies for any method that averages: later rounds use them, up to a largest age (bounded
staleness).

    u_{i,s}   the update of client i in round s, which arrived after that round's end
    s(a)      factor (1 + a)^-exponent of an update that is a = t - s rounds old, at most
    ``max_age``
    mean      in round t, for cluster k, over all used updates:
              sum_i n_i s(a_i) u_{i,t-a_i} / sum_i n_i

J. Nguyen et al.: Federated Learning with Buffered Asynchronous Aggregation. AISTATS 2022, arXiv
2106.06639. The paper multiplies an update by s(a) with exponent 0.5, and divides by the full number
of samples, so a mean of only old updates is a smaller step. Here the mean is taken in each cluster,
and rounds are synchronous. An old update is not used if its client has replied in this round, if
the client now belongs to another cluster, or if the number of clusters has changed.

In a simulation, replies are late at random: a reply is late by at least d rounds with probability
``share``^d. In a deployment, a reply is late if it arrives after the server has ended the round
(``WaitingWorld``). With ``max_age=0`` late replies are lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.errors import MethodError
from fedkin.core.method import Method, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.replies import Reply, mean_reply, mean_vector
from fedkin.core.requirements import requirements_of
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive_integer
from fedkin.core.world import World, late_replies
from fedkin.core.world_proxy import WorldProxy
from fedkin.options.base import ActiveOption, Around, Call, Option, RunFacts
from fedkin.options.late.buffer import LateBuffer, Row
from fedkin.options.summed_tasks import averages_itself, check_asks_for_means

_NO_PLACE = "late ones have no place"


@plain_options
@dataclass(frozen=True)
class LateReplies(Option):
    """Uses replies that arrive after their round.

    Attributes:
        max_age: largest age of a used reply, in rounds; 0: late replies are not used.
        exponent: exponent in (1 + age)^-exponent, the factor of a late update; 0: no factor.
        share: in a simulation, the share of replies that are late by at least one round. The share
            that is late by at least d rounds is share^d.
        same: whether the same clients are late in every round. If not, each reply is drawn
            independently.

    Examples:
        >>> import fedkin as fk
        >>> fk.LateReplies(max_age=2, share=0.3)
        LateReplies(max_age=2, exponent=0.5, share=0.3, same=False)
    """

    section = "late"

    max_age: int = 1
    exponent: float = 0.5
    share: float = 0.0
    same: bool = False

    def __post_init__(self) -> None:
        if self.max_age != 0:
            check_positive_integer("max_age", self.max_age)
        check_not_negative("exponent", self.exponent)
        check_not_negative("share", self.share)
        if self.share >= 1:
            raise MethodError(
                f"share must be below 1 (at 1 every reply would be late), got {self.share:g}"
            )

    def refusal(self, run: RunFacts) -> str:
        if "privacy" in run.options:
            return (
                "a late reply would count in the sums of two rounds, and privacy counts each "
                "client once; use late replies or privacy, not both"
            )
        if "robust" in run.options:
            return (
                "a robust rule compares the replies of one round; use late replies or a robust "
                "rule, not both"
            )
        return refusal(run.method)

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveLateReplies(self, run.method)

    def scale(self, age: Int[np.ndarray, "b"]) -> Float[np.ndarray, "b"]:
        """s(a): the factor of an update that is ``age`` rounds old."""
        return (1.0 + age) ** -self.exponent

    def delays(self, clients: Int[np.ndarray, "n"], stream: Stream) -> Int[np.ndarray, "n"]:
        """By how many rounds each client's reply is late in a simulation; 0 means in time.

        A reply is late by at least d rounds with probability share^d.

        Args:
            clients: clients that reply.
            stream: random numbers of the round.
        """
        if not self.share:
            return np.zeros(len(clients), np.int64)
        # With round 0 in the key, every round draws the same delays.
        late_stream = Stream(stream.seed, 0 if self.same else stream.round, "late")
        # random() is below 1, so 1 minus it is above 0 and has a logarithm.
        chance = np.array([1 - late_stream.client(int(c)).random() for c in clients])
        return np.floor(np.log(chance) / math.log(self.share)).astype(np.int64)


class ActiveLateReplies(ActiveOption):
    """Late replies in a run. The state holds the buffer of replies.

    Args:
        settings: settings of late replies.
        method: the run's method.
    """

    def __init__(self, settings: LateReplies, method: Method) -> None:
        super().__init__(settings.section)
        self._settings = settings
        self._method = method

    def around(self, world: World, before: State | None, call: Call) -> Around:
        buffer = LateBuffer.empty() if before is None else self._buffer(before)
        if call.step != "round" or before is None:
            return Around(world, lambda after: self._with_buffer(after, buffer))
        late_world = LateWorld(
            world=world,
            settings=self._settings,
            buffer=buffer,
            assignment=before.assignment,
            round=call.round,
        )
        return Around(
            late_world, lambda after: self._after_round(after, late_world, buffer, call.round)
        )

    def _after_round(self, after: State, world: LateWorld, buffer: LateBuffer, round: int) -> State:
        """The state after a round, with the changed buffer of late replies. Raises MethodError if
        the method averages single updates itself, so that late replies cannot be added to its
        means."""
        check_asks_for_means(
            section=self.section,
            method=self._method,
            so_that=_NO_PLACE,
            round=round,
            single=world.single,
            averages=world.averages,
        )
        return self._with_buffer(after, buffer)

    def _buffer(self, state: State) -> LateBuffer:
        """The buffer of late replies in a state, as a copy that a round may change."""
        arrays = self.arrays(state)
        return LateBuffer(
            rows=arrays["rows"].copy(),
            updates=arrays["updates"].copy(),
            counts=arrays["counts"].copy(),
        )

    def _with_buffer(self, state: State, buffer: LateBuffer) -> State:
        """The state with this buffer of late replies in place of its former buffer."""
        return self.with_arrays(
            state, {"rows": buffer.rows, "updates": buffer.updates, "counts": buffer.counts}
        )

    def record(self, state: State) -> Record:
        """How many late replies were used, and how many were dropped, since the run's start."""
        used, dropped = self.arrays(state)["counts"]
        return {"late_used": int(used), "late_dropped": int(dropped)}


class LateWorld(WorldProxy):
    """A world for one round whose means also include late replies.

    Args:
        world: the clients.
        settings: limits on the age of replies.
        buffer: buffered replies, changed in place.
        assignment: cluster of each client before the round.
        round: the present round.
    """

    def __init__(
        self,
        world: World,
        settings: LateReplies,
        buffer: LateBuffer,
        assignment: Int[np.ndarray, "N"],
        round: int,
    ) -> None:
        super().__init__(world)
        self._settings = settings
        self._buffer = buffer
        self._assignment = assignment
        self._round = round
        self.averages = 0
        self.single = 0

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The clients' reply to a task. A request for means is answered from the replies that are
        in time and the late replies that are due; any other task goes to the clients unchanged."""
        # ``vector`` names the update in the reply, ``single`` is the task that returns each
        # client's update instead of the means. Both exist only for a request for means.
        vector = mean_vector(task)
        single = task.single()
        if vector is None or single is None:
            # ``charged`` says what a task's reply would cost under privacy. Only tasks that send
            # updates are charged as a sum, so this counts the calls in which the method asked for
            # updates one by one. A method that asks for no means at all is refused after the round.
            self.single += task.charged == "sum"
            return self._world.run(task, clients, stream)
        self.averages += 1
        # The option asks for single updates and averages them itself, together with late ones.
        self._take_late(single, vector)
        reply = self._world.run(single, clients, stream)
        reply = self._postpone(
            task=task,
            vector=vector,
            reply=reply,
            clients=clients,
            stream=stream or Stream(0, self._round),
        )
        rows, updates = self._buffer.take(
            call=task,
            round=self._round,
            oldest=self._round - self._settings.max_age,
            length=reply.arrays[vector].shape[1],
            # A late reply is dropped if its client has replied in this round, or has moved.
            usable=self._usable(replied=clients[reply.arrived]),
        )
        # The means of the timely replies alone; with late updates, only the update's mean changes.
        means = mean_reply(task, reply, clients)
        if not len(updates):
            return means
        age = self._round - rows.sent
        mean, weight = _mean(
            task=task,
            vector=vector,
            reply=reply,
            clients=clients,
            late=rows,
            updates=updates * self._settings.scale(age)[:, None],
        )
        return replace(means, arrays=means.arrays | {vector: mean}, weight=weight)

    def _usable(self, replied: Int[np.ndarray, "r"]) -> Bool[np.ndarray, "b"]:
        """Which replies in the buffer may be used in this round: those of clients that are still in
        the same cluster, and have not replied in time.

        Args:
            replied: clients with a reply of this round, which replaces a late one.
        """
        waiting = self._buffer.columns
        cluster = self._assignment[waiting.client]
        # A client that chooses its cluster while training has none before its first timely reply.
        same_cluster = (cluster == waiting.model) | (cluster < 0)
        return same_cluster & ~np.isin(waiting.client, replied)

    def _take_late(self, task: Task, vector: str) -> None:
        """Add to the buffer the replies that real clients sent since the last round, too late for
        their own round."""
        for late in late_replies(self._world, task, self._settings.max_age):
            came = late.reply.arrived
            self._buffer.add(
                call=late.task,
                clients=late.clients[came],
                arrays=_of_rows(late.reply, vector, came),
                vector=vector,
                sent=late.round,
                due=self._round,
            )

    def _postpone(
        self, task: Task, vector: str, reply: Reply, clients: Int[np.ndarray, "n"], stream: Stream
    ) -> Reply:
        """In a simulation: draw which clients' replies are late, move these to the buffer, and
        return the reply without them."""
        delay = np.where(reply.arrived, self._settings.delays(clients, stream), 0)
        for rounds in np.unique(delay[delay > 0]).tolist():
            is_late = delay == rounds
            if rounds > self._settings.max_age:
                # Too late for any round, so they are counted as dropped.
                self._buffer.counts[1] += is_late.sum()
                continue
            self._buffer.add(
                call=task,
                clients=clients[is_late],
                arrays=_of_rows(reply, vector, is_late),
                vector=vector,
                sent=self._round,
                due=self._round + rounds,
            )
        return replace(reply, arrived=reply.arrived & (delay == 0))


def _of_rows(reply: Reply, vector: str, rows: Bool[np.ndarray, "n"]) -> dict[str, np.ndarray]:
    """The arrays that the buffer stores (update, model and number of samples), for some rows of a
    reply (one row per client)."""
    return {name: reply.arrays[name][rows] for name in (vector, INDEX, WEIGHT)}


def _mean(
    task: Task,
    vector: str,
    reply: Reply,
    clients: Int[np.ndarray, "n"],
    late: Row,
    updates: Float[np.ndarray, "b p"],
) -> tuple[Float[np.ndarray, "K p"], Float[np.ndarray, "K"]]:
    """The mean update of each model over timely and late replies, and the number of samples in it.

    Args:
        task: the task that asks for mean updates.
        vector: name of the update in the reply.
        reply: the reply with one row per client, in which late rows are marked as not arrived.
        clients: client of each row.
        late: client, model and number of samples of each late reply.
        updates: the late updates, already multiplied by s(age).
    """
    total = WeightedSum(task.sizes()["K"], updates.shape[1])
    # In the order of clients, the sum does not depend on the order of replies.
    order = np.argsort(clients, kind="stable")
    weight = np.where(reply.arrived, reply.arrays[WEIGHT], 0)
    total.add(reply.arrays[vector][order], weight[order], reply.arrays[INDEX][order])
    # Late updates count with all their samples: s(age) makes the step smaller, not the divisor.
    total.add(updates, late.examples, late.model)
    return total.mean(reply.arrays[vector].dtype.type)


def refusal(method: Method) -> str:
    """Why late replies cannot be used with a method; empty if they can."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.peers:
        return (
            f"{name} has no server and no rounds that a reply could miss: its peers average when "
            "a message arrives"
        )
    if needs.model.detectors:
        return (
            f"{name} trains several models of a client in one round, but a late reply holds only "
            "one model"
        )
    return averages_itself(method, _NO_PLACE) if needs.reads.because else ""
