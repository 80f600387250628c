"""A deployed run equals the simulated one: every method with a server,
and the number of its calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from fedkin.config.deployment_checks import server_refusal
from fedkin.config.plan import Plan
from fedkin.config.registry import methods
from fedkin.models import mlp
from fedkin.models.model import Model
from fedkin.run.loop import RunState, run
from tests.mappings import merged
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, join_nodes, model_of, remote, simulated
from tests.simulation.numpy_detectors import linear

CLIENTS = 6
GROUP = {"clusters": 2, "alpha": 2}
# Sites have names, and clients of a simulation have numbers.
GROUPS = {
    f"{begin}{client}": "ab"[client % 2] for begin in ("", "site-") for client in range(CLIENTS)
}
LAST_LAYER = {"algorithm": "kmeans", "clusters": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    "given": {"groups": GROUPS},
    "fedgroup": GROUP,
    "fedgrouprox": GROUP,
    "flexcfl": GROUP,
    "sattler": {"eps1": 2.0, "eps2": 0.1, "first_split": 1, "min_size": 2},
    "flhc": {"cluster_round": 1, "clusters": 2},
    "ifca": {"clusters": 2},
    "ifca_mig": {"clusters": 2},
    "fesem": {"clusters": 2},
    "fesem_mig": {"clusters": 2},
    "fedsim": {"clusters": 2},
    "cflgp": {
        "clusters": 3
    },  # as many as there are: the last bits would decide which two clients a fourth parts
    "pfedme": {"strength": 1.0},
    "hierarchical": LAST_LAYER,
    "athena": {**LAST_LAYER, "layer": "last_layer"},
}
LONE = [[client] for client in range(CLIENTS)]
FLEETS = [[0, 1, 2], [3, 4, 5]]


@cache
def model_for(name: str) -> Model:
    """A model that the method trains."""
    special = {
        "athena": lambda: linear(6),
        **dict.fromkeys(("fedper", "fedrep", "fedccfa"), lambda: mlp(clustered_data(), 8)),
    }
    return special.get(name, model_of)()


def method(name: str, **options: Any) -> Any:
    return methods()[name](**merged(OPTIONS.get(name, {}), options))


def plan(rounds: int = 3, cohort: int = CLIENTS, **how: Any) -> Plan:
    return Plan(rounds, cohort, seed=2, **how)


def deployed(
    name: str, groups: list[list[int]] = LONE, how: Plan | None = None, **options: Any
) -> tuple[MemoryTransport, RunState]:
    model = model_for(name)
    transport = MemoryTransport()
    join_nodes(transport, groups, clustered_data(), model)
    return transport, run(
        remote(transport, clustered_data(), model), method(name, **options), how or plan()
    )


@cache
def alone(name: str) -> RunState:
    model = model_for(name)
    return run(simulated(clustered_data(), model, range(CLIENTS)), method(name), plan())


def alike(far: RunState, near: RunState) -> None:
    np.testing.assert_array_equal(far.state.assignment, near.state.assignment)
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)
    for mine, other in zip(far.records, near.records, strict=True):
        for name in (
            "accuracy",
            "partial",
            "cluster_sizes",
            "missing",
            "nonfinite",
            "accuracy_by_cluster",
        ):
            assert mine[name] == other[name], f"{name} of round {mine['round']}"
        assert mine["bytes_by_operation"] == other["bytes_by_operation"], (
            f"bytes of round {mine['round']}"
        )
        assert mine["messages_down"] > 0 < mine["messages_up"] and "messages_down" not in other
        for name in ("loss", "train_loss", "first_train_loss"):
            assert mine[name] == (other[name] and pytest.approx(other[name], rel=1e-4))


@pytest.mark.parametrize(
    "name", [name for name, kind in methods().items() if server_refusal(kind()) is None]
)
def test_a_deployed_method_is_the_simulated_one(name: str) -> None:
    _, far = deployed(name)
    alike(far, alone(name))


@pytest.mark.parametrize(
    ("name", "options"),
    [("fedgroup", {"newcomers": "latest", "start": "initial"}), ("flexcfl", {"mu": 0.5})],
    ids=str,
)
def test_options_as_printed_are_the_simulated_ones(name: str, options: dict[str, Any]) -> None:
    """Small cohorts, so that clients outside the cold start are placed in later rounds."""
    how = plan(rounds=4, cohort=3)
    _, far = deployed(name, how=how, **options)
    world = simulated(clustered_data(), model_for(name), range(CLIENTS))
    near = run(world, method(name, **options), how)
    alike(far, near)
    assert (near.state.assignment >= 0).all()


@pytest.mark.parametrize("name", ["fedavg", "fedper", "flexcfl", "ifca", "fedgroup"])
def test_fleets_equal_single_clients(name: str) -> None:
    _, far = deployed(name, FLEETS)
    alike(far, alone(name))


# --- pushes


RARELY = {"evaluate_every": 100}  # rounds 0 and the last are still scored


def pushes(name: str, how: Plan, groups: list[list[int]] = LONE, **options: Any) -> list[list[str]]:
    """The operations of the rounds from 1 on, the last, which is always scored, left out."""
    transport, _ = deployed(name, groups, how, **options)
    return [transport.operations(round) for round in range(1, how.rounds)]


@pytest.mark.parametrize("groups", [LONE, FLEETS], ids=["lone", "fleets"])
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "ifca"])
def test_a_round_is_one_call(name: str, groups: list[list[int]]) -> None:
    assert pushes(name, plan(4, 3, **RARELY), groups) == [["train"]] * 3


@pytest.mark.parametrize("name", ["fedavg", "ifca"])
def test_a_scored_round_has_one_call_more(name: str) -> None:
    assert pushes(name, plan(3, 3)) == [["train", "evaluate"]] * 2


def test_clients_with_their_own_heads_score_whole_models() -> None:
    assert pushes("fedper", plan(3, 3)) == [["personal", "evaluate_personal"]] * 2


@pytest.mark.parametrize("groups", [LONE, FLEETS], ids=["lone", "fleets"])
def test_a_round_of_flexcfl_is_one_call_once_all_are_assigned(groups: list[list[int]]) -> None:
    first, second, *others = pushes("flexcfl", plan(6, CLIENTS, **RARELY), groups)
    assert set(first) <= {"similarities", "shifted", "train"}
    assert [second, *others] == [["train"]] * 4


def test_clients_scored_in_every_round_need_no_call_for_shifts() -> None:
    _, *others = pushes("flexcfl", plan(5, 2))
    assert ["shifted" in operations for operations in others] == [False] * 3, others


def test_a_round_of_fedsim_is_one_call() -> None:
    """Gradient and update come in one message, where clusters need not be known first."""
    transport, _ = deployed("fedsim", how=plan(4, CLIENTS, **RARELY))
    assert [len(transport.operations(round)) for round in range(1, 4)] == [1, 1, 1]


def test_the_cold_start_of_flexcfl_is_two_calls() -> None:
    transport, _ = deployed("flexcfl", how=plan(2, CLIENTS, **RARELY))
    assert [operation for operation in transport.operations(0) if operation != "evaluate"] == [
        "train"
    ]
    assert transport.operations(1)[0] == "similarities"
