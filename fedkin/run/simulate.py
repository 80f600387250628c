"""One call from data, model and method to a finished run on this machine."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fedkin.config import own_measures
from fedkin.config.plan import Cohort, Compute, RunSettings, Scoring
from fedkin.config.run import RunConfig
from fedkin.config.schema import Values, error_context
from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.method import Method
from fedkin.core.progress import shown
from fedkin.core.storage import user_path
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.options.base import Option
from fedkin.options.with_options import by_section, simulated
from fedkin.run.argument_checks import check_list, check_made, check_settings
from fedkin.run.callbacks import Callback, OnRound, by_kind
from fedkin.run.description import description_of, label_names, method_name, plain_values
from fedkin.run.experiment import Experiment
from fedkin.run.folder.lock import folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.results import Run
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.worlds import Methods, named_methods
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
    cohort: int | Cohort,
    local: LocalTraining | None = None,
    options: Sequence[Option] = (),
    seed: int = 0,
    scenario: Population | None = None,
    shift: Shift | None = None,
    against: Sequence[Method] = (),
    scoring: Scoring | None = None,
    compute: Compute | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
) -> Run:
    """Run a method in the simulator, and others on the same data, seeds and cohorts.

    Args:
        method: the main method.
        data: all clients' samples.
        model: what is trained: ``fk.models.mclr(data)`` and the like, ``fk.as_model(...)``,
            ``fk.torch_model(...)``, or a PyTorch ``nn.Module`` as it is.
        rounds: T, communication rounds.
        cohort: n, clients per round, drawn uniformly; ``fk.Cohort(n, selection=...)`` draws them in
            another way.
        local: what a client does with a model it trains. By default SGD over one epoch.
        options: what goes with any method, of all methods of the run:

            * a server optimiser, which takes the mean updates of every cluster for gradients:
              ``FedAvgM(...)``, ``FedAdam(...)``, ``FedYogi(...)`` or ``FedAdagrad(...)``;
            * a part of the model that stays with each client: its last layer
              (``PersonalHead(...)``), or a model together with its cluster's
              (``PersonalModel(...)``);
            * ``ClientDP(...)``, privacy of whole clients: clips and noise of all sums that are
              released, with cohorts of ``fk.Cohort(n, selection="poisson")``;
            * ``RobustAggregation(...)``, a rule in place of the mean, within each cluster, against
              clients that attack;
            * ``Byzantine(...)``, clients that attack, to see what that does;
            * ``LateReplies(...)``, which says what replies that come after their round count for in
              the next ones;
            * ``SecretSums(...)``: a server that follows the protocol learns sums of updates only;
            * an option of your own (``fk.Option``).
        seed: of all randomness but that of ``data``, of privacy and of masks.
        scenario: clients that drop out, straggle, arrive late or leave. By default none.
        shift: how data shift from round to round, such as ``SwapAll()``. By default they do not.
        against: methods to run on the same data, after the main one.
        scoring: how often the run is scored and kept, what is measured, and what ends it early
            (``fk.Scoring``).
        compute: what computes the clients (``fk.Compute``). By default all devices of this process.
        out: a folder that keeps the run while it goes on. No figures are drawn: ``fk.draw(run)``
            does that.
        resume: go on with the same run, which ``out`` holds.
        callbacks: what is told of every round of every method. A function gets the round's record,
            and ends the run by returning ``fk.STOP``. A tracker logs the run: ``"tensorboard"``,
            ``"mlflow"``, ``"wandb"``, or one of your own (``Tracker``). ``fk.Progress(False)``
            hides the display that a terminal or a notebook gets.

    Raises:
        ConfigError: a cohort or a number of clusters larger than the number of clients; a method
            named twice; a number that is none; ``mu`` or ``partial`` in ``local`` (they belong to a
            method: ``FedProx(mu=...)``); ``resume``, or one of the named trackers, without ``out``.
        MissingExtra: the library of a tracker is not installed.
        StorageError, CheckpointError: about the folder.
        ModelError, MethodError, DataError: what does not fit together.
    """
    check_list("against", against, "fk.FedAvg()")
    check_list("options", options, "fk.FedAdam()")
    check_made((method, *against), data, model, shift)
    check_settings({"scoring": scoring, "compute": compute, "local": local, "scenario": scenario})
    model = trainable(model)
    local = local or LocalTraining()
    scenario = scenario or Population()
    scoring = scoring or Scoring()
    compute = compute or Compute()
    _refuse_settings(local, no_folder=resume and not out)
    sections = by_section(options)
    measure_entries, measures = own_measures.resolved(scoring.measures, "measures")
    settings = RunSettings.of(
        rounds=rounds,
        cohort=cohort,
        seed=seed,
        scoring=scoring,
        compute=compute,
        measures=measure_entries,
    )
    poisoned, shifts = simulated(sections, data, shift)
    folder = user_path(out) if out else None
    listeners = by_kind(callbacks, folder)
    with shown(listeners.progress, rounds, listeners.on_round) as on_round:
        experiment = Experiment(
            worlds=SimulatedWorlds(
                poisoned, model, local=local, population=scenario, shift=shifts, compute=compute
            ),
            plan=settings,
            description=description_of(
                data=data,
                model=model,
                local=local,
                scenario=scenario,
                shift=shift,
                run=settings,
                options=sections,
            ),
            on_round=on_round,
            resume=resume,
            trackers=listeners.trackers,
            options=sections,
            measures=measures,
        )
        return _run(experiment, [_named(each) for each in (method, *against)], folder)


def execute(
    config: RunConfig,
    *,
    out: Path | None,
    resume: bool = False,
    on_round: OnRound | None = None,
    track: Sequence[str | Tracker] = (),
) -> Run:
    """Run what a configuration describes; everything is made and checked before anything is
    written.

    Args:
        config: the configuration.
        out: a new folder that keeps the run, or one that holds it already, with ``resume``; None
            keeps nothing.
        resume: go on with the run in ``out``.
        on_round: called with the record of every round, of every method.
        track: names of trackers, or trackers.

    Raises as ``simulate`` does.
    """
    trackers = make_trackers(track, out)
    experiment, methods = from_config(config, resume, on_round)
    return _run(dataclasses.replace(experiment, trackers=trackers), methods, out)


def _named(method: Method) -> tuple[Values, Method]:
    """A method with its entry in the description."""
    return {"name": method_name(method), **plain_values(method)}, method


def _run(experiment: Experiment[SimulatedWorlds], methods: Methods, out: Path | None) -> Run:
    with folder_lock(out), interruptible():
        return experiment.run(methods, out)


def from_config(
    config: RunConfig,
    resume: bool = False,
    on_round: OnRound | None = None,
    data: FederatedData | None = None,
) -> tuple[Experiment[SimulatedWorlds], Methods]:
    """The experiment that a configuration describes, and its methods.

    Args:
        config: the configuration.
        resume: whether its folder holds it already.
        on_round: called with the record of every round, of every method.
        data: the configuration's data, where the caller has them already.
    """
    with error_context("data"):
        federated = config.data.make() if data is None else data
    with error_context("model"):
        model = trainable(config.model.make(federated))
    shift = config.shift.made if config.shift else None
    poisoned, shifts = simulated(config.options, federated, shift)
    description = config.description()
    experiment = Experiment(
        worlds=SimulatedWorlds(
            poisoned,
            model,
            local=config.work,
            population=config.scenario,
            shift=shifts,
            compute=config.run.compute,
        ),
        plan=config.run,
        description=description.with_sections({"data": description.data | label_names(federated)}),
        on_round=on_round,
        resume=resume,
        options=config.options,
        measures=config.measures,
    )
    return experiment, named_methods(config.methods)


def trainable(model: Any) -> AnyModel:
    """What a simulated world can train, made of what the user has. Raises ModelError for anything
    else."""
    wrapped = wrap_module(model)
    if not isinstance(wrapped, AnyModel):
        raise ModelError(
            "model must be one of fk.models, such as mclr(data), or be made by fk.as_model or "
            f"fk.torch_model, or be a PyTorch nn.Module; got {type(wrapped).__name__}"
        )
    if isinstance(wrapped, ModelWithWorkers) and getattr(wrapped, "engine", "torch") == "torch":
        _warn_of_pytorch(wrapped.name)
    return wrapped


@cache
def _warn_of_pytorch(name: str) -> None:
    """Once in a process."""
    _log.warning(
        "model %r is trained by PyTorch, which is slower (docs/benchmarks.md says how much)", name
    )


def _refuse_settings(local: LocalTraining, no_folder: bool) -> None:
    """Refuse (ConfigError) what a configuration has no word for."""
    if no_folder:
        raise ConfigError("resume=True needs out=, the folder that holds the run")
    if local.mu or local.partial:
        raise ConfigError(
            "local: mu and partial belong to the method, such as FedProx(mu=...) or "
            "FedGrouProx(mu=...)"
        )
