"""From data and a model, or a configuration, to advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fedkin.analysis.advise.advice import Advice
from fedkin.analysis.advise.heterogeneity import differences
from fedkin.analysis.advise.pilot_runs import Plans, pilots
from fedkin.analysis.advise.split_half_stability import Say, check, how_many_kinds, of_clients
from fedkin.config import registry
from fedkin.config.run import RunConfig
from fedkin.config.schema import Values, error_context
from fedkin.core.errors import ConfigError
from fedkin.core.world import SGD, LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.run.description import plain_values
from fedkin.run.simulate import trainable
from fedkin.simulation.workers import AnyModel

ROUNDS, COHORT = 50, 20  # of the run that is advised, where nothing else is said
_IN_FILES = ("epochs", "batch_size", "lr", "optimizer", "momentum")


def advise(
    data: FederatedData,
    model: AnyModel | Callable[..., Any],
    local: LocalTraining | None = None,
    *,
    seed: int = 0,
    most: int = 12,
    private_labels: bool = False,
    trials: Plans | None = None,
    rounds: int = ROUNDS,
    cohort: int = COHORT,
    say: Say | None = None,
) -> Advice:
    """Whether these clients should be clustered, in how many clusters, with which method, and what it gains and costs.

    Short pilots are run in the simulator. Two questions decide:

    1. How many kinds of clients are there (``how_many_kinds``)? Every client's data are halved at random. A number of
       clusters holds where at least 75% of the clients of each cluster come back to it when the other half of their
       data is asked, and more than in random deals of the same data; the largest that holds is the number of kinds.
    2. What does clustering gain (``pilots``)? Clustered methods are tried against plain averaging, with as many
       clusters as there are kinds.

    The verdict is "do not cluster" where clients are of one kind: two clusters are tried all the same, and what they
    gain is told and changes nothing. With several kinds it is "cluster" where the 95% interval of some method's gain
    lies above zero, "do not cluster" where that of none does, and "cannot tell" where no gain is known, because nobody
    has test samples.

    Args:
        model: what clients train, as in ``simulate``.
        local: what a client does with a model that it trains; 10 epochs of SGD where nothing is said.
        most: the largest number of clusters to ask for.
        private_labels: leave out what would need the clients' label counts.
        trials: how long, with how many clients, from how many seeds methods are tried; 10 rounds of 20, 5 seeds.
        rounds, cohort: of the run that is advised.
        say: called with a line about what is being done.

    Raises:
        ConfigError: a number that is none, or local work that belongs to a method.
        DataError: too few clients with enough samples, or a single class.
        ModelError: a detector, or a model that does not fit the data.
    """
    model = trainable(model)
    local, tell = local or SGD(epochs=10, lr=0.03), say or (lambda _: None)
    _check_local(local)
    trials = trials or Plans(seed=seed)
    check(data, model)
    kinds = how_many_kinds(data, model, local, seed=seed, most=most, say=tell)
    tell("how far clients differ, and how far if the same data were dealt at random")
    apart = differences(data, model, seed=seed, private_labels=private_labels)
    run = {"rounds": rounds, "cohort": min(cohort, data.clients)}
    advice = Advice(data.name, model.name, data.clients, _section(local), run, apart, kinds, None)
    some = of_clients(data, kinds.used)
    if not some.test.sizes.any():  # a gain cannot be measured without test samples
        return advice
    return replace(advice, pilots=pilots(some, model, local, advice.tried_with, trials, tell))


def of_config(config: RunConfig, *, private_labels: bool = False, say: Say | None = None) -> Advice:
    """The same for a configuration: its data, model, local work, seed, rounds and cohort. Its method, scenario and
    shift are not looked at."""
    with error_context("data"):
        data = registry.make(registry.datasets(), config.data)
    with error_context("model"):
        model = registry.make(registry.models(), config.model, data)
    run = config.run
    return advise(
        data,
        model,
        config.work,
        seed=run.seed,
        private_labels=private_labels,
        rounds=run.rounds,
        cohort=run.cohort,
        say=say,
    )


def _check_local(local: LocalTraining) -> None:
    if local.mu or local.partial or local.positive is not None or not isinstance(local.epochs, (int, np.integer)):
        raise ConfigError("local: mu, partial and positive belong to a method, and epochs must be one number")


def _section(local: LocalTraining) -> Values:
    """Local work as a configuration has it; a number of mini-batches is no part of one."""
    return {name: value for name, value in plain_values(replace(local, steps=None)).items() if name in _IN_FILES}
