"""The loop over the rounds of a run: select a cohort, place newcomers, run the method, evaluate."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedkin.config.plan import Plan
from fedkin.core.method import UNASSIGNED, ClientRemark, Method, State
from fedkin.core.randomness import Stream
from fedkin.core.records import Record
from fedkin.core.world import World, client_names, scored_clients, wait_for_all_clients
from fedkin.measures.complete_rounds import is_complete
from fedkin.measures.measure import Measure
from fedkin.measures.table import EXTRA
from fedkin.methods.decentralized import PeerState
from fedkin.options.with_options import NO_OPTIONS, ActiveOptions, WithOptions, evaluation_task
from fedkin.run.callbacks import OnRound
from fedkin.run.cohort_selection import select_cohort
from fedkin.run.folder.checkpoint import Checkpoint
from fedkin.run.folder.migrations import Migrations, find_migrations
from fedkin.run.folder.run_folder import Folder, Restored
from fedkin.run.instrumented_world import InstrumentedWorld
from fedkin.run.interruption import is_interrupted, raise_if_interrupted
from fedkin.run.method_checks import check_labels, check_model, check_plan, plan_warnings
from fedkin.run.metrics.accuracy import EvaluationResults, score, task_type_of
from fedkin.run.metrics.clustering import ClusterMetrics, GroundTruth
from fedkin.run.metrics.final import BestRound, best_record, final_record, score_all_clients
from fedkin.run.metrics.ledger_record import ledger_record
from fedkin.run.metrics.round_records import measures_record, score_record, training_record
from fedkin.run.metrics.trust_graph import peers_record
from fedkin.run.simulated_worlds import check_samples, scored_split
from fedkin.run.stopping import stop_after_round, stop_by_options, stop_by_reply, stop_of_resumed

_log = logging.getLogger("fedkin")


@dataclass
class RunState:
    """The state of a run in progress, or at its end.

    ``state`` is the method's state after ``round``. ``records`` and ``migrations`` have entries for
    the rounds from 0 on. ``scored`` has the results of the last evaluation (at the end, on test
    samples). ``best`` is the round selected on validation samples, if there are any. ``stopped``
    has the reason of an early stop, if there was one. ``final`` has the measurements after the last
    round, as in a summary.
    """

    round: int
    state: State
    records: list[Record] = field(default_factory=list)
    migrations: list[Migrations] = field(default_factory=list)
    scored: EvaluationResults | None = None
    seconds: float = 0.0
    # Arrays that clients and metrics store at the end.
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    best: BestRound | None = None
    stopped: Record | None = None
    final: Record = field(default_factory=dict)


def run(
    world: World,
    method: Method,
    plan: Plan,
    *,
    options: ActiveOptions = NO_OPTIONS,
    name: str = "method",
    ground_truth: Callable[[], GroundTruth] = GroundTruth,
    folder: Folder | None = None,
    on_round: OnRound | None = None,
    measures: Sequence[Measure] = (),
) -> RunState:
    """Run a method in a world, from the start or from the checkpoint in ``folder``.

    Round r = 1..T has five steps. The scenario's changes are applied. A cohort is selected from the
    reachable clients. Its clients without a cluster are placed. The method runs its round (and
    clients are notified of a new cluster, unless the method has done so). All reachable clients are
    evaluated on the resulting models. Round 0 is the state from ``method.init``.

    If simulated data have a validation split, rounds are evaluated on it. Test samples are then
    used once, after the last round, for the final state and for the state of the best round.

    Args:
        world: the clients, simulated or real.
        method: the method.
        plan: rounds, cohort, seed, intervals of evaluation and checkpoints, and early stopping.
        options: the run's options.
        name: the method's name in records and warnings.
        ground_truth: returns what only a simulation knows about the current round: true clusters,
            and the clients with shifted data.
        folder: stores records and checkpoints.
        on_round: called with the record of every round. If it returns ``STOP``, the run ends after
            that round.
        measures: the user's measures for evaluated rounds.

    Raises:
        ConfigError: the cohort is larger than the number of clients, or a requirement of the method
            is not met.
        CheckpointError, StorageError: from reading or writing ``folder``.
    """
    check_plan(plan, method, world.total_clients)
    check_model(method, world.spec)
    check_labels(method, task_type_of(world))
    for warning in plan_warnings(plan, method, world.total_clients):
        _log.warning("%s: %s", name, warning)
    instrumented = InstrumentedWorld(world)
    restored = folder.restore(world) if folder else None
    clock = _Clock(restored.checkpoint.seconds if restored else 0.0)
    every_measure = (*EXTRA, *measures)
    recorder = _Recorder(
        instrumented=instrumented,
        name=name,
        ground_truth=ground_truth,
        folder=folder,
        on_round=on_round,
        clock=clock,
        plan=plan,
        options=options,
        measures=every_measure,
    )
    runner = WithOptions(method, options)
    if restored:
        run_state = _resumed(restored, plan, options)
        recorder.recall(restored.checkpoint.memory)
        # If no round is left, the final evaluation needs the clients as they are in this round.
        instrumented.begin(_scenario(plan, run_state.round))
    else:
        instrumented.begin(_scenario(plan, 0))
        run_state = RunState(0, runner.init(instrumented, Stream(plan.seed, 0, "method/init")))
        # Training before the first round does not count as the training of a round.
        instrumented.observations.training = None
        _log_remarks(name, runner.remarks(run_state.state), client_names(world))
        # ``keeping`` also writes a checkpoint: with one of round 0, a resumed run need not repeat
        # ``init``.
        recorder.record(run_state, plan.evaluates(0), keeping=True)
    while run_state.round < plan.rounds and not run_state.stopped:
        _next_round(run_state, runner, recorder)
    if run_state.stopped:
        # ``stopped`` holds the round, the planned number of rounds, and the reason, in this order.
        _log.info("%s: stopped after round %d of %d: %s", name, *run_state.stopped.values())
    _score_finally(run_state, world, method=runner, plan=plan, measures=every_measure)
    run_state.memory = recorder.memory()
    return run_state


def _next_round(run_state: RunState, runner: WithOptions, recorder: _Recorder) -> None:
    """Run and record one round, and notify the clients whose cluster has changed."""
    plan = recorder.plan
    instrumented = recorder.instrumented
    run_state.round += 1
    round = run_state.round
    instrumented.begin(_scenario(plan, round))
    assignment_before = run_state.state.assignment
    run_state.state = run_round(instrumented, runner, state=run_state.state, round=round, plan=plan)
    # Assignments are never changed in place, so the same array means that no client migrated.
    if run_state.state.assignment is not assignment_before:
        changed = recorder.cluster_metrics.changed(run_state.state.assignment)
        # The method may have notified some of these clients already.
        instrumented.reassigned(changed[~instrumented.observations.reassigned[changed]])
    recorder.record(run_state, plan.evaluates(round), plan.checkpoints(round))


def _resumed(restored: Restored, plan: Plan, options: ActiveOptions) -> RunState:
    """The state of a run at its newest checkpoint.

    Args:
        restored: checkpoint, records and migrations from the run's folder.
        plan: the run's plan, which may have more rounds than before.
        options: the run's options.
    """
    checkpoint = restored.checkpoint
    stopped = stop_of_resumed(plan, restored.records, checkpoint.stopped)
    return RunState(
        round=checkpoint.round,
        state=checkpoint.state,
        records=restored.records,
        migrations=restored.migrations,
        seconds=checkpoint.seconds,
        best=checkpoint.best,
        stopped=stopped or stop_by_options(plan, checkpoint.round, options),
    )


def _log_remarks(name: str, remarks: Sequence[str], client_names: Sequence[str] | None) -> None:
    """Log the warnings of a method about the clusters that it has formed, with the names of
    clients."""
    for remark in remarks:
        words = remark.with_names(client_names) if isinstance(remark, ClientRemark) else remark
        _log.warning("%s: %s", name, words)


def _score_finally(
    run_state: RunState, world: World, method: WithOptions, plan: Plan, measures: Sequence[Measure]
) -> None:
    """After the last round, measure the final state and the best round. The results are added to
    ``run_state.final``."""
    round = run_state.round
    state = run_state.state
    # With validation samples, no test sample has been used before.
    validated = scored_split(world) != "test"
    sampled = run_state.scored is not None and run_state.scored.sizes is not None
    sample = plan.sample(last=True)
    # A run that ended early may have evaluated only a sample of clients in its last round.
    if validated or run_state.scored is None or (sampled and sample is None):
        wait_for_all_clients(world)
        run_state.scored = score(world, state, round, sample=sample)
    scored = run_state.scored
    if validated or sampled or run_state.records[-1][scored.names.score] is None:
        run_state.final |= final_record(world, state, scored=scored, round=round, measures=measures)
    if validated:
        run_state.final |= best_record(
            world, run_state.best, round=round, final=scored, sample=sample
        )
    run_state.final[scored.names.all_clients] = score_all_clients(
        world, method, state=state, stream=Stream(plan.seed, round, "score"), scored=scored
    )
    # The record of the last round lacks this if that round was not evaluated.
    if scored.partial and run_state.records[-1]["partial"] is None:
        run_state.final["final_partial"] = True
    if run_state.stopped:
        run_state.final["stopped"] = run_state.stopped
    check_samples(world)


def _scenario(plan: Plan, round: int) -> Stream:
    """The random stream for what happens to clients in a round (e.g. drop-outs and shifts of
    data)."""
    return Stream(plan.seed, round, "scenario")


def run_round(
    instrumented: InstrumentedWorld, method: WithOptions, state: State, round: int, plan: Plan
) -> State:
    """Select a cohort, place its clients without a cluster, and run the method.

    Args:
        instrumented: the world.
        method: the method, with the run's options.
        state: the method's state before the round.
        round: the round's number, from 1.
        plan: seed, and size and selection of cohorts.

    Returns:
        The method's state after the round.
    """
    stream = Stream(plan.seed, round, "method")
    reachable = instrumented.clients(round)
    cohort = method.options.select_cohort(reachable, round)
    if cohort is None:
        cohort_stream = Stream(plan.seed, round, "cohort")
        cohort = select_cohort(reachable, instrumented.total_clients, plan, cohort_stream)
    unassigned = cohort[state.assignment[cohort] == UNASSIGNED]
    if len(unassigned):
        state = method.place(instrumented, state, unassigned, stream.child("place"))
        # Training for the placement of newcomers does not count as the training of the round.
        instrumented.observations.training = None
    return method.round(instrumented, state, cohort, stream.child("round"))


@dataclass
class _Recorder:
    """Measures each completed round of a run, stores its record in the run folder, and calls
    ``on_round``."""

    instrumented: InstrumentedWorld
    name: str
    ground_truth: Callable[[], GroundTruth]
    folder: Folder | None
    on_round: OnRound | None
    clock: _Clock
    plan: Plan
    options: ActiveOptions
    measures: Sequence[Measure] = ()

    def __post_init__(self) -> None:
        self.split = scored_split(self.instrumented.world)
        self.task_type = task_type_of(self.instrumented.world)
        self.cluster_metrics = ClusterMetrics(self.instrumented.total_clients)

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore the clients' memory and the state of the cluster metrics from a checkpoint."""
        self.instrumented.recall(memory)
        self.cluster_metrics.recall(memory)

    def memory(self) -> dict[str, np.ndarray]:
        """The arrays of clients and cluster metrics that a checkpoint must store."""
        return self.instrumented.memory() | self.cluster_metrics.memory()

    def record(self, run_state: RunState, scoring: bool, keeping: bool) -> None:
        """Measure the round and store its record. ``scoring``: also evaluate clients. ``keeping``:
        also write a checkpoint."""
        training_seconds = self.clock.lap()
        round = run_state.round
        world = self.instrumented.world
        run_state.scored = self._score(run_state) if scoring else None
        check_samples(world)
        changed = self.cluster_metrics.changed(run_state.state.assignment)
        migrations = find_migrations(round, changed, run_state.state.assignment[changed])
        # Rounds without migrations are not stored, except round 0.
        migrations = migrations if migrations["clients"] or round == 0 else None
        record = self._measure(run_state, keeping)
        scoring_seconds = self.clock.lap()
        run_state.records.append(record)
        self._choose(run_state, record)
        run_state.stopped = stop_after_round(self.plan, run_state.records, self.options)
        run_state.migrations += [migrations] if migrations else []
        run_state.seconds = self.clock.total
        if self.folder:
            timing = {
                "round": round,
                "train": training_seconds,
                "score": scoring_seconds,
                "total": run_state.seconds,
            }
            self.folder.append(record, timing, migrations)
            # A run that stops early must have a checkpoint of its last round, which has its models.
            if keeping or run_state.stopped:
                self._keep(run_state, self.folder)
        reply = self.on_round(record) if self.on_round else None
        # The checkpoint of this round may be written already, without a stop by the callback. It is
        # written again.
        if not run_state.stopped:
            run_state.stopped = stop_by_reply(self.plan, round, reply, self.options.hides_replies)
            if run_state.stopped and self.folder:
                self._keep(run_state, self.folder)
        if is_interrupted():
            # Store the round that the signal ends, so that it need not run again.
            if self.folder and not keeping:
                self._keep(run_state, self.folder)
            raise_if_interrupted()

    def _keep(self, run_state: RunState, folder: Folder) -> None:
        """Write a checkpoint of the round that has just been recorded."""
        ledger = self.instrumented.ledger
        folder.keep(
            Checkpoint(
                round=run_state.round,
                state=run_state.state,
                down=ledger.down,
                up=ledger.up,
                measured_down=ledger.measured_down,
                measured_up=ledger.measured_up,
                seconds=run_state.seconds,
                memory=self.memory(),
                best=run_state.best,
                stopped=run_state.stopped,
            )
        )

    def _choose(self, run_state: RunState, record: Record) -> None:
        """Store the round as the best one if its validation score is the highest so far."""
        # Test samples must not select a round.
        if self.split == "test" or not is_complete(record):
            return
        measure = self.task_type.measure
        score = record[measure.name]
        if run_state.best and not measure.better(score, run_state.best.score):
            return
        state = run_state.state
        no_clients = np.zeros(0, np.int64)
        # If clients keep a part of their model, the best models need their memory.
        has_own_parts = evaluation_task(state, self.instrumented.spec, no_clients) is not None
        memory = self.instrumented.memory() if has_own_parts else {}
        run_state.best = BestRound(run_state.round, score, state, memory)

    def _score(self, run_state: RunState) -> EvaluationResults:
        """Evaluate the clients on the models after the present round."""
        round = run_state.round
        world = self.instrumented.world
        is_last = round == self.plan.rounds
        if is_last:
            wait_for_all_clients(world)
        return score(
            world,
            run_state.state,
            round,
            global_model=self.plan.global_model,
            split=self.split,
            sample=self.plan.sample(last=is_last),
        )

    def _measure(self, run_state: RunState, keeping: bool) -> Record:
        """The record of a round: all metrics as plain values."""
        round = run_state.round
        state = run_state.state
        truth = self.ground_truth()
        reachable = scored_clients(self.instrumented.world, round)
        observations = self.instrumented.observations
        clustering = self.cluster_metrics.record(
            round,
            state.assignment,
            reachable,
            truth=truth,
            detected=observations.detected,
            placed=observations.placed,
        )
        # Communities of peers have no persistent ids, so no client migrates between them.
        if isinstance(state, PeerState):
            clustering |= {"migrations": None, "migrations_correct": None}
        # The trust graph has N^2 entries, so only some records include it.
        keeps_trust = keeping or round == 1
        record: Record = {"round": round, "method": self.name}
        if self.split != "test":
            record["split"] = self.split
        record |= score_record(
            run_state.scored, state.clusters, truth.true_clusters, self.task_type
        )
        record |= measures_record(run_state.scored, state, round, self.measures)
        record |= clustering
        record |= peers_record(state, reachable, truth.true_clusters, keeps_trust)
        record |= training_record(observations, state, self.task_type)
        record |= self.options.record(state)
        record |= ledger_record(self.instrumented.ledger)
        return record


class _Clock:
    """Wall-clock time of a run in seconds. For a resumed run it continues from the earlier
    process."""

    def __init__(self, total: float) -> None:
        self.total = total
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call of ``lap``, which are added to ``total``."""
        now = time.perf_counter()
        seconds = now - self._last
        self._last = now
        self.total += seconds
        return seconds
