"""Bytes of a round: a model down and a mean up for each node, and less than two bytes for each of its clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.methods.fedavg import FedAvg
from fedkin.methods.flexcfl import FlexCFL
from fedkin.run.loop import run
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import P, fake_node, fake_remote

NODES, ROUNDS = 2, 5
SIZES = (10, 100, 1000)


def traffic(method: Any, clients: int) -> dict[int, tuple[int, list[int]]]:
    """By round: bytes of its largest request, and of all its replies, in rounds that nobody scores."""
    transport = MemoryTransport()
    for node in range(NODES):
        transport.join(node, fake_node(f"fleet-{node}", range(node * clients, (node + 1) * clients)))
    total = NODES * clients
    world = fake_remote(transport, capacity=total, wait_for=total)
    received, seen = {}, [0]

    def on_round(record: dict[str, Any]) -> None:
        received[record["round"]] = [size for operation, size in transport.pulled[seen[0] :] if operation != "hello"]
        seen[0] = len(transport.pulled)

    run(world, method, Plan(ROUNDS, total, evaluate_every=100), on_round=on_round)
    sent = {
        r: [size for when, *_, operation, size in transport.pushed if when == r and operation != "hello"]
        for r in range(ROUNDS)
    }
    return {r: (max(sent[r]), received[r]) for r in range(2, ROUNDS)}


@pytest.mark.parametrize("method", [FedAvg(), FlexCFL(clusters=2, alpha=2)], ids=["fedavg", "flexcfl"])
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


@pytest.mark.parametrize("method", [FedAvg(), FlexCFL(clusters=2, alpha=2)], ids=["fedavg", "flexcfl"])
def test_the_models_sent_do_not_depend_on_the_number_of_clients(method: Any) -> None:
    held: list[list[int]] = []
    for clients in SIZES:
        transport = MemoryTransport()
        for node in range(NODES):
            transport.join(node, fake_node(f"fleet-{node}", range(node * clients, (node + 1) * clients)))
        total = NODES * clients
        run(fake_remote(transport, capacity=total, wait_for=total), method, Plan(ROUNDS, total, evaluate_every=100))
        requests = [request for station in transport.stations.values() for request in station.requests]
        held.append(
            [request.arrays["models"].nbytes for request in requests if request.header["operation"] == "train"][-NODES:]
        )
    assert held[0] == held[1] == held[2] and np.min(held[0]) >= 4 * P
