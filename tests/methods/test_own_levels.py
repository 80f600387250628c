"""An own intercept, and an own linear model, for each client with any method's clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.options.personal.linear import PersonalLinear
from fedkin.options.personal.parts import FedBias
from tests.methods import test_conformance as conformance

CLIENTS = 12
EACH = 40


def schools(task: str = "regression", slopes: float = 0.0) -> fk.data.FederatedData:
    """Clients that differ in level (standard deviation 1) and, if wanted, in slope."""
    rng = np.random.default_rng(3)
    owners = np.repeat(np.arange(CLIENTS), EACH)
    x = rng.normal(size=(len(owners), 2))
    level = rng.normal(size=CLIENTS)[owners]
    slope = 1 + slopes * rng.normal(size=CLIENTS)[owners]
    score = slope * x[:, 0] - 0.5 * x[:, 1] + level
    if task == "count":
        y = rng.poisson(np.exp(0.4 * score))
    elif task == "classification":
        y = (rng.random(len(score)) < 1 / (1 + np.exp(-2 * score))).astype(np.int64)
    else:
        y = score + 0.5 * rng.normal(size=len(score))
    return fk.data.from_arrays(
        x.astype(np.float32), y, clients=owners, test=0.25, task=task, name="schools"
    )


def trained(data: fk.data.FederatedData, *options: Any, method: Any = None, **more: Any) -> fk.Run:
    return fk.simulate(
        method or fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=30,
        cohort=CLIENTS,
        local=fk.SGD(lr=0.1, batch_size=16),
        options=list(options),
        scoring=fk.Scoring(evaluate_every=30),
        callbacks=fk.Progress(False),
        **more,
    )


def loss_of(run: fk.Run) -> float:
    return run.records[-1]["loss"]


@pytest.mark.parametrize("task", ["regression", "count", "classification"])
def test_intercepts_save_what_levels_cost(task: str) -> None:
    """Both forms are close to each other, and far from the shared model."""
    data = schools(task)
    shared = loss_of(trained(data))
    bias = loss_of(trained(data, FedBias()))
    exact = loss_of(trained(data, PersonalLinear(fits="intercept")))
    assert bias < shared - 0.03
    assert exact == pytest.approx(bias, abs=0.03)


def test_slopes_need_an_own_model() -> None:
    data = schools(slopes=0.7)
    level = loss_of(trained(data, PersonalLinear(fits="intercept")))
    whole = trained(data, PersonalLinear())
    assert loss_of(whole) < 0.8 * level
    assert whole.summary()["own_fit_strength"] < 30


def test_clients_that_are_alike_keep_the_shared_model() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(CLIENTS * EACH, 2)).astype(np.float32)
    y = x[:, 0] + rng.normal(size=len(x))
    data = fk.data.from_arrays(
        x, y, clients=np.repeat(np.arange(CLIENTS), EACH), test=0.25, task="regression"
    )
    run = trained(data, PersonalLinear())
    assert run.summary()["own_fit_strength"] >= 100
    assert loss_of(run) == pytest.approx(loss_of(trained(data)), rel=0.02)


def test_the_method_is_left_alone() -> None:
    """Own fits change no model of a method that compares whole models, such as IFCA."""
    data = schools()
    plain = trained(data, method=fk.IFCA(clusters=2))
    own = trained(data, PersonalLinear(strength=5.0), method=fk.IFCA(clusters=2))
    np.testing.assert_array_equal(plain.models, own.models)
    assert loss_of(own) < loss_of(plain)


def test_a_client_keeps_its_own_fit() -> None:
    """The bias moves by the shrunk mean residual; weights stay those of the cluster."""
    data = schools()
    run = trained(data, PersonalLinear(strength=2.0, fits="intercept"))
    shared = run.models[0].astype(np.float64)
    rows = data.train[3]
    residual = data.y[rows] - (data.x[rows] @ shared[:2] + shared[2])
    shift = run.memory["clients/own_model"][3] - shared
    assert shift[2] == pytest.approx(residual.sum() / (len(rows) + 2.0), abs=1e-5)
    assert not shift[:2].any()


def test_validation_samples_choose_the_strength() -> None:
    """Levels of validation samples are opposite to those of training samples: no own fit."""
    owners = np.repeat(np.arange(CLIENTS), EACH)
    part = np.tile(np.arange(EACH) % 4, CLIENTS)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(owners), 1)).astype(np.float32)
    level = np.where(part == 2, -1.0, 1.0) * rng.normal(size=CLIENTS)[owners]
    split = np.select([part == 2, part == 3], [2, 1], 0)
    data = fk.data.from_arrays(x, x[:, 0] + level, clients=owners, test=split, task="regression")
    run = trained(data, PersonalLinear(strengths=(1.0, 1e6)))
    assert run.summary()["own_fit_strength"] == 1e6


def test_stratified_validation_samples_choose_too_weak_a_pull() -> None:
    """Clients are alike, so any own intercept costs. Stratified validation samples of a client have
    the mean label of its training samples, and a random draw does not."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(CLIENTS * EACH, 1)).astype(np.float32)
    owners = np.repeat(np.arange(CLIENTS), EACH)
    y = 0.1 * x[:, 0] + rng.normal(size=len(x))
    data = fk.data.from_arrays(x, y, clients=owners, test=0.25, task="regression")
    strengths = {
        stratified: trained(
            data.with_validation(0.25, seed=1, stratified=stratified),
            PersonalLinear(strengths=(1.0, 1000.0), fits="intercept"),
        ).summary()["own_fit_strength"]
        for stratified in (True, False)
    }
    assert strengths == {True: 1.0, False: 1000.0}


def test_models_that_do_not_fit_are_refused() -> None:
    data = schools()
    with pytest.raises(fk.ConfigError, match=r"linear model, such as model.name=mclr"):
        fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mlp(data, 4),
            rounds=1,
            cohort=4,
            options=[PersonalLinear()],
        )
    spec = fk.ModelSpec(parameters=5)
    for option in (FedBias(), PersonalLinear()):
        assert "Cox" in option.model_refusal(fk.FedAvg(), spec)


def test_an_intercept_of_a_network() -> None:
    data = schools()
    model = fk.models.mlp(data, 4)
    option = PersonalLinear(fits="intercept")
    run = fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=12, options=[option])
    plain = fk.simulate(fk.FedAvg(), data, model, rounds=1, cohort=12)
    assert loss_of(run) < loss_of(plain)


@pytest.mark.parametrize("name", ["fedavg", "ifca", "flexcfl", "fesem"])
def test_methods_take_own_fits(name: str) -> None:
    """The same clusters and models, in the conformance world of classes."""
    from tests.option_lists import with_options

    world = conformance.simulated(name)
    option = with_options(conformance.make(name), PersonalLinear(strength=3.0), world=world)
    plain = conformance.run(conformance.make(name), conformance.simulated(name))
    conformance.assert_same(plain, conformance.run(option, world))


def test_wrong_options() -> None:
    with pytest.raises(fk.MethodError, match="fits"):
        PersonalLinear(fits="slopes")
    with pytest.raises(fk.ConfigError, match="strengths must be numbers"):
        PersonalLinear(strengths=())
