"""A Cox model in JAX, in PyTorch and in PyTorch compiled by JAX: the same losses and updates, tied
deaths included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedkin as fk
from fedkin.core.randomness import Stream
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.data.ragged import Ragged
from fedkin.data.survival import risk_sets
from fedkin.measures.cox_loss import cox_loss
from fedkin.models.cox import ABSENT
from fedkin.simulation.workers import worker_factory

FEATURES = 3
PATIENTS = 8
ONE = np.zeros(1, np.int64)


class RiskSetModule(nn.Module):
    """A linear Cox model of risk sets, whose last feature is the weight of a patient."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = nn.Linear(FEATURES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The risk of each patient with the logarithm of its weight."""
        risk = self.risk(x[..., :-1]).squeeze(-1)
        weight = x[..., -1]
        present = weight > 0
        weighted = risk + torch.log(torch.where(present, weight, torch.ones_like(weight)))
        return torch.where(present, weighted, torch.full_like(weighted, ABSENT))


def patients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eight patients, of whom three and two die at the same time."""
    x = np.random.default_rng(0).normal(size=(PATIENTS, FEATURES))
    times = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 4.0])
    died = np.array([True, True, True, True, True, False, True, False])
    return x, times, died


def federation(ties: Any) -> FederatedData:
    """One client whose samples are its whole risk sets."""
    x, times, died = patients()
    samples, y = risk_sets(
        x=x,
        times=times,
        died=died,
        size=PATIENTS,
        draws=1,
        rng=np.random.default_rng(0),
        who="client 0",
        ties=ties,
    )
    own = Ragged.of([np.arange(len(y))])
    return FederatedData(name="survival", x=samples, y=y, classes=PATIENTS, train=own, test=own)


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_engines_agree_on_the_cox_loss(ties: Any) -> None:
    data = federation(ties)
    jax_model = fk.models.cox(data)
    vector = jax_model.initial(np.array([1, 0], np.uint32))
    modules = [
        fk.torch_model(RiskSetModule, name="cox", engine=engine) for engine in ("torch", "jax")
    ]
    models: list[Any] = [jax_model, *modules]

    x, times, died = patients()
    scores = x @ vector[:FEATURES].astype(np.float64)
    constant = np.log(data.x[np.arange(len(data.y)), data.y, -1]).mean()
    expected = cox_loss(scores, times, died, ties)
    assert expected is not None

    updates = []
    for model in models:
        scorer, trainer = worker_factory(model, ONE, 1, None)(data)
        work = LocalTraining(epochs=1, batch_size=len(data.y), lr=0.1)
        done = trainer.train(
            TrainCall(
                models=vector[None],
                clients=ONE,
                model_index=ONE,
                work=work,
                num_steps=np.ones(1, np.int64),
                stream=Stream(0, 1),
                gradient=True,
            )
        )
        updates.append(done.update[0])
        loss = scorer.losses(vector[None], ONE)
        assert float(np.ravel(loss)[0]) + constant == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(updates[1], updates[0], atol=1e-6)
    np.testing.assert_allclose(updates[2], updates[0], atol=1e-6)
