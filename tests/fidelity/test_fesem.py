"""FeSEM against worked vectors: the nearest centers, the new centers, the collapse, and the
costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.method import UNASSIGNED
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.fesem import FeSEM, FeSEMState
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.simulation.small_federation import federation

Oracle = Callable[[str], dict[str, Any]]


@pytest.fixture
def case(oracle: Oracle) -> dict[str, Any]:
    return oracle("others")["fesem"]


def after(centers: Any, local: Any) -> FeSEMState:
    """A round of clients that come to the given solutions, which they had before."""
    centers = np.array(centers, np.float32)
    local = np.array(local, np.float32)
    w = FakeWorld(local, np.arange(1, len(local) + 1), LocalTraining(lr=1.0))
    state = FeSEMState(centers, np.full(len(local), UNASSIGNED), local)
    return FeSEM(clusters=len(centers)).round(w, state, np.arange(len(local)), Stream(0, 1))


def test_the_vectors_distances_are_euclidean(case: dict[str, Any]) -> None:
    """Guards the vectors themselves: the assignment below is the argmin of the distances they
    print."""
    away = np.array(case["local"])[:, None] - np.array(case["centres"])
    np.testing.assert_allclose(np.sqrt(np.sum(away**2, axis=2)), case["l2"], rtol=1e-12)
    np.testing.assert_array_equal(np.argmin(case["l2"], axis=1), case["assignment"])


def test_assignment_and_new_centers(case: dict[str, Any]) -> None:
    result = after(case["centres"], case["local"])
    np.testing.assert_array_equal(result.assignment, case["assignment"])
    np.testing.assert_allclose(result.models, case["new_centres_simple_mean"], atol=1e-6)
    np.testing.assert_allclose(result.local, case["local"], atol=1e-6)


def test_the_collapse(case: dict[str, Any]) -> None:
    collapse = case["collapse_case"]
    result = after(collapse["centres"], case["local"])
    np.testing.assert_array_equal(result.assignment, collapse["assignment"])
    np.testing.assert_allclose(result.models[0], np.mean(case["local"], axis=0), atol=1e-6)
    np.testing.assert_array_equal(result.models[1:], np.array(collapse["centres"], np.float32)[1:])


@pytest.mark.parametrize("setting", ["mnist_mclr_swap_all", "femnist_mlp_swap_part"])
def test_messages_of_a_run(oracle: Oracle, setting: str) -> None:
    """A round of K clients costs 2 K messages, newcomers included. The vectors count the messages
    of all T rounds."""
    numbers = oracle("others")["communication_fig6"][setting]
    data = federation((2,) * 24)
    w = SimulatedWorld(data, mclr(data))
    method = FeSEM(clusters=numbers["m"])
    cohort = np.arange(numbers["K"])
    state = method.place(w, method.init(w, Stream(0)), cohort, Stream(0, 1))
    method.round(w, state, cohort, Stream(0, 1))
    assert numbers["T"] * sum(w.ledger.total()) == numbers["fesem"] * 4 * w.spec.parameters
