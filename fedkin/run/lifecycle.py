"""A method and those it is compared with, on the same data, seeds and cohorts, one after another."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int

from fedkin.config import registry
from fedkin.config.plan import Plan
from fedkin.config.schema import Values
from fedkin.config.schema import error_context as error_context
from fedkin.core.errors import ConfigError
from fedkin.core.method import Method
from fedkin.data.federated import FederatedData
from fedkin.run.cluster_metrics import GroundTruth
from fedkin.run.fingerprint import data_digest, fingerprint, model_digest
from fedkin.run.loop import OnRound, RunState, check, check_kind, run
from fedkin.run.results import AGAINST, Run
from fedkin.run.run_folder import Folder, holds_run, read_records
from fedkin.run.trust_graph import peer_columns
from fedkin.scenarios.shift import Shift
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.workers import AnyModel
from fedkin.tracking.tracker import Tracker, dispatching

Description = dict[str, Any]
Digests = tuple[str, str]  # of the data, of the model
Methods = Sequence[tuple[Values, Method]]  # each with its entry in the description


@dataclass(frozen=True)
class Experiment:
    """A method and those it is compared with, one after another in worlds of their own."""

    data: FederatedData
    model: AnyModel
    plan: Plan
    description: Description
    world: Callable[[], SimulatedWorld]
    on_round: OnRound | None
    resume: bool
    track: Sequence[Tracker] = ()

    def run(self, methods: Methods, out: Path | None) -> Run:
        """The first method's run, with the others' in its ``against``."""
        self.refuse(methods)
        return self.side_by_side(methods, self.digests(), out, self.resume)

    def digests(self) -> Digests:
        """What its data and its model are known by."""
        return data_digest(self.data), model_digest(self.model, self.data)

    def of_seed(self, seed: int) -> Experiment:
        """The same from one seed."""
        settings = {key: value for key, value in self.description["run"].items() if key != "seeds"}
        description = {**self.description, "run": {**settings, "seed": seed}}
        return dataclasses.replace(self, plan=dataclasses.replace(self.plan, seed=seed), description=description)

    def side_by_side(self, methods: Methods, digests: Digests, out: Path | None, resume: bool) -> Run:
        """One method after another; nothing is refused any more."""
        (entry, method), others = methods[0], methods[1:]
        beside = [values for values, _ in others]
        main = self._one(entry, method, beside, digests, out, resume)
        runs = {}
        for values, other in others:
            inner = out / AGAINST / values["name"] if out else None
            begun = resume and inner is not None and holds_run(inner)
            runs[values["name"]] = self._one(values, other, None, digests, inner, begun)
        whole = dataclasses.replace(main, against=runs)
        for finished in (*runs.values(), whole):
            if finished.folder:
                finished.finish(finished.folder)
        return whole

    def refuse(self, methods: Methods) -> None:
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
            check_kind(method, self.model.spec, place)
            if getattr(method, "needs_true_clusters", False) and self.data.true_clusters is None:
                raise ConfigError(
                    f"{place}: {name_of(method)} must know the true clusters, and {self.data.name} has none; take "
                    "planted data (data.name=planted), or leave it out"
                )
        world = self.world()
        with error_context("scenario"):  # whoever comes or goes, somebody is there in every round
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
        with dispatching(self.track, described, out, partial(read_records, out), self.on_round) as told:
            try:
                track = run(
                    world,
                    method,
                    self.plan,
                    name=entry["name"],
                    scene=lambda: GroundTruth(world.data.true_clusters, world.moved),
                    folder=folder,
                    on_round=told,
                )
            except Exception:
                if folder and not begun:
                    folder.abandon()
                raise
            clients = client_table(track, world.data.train.sizes, world.data.client_names, world.data.true_clusters)
            kept = {"folder": out, "fingerprint": known_by, "memory": track.memory, "migrations": track.migrations}
            finished = Run(described, track.records, track.state, clients, track.seconds, **kept)
            told.finish(finished.summary())
        return finished


def client_table(
    track: RunState,
    samples: Int[np.ndarray, "N"],
    names: Sequence[str] | None = None,
    true_clusters: Int[np.ndarray, "N"] | None = None,
) -> pd.DataFrame:
    """One row per scored client: its cluster, its samples, and how well its cluster's model does on them."""
    scored = track.scored
    assert scored is not None  # a run ends with scoring
    ids = scored.clients
    table = {
        "client": ids,
        "cluster": scored.cluster,
        "train_samples": samples[ids],
        "test_samples": scored.scores.examples,
        "correct": scored.scores.correct,
        "accuracy": scored.client_accuracy,
        "loss": scored.scores.loss,
    }
    table |= peer_columns(track.state, ids, true_clusters, track.state.models.shape[1])
    if names is not None:
        table["name"] = np.asarray(names, object)[ids]
    if true_clusters is not None:
        table["true_cluster"] = true_clusters[ids]
    return pd.DataFrame(table)


def name_of(method: Method) -> str:
    """What configurations call a method; the lower-case name of the class for a user's own."""
    names = {kind: name for name, kind in registry.methods().items()}
    return names.get(type(method), type(method).__name__.lower())


def name_of_shift(shift: Shift) -> str:
    """What configurations call a shift; the lower-case name of the class for a user's own."""
    names = {kind: name for name, kind in registry.shifts().items()}
    return names.get(type(shift), type(shift).__name__.lower())


def plain_values(instance: Any) -> Values:
    """A dataclass's fields as TOML can hold them; whatever TOML has no word for stands as its ``repr``."""
    if not dataclasses.is_dataclass(instance):  # a user's own shift needs no more than a step
        return {"is": f"{type(instance).__module__}.{type(instance).__qualname__}"}
    values = {f.name: getattr(instance, f.name) for f in dataclasses.fields(instance)}
    return {name: value for name, value in json.loads(json.dumps(values, default=repr)).items() if value is not None}
