"""FL+HC's one clustering against labels of scikit-learn's agglomerative clustering for the same
updates.

A quadratic client whose target is 2 D sends the update D from a model of zeros after one epoch of
lr 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.methods.flhc import FLHC
from fedkin.simulation.fake_world import FakeWorld

Oracle = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("case", range(4))
@pytest.mark.parametrize("by", ["distance", "clusters"])
def test_clusters_of_the_updates(oracle: Oracle, case: int, by: str) -> None:
    vectors = oracle("misc")["flhc"]
    updates = np.array(vectors["updates"])
    expected = vectors["cases"][case]
    stop = (
        {"distance": expected["distance_threshold"]}
        if by == "distance"
        else {"clusters": expected["n_clusters"]}
    )
    method = FLHC(**stop, metric=expected["metric"], linkage=expected["linkage"], cluster_round=1)
    nothing = np.zeros(updates.shape[1])
    world = FakeWorld(
        (2 * updates).astype(np.float32), np.ones(len(updates), int), start=lambda _: nothing
    )
    state = method.round(
        world, method.init(world, Stream(0, 0, "init")), np.arange(1), Stream(0, 1, "method")
    )
    assert len(state.models) == expected["n_clusters"]
    pairs = set(zip(state.assignment.tolist(), expected["labels"], strict=True))
    # The same partition, whatever the clusters are called.
    assert len(pairs) == expected["n_clusters"]
    for k in range(len(state.models)):
        np.testing.assert_allclose(
            state.models[k], updates[state.assignment == k].mean(axis=0), atol=1e-6
        )
