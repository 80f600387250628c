"""Every method on low-rank adapters of a small frozen network."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError
from fedkin.core.requirements import requirements_of
from fedkin.data.federated import FederatedData
from fedkin.methods import METHODS
from fedkin.models.model import Model
from tests.methods.test_conformance import CASES, make

CLIENTS = 12
PER_CLIENT = 20
TRUE_CLUSTERS = np.arange(CLIENTS) % 2
# Methods that train one detector for each class.
DETECTORS = {"athena"}


class Backbone(eqx.Module):
    """Two layers on one sample of three features."""

    first: eqx.nn.Linear
    classifier: eqx.nn.Linear

    def __call__(self, x: Any) -> Any:
        return self.classifier(jax.nn.tanh(self.first(x)))


@cache
def federation() -> FederatedData:
    """Two clusters with opposite labels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CLIENTS * PER_CLIENT, 3)).astype(np.float32)
    owner = np.repeat(np.arange(CLIENTS), PER_CLIENT)
    y = (x[:, 0] > 0).astype(np.int64) ^ (owner % 2)
    data = fk.data.from_arrays(x, y, clients=owner, name="opposite")
    return replace(data, true_clusters=TRUE_CLUSTERS)


@cache
def adapters(train: str = "AB") -> Model:
    keys = jax.random.split(jax.random.key(0))
    backbone = Backbone(
        first=eqx.nn.Linear(3, 4, key=keys[0]), classifier=eqx.nn.Linear(4, 2, key=keys[1])
    )
    return fk.lora(
        federation(), backbone, rank=1, targets=("first",), train=train, head="classifier"
    )


def run_of(method: Any, **options: Any) -> fk.Run:
    work = fk.LocalTraining(epochs=1, batch_size=10, lr=0.05)
    return fk.simulate(
        method, federation(), adapters(), rounds=2, cohort=CLIENTS, local=work, **options
    )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_adapters(name: str) -> None:
    method = make(name, **({"neighbours": 3} if "neighbours" in CASES[name].options else {}))
    if requirements_of(method).model.detectors:
        assert name in DETECTORS
        with pytest.raises(ConfigError, match="detector"):
            run_of(method)
        return
    run = run_of(method)
    assert run.models.shape[-1] == adapters().spec.parameters
    assert np.isfinite(run.models).all()
    # B starts at 0, and training has moved it.
    assert run.models[..., adapters().spec.factors[0].b].any()
    assert 0 <= run.summary()["final_accuracy"] <= 1


@pytest.mark.parametrize(
    "option",
    [
        fk.PersonalHead(head_epochs=1),
        fk.PersonalModel(),
        fk.FedAdam(),
        fk.RobustAggregation(),
        fk.ClientDP(noise_multiplier=0.1, clip=1.0, delta=1e-3),
    ],
    ids=lambda option: type(option).__name__,
)
def test_options_come_along(option: Any) -> None:
    run = run_of(fk.FedAvg(), options=[option])
    plain = run_of(fk.FedAvg())
    assert np.isfinite(run.models).all()
    # The option changes the model or what serves the clients.
    same_models = np.array_equal(run.models, plain.models)
    same_scores = run.clients["accuracy"].equals(plain.clients["accuracy"])
    assert not (same_models and same_scores)


def test_b_alone_is_smaller() -> None:
    both, only_b = adapters().spec, adapters("B").spec
    head = 2 * 4 + 2
    assert both.parameters - head == (3 + 4) * 1
    assert only_b.parameters - head == 4 * 1
