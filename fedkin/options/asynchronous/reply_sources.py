"""Where the order of replies comes from: drawn times, a recorded run, or real clients.

A step of buffered clusters makes a source, and calls ``prepare``, then ``asks`` and ``sent`` for
its new requests, then ``next`` until a buffer is full.
"""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import ConfigError, MethodError
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.schema import INDEX, WEIGHT
from fedkin.core.task import Task
from fedkin.core.world import (
    World,
    clients_at_work,
    ends_early,
    late_replies,
    wait_for_late_replies,
)
from fedkin.options.asynchronous.progress import BufferProgress
from fedkin.options.asynchronous.recorded_order import Arrival, RecordedRound
from fedkin.options.asynchronous.reply_times import TimedOption
from fedkin.options.asynchronous.requests import numbers_of

_log = logging.getLogger("fedkin")


@runtime_checkable
class ReplySource(Protocol):
    """Decides which clients are asked, and whose reply arrives next."""

    def prepare(self, progress: BufferProgress) -> None:
        """Begin a step."""
        ...

    def asks(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which clients that have nothing to do are asked."""
        ...

    def sent(self, reply: Reply, clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """When the reply of each client arrives, after the seconds of the clock; NaN if its reply
        never comes, infinite if that is not known yet."""
        ...

    def next(self, progress: BufferProgress) -> int | None:
        """Index of the request whose reply arrives next; None if no reply comes in this step."""
        ...


class DrawnTimes:
    """Replies of simulated clients, in the order of drawn times.

    Args:
        times: how long clients take.
        clients: N, the number of clients.
        stream: seed and number of the round.
    """

    def __init__(self, times: TimedOption, clients: int, stream: Stream) -> None:
        self._times = times
        self._clients = clients
        self._stream = stream

    def prepare(self, progress: BufferProgress) -> None:
        """Nothing is to be done."""

    def asks(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """All of them."""
        return np.ones(len(clients), bool)

    def sent(self, reply: Reply, clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """The drawn times; NaN for a client that has dropped out."""
        times = self._times.times(clients, self._clients, self._stream)
        return np.where(reply.arrived, times, np.nan)

    def next(self, progress: BufferProgress) -> int | None:
        """The request with the earliest reply. The clock goes on to this time."""
        row = progress.first_to_arrive()
        if row is not None:
            progress.clock = max(progress.clock, float(progress.requests.time[row]))
        return row


class RecordedReplies:
    """Replies in the order of a recorded run.

    Args:
        order: the recorded steps by round.
        round: the present round.

    Raises:
        ConfigError: the recorded run was shorter.
    """

    def __init__(self, order: dict[int, RecordedRound], round: int) -> None:
        if round not in order:
            raise ConfigError(
                f"asynchronous.replay: the recorded run has no round {round}; set run.rounds to at "
                f"most {max(order, default=0)}"
            )
        self._step = order[round]
        self._round = round
        self._arrived = 0

    def prepare(self, progress: BufferProgress) -> None:
        """Drop requests that the recorded run has lost: their clients are asked again."""
        again = np.isin(progress.requests.client, self._step.asked) & ~progress.requests.buffered
        progress.requests = progress.requests.select(~again)

    def asks(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """The clients that the recorded run asked."""
        return np.isin(clients, self._step.asked)

    def sent(self, reply: Reply, clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """No time is known, but a client that has dropped out never replies."""
        return np.where(reply.arrived, np.inf, np.nan)

    def next(self, progress: BufferProgress) -> int | None:
        """The request whose reply came next in the recorded run.

        Raises:
            ConfigError: this run has no such request.
        """
        progress.clock = self._step.seconds or 0.0
        if self._arrived == len(self._step.arrivals):
            return None
        expected = self._step.arrivals[self._arrived]
        self._arrived += 1
        requests = progress.requests
        same = (requests.client == expected.client) & (requests.version == expected.version)
        found = np.flatnonzero(same & ~requests.buffered)
        if not len(found):
            raise ConfigError(
                f"asynchronous.replay: reply {self._arrived} of round {self._round} came from "
                f"client {expected.client} with version {expected.version} of its model, but this "
                "run has no such request; repeat the run with the same data, method, seed and "
                "options"
            )
        self._compare(expected, requests.digest(int(found[0])))
        return int(found[0])

    def _compare(self, expected: Arrival, digest: str) -> None:
        """Log a warning if a reply has other bits than the recorded one."""
        if digest != expected.digest:
            _log.warning(
                "asynchronous.replay: round %d: the update of client %d has other bits than the "
                "recorded one: the run was on another machine, or with other settings or data",
                self._round,
                expected.client,
            )


class RealReplies:
    """Replies of real clients, in the order in which they come.

    Args:
        world: the clients.
        task: the task of the step, which asks for means.
        vector: name of the update in the reply.
        rounds: for how many rounds a reply can be used.

    Raises:
        MethodError: clients choose the model that they train.
    """

    def __init__(self, world: World, task: Task, vector: str, rounds: int) -> None:
        if getattr(task, INDEX, None) is None:
            raise MethodError(
                "asynchronous: real clients that choose their cluster say so only in their reply, "
                "so the staleness of a reply would be unknown; use a method in which the server "
                "decides, such as flexcfl, or name = 'first_replies'"
            )
        self._world = world
        self._task = task
        self._vector = vector
        self._rounds = rounds

    def prepare(self, progress: BufferProgress) -> None:
        """Read the replies that came since the last step, and drop requests that are lost: those of
        a server that was started again, and those of sites that have failed."""
        self._fetch(progress)
        requests = progress.requests
        at_work = np.isin(requests.client, self._at_work())
        progress.requests = requests.select(np.isfinite(requests.time) | at_work)

    def asks(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """All of them. The next task does not wait for its replies."""
        if len(clients):
            ends_early(self._world, 0)
        return np.ones(len(clients), bool)

    def sent(self, reply: Reply, clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Zero for replies that came at once, NaN for clients that could not be asked."""
        at_work = np.isin(clients, self._at_work())
        return np.where(reply.arrived, 0.0, np.where(at_work, np.inf, np.nan))

    def next(self, progress: BufferProgress) -> int | None:
        """The next reply that has come, waiting until the end of the round."""
        while (row := progress.first_to_arrive()) is None:
            if not wait_for_late_replies(self._world):
                return None
            self._fetch(progress)
        return row

    def _at_work(self) -> Int[np.ndarray, "c"]:
        """The clients whose replies may still come."""
        clients = clients_at_work(self._world, self._task)
        return np.zeros(0, np.int64) if clients is None else clients

    def _fetch(self, progress: BufferProgress) -> None:
        """Put replies that have come into their requests."""
        for late in late_replies(self._world, self._task, self._rounds):
            arrays = late.reply.arrays
            numbers = numbers_of(self._task, self._vector, late.reply)
            for place in np.flatnonzero(late.reply.arrived).tolist():
                progress.receive(
                    client=int(late.clients[place]),
                    update=arrays[self._vector][place],
                    examples=int(arrays[WEIGHT][place]),
                    numbers=numbers[place],
                )
