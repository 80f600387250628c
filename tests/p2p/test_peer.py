"""The loop of a peer: its requests, its use of replies, and failures that do not stop it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fedkin.config.peer_settings import LockstepSettings
from fedkin.core.errors import ConfigError
from fedkin.methods import PANM, PENS, Gossip, Local, PANMLoss
from fedkin.p2p.peer import PeerMemory
from tests.p2p.memory_network import MemoryNetwork
from tests.p2p.small_federations import MemoryStorage, P, constant, make_peer, two_clusters

FAR = [8.0] * P


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peer looks around for a second before it decides that it is alone."""
    monkeypatch.setattr("fedkin.p2p.peer_client._FIRST_CONTACT", 0.0)


def half(client: int = 0) -> np.ndarray:
    """What client ``client`` has after its first local training: from zero, half of the way."""
    return 0.5 * two_clusters().target[client]


def test_alone_a_peer_just_trains() -> None:
    storage = MemoryStorage()
    only = make_peer(two_clusters(), MemoryNetwork(), 0, PANM(), storage=storage, rounds=3)
    only.run()
    np.testing.assert_allclose(
        only.memory.model, (1 - 0.5**3) * two_clusters().target[0], rtol=1e-6
    )
    assert [record["round"] for record in storage.records] == [1, 2, 3]
    assert storage.records[-1]["failures"] == {} and storage.records[-1]["exchanges"] == 0


def test_the_mean_is_weighted_by_examples() -> None:
    network = MemoryNetwork()
    storage = MemoryStorage()
    network.add_peer("bob", constant("bob", 5, FAR, examples=30))
    # It has 10 examples.
    one = make_peer(two_clusters(), network, 0, Gossip(neighbours=1), storage=storage)
    one.round()
    np.testing.assert_allclose(one.memory.model, (10 * half() + 30 * np.array(FAR)) / 40, rtol=1e-6)
    assert storage.records[0]["partners"] == storage.records[0]["answered"] == ["bob"]


def test_local_training_asks_no_peer() -> None:
    network = MemoryNetwork()
    network.add_peer("bob", constant("bob", 1, FAR))
    one = make_peer(two_clusters(), network, 0, Local())
    one.round()
    assert network.requests == []
    np.testing.assert_allclose(one.memory.model, half(), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (PANM(), "model+update"),
        (PANM(alpha=0), "model"),
        (PANMLoss(), "model"),
        (PENS(2, 1, 5), "model"),
    ],
)
def test_updates_travel_only_where_they_are_compared(method: PANM | PENS, text: str) -> None:
    network = MemoryNetwork()
    for name in ("bob", "cat"):
        network.add_peer(name, constant(name, 1, FAR))
    make_peer(two_clusters(), network, 0, method).round()
    assert {what for _, _, what in network.requests} == {text}
    # Each once: partners have replied already.
    assert sorted(whom for _, whom, _ in network.requests) == [
        "bob",
        "cat",
    ]


def test_partners_that_were_not_queried_are_asked_for_their_model_alone() -> None:
    network = MemoryNetwork()
    network.add_peer("bob", constant("bob", 3, FAR))
    before = PeerMemory(
        model=np.zeros(P, np.float32), age=6, trust=("bob",), votes={}, names=("p0", "bob")
    )
    one = make_peer(two_clusters(), network, 0, PANM(stage_one=2, period=100), memory=before)
    one.round()  # stage two, and no round of matching
    assert network.requests == [("p0", "bob", "model")]
    assert one.memory.trust == ("bob",)
    np.testing.assert_allclose(one.memory.model, (half() + np.array(FAR)) / 2, rtol=1e-6)


@pytest.mark.parametrize("method", [PANM(2, 5, 4, 2), PANMLoss(2, 5, 4, 2), PENS(5, 1, 8)])
def test_each_finds_its_own_cluster_at_its_own_pace(method: PANM | PENS) -> None:
    world = two_clusters()
    network = MemoryNetwork()
    everybody = [make_peer(world, network, client, method) for client in range(6)]
    order = np.random.default_rng(1)
    for _ in range(120):  # whoever happens to be ready
        everybody[order.integers(6)].round()
    for client, one in enumerate(everybody):
        same = {f"p{other}" for other in range(6) if other % 2 == client % 2 and other != client}
        assert one.memory.trust and set(one.memory.trust) <= same
        assert np.sign(one.memory.model).tolist() == np.sign(world.target[client]).tolist()


WRONG: dict[str, Callable[[str, bytes | None], tuple[bytes, ...]]] = {
    "silent": lambda text, reply: (),
    "contradiction": lambda text, reply: (
        constant("bob", 4, FAR)(text),
        constant("bob", 4, [1.0] * P)(text),
    ),
    "sender": lambda text, reply: (constant("eve", 4, FAR)(text),),
    "shape": lambda text, reply: (constant("bob", 4, [1.0] * 9)(text),),
    "finite": lambda text, reply: (constant("bob", 4, [1.0, 2.0, float("nan"), 0.0])(text),),
    "archive": lambda text, reply: (constant("bob", 4, FAR)(text)[:-2],),
    "header": lambda text, reply: (b"FKN2" + bytes(4) + b"\xff" * 4000,),
}


@pytest.mark.parametrize("reason", WRONG)
@pytest.mark.parametrize("method", [Gossip(), PANM(), PANMLoss()])
def test_a_wrong_reply_is_left_out_counted_and_logged_once(
    reason: str, method: Gossip | PANM, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    storage = MemoryStorage()
    network.add_peer("bob", constant("bob", 4, FAR))
    network.tamper["bob"] = WRONG[reason]
    one = make_peer(two_clusters(), network, 0, method, storage=storage)
    with caplog.at_level(logging.WARNING, "fedkin"):
        one.round()
        one.round()
    # As if bob were not there.
    np.testing.assert_allclose(one.memory.model, 1.5 * half(), rtol=1e-6)
    assert [record["failures"] for record in storage.records] == [{reason: 1}] * 2
    assert one.table.counts["bob"] == {reason: 2} and one.memory.trust == ()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("peer bob ")


def test_a_reply_older_than_the_last_is_stale() -> None:
    network = MemoryNetwork()
    storage = MemoryStorage()
    network.add_peer("bob", constant("bob", 4, FAR))
    one = make_peer(two_clusters(), network, 0, Gossip(), storage=storage)
    one.round()
    network.handlers["bob"] = constant("bob", 3, FAR)
    one.round()
    del network.sessions["bob"]
    # The same, but a new process: it may have begun again.
    network.add_peer("bob", constant("bob", 3, FAR))
    one.round()
    assert [record["failures"] for record in storage.records] == [{}, {"stale": 1}, {}]


def test_a_peer_that_leaves_is_not_asked_and_one_that_comes_is() -> None:
    network = MemoryNetwork()
    storage = MemoryStorage()
    network.add_peer("bob", constant("bob", 1, FAR))
    one = make_peer(two_clusters(), network, 0, Gossip(neighbours=5), storage=storage)
    one.round()
    del network.sessions["bob"]
    network.add_peer("cat", constant("cat", 1, FAR))
    one.round()
    assert [record["partners"] for record in storage.records] == [["bob"], ["cat"]]
    assert one.table.names == ["p0", "bob", "cat"]


def test_a_nonfinite_model_is_sent_to_no_peer() -> None:
    network = MemoryNetwork()
    storage = MemoryStorage()
    network.add_peer("bob", constant("bob", 1, FAR))
    nonfinite = make_peer(
        two_clusters(garbage=frozenset({0})), network, 0, Gossip(), storage=storage
    )
    nonfinite.round()
    assert network.requests == [] and "p0" not in network.handlers
    np.testing.assert_array_equal(nonfinite.memory.model, np.zeros(P))
    assert storage.records[0]["failures"] == {"training": 1} and nonfinite.memory.age == 1


def test_a_full_disk_does_not_stop_a_peer(caplog: pytest.LogCaptureFixture) -> None:
    network = MemoryNetwork()
    storage = MemoryStorage(full=True)
    network.add_peer("bob", constant("bob", 1, FAR))
    one = make_peer(two_clusters(), network, 0, Gossip(), storage=storage)
    with caplog.at_level(logging.WARNING, "fedkin"):
        one.round()
        one.round()
    assert one.table.counts["p0"] == {"disk": 4} and one.table.counts["bob"] == {"exchanges": 2}
    assert len(caplog.records) == 1 and "No space left" in caplog.text and "p0" in caplog.text
    storage.full = False
    one.round()
    # Those since the last record.
    assert storage.memories[-1].age == 3 and storage.records[-1]["failures"] == {"disk": 2}


def test_a_peer_that_comes_back_goes_on_as_if_it_had_never_gone() -> None:
    def after(stops: list[int]) -> PeerMemory:
        network = MemoryNetwork()
        storage = MemoryStorage()
        world = two_clusters()
        for k in range(1, 5):
            network.add_peer(
                f"q{k}", constant(f"q{k}", 9, [float(k)] * P, update=[float(k), 0, 0, 1])
            )
        memory = None
        for rounds in [*stops, 8]:
            one = make_peer(
                world, network, 0, PANM(2, 2, 4, 2), storage=storage, memory=memory, rounds=rounds
            )
            one.run()
            memory = storage.memories[-1]
        assert memory is not None and memory.age == 8
        return memory

    whole = after([])
    torn = after([1, 3, 6])
    np.testing.assert_array_equal(whole.model, torn.model)
    assert replace(whole, model=torn.model) == torn


def test_a_peer_that_finds_no_other_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fedkin"):
        make_peer(two_clusters(), MemoryNetwork(), 0, PANM(), rounds=3).run()
    assert [record.getMessage() for record in caplog.records] == [
        "peer p0: no other peer can be reached; this peer trains alone, and keeps trying"
    ]


def test_of_two_with_one_name_the_second_stops() -> None:
    network = MemoryNetwork()
    first, second = (
        make_peer(two_clusters(), network, client, Gossip(), name="ada") for client in (0, 1)
    )
    first.round()
    with pytest.raises(ConfigError, match="ada"):
        second.run()
    first.round()


def test_a_client_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"peer\.client must be .* 0 to 5, got 6"):
        make_peer(two_clusters(), MemoryNetwork(), 6, Gossip())


@pytest.mark.parametrize(
    ("names", "words"),
    [(["p1", "p2"], "this peer's name"), (["p1", "p0"], "number 1 .* peer.client is 0")],
)
def test_a_place_in_the_list_that_is_another_peers(names: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_peer(two_clusters(), MemoryNetwork(), 0, Gossip(), lockstep=LockstepSettings(names))


def test_stopped_it_ends_after_the_round_and_keeps_itself() -> None:
    storage = MemoryStorage()
    one = make_peer(two_clusters(), MemoryNetwork(), 0, Local(), storage=storage, save_every=100)
    one.round()
    one.stop()
    one.run()
    assert [memory.age for memory in storage.memories] == [1]


def test_a_peer_that_left_is_forgotten_while_others_are_there() -> None:
    network = MemoryNetwork()
    network.add_peer("bob", constant("bob", 3, FAR))
    before = PeerMemory(
        model=np.zeros(P, np.float32),
        age=5,
        trust=("bob", "cat"),
        votes={},
        names=("p0", "bob", "cat"),
    )
    one = make_peer(
        two_clusters(), network, 0, PANM(neighbours=2, stage_one=1, period=100), memory=before
    )
    one.round()
    assert one.memory.trust == ("bob",)


def test_alone_a_peer_forgets_no_other() -> None:
    before = PeerMemory(
        model=np.zeros(P, np.float32),
        age=5,
        trust=("bob", "cat"),
        votes={},
        names=("p0", "bob", "cat"),
    )
    one = make_peer(two_clusters(), MemoryNetwork(), 0, PANM(stage_one=1), memory=before)
    one.round()
    assert one.memory.trust == ("bob", "cat") and one.memory.age == 6
