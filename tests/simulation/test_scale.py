"""A million clients: the cost of a round depends on its cohort only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import mclr
from fedkin.scenarios.population import Population
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.gradients import Gradients
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import train
from tests.simulation import numpy_reference

N = 1_000_000


@pytest.fixture(scope="module")
def data() -> FederatedData:
    """One sample each, in random order. Every thousandth client has test data, the others none."""
    rng = Stream(0).rng()
    x = rng.normal(size=(N, 2)).astype(np.float32)
    y = rng.integers(3, size=N)
    train = Ragged(rng.permutation(N), np.arange(N + 1))
    tested = np.arange(N) % 1000 == 0
    test = Ragged(np.flatnonzero(tested), np.concatenate([[0], np.cumsum(tested)]))
    return FederatedData(name="million", x=x, y=y, classes=3, train=train, test=test)


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which clients were looked at one by one, in Python."""
    seen: list[int] = []
    get_rows = Ragged.__getitem__
    draw = Stream.client

    def looking(self: Ragged, client: int) -> Any:
        seen.append(client)
        return get_rows(self, client)

    def drawing(self: Stream, client: int) -> Any:
        seen.append(client)
        return draw(self, client)

    monkeypatch.setattr(Ragged, "__getitem__", looking)
    monkeypatch.setattr(Stream, "client", drawing)
    return seen


def test_a_round_of_twenty(data: FederatedData, touched: list[int]) -> None:
    population = Population(dropout=0.01, stragglers=0.01, arrivals={5: 100_000})
    world = SimulatedWorld(
        data,
        mclr(data),
        LocalTraining(epochs=2, batch_size=10, lr=0.1, partial=True),
        population=population,
    )
    start = np.tile(world.initial(Stream(0)), (2, 1))
    assert len(world.clients(4)) == 900_000 and len(world.clients(5)) == N
    cohort = np.arange(20) * 50_000
    model_index = np.arange(20) % 2
    got = train(world, start, cohort, model_index, stream=Stream(0, 5))
    train(world, start, cohort, reduce=True, stream=Stream(0, 5))
    world.run(Losses(start), cohort)
    world.run(Gradients(start, model_index), cohort)
    scores = evaluate(world, start, cohort, model_index)
    assert set(touched) <= set(cohort.tolist())
    np.testing.assert_array_equal(scores.examples, 1)
    np.testing.assert_array_equal(got.examples, 1)
    row = int(np.flatnonzero(got.arrived)[-1])
    sample = data.train[int(cohort[row])]
    batches = [np.array([0]), np.array([0])]
    work = LocalTraining(lr=0.1)
    update, _, _ = numpy_reference.train(
        start=start[0],
        widths=(2, 3),
        x=data.x[sample],
        y=data.y[sample],
        batches=batches,
        per_epoch=1,
        work=work,
    )
    np.testing.assert_allclose(got.update[row], update, rtol=1e-4, atol=1e-6)
