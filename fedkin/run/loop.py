"""The rounds of a run, whatever world it runs in: select, place newcomers, let the method work, score."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.world import ModelSpec, World
from fedkin.methods.decentralized import PeerMethod, PeerState
from fedkin.run.checkpoint import Checkpoint
from fedkin.run.cluster_metrics import ClusterMetrics, GroundTruth
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.metrics import TestResults, accuracy_record, ledger_record, score, training_record
from fedkin.run.migrations import Migrations, changes
from fedkin.run.run_folder import Folder
from fedkin.run.trust_graph import peers_record

_log = logging.getLogger("fedkin")
OnRound = Callable[[Record], Any]


@dataclass
class RunState:
    """A run under way: the state after ``round``, one record per round from 0 on, who moved when, and the last test
    results."""

    round: int
    state: State
    records: list[Record] = field(default_factory=list)
    migrations: list[Migrations] = field(default_factory=list)
    scored: TestResults | None = None
    seconds: float = 0.0
    memory: dict[str, np.ndarray] = field(default_factory=dict)  # what clients and measures remember at the end


def run(
    world: World,
    method: Method,
    plan: Plan,
    *,
    name: str = "method",
    scene: Callable[[], GroundTruth] = GroundTruth,
    folder: Folder | None = None,
    on_round: OnRound | None = None,
) -> RunState:
    """Run a method in a world, from the start or, where ``folder`` holds a checkpoint, from there.

    In every round r = 1..T the scenario moves what it moves; a cohort is drawn from the reachable clients; those of
    them that have no cluster are placed; the method does its round; and all reachable clients are scored on the models
    that came of it. Round 0 is the state that ``method.init`` made. ``scene`` tells what only a simulation knows: the
    true clusters, and whose data moved.

    Raises:
        ConfigError: the cohort, or the method's ``clusters``, is larger than the number of clients.
        CheckpointError, StorageError: from the folder.
    """
    check(plan, method, world.total_clients)
    check_kind(method, world.spec)
    first = max(getattr(method, "cluster_round", 0), getattr(method, "first_split", -1) + 1)
    if first > plan.rounds:
        _log.warning("%s makes clusters from round %d on, and the run has %d", name, first, plan.rounds)
    for remark in hurdles(plan, method, world.total_clients):
        _log.warning("%s: %s", name, remark)
    instrumented = InstrumentedWorld(world)
    found = folder.restore(world) if folder else None
    clock = _Clock(found[0].seconds if found else 0.0)
    observer = _Observer(instrumented, name, scene, folder, on_round, clock)
    if found:
        track = RunState(found[0].round, found[0].state, found[1], found[2], seconds=clock.total)
        observer.recall(found[0].memory)
        instrumented.begin(_scenario(plan, track.round))
    else:
        instrumented.begin(_scenario(plan, 0))
        track = RunState(0, method.init(instrumented, Stream(plan.seed, 0, "method/init")))
        instrumented.seen = None  # what finds the clusters is not a round's training
        for remark in getattr(method, "remarks", lambda _: ())(track.state):
            _log.warning("%s: %s", name, remark)
        observer.look(track, plan.evaluates(0), keeping=True)
    while track.round < plan.rounds:
        track.round += 1
        instrumented.begin(_scenario(plan, track.round))
        track.state = one_round(instrumented, method, track.state, track.round, plan)
        observer.look(track, plan.evaluates(track.round), plan.checkpoints(track.round))
    track.scored = track.scored or score(instrumented, track.state, track.round)
    track.memory = observer.memory()
    return track


def _scenario(plan: Plan, round: int) -> Stream:
    return Stream(plan.seed, round, "scenario")


def one_round(instrumented: InstrumentedWorld, method: Method, state: State, round: int, plan: Plan) -> State:
    """Select, place the cold clients of the cohort, and let the method work."""
    stream = Stream(plan.seed, round, "method")
    cohort = select(instrumented.clients(round), instrumented.total_clients, plan, Stream(plan.seed, round, "cohort"))
    cold = cohort[state.assignment[cohort] == UNASSIGNED]
    if len(cold):
        state = method.place(instrumented, state, cold, stream.child("place"))
        instrumented.seen = None  # nor is what newcomers do to find theirs
    return method.round(instrumented, state, cohort, stream.child("round"))


def select(reachable: Int[np.ndarray, "c"], total: int, plan: Plan, stream: Stream) -> Int[np.ndarray, "n"]:
    """The cohort of round ``stream.round``, ascending; everybody where fewer than a cohort are there.

    A round robin of all ``total`` clients gives each its turn; in place of one that is not there then another is drawn.
    """
    size, seen = min(plan.cohort, len(reachable)), (stream.round - 1) * plan.cohort
    turn = np.arange(seen, seen + size) % total if plan.selection == "round_robin" and seen < total else []
    chosen = np.intersect1d(turn, reachable).astype(np.int64)
    others = np.setdiff1d(reachable, chosen)
    drawn = stream.rng().choice(others, size=size - len(chosen), replace=False)
    return np.sort(np.concatenate([chosen, drawn]))


def check(plan: Plan, method: Method, clients: int, where: str = "method") -> None:
    """Refuse what cannot be before anything is written; ``where`` is the method's place in the configuration."""
    if plan.cohort > clients:
        raise ConfigError(f"run.cohort must be at most the number of clients ({clients}), got {plan.cohort}")
    neighbours = getattr(method, "neighbours", 0)
    if isinstance(neighbours, int) and neighbours >= clients:
        raise ConfigError(f"{where}.neighbours must be fewer than the {clients} clients, got {neighbours}")
    clusters = getattr(method, "clusters", None)
    if isinstance(clusters, int) and clusters > clients:
        raise ConfigError(f"{where}.clusters must be at most the number of clients ({clients}), got {clusters}")
    if getattr(method, "splits_cohort", False) and isinstance(clusters, int) and clusters > plan.cohort:
        raise ConfigError(f"{where}.clusters divide a cohort: at most run.cohort ({plan.cohort}), got {clusters}")


def check_kind(method: Method, spec: ModelSpec, where: str = "method") -> None:
    """Refuse detectors for a method that trains other models, and the reverse; ``where`` as for ``check``."""
    wanted = getattr(method, "detects", False)
    if spec.detects != wanted:
        expected, got = ("a detector", "not one") if wanted else ("a model with a score for every class", "a detector")
        raise ConfigError(
            f"{where}: {type(method).__name__} trains {expected}, and the model is {got}; see model.name (methods side "
            "by side train the same model: run.against=[] runs one alone)"
        )


def hurdles(plan: Plan, method: Method, clients: int) -> list[str]:
    """What a plan keeps peers from."""
    if not isinstance(method, PeerMethod):
        return []
    told, own = [], plan.rounds * plan.cohort / clients
    if plan.cohort < clients:
        told.append(
            f"of {clients} peers only {plan.cohort} are awake in a round, and the others give no answer; "
            f"run.cohort={clients} wakes all"
        )
    stage_one = getattr(method, "stage_one", 0)
    if stage_one >= own:
        told.append(f"stage one has {stage_one} rounds, and a peer does {own:.0f}: nobody gets to stage two")
    return told


@dataclass
class _Observer:
    """Measures a round that was just done, and tells everybody who wants to know."""

    instrumented: InstrumentedWorld
    name: str
    scene: Callable[[], GroundTruth]
    folder: Folder | None
    on_round: OnRound | None
    clock: _Clock

    def __post_init__(self) -> None:
        self.watch = ClusterMetrics(self.instrumented.total_clients)

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Go on from what a checkpoint remembers of the clients and of the clustering."""
        self.instrumented.recall(memory)
        self.watch.recall(memory)

    def memory(self) -> dict[str, np.ndarray]:
        """What a checkpoint must remember of the clients and of the clustering."""
        return self.instrumented.memory() | self.watch.memory()

    def look(self, track: RunState, scoring: bool, keeping: bool) -> None:
        trained = self.clock.lap()
        track.scored = score(self.instrumented, track.state, track.round) if scoring else None
        moves = changes(track.round, self.watch.assignment, track.state.assignment)
        moved = moves if moves["clients"] or track.round == 0 else None
        record = self._record(track, keeping)
        scored = self.clock.lap()
        track.records.append(record)
        track.migrations += [moved] if moved else []
        track.seconds = self.clock.total
        if self.folder:
            timing = {"round": track.round, "train": trained, "score": scored, "total": track.seconds}
            self.folder.append(record, timing, moved)
            if keeping:
                down, up = dict(self.instrumented.ledger.down), dict(self.instrumented.ledger.up)
                self.folder.keep(Checkpoint(track.round, track.state, down, up, track.seconds, self.memory()))
        if self.on_round:
            self.on_round(record)

    def _record(self, track: RunState, keeping: bool) -> Record:
        scene, reachable = self.scene(), self.instrumented.clients(track.round)
        seen = (scene, self.instrumented.noticed, self.instrumented.noted)
        clustering = self.watch.look(track.round, track.state.assignment, reachable, *seen)
        if isinstance(track.state, PeerState):  # whose communities have no lasting names
            clustering |= {"migrations": None, "migrations_correct": None}
        return {
            "round": track.round,
            "method": self.name,
            **accuracy_record(track.scored, track.state.clusters, scene.true_clusters),
            **clustering,
            **peers_record(track.state, reachable, scene.true_clusters, keeping or track.round == 1),
            **training_record(self.instrumented, track.state),
            **ledger_record(self.instrumented.ledger),
        }


class _Clock:
    """Seconds of wall time, going on from where an earlier process stopped."""

    def __init__(self, total: float) -> None:
        self.total = total
        self._last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        lap, self._last = now - self._last, now
        self.total += lap
        return lap
