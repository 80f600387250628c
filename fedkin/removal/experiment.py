"""The experiment that a replay runs: the recorded run's settings, with silent clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedkin.config import user_measures
from fedkin.config.description import Description
from fedkin.config.loader import Sections
from fedkin.config.option_registry import made_options, own_sections, resolve_options
from fedkin.config.plan import RunSettings
from fedkin.config.run import SECTIONS as CONFIGURATION
from fedkin.config.run import make_population
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.core.requirements import Separation, requirements_of
from fedkin.data.table_transform import transform_of
from fedkin.options import SECTIONS
from fedkin.options.base import Option
from fedkin.removal.history import RecordedRun
from fedkin.removal.plan import ReplayPlan, evaluation_interval, obstacle_of, plan_replay
from fedkin.removal.replay import ReplayedMethod
from fedkin.run.callbacks import OnRound
from fedkin.run.experiment import Experiment
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.run_folder import Folder
from fedkin.run.run import Run
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.trained.ingredients import Ingredients


@dataclass(frozen=True)
class Recorded:
    """A finished run, with all that its replay needs.

    Attributes:
        run: the run.
        parts: its method, model and data.
        history: its cohorts, assignments and stored models.
        options: its options, by section.
    """

    run: Run
    parts: Ingredients
    history: RecordedRun
    options: dict[str, Option]

    @classmethod
    def of(cls, run: Run) -> Recorded:
        """Rebuild the parts of a run.

        Raises:
            ConfigError: a user's object cannot be rebuilt.
            CheckpointError: data or model differ from the run's.
        """
        parts = run.trained.parts
        if parts.method is None:
            raise ConfigError(
                f"the method {run.config.method_name!r} is a user's class, which the run's folder "
                "does not have; load the run with it: Run.load(path, model=..., data=..., "
                "method=...)"
            )
        known = {name: run.config.section(name) for name in run.config.sections if name != "python"}
        sections = Sections(known, known)
        own = own_sections(known, CONFIGURATION)
        entries = resolve_options(sections, (*SECTIONS, *own))
        plan = sections.validate("run", RunSettings)
        population = make_population(sections)
        history = RecordedRun(run, plan=plan, population=population)
        return cls(run, parts, history, options=made_options(sections, entries))

    @property
    def method(self) -> Method:
        """The method with its hyper-parameters."""
        assert self.parts.method is not None  # ``of`` has checked it
        return self.parts.method

    @property
    def separation(self) -> Separation:
        """How far a client's updates spread among the method's models."""
        return requirements_of(self.method).separation

    def plan(self, clients: list[int], why_all: str = "") -> ReplayPlan:
        """The plan of a replay without some clients.

        Args:
            clients: ids of the clients.
            why_all: why every round must be repeated; empty: as the method and the options say.
        """
        validated = self.parts.data.validation is not None
        obstacle = why_all or obstacle_of(self.history, self.options, validated)
        return plan_replay(
            self.history, np.array(sorted(clients)), self.separation, obstacle=obstacle
        )

    def description(self, clients: list[int]) -> Description:
        """The description of the run without some clients: the same, with silent clients."""
        config = self.run.config
        silent = sorted({*clients, *(config.scenario.get("silent") or [])})
        scenario = {**config.scenario, "silent": silent}
        return config.with_sections({"scenario": scenario}).with_run(against=[])

    def replay(
        self, plan: ReplayPlan, folder: Path, on_round: OnRound | None
    ) -> tuple[Run, ReplayedMethod]:
        """Run again by a plan.

        Args:
            plan: which clusters run again, and from which round on.
            folder: a new folder for the run.
            on_round: called with the record of every round.

        Raises:
            PartitionChangedError: the recorded models do not suffice.
        """
        method = ReplayedMethod(self.method, self.history, plan)
        description = self.description(list(plan.clients))
        experiment = self._experiment(plan, description, on_round, resume=plan.start > 0)
        methods = [(description.method, method)]
        experiment.check(methods)
        digests = experiment.worlds.digests()
        if plan.start:
            self._begin(folder, description, fingerprint(description, *digests), plan.start)
        run = experiment.side_by_side(methods, digests, folder, resume=plan.start > 0)
        return run, method

    def _experiment(
        self,
        plan: ReplayPlan,
        description: Description,
        on_round: OnRound | None,
        resume: bool,
    ) -> Experiment[SimulatedWorlds]:
        """The experiment of a replay, with clients that never reply."""
        settings = self.history.plan
        assert isinstance(settings, RunSettings)
        _, measures = user_measures.resolved(settings.measures or (), "run.measures")
        interval = evaluation_interval(plan, settings.evaluate_every, self.history.kept)
        worlds = SimulatedWorlds(
            self.parts.data,
            self.parts.model,
            local=self.parts.local,
            population=replace(
                self.history.population, silent=tuple(description.scenario["silent"])
            ),
            shift=self.parts.shift,
            compute=settings.compute,
        )
        return Experiment(
            worlds=worlds,
            plan=replace(settings, evaluate_every=interval, against=[]),
            description=description,
            on_round=on_round,
            resume=resume,
            options=self.options,
            measures=measures,
        )

    def _begin(self, folder: Path, description: Description, identity: str, round: int) -> None:
        """Write the recorded run up to a round into a new folder, from which a replay goes on."""
        stored = self.history.stored(round)
        begun = Folder.create(folder, description, identity, transform_of(self.parts.samples))
        migrations = {entry["round"]: entry for entry in self.run.migrations}
        for record in self.run.records[: round + 1]:
            number = record["round"]
            begun.append(record, {"round": number}, migrations.get(number))
        begun.keep(stored)
