"""The server's world with a trace of all that a run depends on, and the same run again in an
undisturbed world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.ledger import Ledger
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.shared_rows import SharedRows
from fedkin.core.task import Task
from fedkin.core.world import LateReply
from fedkin.run.folder.run_folder import METRICS
from fedkin.server.remote_world import RemoteWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.deterministic.fake_clock import FakeClock

_POSITION = "trace"  # in a checkpoint: how much of the trace it stands on
_ANY = Stream(0)  # quadratic clients draw nothing
GRACE = 2.0  # seconds that the server's own polling may take beyond a deadline


@dataclass
class Call:
    """A task that was run, and the reply."""

    task: str
    clients: np.ndarray
    reply: Reply
    down: int  # bytes that the ledger counts
    up: int
    update_memory: int  # of the world
    kind: tuple[str, str]  # of the task
    round: int


@dataclass
class LateReplies:
    """Replies that have come after their rounds, when a method was given them."""

    replies: list[LateReply]


@dataclass
class KnownClients:
    """The clients that a server had accepted, when it was asked."""

    clients: np.ndarray


@dataclass
class Trace:
    """The events of the rounds that count. Rounds that a server ran after its last checkpoint,
    and before it died, do not count.

    Attributes:
        entries: calls, sets of reachable clients, and (operation, bytes down, bytes up) of
            messages.
        kept: by length of the trace, the records' file at each checkpoint.
        done: the length at the newest checkpoint that was finished.
    """

    clock: FakeClock
    deadline: float
    folder: Path
    entries: list[Any] = field(default_factory=list)
    kept: dict[int, bytes] = field(default_factory=dict)
    done: int = -1
    world: ObservedWorld | None = None
    former: list[Any] = field(default_factory=list)
    began: tuple[float, float] | None = None  # when the present round has begun
    beats: Callable[[], dict[int, float]] = dict  # when each node has sent its last heartbeat
    # When each node was first found among the suspects.
    suspected: dict[int, float] = field(default_factory=dict)
    at_end: bool = False  # whether the newest server has begun after the last round
    entered: float | None = None  # when the server has come to the present round
    # That rounds took, with all that the server did in them.
    seconds: list[float] = field(default_factory=list)

    def count(self, operation: str, down: int, up: int) -> None:
        """A message was sent, or fetched."""
        self.entries.append((operation, down, up))

    def new_world(self, world: ObservedWorld) -> None:
        """A server has started."""
        self.former = self.entries or self.former
        self.entries = []
        self.world = world
        self.began = None
        self.suspected = {}
        self.at_end = False

    def begin(self, round: int, number: int) -> None:
        """A server begins a round, its first (``number`` 0) or another one."""
        self.end_round()
        # Before its first round a server waits for clients.
        self.entered = self.clock.now if number else None
        self.at_end &= not number
        if number:
            self.done = max(self.done, *self.kept, -1)
        elif not self.entries:
            assert self.done < 0, "a server has begun again, and there was a checkpoint"
            self.kept = {}

    def end_round(self) -> None:
        """The present round ends: not after its deadline."""
        if self.began is not None:
            self.seconds += [] if self.entered is None else [self.clock.now - self.entered]
            seconds = self.clock.now - self.began[0] - (self.clock.frozen - self.began[1])
            assert seconds <= self.deadline + GRACE, (
                f"a round took {seconds:.1f} s of {self.deadline:.0f}"
            )

    def begun(self) -> None:
        """The server has found its clients: the round's time begins."""
        beats = self.beats()
        self.began = (self.clock.now, self.clock.frozen)
        self.entered = self.clock.now if self.entered is None else self.entered
        suspects = self.world.membership.request_round.suspects if self.world else {}
        self.suspected = {node: self.suspected.get(node, self.clock.now) for node in suspects}
        for node, since in self.suspected.items():
            assert beats[node] <= since, (
                f"node {node} is sent nothing, and has sent a heartbeat since"
            )

    def keep(self) -> int:
        """A checkpoint is made."""
        self.kept[len(self.entries)] = (self.folder / METRICS).read_bytes()
        return len(self.entries)

    def resume(self, position: int) -> None:
        """A server goes on from a checkpoint."""
        assert position >= self.done, "a finished checkpoint is lost"
        assert (self.folder / METRICS).read_bytes() == self.kept[position], (
            "records are not those of the checkpoint"
        )
        self.entries = self.former[:position]
        self.at_end = True
        self.kept = {length: lines for length, lines in self.kept.items() if length <= position}


class ObservedWorld(RemoteWorld):
    """The world of a server, which writes into ``trace``."""

    trace: Trace

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._begun = self._now = 0
        self.trace.new_world(self)

    def begin(self, stream: Stream) -> None:
        self.trace.begin(stream.round, self._begun)
        self._begun = self._begun + 1
        self._now = stream.round
        super().begin(stream)
        self.trace.begun()

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        clients = super().clients(round)
        self.trace.entries.append(clients)
        return clients

    def known_clients(self) -> Int[np.ndarray, "c"]:
        clients = super().known_clients()
        self.trace.entries.append(KnownClients(clients))
        return clients

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        before = _totals(self.ledger)
        reply = super().run(task, clients, stream)
        down, up = (now - then for now, then in zip(_totals(self.ledger), before, strict=True))
        self.trace.entries.append(
            Call(
                task=task.name,
                clients=np.array(clients),
                reply=reply,
                down=down,
                up=up,
                update_memory=self.update_memory,
                kind=kind_of(task),
                round=self._now,
            )
        )
        return reply

    def late_replies(self, task: Task, rounds: int) -> list[LateReply]:
        replies = super().late_replies(task, rounds)
        self.trace.entries.append(LateReplies(replies))
        return replies

    def memory(self) -> dict[str, np.ndarray]:
        return super().memory() | {_POSITION: np.array(self.trace.keep())}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        self.trace.resume(int(memory[_POSITION]))
        super().recall({name: array for name, array in memory.items() if name != _POSITION})


def kind_of(task: Task) -> tuple[str, str]:
    """What a task is: in one round, a client is asked for one of a kind."""
    return task.name, task.norm_group()


def _totals(ledger: Ledger) -> tuple[int, int]:
    return sum(ledger.down.values()), sum(ledger.up.values())


class UndisturbedWorld:
    """The clients in one process, without messages: each call has the replies of the trace, and no
    other.

    Args:
        clients: by id.
        entries: of the trace, without messages.
        work: of the run.
    """

    true_clusters = None

    def __init__(self, clients: FakeWorld, entries: list[Any], work: Any) -> None:
        self._clients = clients
        self._entries = entries
        self._next = 0
        self.spec = clients.spec
        self.work = work
        self.total_clients = clients.total_clients
        self.ledger = Ledger()
        self.initial: Callable[[Stream], np.ndarray] = clients.initial

    @property
    def update_memory(self) -> int:
        calls = (entry for entry in self._entries[self._next :] if isinstance(entry, Call))
        return next((call.update_memory for call in calls), 0)

    def begin(self, stream: Stream) -> None:
        self._clients._now = stream

    def clients(self, round: int) -> np.ndarray:
        return self._entry(np.ndarray)

    def known_clients(self) -> np.ndarray:
        return self._entry(KnownClients).clients

    def reassigned(self, clients: np.ndarray) -> None:
        """What clients keep is taken from the trace."""

    def end_after(self, replies: int) -> bool:
        """Each call has the replies of the trace, so it ends when these are there."""
        return True

    def at_work(self, task: Task) -> None:
        """Nothing is at work: the order of arrivals is a recorded one."""

    def wait(self) -> bool:
        return False

    def wait_for_all(self) -> None:
        """Each call has the replies of the trace."""

    def memory(self) -> dict[str, np.ndarray]:
        return {}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """There is nothing to restore."""

    def run(self, task: Task, clients: np.ndarray, stream: Stream | None = None) -> Reply:
        call = self._entry(Call)
        same = call.task == task.name and np.array_equal(call.clients, clients)
        assert same, (
            f"undisturbed, {task.name} is asked of {clients}; {call.task} of {call.clients} was"
        )
        if task.memory or task.standing or not task.up.arrays:
            return call.reply
        return self._made(task, clients, call.reply, stream)

    def late_replies(self, task: Task, rounds: int) -> list[LateReply]:
        """The same clients' own replies, made here."""
        late: list[LateReply] = self._entry(LateReplies).replies
        return [
            one._replace(reply=self._made(one.task, one.clients, one.reply, _ANY)) for one in late
        ]

    def _made(
        self, task: Task, clients: np.ndarray, came: Reply, stream: Stream | None = None
    ) -> Reply:
        """The replies of the clients that replied in time."""
        self._clients._failed = lambda *_, **__: ~came.arrived  # type: ignore[method-assign]
        return replace(self._clients.run(task, clients, stream), nonfinite=came.nonfinite)

    def finish(self) -> None:
        """The trace has nothing more."""
        assert self._next == len(self._entries), (
            f"undisturbed, the last {len(self._entries) - self._next} do not happen"
        )

    def _entry(self, kind: type) -> Any:
        assert self._next < len(self._entries), "undisturbed, more happens"
        entry = self._entries[self._next]
        self._next += 1
        assert isinstance(entry, kind), f"undisturbed, {kind.__name__} comes where {entry} came"
        return entry


class RepeatedWorld(UndisturbedWorld):
    """The same for buffers: all clients that were asked to train reply, in a recorded order."""

    def _made(
        self, task: Task, clients: np.ndarray, came: Reply, stream: Stream | None = None
    ) -> Reply:
        # A cold start, in round 0, waits for replies as always.
        if task.charged == "sum" and self._clients._now.round > 0:
            came = replace(came, arrived=np.ones(len(clients), bool))
        return super()._made(task, clients, came, stream)


def state_arrays(state: State) -> dict[str, np.ndarray]:
    """A state's arrays by name."""
    own = {
        name: value
        for name, value in vars(state).items()
        if isinstance(value, (np.ndarray, SharedRows))
    }
    of_options = {
        f"{section}/{name}": a
        for section, arrays in state.extras.items()
        for name, a in arrays.items()
    }
    return {name: np.asarray(value) for name, value in (own | of_options).items()}
