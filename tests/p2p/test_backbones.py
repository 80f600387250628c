"""Peers that train adapters: they work only with peers whose frozen weights are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.methods.panm import PANM
from fedkin.p2p.messages import MODEL, Message, PeerMessageError, Request, decode, encode
from fedkin.simulation.engine import SimulatedWorld
from tests.models.tiny_bert import write_bert
from tests.p2p.memory_network import MemoryNetwork
from tests.p2p.small_federations import make_peer

PEERS = 4


@pytest.fixture(scope="module")
def backbones(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two folders with the same weights, and one with others."""
    folder = tmp_path_factory.mktemp("backbones")
    return [
        fk.models.from_transformers(write_bert(folder / name, seed=seed))
        for name, seed in (("here", 0), ("there", 0), ("other", 1))
    ]


def world_of(backbone: Any, **options: Any) -> SimulatedWorld:
    rng = np.random.default_rng(0)
    tokens = rng.integers(4, 18, (8 * PEERS, 5))
    owners = np.repeat(np.arange(PEERS), 8)
    data = fk.data.from_arrays(tokens, np.arange(len(tokens)) % 2, clients=owners, integers=True)
    model = fk.lora(data, backbone, rank=2, **options)
    return SimulatedWorld(data, model, fk.LocalTraining(lr=0.1))


def rounds_of(worlds: list[SimulatedWorld], part: Any = "B") -> dict[str, Any]:
    """The last record of the first of some peers."""
    network = MemoryNetwork()
    method = PANM(neighbours=1, candidates=3, stage_one=5, part=part)
    peers = [make_peer(world, network, client, method) for client, world in enumerate(worlds)]
    for _ in range(2):
        for peer in peers:
            peer.round()
    return peers[0]._storage.records[-1]  # type: ignore[attr-defined]


def test_peers_with_the_same_weights_exchange_adapters(backbones: list[Any]) -> None:
    record = rounds_of([world_of(backbones[0]), world_of(backbones[1])])
    assert record["failures"] == {} and record["answered"]
    # Two models and updates of adapters, and no backbone.
    assert 0 < record["bytes"]["got"] < 4 * backbones[0].parameters


@pytest.mark.parametrize("options", [{"seed": 1}, {}], ids=["another A", "other weights"])
def test_a_peer_with_other_frozen_weights_is_left_out(
    options: dict[str, Any], backbones: list[Any]
) -> None:
    other = world_of(backbones[0 if options else 2], train="B", **options)
    record = rounds_of([world_of(backbones[0], train="B"), other])
    assert record["failures"] == {"backbone": 1} and not record["answered"]


def test_the_message_says_what_to_do() -> None:
    message = Message("p1", 1, 20, {"model": np.zeros(3, np.float32)})
    request = Request("trial", "p1", MODEL, 3, backbone="ab" * 8)
    assert decode(encode(message, "trial", backbone="ab" * 8), request).round == 1
    with pytest.raises(PeerMessageError, match=r"backbone: 'cd.* as model\.backbone"):
        decode(encode(message, "trial", backbone="cd" * 8), request)
    with pytest.raises(PeerMessageError, match="backbone: 'none' there"):
        decode(encode(message, "trial"), request)
    with pytest.raises(PeerMessageError, match="and 'none' here"):
        decode(encode(message, "trial", backbone="x"), Request("trial", "p1", MODEL, 3))
