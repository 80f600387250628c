"""One call from data, model and method to a finished run on this machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkin.data.federated import FederatedData
from fedkin.errors import ConfigError, FedkinError
from fedkin.experiment import choices
from fedkin.experiment.config import Config
from fedkin.experiment.folder import Folder, holds_run
from fedkin.experiment.identity import data_digest, fingerprint, model_digest
from fedkin.experiment.options import Values
from fedkin.experiment.results import AGAINST, Run
from fedkin.experiment.runner import OnRound, Plan, Track, check, run, whole_number
from fedkin.experiment.watch import Scene
from fedkin.method import Method
from fedkin.models import Model
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
from fedkin.simulator import SimulatedWorld
from fedkin.world import LocalWork

Description = dict[str, Any]
Digests = tuple[str, str]  # of the data, of the model


def simulate(
    method: Method,
    data: FederatedData,
    model: Model,
    *,
    rounds: int,
    cohort: int,
    local: LocalWork | None = None,
    seed: int = 0,
    scenario: Population | None = None,
    shift: Shift | None = None,
    against: Sequence[Method] = (),
    target: float | None = None,
    evaluate_every: int = 1,
    checkpoint_every: int = 10,
    selection: str = "uniform",
    devices: int | None = None,
    clients_per_batch: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Run:
    """Run a method in the simulator, and others beside it on the same data, seeds and cohorts.

    Args:
        rounds, cohort: T communication rounds with n clients each.
        local: what a client does with a model it trains; SGD over one epoch where nothing is said.
        scenario: who drops out, straggles, arrives late or leaves; nobody where nothing is said.
        shift: how data move from round to round, such as ``SwapAll()``; they stay where nothing is said.
        selection: ``uniform``, or ``round_robin`` (all clients take turns once, then uniform).
        target: accuracy for ``rounds_to_target`` in the summary.
        out: a folder that keeps the run while it goes on; with ``resume``, one that holds the same run already.
        on_round: called with the record of every round, of every method.

    Raises:
        ConfigError: a cohort or a number of clusters larger than the number of clients; a method named twice; a
            number that is none; ``mu`` or ``partial`` in ``local`` (they belong to a method: ``FedProx(mu=...)``);
            ``resume`` without ``out``.
        StorageError, CheckpointError: about the folder.
        ModelError, MethodError, DataError: what does not fit together.
    """
    local, scenario = local or LocalWork(), scenario or Population()
    if shift is not None and (isinstance(shift, type) or not isinstance(shift, Shift)):
        raise ConfigError(f"shift must be a way in which data move, such as SwapAll(), got {shift!r}")
    plan = Plan(rounds, cohort, seed, evaluate_every, checkpoint_every, selection)
    _refuse_settings(local, target, {"devices": devices, "clients_per_batch": clients_per_batch})
    if resume and not out:
        raise ConfigError("resume=True needs out=, the folder that holds the run")
    settings = {**dataclasses.asdict(plan), "target": target, "clients_per_batch": clients_per_batch}
    settings = {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}
    description = {
        "python": {"note": "started from Python; simulate(..., out=, resume=True) goes on with it"},
        "data": {"name": data.name, "clients": data.clients},
        "model": {"name": model.name, "parameters": model.spec.parameters},
        "local": plain_values(local),
        "scenario": plain_values(scenario),
        "run": {key: value for key, value in settings.items() if value is not None},
    }
    if shift is not None:
        description["shift"] = {"name": name_of_shift(shift), **plain_values(shift)}
    world = partial(
        *(SimulatedWorld, data, model, local),
        population=scenario,
        shift=shift,
        devices=devices,
        clients_per_batch=clients_per_batch,
    )
    methods = [({"name": name_of(m), **plain_values(m)}, m) for m in (method, *against)]
    folder = Path(out) if out else None
    return _Experiment(data, model, plan, description, world, on_round, resume).run(methods, folder)


def execute(config: Config, *, out: Path | None, resume: bool = False, on_round: OnRound | None = None) -> Run:
    """Run what a configuration describes; everything is made and checked before anything is written.

    Raises as ``simulate`` does.
    """
    with _stage("data"):
        data = choices.make(choices.datasets(), config.data)
    with _stage("model"):
        model = choices.make(choices.models(), config.model, data)
    world = partial(
        *(SimulatedWorld, data, model, config.work),
        population=choices.make_population(config.scenario),
        shift=choices.make(choices.shifts(), config.shift) if config.shift else None,
        devices=config.run.devices,
        clients_per_batch=config.run.clients_per_batch,
    )
    methods = [(entry, choices.make(choices.methods(), entry)) for entry in (config.method, *config.against)]
    return _Experiment(data, model, config.plan, config.description(), world, on_round, resume).run(methods, out)


def _refuse_settings(local: LocalWork, target: float | None, counts: dict[str, int | None]) -> None:
    """What a configuration's types would refuse, said in Python."""
    for name, count in counts.items():
        if count is not None:
            whole_number(name, count, 1)
    if target is not None and not (isinstance(target, (int, float, np.number)) and 0 < target <= 1):
        raise ConfigError(f"target must be a fraction above 0 and at most 1, got {target!r}")
    if local.mu or local.partial:
        raise ConfigError("local: mu and partial belong to the method, such as FedProx(mu=...) or FedGrouProx(mu=...)")


@contextmanager
def _stage(section: str) -> Iterator[None]:
    """Errors from here on come from a section of the configuration, and say so."""
    try:
        yield
    except FedkinError as error:
        raise type(error)(f"{section}: {error}") from error


@dataclass(frozen=True)
class _Experiment:
    """A method and those it is compared with, one after another in worlds of their own."""

    data: FederatedData
    model: Model
    plan: Plan
    description: Description
    world: Callable[[], SimulatedWorld]
    on_round: OnRound | None
    resume: bool

    def run(self, methods: Sequence[tuple[Values, Method]], out: Path | None) -> Run:
        """The first method's run, with the others' in its ``against``."""
        (entry, method), others = methods[0], methods[1:]
        self._refuse(methods)
        digests = (data_digest(self.data), model_digest(self.model, self.data))
        beside = [values for values, _ in others]
        main = self._one(entry, method, beside, digests, out, self.resume)
        runs = {}
        for values, other in others:
            inner = out / AGAINST / values["name"] if out else None
            begun = self.resume and inner is not None and holds_run(inner)
            runs[values["name"]] = self._one(values, other, None, digests, inner, begun)
        whole = dataclasses.replace(main, against=runs)
        for finished in (*runs.values(), whole):
            if finished.folder:
                finished.finish(finished.folder)
        return whole

    def _refuse(self, methods: Sequence[tuple[Values, Method]]) -> None:
        """What cannot be is refused before anything is written."""
        names = [values["name"] for values, _ in methods]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"against: method {name!r} is named twice; runs are told apart by their method's name"
                )
        for place, (_, method) in zip(
            ["method", *(f"run.against: {name}" for name in names[1:])], methods, strict=True
        ):
            check(self.plan, method, self.data.clients, place)
        world = self.world()
        with _stage("scenario"):  # whoever comes or goes, somebody is there in every round
            for round in (0, *world.population.arrivals, *world.population.departures):
                world.clients(min(round, self.plan.rounds))

    def _one(
        self,
        entry: Values,
        method: Method,
        beside: list[Values] | None,
        digests: Digests,
        out: Path | None,
        begun: bool,
    ) -> Run:
        """One method's run; ``beside`` lists the others, None where it is one of those itself."""
        settings = {**self.description["run"], "against": beside or []}
        described = {**self.description, "method": entry, "run": settings}
        world, folder, known_by = self.world(), None, fingerprint(described, *digests)
        if out is not None and begun:
            folder = Folder.reopen(out, described, known_by, warns=beside is not None)
        elif out is not None:
            folder = Folder.create(out, described, known_by)
        try:
            track = run(
                world,
                method,
                self.plan,
                name=entry["name"],
                scene=lambda: Scene(world.data.truth, world.moved),
                folder=folder,
                on_round=self.on_round,
            )
        except Exception:
            if folder and not begun:
                folder.abandon()
            raise
        clients = client_table(track, world.data)
        kept = {"folder": out, "fingerprint": known_by, "memory": track.memory}
        return Run(described, track.records, track.state, clients, track.seconds, **kept)


def client_table(track: Track, data: FederatedData) -> pd.DataFrame:
    """One row per scored client: its cluster, its samples, and how well its cluster's model does on them."""
    scored = track.scored
    assert scored is not None  # a run ends with scoring
    ids = scored.clients
    table = {
        "client": ids,
        "cluster": scored.cluster,
        "train_samples": data.train.sizes[ids],
        "test_samples": scored.scores.examples,
        "correct": scored.scores.correct,
        "accuracy": scored.client_accuracy,
        "loss": scored.scores.loss,
    }
    if data.client_names is not None:
        table["name"] = np.asarray(data.client_names, object)[ids]
    if data.truth is not None:
        table["truth"] = data.truth[ids]
    return pd.DataFrame(table)


def name_of(method: Method) -> str:
    """What configurations call a method; the lower-case name of the class for a user's own."""
    names = {kind: name for name, kind in choices.methods().items()}
    return names.get(type(method), type(method).__name__.lower())


def name_of_shift(shift: Shift) -> str:
    """What configurations call a shift; the lower-case name of the class for a user's own."""
    names = {kind: name for name, kind in choices.shifts().items()}
    return names.get(type(shift), type(shift).__name__.lower())


def plain_values(instance: Any) -> Values:
    """A dataclass's fields as TOML can hold them; whatever TOML has no word for stands as its ``repr``."""
    if not dataclasses.is_dataclass(instance):  # a user's own shift needs no more than a step
        return {"is": f"{type(instance).__module__}.{type(instance).__qualname__}"}
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}
    return {name: value for name, value in json.loads(json.dumps(values, default=repr)).items() if value is not None}
