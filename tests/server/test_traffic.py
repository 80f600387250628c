"""Bytes of a round: a model down and a mean up for each node, and less than two bytes for each of
its clients."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.flexcfl import FlexCFL
from fedkin.run.loop import run
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import P, fake_node, fake_remote
from tests.server.test_simulated_equals_deployed import FLEETS, LONE, deployed, plan

# Bytes of the messages of four rounds of a federation, down by round and operation, and up by
# operation: bytes of the protocol of operations that tasks replaced. A task costs nothing that its
# operation did not. Replies to an evaluation have become smaller since.
MESSAGES: dict[tuple[str, str], tuple[dict[str, int], dict[str, int]]] = {
    ("fedavg", "lone"): (
        {
            "0 hello": 1392,
            "0 evaluate": 4452,
            "1 train": 5940,
            "2 train": 5940,
            "3 train": 5940,
            "4 train": 5940,
            "4 evaluate": 4452,
        },
        {"hello": 1878, "evaluate": 3084, "train": 20280},
    ),
    ("fedavg", "fleets"): (
        {
            "0 hello": 464,
            "0 evaluate": 1502,
            "1 train": 1998,
            "2 train": 1998,
            "3 train": 1998,
            "4 train": 1998,
            "4 evaluate": 1502,
        },
        {"hello": 638, "evaluate": 1200, "train": 6680},
    ),
    ("ifca", "lone"): (
        {
            "0 hello": 1392,
            "1 train": 6426,
            "2 train": 6900,
            "3 train": 6426,
            "4 train": 6426,
            "4 evaluate": 4452,
        },
        {"hello": 1878, "train": 20268, "evaluate": 1542},
    ),
    ("ifca", "fleets"): (
        {
            "0 hello": 464,
            "1 train": 2154,
            "2 train": 2324,
            "3 train": 2154,
            "4 train": 2154,
            "4 evaluate": 1841,
        },
        {"hello": 638, "train": 9844, "evaluate": 600},
    ),
    ("flexcfl", "lone"): (
        {
            "0 hello": 1392,
            "0 train": 3960,
            "0 evaluate": 3284,
            "1 similarities": 2078,
            "1 shifted": 2792,
            "1 train": 6180,
            "2 train": 6180,
            "3 train": 6180,
            "4 train": 6180,
            "4 evaluate": 4692,
        },
        {"hello": 1878, "train": 25396, "evaluate": 3092, "similarities": 224, "shifted": 762},
    ),
    ("flexcfl", "fleets"): (
        {
            "0 hello": 464,
            "0 train": 1995,
            "0 evaluate": 1836,
            "1 similarities": 2077,
            "1 shifted": 1047,
            "1 train": 2420,
            "2 train": 2420,
            "3 train": 2420,
            "4 train": 2420,
            "4 evaluate": 1924,
        },
        {"hello": 638, "train": 10878, "evaluate": 1328, "similarities": 224, "shifted": 260},
    ),
}
NODES = 2
ROUNDS = 5
SIZES = (10, 100, 1000)


def traffic(method: Any, clients: int) -> dict[int, tuple[int, list[int]]]:
    """By round: bytes of its largest request, and of all its replies,
    in rounds without scores."""
    transport = MemoryTransport()
    for node in range(NODES):
        transport.join(
            node, fake_node(f"fleet-{node}", range(node * clients, (node + 1) * clients))
        )
    total = NODES * clients
    world = fake_remote(transport, capacity=total, wait_for=total)
    received = {}
    seen = [0]

    def on_round(record: dict[str, Any]) -> None:
        received[record["round"]] = [
            size for operation, size in transport.pulled[seen[0] :] if operation != "hello"
        ]
        seen[0] = len(transport.pulled)

    run(world, method, Plan(ROUNDS, total, evaluate_every=100), on_round=on_round)
    sent = {
        r: [
            size
            for when, *_, operation, size in transport.pushed
            if when == r and operation != "hello"
        ]
        for r in range(ROUNDS)
    }
    return {r: (max(sent[r]), received[r]) for r in range(2, ROUNDS)}


@pytest.mark.parametrize(("name", "groups"), MESSAGES)
def test_messages_have_the_same_size_as_before_tasks(name: str, groups: str) -> None:
    transport, state = deployed(
        name, {"lone": LONE, "fleets": FLEETS}[groups], plan(4, 6, evaluate_every=100)
    )
    down = Counter[str]()
    up = Counter[str]()
    for round, _, operation, size in transport.pushed:
        down[f"{round} {operation}"] += size
    for operation, size in transport.pulled:
        up[operation] += size
    assert (dict(down), dict(up)) == MESSAGES[name, groups]
    measured = state.records[-1]["messages_by_operation"]
    assert sum(each[0] for each in measured.values()) == down.total()
    assert sum(each[1] for each in measured.values()) == up.total()


@pytest.mark.parametrize(
    "method", [FedAvg(), FlexCFL(clusters=2, alpha=2)], ids=["fedavg", "flexcfl"]
)
def test_a_client_of_a_fleet_costs_less_than_two_bytes_a_round(method: Any) -> None:
    few, more, many = (traffic(method, clients) for clients in SIZES)
    for round in range(2, ROUNDS):
        assert len(few[round][1]) == len(many[round][1]) == NODES  # one request_round
        down = [each[round][0] for each in (few, more, many)]
        up = [max(each[round][1]) for each in (few, more, many)]
        for side in (down, up):
            assert side[1] - side[0] < 2 * (SIZES[1] - SIZES[0])
            assert side[2] - side[1] < 2 * (SIZES[2] - SIZES[1])
            assert side[0] < 2 * 4 * P + 1000  # a header, and no more than two models


@pytest.mark.parametrize(
    "method", [FedAvg(), FlexCFL(clusters=2, alpha=2)], ids=["fedavg", "flexcfl"]
)
def test_the_models_sent_do_not_depend_on_the_number_of_clients(method: Any) -> None:
    held: list[list[int]] = []
    for clients in SIZES:
        transport = MemoryTransport()
        for node in range(NODES):
            transport.join(
                node, fake_node(f"fleet-{node}", range(node * clients, (node + 1) * clients))
            )
        total = NODES * clients
        run(
            fake_remote(transport, capacity=total, wait_for=total),
            method,
            Plan(ROUNDS, total, evaluate_every=100),
        )
        requests = [
            request for station in transport.stations.values() for request in station.requests
        ]
        held.append(
            [
                request.arrays["models"].nbytes
                for request in requests
                if request.header["operation"] == "train"
            ][-NODES:]
        )
    assert held[0] == held[1] == held[2] and np.min(held[0]) >= 4 * P
