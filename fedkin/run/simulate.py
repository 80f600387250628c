"""One call from data, model and method to a finished run on this machine."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fedkin.config import own_measures, registry
from fedkin.config.engine import check_engine, check_sums
from fedkin.config.option_registry import make_options
from fedkin.config.plan import Plan, Selection
from fedkin.config.run import RunConfig
from fedkin.config.schema import Values, check_integer, error_context
from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.method import Method
from fedkin.core.plain import plain
from fedkin.core.progress import shown
from fedkin.core.storage import user_path
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.measures.measure import Measure
from fedkin.options.base import Option
from fedkin.options.with_options import by_section, simulated
from fedkin.run.argument_checks import check_made
from fedkin.run.description import label_names, method_name, option_values, plain_values, shift_name
from fedkin.run.folder_lock import folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.lifecycle import Experiment, Methods
from fedkin.run.loop import OnRound
from fedkin.run.results import Run
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
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
    options: Sequence[Option] = (),
    seed: int = 0,
    scenario: Population | None = None,
    shift: Shift | None = None,
    against: Sequence[Method] = (),
    target: float | None = None,
    evaluate_every: int = 1,
    checkpoint_every: int = 10,
    selection: Selection = "uniform",
    global_model: bool = False,
    patience: int | None = None,
    until: float | int | None = None,
    evaluate_clients: int | None = None,
    sample_at_end: bool = False,
    devices: int | None = None,
    clients_per_batch: int | None = None,
    engine: str | None = None,
    actors: int | None = None,
    sum_by_actor: bool = False,
    out: str | Path | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
    progress: bool | None = None,
    track: Sequence[str | Tracker] = (),
    measures: Sequence[Measure | str] | Measure = (),
) -> Run:
    """Run a method in the simulator, and others beside it on the same data, seeds and cohorts.

    Args:
        method: the main method.
        data: all clients' samples.
        model: what is trained: ``fk.models.mclr(data)`` and the like, ``fk.as_model(...)``, ``fk.torch_model(...)``, or
            a PyTorch ``nn.Module`` as it is.
        rounds: T, communication rounds.
        cohort: n, clients per round.
        local: what a client does with a model it trains; by default SGD over one epoch.
        options: what goes with any method, of all methods of the run:

            * a server optimiser, which takes the mean updates of every cluster for gradients: ``FedAvgM(...)``,
              ``FedAdam(...)``, ``FedYogi(...)`` or ``FedAdagrad(...)``;
            * a part of the model that stays with each client: its last layer (``PersonalHead(...)``), or a model
              together with its cluster's (``PersonalModel(...)``);
            * ``ClientDP(...)``, privacy of whole clients: clips and noise of all sums that are released, with cohorts
              of ``selection="poisson"``;
            * ``RobustAggregation(...)``, a rule in place of the mean, within each cluster, against clients that attack;
            * ``Byzantine(...)``, clients that attack, to see what that does;
            * ``LateReplies(...)``, which says what replies that come after their round count for in the next ones;
            * ``SecretSums(...)``: a server that follows the protocol learns sums of updates only;
            * an option of your own (``fk.Option``).
        seed: of all randomness but that of ``data``, of privacy and of masks.
        scenario: clients that drop out, straggle, arrive late or leave; by default none.
        shift: how data shift from round to round, such as ``SwapAll()``; by default they do not.
        against: methods to run beside the main one.
        target: accuracy for ``rounds_to_target`` in the summary.
        evaluate_every: rounds from one evaluation to the next; 0: only after the last.
        checkpoint_every: rounds from one checkpoint to the next.
        selection: ``uniform``, ``round_robin`` (all clients take turns once, then uniform), or ``poisson`` (each
            client with probability cohort / N, whatever the others).
        global_model: score the mean of the cluster models, too (``run.metrics.accuracy.global_record`` says what is
            recorded).
        patience: stop after so many rounds without a better score; the data must have a validation split
            (``data.with_validation(0.1)``).
        until: stop at the first round whose score reaches it, where every reachable client has a cluster.
        evaluate_clients: how many are scored in a round, but for the last: a sample drawn by cluster, with the 95%
            interval of the accuracy that it shows; by default all.
        sample_at_end: whether the last round scores no more than these, either: then the final accuracy is an estimate.
        devices: how many to use; by default all.
        clients_per_batch: how many clients a device computes at once; by default 1 on a CPU, elsewhere the fastest.
        engine: ``ray``, or ``ray:`` and the address of a cluster: clients are computed by the actors of Ray, with the
            same bits; by default by this process.
        actors: how many; by default one on each machine, on one machine one on each core.
        sum_by_actor: whether each sends the sum of its clients' updates, not each update: less traffic, other last
            bits.
        out: a folder that keeps the run while it goes on. No figures are drawn: ``fk.draw(run)`` does that.
        resume: go on with the same run, which ``out`` holds.
        on_round: called with the record of every round, of every method; a run ends where it returns ``fk.STOP``.
        progress: whether to show bars (plain lines where there is no terminal); by default on a terminal and in a
            notebook.
        track: ``tensorboard``, ``mlflow``, ``wandb``, or trackers of your own (``Tracker``).
        measures: of your own (``fk.Measure(...)``, or ``"module:Measure"``), of the rounds that are scored.

    Raises:
        ConfigError: a cohort or a number of clusters larger than the number of clients; a method named twice; a
            number that is none; ``mu`` or ``partial`` in ``local`` (they belong to a method: ``FedProx(mu=...)``);
            ``resume``, or one of the named trackers, without ``out``.
        MissingExtra: the library of a tracker is not installed.
        StorageError, CheckpointError: about the folder.
        ModelError, MethodError, DataError: what does not fit together.
    """
    check_made((method, *against), data, model, shift)
    model, local, scenario = trainable(model), local or LocalTraining(), scenario or Population()
    ends = (patience, until, evaluate_clients, sample_at_end)
    plan = Plan(rounds, cohort, seed, evaluate_every, checkpoint_every, selection, global_model, *ends)
    target, devices, clients_per_batch, actors = plain([target, devices, clients_per_batch, actors])
    numbers = {"devices": devices, "clients_per_batch": clients_per_batch, "actors": actors}
    _refuse_settings(local, target, numbers, resume and not out)
    sections = by_section(options)
    entries, own = own_measures.resolved(measures, "measures")
    settings = _settings(plan, target, clients_per_batch, sum_by_actor, entries)
    description = _description(data, model, local, scenario, settings) | _shift_section(shift) | option_values(sections)
    compute = (devices, clients_per_batch, check_engine(engine), actors, check_sums(sum_by_actor, engine))
    poisoned, shifts = simulated(sections, data, shift)
    worlds = SimulatedWorlds(poisoned, model, local, scenario, shifts, *compute)
    methods = [({"name": method_name(m), **plain_values(m)}, m) for m in (method, *against)]
    folder = user_path(out) if out else None
    with shown(progress, rounds, on_round) as listener:
        trackers = make_trackers(track, folder)
        experiment = Experiment(worlds, plan, description, listener, resume, trackers, sections, own)
        return _run(experiment, methods, folder)


def execute(
    config: RunConfig,
    *,
    out: Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    track: Sequence[str | Tracker] = (),
) -> Run:
    """Run what a configuration describes; everything is made and checked before anything is written.

    Args:
        config: the configuration.
        out: a new folder that keeps the run, or one that holds it already, with ``resume``; None keeps nothing.
        resume: go on with the run in ``out``.
        on_round: called with the record of every round, of every method.
        track: names of trackers, or trackers.

    Raises as ``simulate`` does.
    """
    trackers = make_trackers(track, out)
    experiment, methods = from_config(config, resume, on_round)
    return _run(dataclasses.replace(experiment, trackers=trackers), methods, out)


def _run(experiment: Experiment[SimulatedWorlds], methods: Methods, out: Path | None) -> Run:
    with folder_lock(out), interruptible():
        return experiment.run(methods, out)


def from_config(
    config: RunConfig, resume: bool = False, on_round: OnRound | None = None, data: FederatedData | None = None
) -> tuple[Experiment[SimulatedWorlds], Methods]:
    """The experiment that a configuration describes, and its methods.

    Args:
        config: the configuration.
        resume: whether its folder holds it already.
        on_round: called with the record of every round, of every method.
        data: the configuration's data, where the caller has them already.
    """
    with error_context("data"):
        federated = registry.make(registry.datasets(), config.data) if data is None else data
    with error_context("model"):
        model = trainable(registry.make(registry.models(), config.model, federated))
    options = by_section(make_options(config.options))
    shift = registry.make(registry.shifts(), config.shift) if config.shift else None
    poisoned, shifts = simulated(options, federated, shift)
    worlds = SimulatedWorlds(
        poisoned,
        model,
        config.work,
        registry.make_population(config.scenario),
        shifts,
        config.run.devices,
        config.run.clients_per_batch,
        config.run.engine,
        config.run.actors,
        config.run.sum_by_actor,
    )
    methods = [(entry, registry.make(registry.methods(), entry)) for entry in (config.method, *config.against)]
    description = config.description()
    description["data"] = {**description["data"], **label_names(federated)}
    measures = own_measures.made(config.run.measures)
    experiment = Experiment(worlds, config.plan, description, on_round, resume, options=options, measures=measures)
    return experiment, methods


def trainable(model: Any) -> AnyModel:
    """What a simulated world can train, made of what the user has. Raises ModelError for anything else."""
    wrapped = wrap_module(model)
    if not isinstance(wrapped, AnyModel):
        raise ModelError(
            "model must be one of fk.models, such as mclr(data), or be made by fk.as_model or fk.torch_model, or be a "
            f"PyTorch nn.Module; got {type(wrapped).__name__}"
        )
    if isinstance(wrapped, ModelWithWorkers) and getattr(wrapped, "engine", "torch") == "torch":
        _warn_of_pytorch(wrapped.name)
    return wrapped


@cache
def _warn_of_pytorch(name: str) -> None:
    """Once in a process."""
    _log.warning("model %r is trained by PyTorch, which is slower (docs/benchmarks.md says how much)", name)


def _shift_section(shift: Shift | None) -> dict[str, Values]:
    return {} if shift is None else {"shift": {"name": shift_name(shift), **plain_values(shift)}}


def _own(model: AnyModel) -> Values:
    """What a model says of itself besides name and size."""
    return model.description() if isinstance(model, ModelWithWorkers) else {}


def _validation(data: FederatedData) -> dict[str, int]:
    """What a description says of a validation split."""
    return {} if data.validation is None else {"validation_samples": len(data.validation.rows)}


def _description(
    data: FederatedData, model: AnyModel, local: LocalTraining, scenario: Population, settings: dict[str, Any]
) -> dict[str, Any]:
    """What a configuration would say of a run that was started from Python."""
    return {
        "python": {"note": "started from Python; simulate(..., out=, resume=True) goes on with it"},
        "data": {"name": data.name, "clients": data.clients, **_validation(data), **label_names(data)},
        "model": {"name": model.name, "parameters": model.spec.parameters, **_own(model)},
        "local": {name: value for name, value in plain_values(local).items() if name in local.settings()},
        "scenario": plain_values(scenario),
        "run": {key: plain(value) for key, value in settings.items() if value is not None},
    }


def _settings(
    plan: Plan, target: float | None, clients_per_batch: int | None, sum_by_actor: bool, measures: list[Values]
) -> dict[str, Any]:
    """What a description says of [run]; options that are off are left out."""
    return {
        **dataclasses.asdict(plan),
        "target": target,
        "clients_per_batch": clients_per_batch,
        **({"sum_by_actor": True} if sum_by_actor else {}),
        **({"measures": measures} if measures else {}),
    }


def _refuse_settings(
    local: LocalTraining, target: float | None, counts: dict[str, int | None], no_folder: bool
) -> None:
    """What a configuration's types would refuse, said in Python."""
    if no_folder:
        raise ConfigError("resume=True needs out=, the folder that holds the run")
    for name, count in counts.items():
        if count is not None:
            check_integer(name, count, 1)
    if target is not None and not (isinstance(target, (int, float)) and 0 < target <= 1):
        raise ConfigError(f"target must be a fraction above 0 and at most 1, got {target!r}")
    if local.mu or local.partial:
        raise ConfigError("local: mu and partial belong to the method, such as FedProx(mu=...) or FedGrouProx(mu=...)")
