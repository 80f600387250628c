"""FedProx's perturbed gradient descent, w <- w - lr (g + mu (w - w_global)), in the compiled local
training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import as_model
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train

Oracle = Callable[[str], dict[str, Any]]


def test_a_proximal_step(oracle: Oracle) -> None:
    """The vector's step is the second of two; the first one leads from w_global to its w.

    Scores do not depend on the parameters, so the gradient is the penalty's alone: linear in w,
    with the value that leads to w at w_global, and the vector's gradient at w.
    """
    case = {name: np.array(value) for name, value in oracle("others")["fedprox_pgd"].items()}
    start = case["w_global"]
    w = case["w"]
    lr = float(case["lr"])
    first = (start - w) / lr
    slope = (case["grad"] - first) / (w - start)

    def penalty(p: Any) -> Any:
        away = p - start
        return jnp.sum(first * away + slope * away**2 / 2)

    model = as_model(
        (lambda key: jnp.asarray(start), lambda p, x, key: jnp.zeros((len(x), 2))), penalty=penalty
    )
    one = Ragged.of([np.arange(4)])
    data = FederatedData(
        name="constant",
        x=np.zeros((4, 1), np.float32),
        y=np.zeros(4, np.int64),
        classes=2,
        train=one,
        test=one,
    )
    work = LocalTraining(steps=2, batch_size=4, lr=lr, mu=float(case["mu"]))
    models = start[None].astype(np.float32)
    trained = train(
        SimulatedWorld(data, model, work), models, np.array([0]), np.array([0]), stream=Stream(0)
    )
    np.testing.assert_allclose(trained.update[0] + start, case["w_next"], atol=1e-5)


def test_shuffles_in_place_with_one_seed_give_the_powers_of_one_permutation() -> None:
    """``batch_data`` of FedProx (d2a4501) and GrouProx (f87aa89): the epochs differ, as the
    docstring of FedAvg says, and do not repeat one order."""
    samples = np.arange(50)
    epochs = []
    for _ in range(3):
        np.random.RandomState(100).shuffle(samples)
        epochs.append(samples.copy())
    s = epochs[0]
    assert np.array_equal(epochs[1], s[s]) and np.array_equal(epochs[2], s[s][s])
    assert not np.array_equal(epochs[0], epochs[1])
