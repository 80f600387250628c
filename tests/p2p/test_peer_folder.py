"""A peer's folder: a saved state comes back, and nothing else passes for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedkin.config.peer_settings import PeerSettings
from fedkin.core.errors import CheckpointError, StorageError
from fedkin.core.storage import complete_lines
from fedkin.methods import Gossip
from fedkin.p2p.peer import PeerMemory
from fedkin.p2p.peer_folder import PeerFolder
from tests.full_disk import no_file_longer_than
from tests.p2p.memory_network import MemoryNetwork
from tests.p2p.small_federations import make_peer, two_clusters

SAVED = PeerMemory(
    model=np.array([1, -2, 3], np.float32),
    age=7,
    trust=("zoe", "ada"),
    votes={"ada": 3},
    names=("me", "zoe", "ada"),
)
ME = PeerSettings("me")


def folder(path: Path, settings: PeerSettings = ME) -> PeerFolder:
    return PeerFolder(path / "own", settings)


def test_a_saved_state_comes_back(tmp_path: Path) -> None:
    assert folder(tmp_path).restore(3) is None
    folder(tmp_path).save(SAVED)
    memory = folder(tmp_path).restore(3)
    assert memory is not None
    np.testing.assert_array_equal(memory.model, SAVED.model)
    assert (memory.age, memory.trust, memory.votes, memory.names) == (
        7,
        ("zoe", "ada"),
        {"ada": 3},
        ("me", "zoe", "ada"),
    )
    assert list(load_file(tmp_path / "own/peer.safetensors")) == ["model"]
    # No half of a file is left.
    assert [p.name for p in (tmp_path / "own").iterdir()] == ["peer.safetensors"]


def test_records_of_rounds_that_were_lost_are_taken_back(tmp_path: Path) -> None:
    own = folder(tmp_path)
    own.save(SAVED)
    for t in range(1, 10):
        own.append({"round": t})
    with (tmp_path / "own/metrics.jsonl").open("a") as file:
        file.write('{"round": 10, "accu')  # killed while it wrote
    folder(tmp_path).restore(3)
    assert [
        json.loads(line)["round"] for line in complete_lines(tmp_path / "own/metrics.jsonl")
    ] == list(range(1, 8))


def test_without_a_model_records_are_of_nothing(tmp_path: Path) -> None:
    own = folder(tmp_path)
    own.append({"round": 1})
    assert own.restore(3) is None
    assert complete_lines(tmp_path / "own/metrics.jsonl") == []


@pytest.mark.parametrize(
    "other", [PeerSettings("you"), PeerSettings("me", "other"), PeerSettings("me", seed=1)]
)
def test_another_peers_folder_is_refused(tmp_path: Path, other: PeerSettings) -> None:
    folder(tmp_path).save(SAVED)
    with pytest.raises(CheckpointError, match=r"belongs to another peer: its .* choose another"):
        folder(tmp_path, other).restore(3)


@pytest.mark.parametrize("model", [np.zeros(4, np.float32), np.array([1, np.nan, 2], np.float32)])
def test_another_model_is_refused(tmp_path: Path, model: np.ndarray) -> None:
    folder(tmp_path).save(PeerMemory(model, 1))
    with pytest.raises(CheckpointError, match="expected a finite model of 3 parameters"):
        folder(tmp_path).restore(3)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b'{"age": 3}'])
def test_a_damaged_file_says_how_to_start_again(tmp_path: Path, content: bytes) -> None:
    own = folder(tmp_path)
    (tmp_path / "own/peer.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="remove it, and the peer starts from the beginning"):
        own.restore(3)


def test_on_a_full_disk_a_peer_goes_on_and_keeps_its_last_state(tmp_path: Path) -> None:
    settings = PeerSettings("p0")
    network = MemoryNetwork()
    own = PeerFolder(tmp_path / "own", settings)
    one = make_peer(two_clusters(), network, 0, Gossip(), storage=own)
    one.round()
    size = (tmp_path / "own/metrics.jsonl").stat().st_size
    with no_file_longer_than(size + 20):
        one.round()
        one.round()
    assert one.table.counts["p0"] == {"disk": 4} and one.memory.age == 3
    memory = own.restore(4)
    assert memory is not None and memory.age == 1
    one.round()
    assert [
        json.loads(line)["round"] for line in complete_lines(tmp_path / "own/metrics.jsonl")
    ] == [1, 4]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file")
    with pytest.raises(StorageError):
        folder(tmp_path)
