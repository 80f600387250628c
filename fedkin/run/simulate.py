"""``fk.simulate``: simulates a run on this machine from data, model and method."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fedkin.config import user_measures
from fedkin.config.key_examples import argument
from fedkin.config.plan import Cohort, Compute, RunSettings, Scoring
from fedkin.config.run import RunConfig
from fedkin.config.schema import Values, error_context
from fedkin.config.score_goals import check_goals
from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.method import Method
from fedkin.core.progress import shown
from fedkin.core.storage import user_path
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.options.base import Option
from fedkin.options.with_options import by_section, simulated
from fedkin.run.callbacks import Callback, OnRound, by_kind
from fedkin.run.experiment import Experiment
from fedkin.run.folder.lock import folder_checks, folder_lock
from fedkin.run.interruption import interruptible
from fedkin.run.run import Run
from fedkin.run.run_description import (
    description_of,
    label_names,
    method_name,
    pinned_backbone,
    plain_values,
)
from fedkin.run.simulate_arguments import check_list, check_made, check_settings
from fedkin.run.simulated_worlds import SimulatedWorlds
from fedkin.run.worlds import Methods, named_methods
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Shift
from fedkin.simulation.torch import wrap_module
from fedkin.simulation.workers import AnyModel, ModelWithWorkers
from fedkin.task_types.classification import task_type_of_samples
from fedkin.tracking.operated import operated, tracker_of
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
    """Simulate a run of a method, and of other methods on the same data, seeds and cohorts.

    Args:
        method: the main method.
        data: all clients' samples.
        model: the model: one of ``fk.models``, such as ``fk.models.mclr(data)``,
            ``fk.as_model(...)``, ``fk.torch_model(...)``, or a PyTorch ``nn.Module``.
        rounds: T, the number of communication rounds.
        cohort: n, the number of clients per round, drawn uniformly; or ``fk.Cohort(n,
            selection=...)`` for another selection.
        local: settings of local training. By default SGD over one epoch.
        options: options for all methods of the run:

            * a server optimiser, which uses the mean update of each cluster as a gradient:
              ``FedAvgM(...)``, ``FedAdam(...)``, ``FedYogi(...)`` or ``FedAdagrad(...)``;
            * a personal part of the model, which stays on each client: the last layer
              (``PersonalHead(...)``), batch normalisation (``PersonalBatchNorm()``), or a model in
              addition to the cluster's model (``PersonalModel(...)``);
            * noise in the data: wrong labels (``SymmetricFlips(...)``, ``PairFlips(...)``), or
              noisy features (``GaussianNoise(...)``);
            * ``ClientDP(...)``, client-level differential privacy: all released sums are clipped
              and noised, with cohorts of ``fk.Cohort(n, selection="poisson")``;
            * ``RobustAggregation(...)``, a robust rule instead of the mean within each cluster,
              against clients that attack;
            * ``Byzantine(...)``, simulated attacks by clients;
            * ``LateReplies(...)``, the use of late replies in later rounds;
            * ``FirstReplies(...)``, rounds that end with the first replies, or
              ``BufferedClusters(...)``, clusters that step when their buffers are full;
            * ``SecretSums(...)``, secure aggregation: a server that follows the protocol learns
              only sums of updates;
            * a user's option (``fk.Option``).
        seed: seed of all random numbers except those for ``data``, privacy noise and masks.
        scenario: clients that drop out, straggle, arrive late or leave. By default no client does.
        shift: shift of the data from round to round, such as ``SwapAll()``. By default there is no
            shift.
        against: methods to run on the same data after the main method.
        scoring: intervals of evaluation and checkpoints, metrics, and early stopping
            (``fk.Scoring``).
        compute: devices and engine (``fk.Compute``). By default all devices of this process.
        out: a folder in which the run is saved while it proceeds. Figures are drawn separately, by
            ``fk.draw(run)``.
        resume: whether to continue the same run from the folder ``out``.
        callbacks: called after every round of every method. A function gets the round's record, and
            ends the run if it returns ``fk.STOP``. A tracker logs the run: ``"tensorboard"``,
            ``"mlflow"``, ``"wandb"``, or a user's (``Tracker``). ``fk.Progress(False)`` hides the
            progress display of a terminal or a notebook.

    Raises:
        ConfigError: the cohort or the number of clusters is larger than the number of clients; a
            method is given twice; a value is not a number; ``local`` has ``mu`` or ``partial``
            (they belong to a method: ``FedProx(mu=...)``); ``resume`` or a named tracker is used
            without ``out``.
        MissingExtra: the library of a tracker is not installed.
        StorageError, CheckpointError: the folder cannot be written, or holds another run.
        ModelError, MethodError, DataError: the arguments are incompatible.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.IFCA(clusters=2), data, fk.models.mclr(data), rounds=2, cohort=4)
        >>> [record["round"] for record in run.records]
        [0, 1, 2]
        >>> run.assignment.shape
        (6,)
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
    measure_entries, measures = user_measures.resolved(scoring.measures, "measures")
    check_goals(scoring, task_type_of_samples(data), lambda key: f"scoring.{key}", argument)
    settings = RunSettings.of(rounds, cohort, seed, scoring=scoring, compute=compute)
    settings = dataclasses.replace(settings, measures=measure_entries or None)
    # Options may change the data or shift them during the run, such as attacks that poison them, or
    # noise. The description has the original ones.
    changed, shifts = simulated(sections, data, shift, settings.seed)
    folder = user_path(out) if out else None
    listeners = by_kind(callbacks, folder)
    with shown(listeners.progress, rounds, listeners.on_round) as on_round:
        experiment = Experiment(
            worlds=SimulatedWorlds(
                changed, model, local=local, population=scenario, shift=shifts, compute=compute
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
    """Run a configuration. All objects are made and checked before any file is written.

    Args:
        config: the configuration.
        out: a new folder for the run, or with ``resume`` the folder of the run. None: the run is
            not saved.
        resume: whether to continue the run in ``out``.
        on_round: called with the record of every round, of every method.
        track: names of trackers, or trackers.

    Raises the errors of ``simulate``.
    """
    metrics = tracker_of(config.metrics)
    trackers = make_trackers([*track, *metrics], out)
    experiment, methods = from_config(config, resume, on_round)
    experiment = dataclasses.replace(experiment, trackers=trackers)
    with operated(config.metrics, metrics, folder_checks(out)):
        return _run(experiment, methods, out)


def _named(method: Method) -> tuple[Values, Method]:
    """A method's entry in the run's description (name and settings), together with the method."""
    return {"name": method_name(method), **plain_values(method)}, method


def _run(experiment: Experiment[SimulatedWorlds], methods: Methods, out: Path | None) -> Run:
    """Run an experiment while its folder is locked. A signal ends it after the current round."""
    with folder_lock(out), interruptible():
        return experiment.run(methods, out)


def from_config(
    config: RunConfig,
    resume: bool = False,
    on_round: OnRound | None = None,
    data: FederatedData | None = None,
    seed: int | None = None,
) -> tuple[Experiment[SimulatedWorlds], Methods]:
    """The experiment that a configuration describes, and its methods.

    Args:
        config: the configuration.
        resume: whether the run's folder already holds the run.
        on_round: called with the record of every round, of every method.
        data: the configuration's data, if the caller has loaded them.
        seed: the run's seed, for data that each seed draws (``data.seed = "run"``); None: the seed
            of the configuration.
    """
    seed = config.run.seed if seed is None else seed
    with error_context("data"):
        federated = config.make_data(seed) if data is None else data
    with error_context("model"):
        model = trainable(config.model.make(federated))
    shift = config.shift.made if config.shift else None
    changed, shifts = simulated(config.options, federated, shift, seed)
    description = config.description()
    experiment = Experiment(
        worlds=SimulatedWorlds(
            changed,
            model,
            local=config.work,
            population=config.scenario,
            shift=shifts,
            compute=config.run.compute,
        ),
        plan=config.run,
        description=description.with_sections(
            {
                "data": description.data | label_names(federated),
                "model": description.model | pinned_backbone(model),
            }
        ),
        on_round=on_round,
        resume=resume,
        options=config.options,
        measures=config.measures,
    )
    return experiment, named_methods(config.methods)


def trainable(model: Any) -> AnyModel:
    """Convert a user's model to a model that a simulated world can train. Raises ModelError if that
    is not possible."""
    wrapped = wrap_module(model)
    if not isinstance(wrapped, AnyModel):
        raise ModelError(
            "model must be one of fk.models, such as mclr(data), a result of fk.as_model or "
            f"fk.torch_model, or a PyTorch nn.Module; got {type(wrapped).__name__}"
        )
    trained_by_torch = getattr(wrapped, "engine", "torch") == "torch"
    # PyTorch is as fast as JAX at a frozen transformer.
    if isinstance(wrapped, ModelWithWorkers) and trained_by_torch and not wrapped.spec.frozen:
        _warn_of_pytorch(wrapped.name)
    return wrapped


@cache
def _warn_of_pytorch(name: str) -> None:
    """Warn once per process that PyTorch models train more slowly."""
    _log.warning(
        "model %r is trained by PyTorch, which is slower than JAX (see docs/benchmarks.md)", name
    )


def _refuse_settings(local: LocalTraining, no_folder: bool) -> None:
    """Raise ConfigError for ``resume`` without a folder, and for local-training settings that
    belong to methods."""
    if no_folder:
        raise ConfigError("resume=True needs out=, the folder that holds the run")
    if local.mu or local.partial:
        raise ConfigError(
            "local: mu and partial belong to the method, such as FedProx(mu=...) or "
            "FedGrouProx(mu=...)"
        )
