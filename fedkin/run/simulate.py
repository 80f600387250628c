"""One call from data, model and method to a finished run on this machine."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config import registry
from fedkin.config.plan import Plan
from fedkin.config.run import Config
from fedkin.config.schema import check_integer
from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.method import Method
from fedkin.core.world import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.run.lifecycle import Experiment, Methods, error_context, name_of, name_of_shift, plain_values
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.torch import wrap_module
from fedkin.simulation.workers import AnyModel, ModelWithWorkers
from fedkin.tracking.registry import make_trackers
from fedkin.tracking.tracker import Tracker

_log = logging.getLogger("fedkin")


def simulate(
    method: Method,
    data: FederatedData,
    model: AnyModel | Callable[..., Any],
    *,
    rounds: int,
    cohort: int,
    local: LocalTraining | None = None,
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
    track: Sequence[str | Tracker] = (),
) -> Run:
    """Run a method in the simulator, and others beside it on the same data, seeds and cohorts.

    Args:
        model: what is trained: ``fk.models.mclr(data)`` and the like, ``fk.as_model(...)``, ``fk.torch_model(...)``, or
            a PyTorch ``nn.Module`` as it is.
        rounds, cohort: T communication rounds with n clients each.
        local: what a client does with a model it trains; SGD over one epoch where nothing is said.
        scenario: who drops out, straggles, arrives late or leaves; nobody where nothing is said.
        shift: how data move from round to round, such as ``SwapAll()``; they stay where nothing is said.
        selection: ``uniform``, or ``round_robin`` (all clients take turns once, then uniform).
        target: accuracy for ``rounds_to_target`` in the summary.
        out: a folder that keeps the run while it goes on; with ``resume``, one that holds the same run already.
        on_round: called with the record of every round, of every method.
        track: ``tensorboard``, ``mlflow``, ``wandb``, or trackers of your own (``Tracker``).

    Raises:
        ConfigError: a cohort or a number of clusters larger than the number of clients; a method named twice; a
            number that is none; ``mu`` or ``partial`` in ``local`` (they belong to a method: ``FedProx(mu=...)``);
            ``resume``, or one of the named trackers, without ``out``.
        MissingExtra: the library of a tracker is not installed.
        StorageError, CheckpointError: about the folder.
        ModelError, MethodError, DataError: what does not fit together.
    """
    model = known(model)
    local, scenario = local or LocalTraining(), scenario or Population()
    if shift is not None and (isinstance(shift, type) or not isinstance(shift, Shift)):
        raise ConfigError(f"shift must be a way in which data move, such as SwapAll(), got {shift!r}")
    plan = Plan(rounds, cohort, seed, evaluate_every, checkpoint_every, selection)
    _refuse_settings(local, target, {"devices": devices, "clients_per_batch": clients_per_batch})
    if resume and not out:
        raise ConfigError("resume=True needs out=, the folder that holds the run")
    settings = {**dataclasses.asdict(plan), "target": target, "clients_per_batch": clients_per_batch}
    settings = {key: value.item() if isinstance(value, np.generic) else value for key, value in settings.items()}
    more = model.description() if isinstance(model, ModelWithWorkers) else {}
    description = {
        "python": {"note": "started from Python; simulate(..., out=, resume=True) goes on with it"},
        "data": {"name": data.name, "clients": data.clients},
        "model": {"name": model.name, "parameters": model.spec.parameters, **more},
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
    tracked = make_trackers(track, folder)
    return Experiment(data, model, plan, description, world, on_round, resume, tracked).run(methods, folder)


def execute(
    config: Config,
    *,
    out: Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    track: Sequence[str | Tracker] = (),
) -> Run:
    """Run what a configuration describes; everything is made and checked before anything is written.

    Raises as ``simulate`` does.
    """
    tracked = make_trackers(track, out)
    experiment, methods = from_config(config, resume, on_round)
    return dataclasses.replace(experiment, track=tracked).run(methods, out)


def from_config(
    config: Config, resume: bool, on_round: OnRound | None, data: FederatedData | None = None
) -> tuple[Experiment, Methods]:
    """Data, model and methods that a configuration describes, made; ``data`` where the caller has them already."""
    with error_context("data"):
        held = registry.make(registry.datasets(), config.data) if data is None else data
    with error_context("model"):
        model = known(registry.make(registry.models(), config.model, held))
    world = partial(
        *(SimulatedWorld, held, model, config.work),
        population=registry.make_population(config.scenario),
        shift=registry.make(registry.shifts(), config.shift) if config.shift else None,
        devices=config.run.devices,
        clients_per_batch=config.run.clients_per_batch,
    )
    methods = [(entry, registry.make(registry.methods(), entry)) for entry in (config.method, *config.against)]
    return Experiment(held, model, config.plan, config.description(), world, on_round, resume), methods


def known(model: Any) -> AnyModel:
    """What a world can train, made of what the user has. Raises ModelError for anything else."""
    found = wrap_module(model)
    if not isinstance(found, AnyModel):
        raise ModelError(
            "model must be one of fk.models, such as mclr(data), or be made by fk.as_model or fk.torch_model, or be a "
            f"PyTorch nn.Module; got {type(found).__name__}"
        )
    if isinstance(found, ModelWithWorkers):
        _tell_slow(found.name)
    return found


@cache
def _tell_slow(name: str) -> None:
    """Once in a process."""
    _log.warning("model %r is trained by PyTorch, which is slower (docs/benchmarks.md says how much)", name)


def _refuse_settings(local: LocalTraining, target: float | None, counts: dict[str, int | None]) -> None:
    """What a configuration's types would refuse, said in Python."""
    for name, count in counts.items():
        if count is not None:
            check_integer(name, count, 1)
    if target is not None and not (isinstance(target, (int, float, np.number)) and 0 < target <= 1):
        raise ConfigError(f"target must be a fraction above 0 and at most 1, got {target!r}")
    if local.mu or local.partial:
        raise ConfigError("local: mu and partial belong to the method, such as FedProx(mu=...) or FedGrouProx(mu=...)")
