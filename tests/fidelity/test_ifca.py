"""IFCA against worked vectors: the chosen models, the means, and the costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.methods.ifca import IFCA
from fedkin.models import mclr
from fedkin.simulation.engine import SimulatedWorld
from fedkin.simulation.fake_world import FakeWorld
from tests.simulation.small_federation import federation

Oracle = Callable[[str], dict[str, Any]]


class Told(FakeWorld):
    """Clients whose solution is their target, at once, and whose losses are given."""

    table: np.ndarray

    def __post_init__(self) -> None:
        super().__post_init__()
        scorer: Any = self._scorer
        scorer.losses = lambda models, clients: self.table[clients]


def told(solutions: Any, losses: Any, examples: Any = None) -> Told:
    target = np.array(solutions, np.float32)
    w = Told(
        target, np.ones(len(target), int) if examples is None else examples, LocalTraining(lr=1.0)
    )
    w.table = np.array(losses)
    return w


def after(w: Told, models: Any, round: int = 1, **options: Any) -> State:
    models = np.array(models, np.float32)
    state = State(models, np.full(w.total_clients, UNASSIGNED))
    method = IFCA(clusters=len(models), **options)
    return method.round(w, state, np.arange(w.total_clients), Stream(0, round))


def test_choice_and_simple_mean(oracle: Oracle) -> None:
    case = oracle("others")["ifca"]
    result = after(told(case["local_models"], case["losses"]), case["previous_cluster_models"])
    np.testing.assert_array_equal(result.assignment, case["assignment"])
    np.testing.assert_allclose(result.models, case["new_cluster_models_simple_mean"], atol=1e-6)


def test_an_empty_cluster(oracle: Oracle) -> None:
    case = oracle("others")["ifca"]
    empty = case["empty_cluster_case"]
    result = after(told(case["local_models"], empty["losses"]), case["previous_cluster_models"])
    np.testing.assert_array_equal(result.assignment, empty["assignment"])
    np.testing.assert_allclose(result.models, empty["new_cluster_models"], atol=1e-6)


def aggregated(
    case: dict[str, Any], name: str, round: int, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The model of a round in which all three clients of a case choose one cluster, and the
    vector's model."""
    updates = np.stack(
        [np.concatenate([np.ravel(layer) for layer in update]) for update in case["updates"]]
    )
    w = told(updates, np.zeros((3, 1)), np.array(case["nks"]).astype(int))
    model = after(w, np.zeros((1, 6)), round, **options).models[0]
    return model, np.concatenate([np.ravel(layer) for layer in case[name]])


WEIGHTINGS = [("simple", "simple_mean_intended"), ("examples", "fedavg_weighted")]


@pytest.mark.parametrize(("weighting", "name"), WEIGHTINGS)
def test_the_mean(oracle: Oracle, weighting: Any, name: str) -> None:
    """The code divides by the summed weights + 1e-5, hence the tolerance."""
    case = oracle("flexcfl")["intra_group_aggregation"]
    np.testing.assert_allclose(*aggregated(case, name, 1, weighting=weighting), atol=1e-5)


def test_the_first_client_as_coded(oracle: Oracle) -> None:
    """The vector's cohort was drawn in the order 0, 1, 2, as in the first turn of a round robin.
    Later rounds are drawn uniformly: client 0 is the first one in a third of them."""
    case = oracle("flexcfl")["intra_group_aggregation"]
    rounds = [
        aggregated(
            case, round=round, name="avg_as_coded_first_client_only", weighting="first_client"
        )
        for round in range(1, 31)
    ]
    equal = [np.allclose(model, expected, atol=1e-5) for model, expected in rounds]
    assert equal[0]
    assert 1 <= sum(equal[1:]) < 29


@pytest.mark.parametrize("setting", ["mnist_mclr_swap_all", "femnist_mlp_swap_part"])
def test_messages_of_a_run(oracle: Oracle, setting: str) -> None:
    """A round of K clients and m clusters costs K (m + 1) messages. The vectors count the messages
    of all T rounds."""
    case = oracle("others")["communication_fig6"][setting]
    data = federation((2,) * 24)
    w = SimulatedWorld(data, mclr(data))
    method = IFCA(clusters=case["m"])
    method.round(w, method.init(w, Stream(0)), np.arange(case["K"]), Stream(0, 1))
    assert case["T"] * sum(w.ledger.total()) == case["ifca"] * 4 * w.spec.parameters
