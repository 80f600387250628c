"""Training with partial updates: a slice of the whole update, bit for bit, with the same clients
excluded."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from jaxtyping import Array

from fedkin.core.errors import MethodError
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.methods import Hierarchical
from fedkin.models import as_model, mlp
from fedkin.models.layers import Dense
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.jax.trainer import JaxTrainer
from fedkin.tasks.train import TrainingReply, train
from tests.simulation.small_federation import federation, models

DATA = federation(sizes=(12, 5, 30) * 4)
MODEL = mlp(DATA, hidden=4)
START = models(MODEL, 2)
EVERYONE = np.arange(12)
WHICH = EVERYONE % 2
P = MODEL.spec.parameters
# 4 x 3 weights and 3 biases.
HEAD = slice(P - 15, P)
BIAS = slice(P - 3, P)
PARTS = {"bias": BIAS, "head": HEAD, "middle": slice(5, 9), "all": slice(None)}
each_part = pytest.mark.parametrize("part", PARTS.values(), ids=PARTS.keys())


def world(population: Population | None = None, data: FederatedData = DATA) -> SimulatedWorld:
    return SimulatedWorld(
        data, MODEL, LocalTraining(epochs=2, batch_size=10, lr=0.05), population=population
    )


def trained(w: SimulatedWorld, **options: Any) -> TrainingReply:
    return train(w, START, EVERYONE, WHICH, stream=Stream(7, 3, "run/train"), **options)


def assert_is_part(found: TrainingReply, whole: TrainingReply, part: slice) -> None:
    np.testing.assert_array_equal(found.update, whole.update[:, part])
    assert found.update.any()
    for field in fields(TrainingReply):
        if field.name not in ("update", "gradient"):
            np.testing.assert_array_equal(
                getattr(found, field.name), getattr(whole, field.name), err_msg=field.name
            )


def test_the_last_layer_is_where_the_model_says() -> None:
    assert (MODEL.spec.head, MODEL.spec.head_bias) == (HEAD, BIAS)


@pytest.mark.parametrize("reduce", [False, True])
@each_part
def test_a_part_is_a_slice_of_the_whole(part: slice, reduce: bool) -> None:
    assert_is_part(
        trained(world(), part=part, reduce=reduce), trained(world(), reduce=reduce), part
    )


@pytest.mark.parametrize(
    "population", [Population(dropout=0.5), Population(stragglers=0.5)], ids=["drop", "straggle"]
)
def test_the_same_clients_are_missing(population: Population) -> None:
    found = trained(world(population), part=BIAS)
    assert 0 < found.arrived.sum() < len(EVERYONE)
    assert_is_part(found, trained(world(population)), BIAS)


def test_stragglers_send_a_slice_of_partial_training() -> None:
    work = LocalTraining(epochs=4, lr=0.05, partial=True)
    slow = Population(stragglers=1.0)
    assert_is_part(
        trained(world(slow), part=BIAS, work=work), trained(world(slow), work=work), BIAS
    )


def test_the_same_clients_are_broken() -> None:
    """Client 5 alone has features whose products leave float32."""
    x = DATA.x.copy()
    x[DATA.train[5]] = 3e38
    data = replace(DATA, x=x)
    found = trained(world(data=data), part=BIAS)
    np.testing.assert_array_equal(np.flatnonzero(found.nonfinite), [5])
    assert_is_part(found, trained(world(data=data)), BIAS)


@pytest.mark.parametrize("reduce", [False, True])
def test_nonfinite_numbers_in_other_layers_exclude_a_client_too(
    monkeypatch: pytest.MonkeyPatch, reduce: bool
) -> None:
    """A client with NaN in its first layer is excluded though its last layer is finite."""
    train = JaxTrainer.train

    def damaged(self: JaxTrainer, call: TrainCall) -> Any:
        updates = train(self, call)
        updates.update[call.clients == 4, 0] = np.nan
        return updates

    monkeypatch.setattr(JaxTrainer, "train", damaged)
    found = trained(world(), part=BIAS, reduce=reduce)
    whole = trained(world(), reduce=reduce)
    np.testing.assert_array_equal(np.flatnonzero(whole.nonfinite), [4])
    assert_is_part(found, whole, BIAS)


@pytest.mark.parametrize(("part", "numbers"), [(BIAS, 3), (HEAD, 15), (slice(5, 9), 4), (None, P)])
def test_whole_models_go_down_and_parts_come_back(part: slice | None, numbers: int) -> None:
    w = world()
    trained(w, part=part)
    assert (w.ledger.down, w.ledger.up) == ({"train": 12 * P * 4}, {"train": 12 * numbers * 4})


def test_only_responding_clients_send_a_slice() -> None:
    w = world(Population(dropout=0.5))
    answers = int(trained(w, part=BIAS).arrived.sum())
    assert w.ledger.total() == (12 * P * 4, answers * 3 * 4)


def test_a_client_that_chooses_its_model_gets_them_all() -> None:
    w = world()
    found = train(w, START, EVERYONE, part=BIAS, stream=Stream(7, 3, "run/train"))
    whole = train(world(), START, EVERYONE, stream=Stream(7, 3, "run/train"))
    assert_is_part(found, whole, BIAS)
    assert w.ledger.total() == (2 * 12 * P * 4, 12 * 3 * 4)


def test_of_a_gradient_the_same_part_comes_with_it() -> None:
    w = world()
    found = trained(w, part=HEAD, gradient=True)
    whole = trained(world(), gradient=True)
    assert found.gradient is not None and whole.gradient is not None
    np.testing.assert_array_equal(found.gradient, whole.gradient[:, HEAD])
    assert w.ledger.up == {"train": 2 * 12 * 15 * 4}


class Upside(eqx.Module):
    """Its last layer is declared first, so that the last leaves are those of a hidden one."""

    head: Dense
    body: Dense

    def __init__(self, key: Array) -> None:
        features = int(np.prod(DATA.x.shape[1:]))
        self.head = Dense(DATA.classes + 1, DATA.classes, key)
        self.body = Dense(features, DATA.classes + 1, key)

    def __call__(self, x: Array) -> Array:
        return self.head(self.body(x.reshape(len(x), -1)))


def test_a_last_layer_that_is_not_declared_last_is_not_found() -> None:
    """Rather than to take a hidden layer for it."""
    w = SimulatedWorld(DATA, as_model(Upside, batched=True))
    assert w.spec.head is None and w.spec.head_bias is None
    with pytest.raises(MethodError, match="last layer"):
        Hierarchical().init(w, Stream(0))
    assert SimulatedWorld(DATA, MODEL).spec.head_bias == BIAS
