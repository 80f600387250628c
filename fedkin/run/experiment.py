"""Execution of runs in any world: checks, folder, rounds, trackers and results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Int

from fedkin.config.description import Description
from fedkin.config.plan import Plan
from fedkin.config.schema import Values
from fedkin.config.score_goals import check_goals
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.data.table_transform import TableTransform, transform_of
from fedkin.measures.measure import Measure
from fedkin.options.base import Option, RunEnd, RunFacts
from fedkin.options.with_options import ActiveOptions, check_options
from fedkin.run.callbacks import OnRound
from fedkin.run.folder.client_table import Columns
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.run_folder import Folder, against_folder, holds_run, read_records
from fedkin.run.loop import RunState, run
from fedkin.run.method_checks import check_labels, check_model, check_plan
from fedkin.run.metrics.accuracy import EvaluationResults, score_values
from fedkin.run.metrics.soft_membership import membership_columns
from fedkin.run.metrics.trust_graph import peer_columns
from fedkin.run.run import Run
from fedkin.run.trained.ingredients import Ingredients
from fedkin.run.worlds import ClientFacts, Digests, Methods, OpenWorld, WorldFactory, method_places
from fedkin.tracking.tracker import Tracker, dispatching

W = TypeVar("W", bound=WorldFactory)


@dataclass(frozen=True)
class Experiment(Generic[W]):
    """A main method and the methods compared with it. They run one after another, each in a
    separate world (a simulation or a federation of clients)."""

    worlds: W
    plan: Plan
    description: Description
    on_round: OnRound | None = None
    resume: bool = False
    trackers: Sequence[Tracker] = ()
    options: Mapping[str, Option] = field(
        default_factory=dict
    )  # options of all methods, by section
    measures: tuple[Measure, ...] = ()  # the user's measures, for all methods

    def run(self, methods: Methods, out: Path | None) -> Run:
        """Run all methods. Returns the first method's run, which has the other methods' runs in
        ``against``."""
        self.check(methods)
        return self.side_by_side(methods, self.worlds.digests(), out, self.resume)

    def with_seed(self, seed: int) -> Experiment[W]:
        """The same experiment with another seed, and with this seed only."""
        return dataclasses.replace(
            self,
            plan=dataclasses.replace(self.plan, seed=seed),
            description=self.description.with_run(seed=seed, seeds=None),
        )

    def check(self, methods: Methods) -> None:
        """Raise ConfigError if a method cannot run, before anything is written."""
        names = [entry["name"] for entry, _ in methods]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"against: method {name!r} is given twice, but runs are named after methods; "
                    "remove one"
                )
        check_goals(self.plan, self.worlds.task_type, lambda key: f"run.{key}")
        places = method_places(methods)
        for place, (_, method) in zip(places, methods, strict=True):
            check_plan(self.plan, method, self.worlds.clients, place)
            check_model(method, self.worlds.spec, place)
            check_labels(method, self.worlds.task_type, place)
        check_options([self._facts(method) for _, method in methods], places)
        self.worlds.check(methods, self.plan, self.options.values())

    def _facts(
        self,
        method: Method,
        folder: Path | None = None,
        true_clusters: Int[np.ndarray, "N"] | None = None,
    ) -> RunFacts:
        """The facts about a method's run (e.g. plan, model size, number of clients) that options
        such as differential privacy can read."""
        return RunFacts(
            method=method,
            plan=self.plan,
            spec=self.worlds.spec,
            task_type=self.worlds.task_type,
            clients=self.worlds.clients,
            options=self.options,
            trackers=self.trackers,
            measures=self.measures,
            folder=folder,
            true_clusters=true_clusters,
        )

    def side_by_side(
        self, methods: Methods, digests: Digests, out: Path | None, resume: bool
    ) -> Run:
        """Run one method after another, without the checks of ``run``.

        Args:
            methods: the methods, with the main method first.
            digests: digests of the data and the model, from ``worlds.digests()``.
            out: the folder of the run, if any.
            resume: whether ``out`` already holds the main method's run.
        """
        (main_entry, main_method), *others = methods
        main = self._run_one(
            main_entry,
            main_method,
            digests=digests,
            out=out,
            resume=resume,
            against=[entry for entry, _ in others],
        )
        for entry, method in others:
            inner = against_folder(out, entry["name"]) if out else None
            # The run may have stopped before this compared method began.
            begun = resume and inner is not None and holds_run(inner)
            main.against[entry["name"]] = self._run_one(
                entry, method, digests=digests, out=inner, resume=begun, against=None
            )
        # The main run comes last, because its summary marks the whole folder as finished.
        for finished in (*main.against.values(), main):
            if finished.folder:
                finished.write_results(finished.folder)
        return main

    def _run_one(
        self,
        entry: Values,
        method: Method,
        *,
        digests: Digests,
        out: Path | None,
        resume: bool,
        against: list[Values] | None,
    ) -> Run:
        """Run one method.

        Args:
            entry: the method's entry (name and settings) in the run's description.
            method: the method.
            digests: digests of the data and the model, from ``worlds.digests()``.
            out: the folder of the run, if any.
            resume: whether ``out`` already holds the run.
            against: entries (names and settings) of the compared methods; None if this is a
                compared method itself.
        """
        description = self.description.with_sections({"method": entry})
        description = description.with_run(against=against or [])
        # Each method has a separate world, so that no memory of clients passes between runs.
        opened = self.worlds.open(entry, method)
        identity = fingerprint(description, *digests)
        folder = _folder(
            out,
            description,
            identity,
            resume=resume,
            warns=against is not None,
            transform=_transform(opened),
        )
        options = ActiveOptions.of(self._facts(method, out, opened.world.true_clusters))
        with dispatching(
            trackers=self.trackers,
            description=description.sections,
            folder=out,
            earlier_records=partial(read_records, out) if out else tuple,
            on_round=self.on_round,
        ) as dispatch:
            try:
                state = run(
                    opened.world,
                    method,
                    self.plan,
                    options=options,
                    name=description.method_with_options,
                    ground_truth=opened.ground_truth,
                    folder=folder,
                    on_round=dispatch,
                    measures=self.measures,
                )
            except Exception:
                # A new run that failed before its first checkpoint leaves no folder behind.
                if folder and not resume:
                    folder.abandon()
                raise
            facts = opened.client_facts()
            clients = client_columns(state, facts)
            state.final |= options.closing(_end(state, clients, facts))
            finished = _finished_run(
                state, description, clients=clients, out=out, identity=identity, parts=opened.parts
            )
            dispatch.finish(finished.summary())
        return finished


def _finished_run(
    state: RunState,
    description: Description,
    clients: Columns,
    out: Path | None,
    identity: str,
    parts: Ingredients | None,
) -> Run:
    """The result of a run that has ended.

    Args:
        state: the state after the last round.
        description: the settings of the run.
        clients: the columns of the table of clients.
        out: the folder of the run, if any.
        identity: the fingerprint of the run.
        parts: the parts of the world from which the trained models can be used, if it has them.
    """
    return Run(
        config=description,
        records=state.records,
        state=state.state,
        client_columns=clients,
        seconds=state.seconds,
        folder=out,
        fingerprint=identity,
        memory=state.memory,
        migrations=state.migrations,
        best=state.best,
        final=state.final,
        made_of=parts,
    )


def _end(run_state: RunState, clients: Columns, facts: ClientFacts) -> RunEnd:
    """The facts about a finished run (e.g. its state and accuracies) that options such as a robust
    rule can read."""
    assert run_state.scored is not None  # a run ends with scoring
    return RunEnd(
        round=run_state.round,
        state=run_state.state,
        client_scores=run_state.scored.client_scores,
        clients=clients,
        task_type=run_state.scored.task_type,
        true_clusters=facts.true_clusters,
    )


def _transform(opened: OpenWorld) -> TableTransform | None:
    """The transform that has scaled the samples of a world; None without parts or transform."""
    return None if opened.parts is None else transform_of(opened.parts.samples)


def _folder(
    out: Path | None,
    description: Description,
    identity: str,
    resume: bool,
    warns: bool,
    transform: TableTransform | None,
) -> Folder | None:
    """Create or reopen the folder of a run; None if the run has no folder.

    ``warns``: whether to log a warning if the environment (e.g. a version) has changed since the
    run began. It is True only for the main method, so that the warning appears once.
    """
    if out is None:
        return None
    if resume:
        return Folder.reopen(out, description, identity, warns=warns)
    return Folder.create(out, description, identity, transform)


def _score_columns(scored: EvaluationResults) -> dict[str, np.ndarray]:
    """The scores of each evaluated client: all measures of the task type and, for classes, the
    number of correct samples."""
    values = score_values(scored.task_type, scored.scores)
    if scored.task_type.loss is None:
        return {"correct": scored.scores.correct, **values}
    return values


def client_columns(run_state: RunState, facts: ClientFacts) -> dict[str, np.ndarray]:
    """Columns with an entry for each evaluated client: cluster, numbers of samples, and scores of
    the client's model."""
    scored = run_state.scored
    assert scored is not None  # a run ends with scoring
    ids = scored.clients
    state = run_state.state
    table = {
        "client": ids,
        "cluster": scored.cluster,
        "train_samples": facts.samples[ids],
        "test_samples": scored.scores.examples,
    }
    table |= _score_columns(scored)
    table["loss"] = scored.scores.loss
    table |= peer_columns(state, ids, facts.true_clusters, state.models.shape[1])
    table |= membership_columns(state, ids)
    if facts.names is not None:
        table["name"] = np.array([facts.names[client] for client in ids.tolist()], object)
    if facts.true_clusters is not None:
        table["true_cluster"] = facts.true_clusters[ids]
    return table
