"""Functions that compute an advice, for data and a model or for a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.analysis.advise.advice import Advice
from fedkin.analysis.advise.heterogeneity import heterogeneity
from fedkin.analysis.advise.pilot_runs import PilotPlan, run_pilots
from fedkin.analysis.advise.split_half_stability import (
    Progress,
    check_supported,
    estimate_cluster_count,
)
from fedkin.analysis.clusters_or_levels import (
    ClustersOrLevels,
    clusters_or_levels,
    redrawn,
)
from fedkin.analysis.level_plan import LevelPlan
from fedkin.config.run import RunConfig
from fedkin.config.schema import Values, error_context
from fedkin.core.errors import ConfigError
from fedkin.core.training import SGD, LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.run.run_description import plain_values
from fedkin.run.simulate import trainable
from fedkin.simulation.workers import AnyModel, ModelWithWorkers

DRAWS = 5  # divisions of the data for the comparison of clusters with levels
TIMED_DRAWS = 3  # starts of the models, for data with a division by time
# Own models with more numbers take long to fit.
MOST_OUTPUTS = 3
MOST_PARAMETERS = 300
# Default rounds and cohort of the advised configuration.
ROUNDS = 50
COHORT = 20
# Options of local training that are set by a method, so the section [local] does not have them.
_NOT_IN_FILES = ("mu", "steps", "partial", "positive")


def advise(
    data: FederatedData,
    model: AnyModel | Callable[..., Any],
    local: LocalTraining | None = None,
    *,
    seed: int = 0,
    max_clusters: int = 12,
    private_labels: bool = False,
    pilots: PilotPlan | None = None,
    levels: LevelPlan | None = None,
    rounds: int = ROUNDS,
    cohort: int = COHORT,
    progress: Progress | None = None,
) -> Advice:
    """Advise whether to cluster clients, the number of clusters, the method, its gain and its cost.

    Short pilots are run in the simulator. Two questions decide the verdict:

    1. How many clusters are there (``estimate_cluster_count``)? Every client's data are split into
       random halves. Clusters are formed from one half, and clients are then assigned to them by
       the other half. A number of clusters is stable if in each cluster at least 75% of the clients
       are assigned to the same cluster again. This share must also be larger than in IID splits of
       the same data. The largest stable number is used.
    2. What does clustering gain (``run_pilots``)? Clustered methods with that number of clusters
       are compared with FedAvg.

    For linear models of numbers, and of two or three classes, another question decides: do clusters
    save more than an own intercept for each client (``clusters_or_levels``)? One cluster is among
    the candidates. The answer to the first question is then shown, but not used. For numbers there
    are then no pilots. Other models of numbers have pilots, whose gains are in per cent of FedAvg's
    error.

    Otherwise, if one cluster is found, the verdict is "do not cluster". Pilots with two clusters
    are still run, but their gain is only reported. With several clusters, the verdict is "cluster"
    if the 95% interval of some method's gain lies above zero, "do not cluster" if no interval does,
    and "cannot tell" if no gain is known because no client has test samples.

    Args:
        data: the clients' data.
        model: the model to train, as in ``simulate``.
        local: local training; default: 10 epochs of SGD.
        seed: seed of the pilots.
        max_clusters: the largest number of clusters to try.
        private_labels: skip measures that need the clients' label counts.
        pilots: rounds, clients per round and seeds of the pilots; default: 10 rounds of 20 clients,
            5 seeds.
        levels: how the comparison of clusters with own intercepts is trained; None for its
            defaults.
        rounds: number of rounds in the advised configuration.
        cohort: clients per round of the advised configuration.
        progress: called with a line of text about each step.

    Raises:
        ConfigError: a number is invalid, ``local`` has settings that belong to a method, or the
            data are forecasts without validation samples.
        DataError: too few clients have enough samples, or all samples have the same class.
        ModelError: the model is a detector, or does not fit the data.

    Examples:
        >>> import fedkin as fk
        >>> from fedkin.analysis.advise.pilot_runs import PilotPlan
        >>> data = fk.data.digits(clients=8)
        >>> pilots = PilotPlan(rounds=1, cohort=8, seeds=3)
        >>> advice = fk.advise(data, fk.models.mclr(data), pilots=pilots)
        >>> advice.verdict in ("cluster", "do not cluster", "cannot tell")
        True
    """
    model = trainable(model)
    local = local or SGD(epochs=10, lr=0.03)
    progress = progress or (lambda _: None)
    _check_local(local)
    plan = pilots or PilotPlan(seed=seed)
    check_supported(data, model)
    # Forecasts that cannot be divided are refused here, before any training.
    draws = levels_draws(data, seed) if answers_levels(data, model) else []
    count = estimate_cluster_count(
        data, model, local, seed=seed, max_clusters=max_clusters, progress=progress
    )
    progress("heterogeneity of the clients, compared with IID splits")
    measures = heterogeneity(data, model, seed=seed, private_labels=private_labels)
    run = {"rounds": rounds, "cohort": min(cohort, data.clients)}
    advice = Advice(
        data=data.name,
        model=model.name,
        clients=data.clients,
        local=_section(local),
        run=run,
        heterogeneity=measures,
        cluster_count=count,
        pilots=None,
    )
    advice = replace(advice, levels=_levels(draws, model, levels, seed=seed, progress=progress))
    if data.task_type.loss is not None and advice.levels is not None:
        return advice
    compared = data.select(count.clients)
    # Without test samples, a gain cannot be measured.
    if not compared.part(compared.scored_split).sizes.any():
        return advice
    table = run_pilots(
        data=compared,
        model=model,
        local=local,
        clusters=advice.pilot_clusters,
        plan=plan,
        progress=progress,
    )
    return replace(advice, pilots=table)


def _levels(
    draws: list[FederatedData],
    model: AnyModel,
    plan: LevelPlan | None,
    *,
    seed: int,
    progress: Progress,
) -> ClustersOrLevels | None:
    """The comparison of clusters with own intercepts; None without draws."""
    if not draws:
        return None
    progress("clusters or levels: shared, own intercepts, personal, local, clusters")
    return clusters_or_levels(draws, model, plan=plan, seed=seed, progress=progress)


def answers_levels(data: FederatedData, model: AnyModel) -> bool:
    """Whether clusters can be compared with own intercepts: linear models with few outputs, of data
    with test samples that are not survival times. A PyTorch module is left out: it trains too
    slowly for the many runs of this comparison."""
    if isinstance(model, ModelWithWorkers):
        return False
    spec = model.spec
    linear = spec.head_bias is not None and spec.head == slice(0, spec.parameters)
    few = data.classes <= MOST_OUTPUTS and spec.parameters <= MOST_PARAMETERS
    tested = data.part(data.scored_split).sizes.any()
    return (
        linear and few and not spec.detects and data.task_type.name != "survival" and bool(tested)
    )


def levels_draws(data: FederatedData, seed: int) -> list[FederatedData]:
    """The divisions of the data on which clusters and levels are compared.

    Data with three splits may be divided by time, so their division is kept. Other data get
    another division in each draw.
    """
    if data.validation is not None:
        return [data] * TIMED_DRAWS
    return [redrawn(data, seed + number) for number in range(DRAWS)]


def of_config(
    config: RunConfig, *, private_labels: bool = False, progress: Progress | None = None
) -> Advice:
    """Advise on a configuration's data, model and local training. Its method, scenario and shift
    are ignored.

    Args:
        config: the configuration.
        private_labels: skip measures that need the clients' label counts.
        progress: called with a line about each step.
    """
    with error_context("data"):
        data = config.make_data()
    with error_context("model"):
        model = config.model.make(data)
    run = config.run
    return advise(
        data,
        model,
        config.work,
        seed=run.seed,
        private_labels=private_labels,
        rounds=run.rounds,
        cohort=run.cohort,
        progress=progress,
    )


def _check_local(local: LocalTraining) -> None:
    """Raise ConfigError if local training has options that only a method sets, such as the proximal
    term ``mu``, or a number of epochs that is not fixed."""
    if (
        local.mu
        or local.partial
        or local.positive is not None
        or not isinstance(local.epochs, (int, np.integer))
    ):
        raise ConfigError(
            "local: advice needs one number of epochs, and neither mu, partial nor positive, which "
            f"belong to a method; got epochs = {local.epochs}, mu = {local.mu}, partial = "
            f"{local.partial}, positive = {local.positive}; remove or change these options"
        )


def _section(local: LocalTraining) -> Values:
    """The options of local training as the section [local] of a configuration."""
    names = [name for name in local.settings() if name not in _NOT_IN_FILES]
    return {name: value for name, value in plain_values(local).items() if name in names}
