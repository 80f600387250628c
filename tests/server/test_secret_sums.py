"""Secret sums with a server: real nodes equal the simulator, whoever is lost, and their refusals
are logged."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.plan import Plan
from fedkin.options.journal import Journal
from fedkin.options.secret.secret_record import secret_record
from fedkin.options.secret.secret_sums import ActiveSecretSums
from fedkin.options.with_options import ActiveOptions
from fedkin.run.loop import RunState, run
from fedkin.secret.client import Session
from fedkin.secret.signed_keys import Identity
from fedkin.security.certificates import Authority
from fedkin.server.message import RpcMessage
from fedkin.tasks import all_tasks
from fedkin.tasks.secret_exchange import SecretKeys, SecretShares
from tests.security.signers import certified
from tests.server.memory_transport import MemoryTransport, Station
from tests.server.small_federations import (
    clustered_data,
    join_nodes,
    model_of,
    node_of,
    remote,
    simulated,
)

CLIENTS = 6
ROUNDS = 2
LONE = [[client] for client in range(CLIENTS)]
SETTINGS = fk.SecretSums(examples_cap=20)


def federation(groups: list[list[int]] = LONE) -> MemoryTransport:
    transport = MemoryTransport()
    join_nodes(transport, groups, clustered_data(), model_of())
    return transport


def deployed(
    transport: MemoryTransport, method: Any = None, rounds: int = ROUNDS, **settings: Any
) -> tuple[RunState, Any]:
    """A run with secret sums, and its summary of them."""
    world = remote(transport, clustered_data(), model_of(), **settings)
    return with_secret_sums(world, method or fk.FedAvg(), SETTINGS, rounds)


def with_secret_sums(
    world: Any, method: Any, settings: fk.SecretSums, rounds: int
) -> tuple[RunState, dict[str, Any]]:
    """A run with secret sums, and its summary of them."""
    secret = ActiveSecretSums(settings, Journal())
    state = run(world, method, Plan(rounds, CLIENTS, seed=2), options=ActiveOptions((secret,)))
    clear = [entry["clear"] for entry in secret.journal.entries if "clear" in entry]
    return state, secret_record(secret.journal, clear)["secret"]


def alone(method: Any = None) -> RunState:
    world = simulated(clustered_data(), model_of(), range(CLIENTS))
    return with_secret_sums(world, method or fk.FedAvg(), SETTINGS, ROUNDS)[0]


@pytest.mark.parametrize("groups", [LONE, [[0, 1, 2], [3, 4, 5]]])
@pytest.mark.parametrize("method", [fk.FedAvg(), fk.APFL()])
def test_real_nodes_equal_the_simulator(method: Any, groups: list[list[int]]) -> None:
    far, said = deployed(federation(groups), method)
    near = alone(method)
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)
    assert said["answered"] == CLIENTS * ROUNDS and not said["lost"]
    assert far.records[-1]["bytes_by_operation"] == near.records[-1]["bytes_by_operation"]


def test_messages_of_nodes_are_masked_and_as_long_as_a_model() -> None:
    transport = federation()
    deployed(transport, rounds=1)
    sizes = {
        name: [size for operation, size in transport.pulled if operation == name]
        for name in ("secret_train", "train")
    }
    numbers = model_of().spec.parameters + 4
    assert len(sizes["secret_train"]) == CLIENTS and not sizes["train"]
    # A header, and no more.
    assert all(4 * numbers < size < 4 * numbers + 400 for size in sizes["secret_train"])


def leaves_before(transport: MemoryTransport, operation: str, node: int) -> None:
    """Let a node disconnect as it gets a request for an operation."""
    handle: Callable[[RpcMessage], RpcMessage] = transport.stations[node].handle

    def leaving(request: RpcMessage) -> RpcMessage:
        if request.header["operation"] == operation:
            raise RuntimeError("killed")
        return handle(request)

    transport.stations[node] = Station(leaving, since=transport.stations[node].since)


@pytest.mark.parametrize(
    "operation", ["secret_keys", "secret_shares", "secret_train", "secret_reveal"]
)
def test_a_node_that_is_lost_between_messages_is_left_out_and_no_more(operation: str) -> None:
    transport = federation()
    leaves_before(transport, operation, 98)  # of client 2
    _, said = deployed(transport, rounds=1)
    counted = CLIENTS - (operation != "secret_reveal")
    assert said == {
        "sums": 1,
        "answered": counted,
        "clipped": 0,
        "unusable": 0,
        "lost": 0,
        "clear": [],
    }


def test_a_reply_that_was_lost_is_sent_again_and_masks_nothing_twice() -> None:
    transport = federation()
    for station in transport.stations.values():
        station.loses = 1
    far, said = deployed(transport)
    np.testing.assert_allclose(far.state.models, alone().state.models, rtol=1e-4, atol=1e-6)
    assert said["answered"] == CLIENTS * ROUNDS


def changed(
    transport: MemoryTransport, operation: str, change: Callable[[dict[str, np.ndarray]], None]
) -> None:
    """A server that changes its messages to all nodes in an operation."""
    for station in transport.stations.values():
        handle = station.handle

        def hostile(request: RpcMessage, handle: Any = handle) -> RpcMessage:
            if request.header["operation"] == operation:
                change(request.arrays)
            return handle(request)

        station.handle = hostile


def _both_shares(arrays: dict[str, np.ndarray]) -> None:
    arrays["wanted"][:, 0] = 3


def _other_share(arrays: dict[str, np.ndarray]) -> None:
    arrays["sealed"][:, [0, 1]] = arrays["sealed"][:, [1, 0]]


def _few_partners(arrays: dict[str, np.ndarray]) -> None:
    arrays["partners"][:, 2:] = False


@pytest.mark.parametrize(
    ("operation", "change", "words"),
    [
        ("secret_reveal", _both_shares, "both shares of one client"),
        ("secret_reveal", _other_share, "not encrypted for this client in this round"),
        ("secret_train", _few_partners, "clients are left|does not include this client"),
    ],
)
def test_nodes_refuse_requests_that_would_reveal_them_and_the_round_goes_on(
    operation: str, change: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    transport = federation()
    changed(transport, operation, change)
    with caplog.at_level(logging.WARNING, "fedkin"):
        _, said = deployed(transport, rounds=1)
    assert said["sums"] == 0 and said["lost"] == 1
    assert re.search(words, caplog.text) and "and keeps its model" in caplog.text


@pytest.mark.parametrize("lies", [False, True])
def test_nodes_forget_the_secrets_of_a_lost_sum_with_their_next_message(lies: bool) -> None:
    """Which is the request for their scores."""
    transport = MemoryTransport()
    nodes = []
    for client in range(CLIENTS):
        nodes.append(node_of(f"site-{client}", [client], clustered_data(), model_of()))
        transport.join(100 - client, nodes[-1])
    if lies:
        changed(transport, "secret_reveal", _both_shares)
    _, said = deployed(transport, rounds=1)
    assert said["lost"] == lies
    asked = [one.header["operation"] for one in transport.stations[100].requests]
    assert asked[-2:] == ["secret_reveal", "evaluate"]
    assert [
        one.name for one in all_tasks() if one.name in transport.stations[100].requests[-1].arrays
    ] == (["secret_forget"] if lies else [])
    for node in nodes:
        disk: Any = node.disk
        session = Session.of(disk.load_memory("trial-run")["clients/secret_session"][0])
        assert session.seed == session.mask_seed == bytes(16) and session.private == bytes(32)


def test_a_request_that_comes_again_with_another_vector_is_refused() -> None:
    """A server that resumes a round cannot have a node's masks for two vectors."""
    transport = federation()
    deployed(transport, rounds=1)
    station = transport.stations[100]
    request = next(one for one in station.requests if one.header["operation"] == "secret_train")
    again = RpcMessage({**request.header, "call": [1, 2]}, request.arrays)
    with pytest.raises(fk.FedkinError, match="each is answered once"):
        station.handle(again)


@pytest.mark.parametrize("lies", [False, True])
def test_sites_sign_their_keys_and_a_server_that_replaces_one_has_no_sum(
    lies: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transport = MemoryTransport()
    authority = Authority.new("trial")
    for client in range(CLIENTS):
        node = node_of(f"site-{client}", [client], clustered_data(), model_of())
        name = f"site-{client}"
        identity = Identity(name, certified(tmp_path, authority, name))

        def world(ids: np.ndarray, make: Any = node.world, own: Identity = identity) -> Any:
            made = copy.copy(make(ids))
            made.identity = own
            return made

        transport.join(100 - client, replace(node, world=world))
    if lies:
        # From the second holder.
        changed(transport, "secret_shares", lambda arrays: np.put(arrays["announced"], 96, 1))
    federation_of_sites = remote(transport, clustered_data(), model_of())
    with caplog.at_level(logging.WARNING, "fedkin"):
        _, said = with_secret_sums(
            federation_of_sites, fk.FedAvg(), replace(SETTINGS, signed=True), rounds=1
        )
    assert (said["answered"], said["lost"]) == ((0, 1) if lies else (CLIENTS, 0))
    assert ("the key of client 1 does not verify" in caplog.text) == lies


def test_sites_with_a_certificate_take_part_in_no_sum_that_is_not_signed(tmp_path: Path) -> None:
    """A server cannot ask them to do without."""
    node = node_of("site-0", [0], clustered_data(), model_of())
    identity = Identity("site-0", certified(tmp_path, Authority.new("trial"), "site-0"))
    own: Any = copy.copy(node.world(np.arange(1)))
    own.identity = identity
    announced = own.run(SecretKeys("sum", np.zeros(1, np.int64)), np.arange(1)).announced
    with pytest.raises(fk.FedkinError, match="does not verify"):
        own.run(
            SecretShares(
                sum_id="sum",
                group=np.zeros(1, np.int64),
                holders=np.array([[0]]),
                announced=announced[None],
                signatures=np.zeros((1, 1, 0), np.int64),
            ),
            np.arange(1),
        )
