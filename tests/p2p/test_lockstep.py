"""Peers in lock-step equal the simulator: the same neighbours, and the same models to float
tolerance."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fedkin as fk
from fedkin.config.peer_settings import LockstepSettings, PeerSettings
from fedkin.core.training import SGD
from fedkin.methods import METHODS
from fedkin.methods.decentralized import PeerMethod, PeerState
from fedkin.p2p.peer import Peer
from fedkin.simulation.engine import SimulatedWorld
from tests.p2p.memory_network import MemoryNetwork
from tests.p2p.small_federations import MemoryStorage, make_peer, two_clusters

ROUNDS = 6
SEED = 3
OPTIONS = {
    "panm": {"neighbours": 1, "candidates": 2, "stage_one": 3, "period": 2},
    "panm_loss": {"neighbours": 1, "candidates": 2, "stage_one": 3, "period": 2},
    "pens": {"sampled": 2, "top": 1, "stage_one": 3},
    "gossip": {"neighbours": 2},
}


def settings(client: int, name: str) -> PeerSettings:
    return PeerSettings(name, "trial", client, SEED, rounds=ROUNDS)


def together(everybody: list[Peer]) -> None:
    """Run them all, each on a separate thread."""
    threads = [threading.Thread(target=one.run, daemon=True) for one in everybody]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("name", OPTIONS)
def test_four_peers_are_the_simulators_four(name: str) -> None:
    method: PeerMethod = METHODS[name](**OPTIONS[name])
    data = fk.planted(
        "digits", "label_permutation", clusters=2, clients=4, samples=20, test_samples=5, seed=1
    )
    model = fk.models.MODELS["mclr"](data)
    local = SGD(epochs=2, batch_size=8, lr=0.1)
    run = fk.simulate(method, data, model, rounds=ROUNDS, cohort=4, local=local, seed=SEED)
    state = run.state
    assert isinstance(state, PeerState)

    names = ["a", "b", "c", "d"]
    network = MemoryNetwork()
    step = LockstepSettings(names, deadline=60.0)
    world = SimulatedWorld(data, model, local, devices=1)
    everybody = [
        Peer(
            settings=PeerSettings(n, "trial", k, SEED, rounds=ROUNDS),
            method=method,
            world=world,
            transport=network.transport(n),
            storage=MemoryStorage(),
            lockstep=step,
        )
        for k, n in enumerate(names)
    ]
    together(everybody)
    for k, one in enumerate(everybody):
        np.testing.assert_allclose(one.memory.model, state.models[k], rtol=1e-4, atol=1e-6)
        if name != "gossip":  # a peer that trusts everybody keeps no list
            assert list(one.memory.trust) == [names[j] for j in np.flatnonzero(state.trust[k])]
        assert one.memory.votes == {names[j]: n for j, n in enumerate(state.votes[k]) if n}
        assert one.memory.age == ROUNDS


def test_no_peer_is_a_round_ahead() -> None:
    network = MemoryNetwork()
    names = ["p0", "p1", "p2"]
    world = two_clusters(3)
    step = LockstepSettings(names)
    method = METHODS["gossip"](neighbours=2)
    storage = [MemoryStorage() for _ in names]
    everybody = [
        make_peer(world, network, k, method, lockstep=step, storage=storage[k], rounds=5)
        for k in range(3)
    ]
    together(everybody)
    for own in storage:
        assert [record["failures"] for record in own.records] == [{}] * 5
        assert [len(record["partners"]) for record in own.records] == [2] * 5
    assert {what for _, _, what in network.requests} == {
        "status",
        *(f"model@{t}" for t in range(1, 6)),
    }


def test_one_that_is_gone_holds_the_others_up_no_longer_than_the_deadline() -> None:
    network = MemoryNetwork()
    names = ["p0", "p1", "p2"]
    method = METHODS["gossip"](neighbours=2)
    storage = MemoryStorage()
    step = LockstepSettings(names, deadline=1.0)
    everybody = [
        make_peer(two_clusters(3), network, k, method, lockstep=step, storage=storage, rounds=2)
        for k in range(2)
    ]
    network.add_peer("p2")  # it is there, and never answers
    together(everybody)
    assert [record["failures"] for record in storage.records] == [{"silent": 1}] * 4
