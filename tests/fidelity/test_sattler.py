"""Sattler's CFL against vectors: similarities, norms and the cut that the authors' code makes of
one update matrix.

A quadratic client whose target is 2 D sends the update D from a model of zeros after one epoch of
lr 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.randomness import Stream
from fedkin.measures.cosine import cosine
from fedkin.methods.sattler import SattlerCFL, SattlerState
from fedkin.simulation.fake_world import FakeWorld

Oracle = Callable[[str], dict[str, Any]]


@pytest.fixture
def case(oracle: Oracle) -> dict[str, Any]:
    return oracle("others")["sattler"]


def after(case: dict[str, Any], method: SattlerCFL, round: int = 21) -> SattlerState:
    """The state after one round with everybody."""
    updates = np.array(case["dW"])
    nothing = np.zeros(updates.shape[1])
    world = FakeWorld(
        (2 * updates).astype(np.float32), np.ones(len(updates), int), start=lambda _: nothing
    )
    state = method.init(world, Stream(0, 0, "init"))
    return method.round(world, state, np.arange(len(updates)), Stream(0, round, "method"))


def test_similarity(case: dict[str, Any]) -> None:
    updates = np.array(case["dW"])
    np.testing.assert_allclose(cosine(updates, updates), case["similarity"], atol=1e-9)


@pytest.mark.parametrize("example", [0, 1, 2])
def test_the_decision_to_cut(case: dict[str, Any], example: int) -> None:
    given = case["split_examples"][example]
    state = after(case, SattlerCFL(given["eps1"], given["eps2"]), given["round"])
    assert (len(state.models) == 2) == given["decision"]


def test_the_norms_that_decide(case: dict[str, Any]) -> None:
    """The cut comes and goes exactly at the published norms of the mean update and of the longest
    one."""
    mean = case["mean_update_norm"]
    longest = case["max_update_norm"]
    for eps1, eps2, cut in (
        (mean + 1e-4, longest - 1e-4, True),
        (mean - 1e-4, longest - 1e-4, False),
        (mean + 1e-4, longest + 1e-4, False),
    ):
        assert (len(after(case, SattlerCFL(eps1, eps2)).models) == 2) is cut


def test_the_two_parts_and_their_models(case: dict[str, Any]) -> None:
    state = after(case, SattlerCFL(eps1=3.0, eps2=1.0))
    assert [set(np.flatnonzero(state.assignment == k)) for k in (0, 1)] == [
        set(case["cluster2"]),
        set(case["cluster1"]),
    ]
    np.testing.assert_allclose(state.models, case["clusterwise_mean_dW"][::-1], atol=1e-5)
