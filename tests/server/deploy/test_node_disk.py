"""A node's disk: its files last over processes; disks that are damaged or cannot be written."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedkin.config.server_settings import SiteSettings
from fedkin.core.errors import FedkinError, StorageError
from fedkin.core.randomness import Stream
from fedkin.server.deploy.build_node import build_node
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.tasks.shift import Note, Shifted
from fedkin.tasks.train import train
from tests.server.memory_transport import MemoryTransport
from tests.server.small_federations import clustered_data, model_of, remote

NOTED = {"noted_labels": np.arange(6, dtype=np.int32).reshape(1, 6)}


def test_another_process_reads_the_stored_arrays(tmp_path: Path) -> None:
    disk = NodeDisk(tmp_path / "a" / "state")
    assert disk.load_memory("trial-flexcfl") == {}
    disk.save_memory("trial-flexcfl", NOTED)
    found = NodeDisk(tmp_path / "a" / "state").load_memory("trial-flexcfl")
    np.testing.assert_array_equal(found["noted_labels"], NOTED["noted_labels"], strict=True)
    assert disk.load_memory("another-run") == {}


def test_the_newest_of_each_model_is_stored(tmp_path: Path) -> None:
    disk = NodeDisk(tmp_path)
    disk.save_models("r", {"cluster": np.ones(3, np.float32), "personal": np.zeros(3, np.float32)})
    disk.save_models("r", {"cluster": np.full(3, 2, np.float32)})
    (path,) = tmp_path.glob("*models*")
    found = load_file(path)
    np.testing.assert_array_equal(found["cluster"], [2, 2, 2])
    np.testing.assert_array_equal(found["personal"], [0, 0, 0])
    assert disk.load_memory("r") == {}  # models are not part of it


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 100, b"x" * 7])
def test_a_damaged_file_is_logged_and_ignored(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = NodeDisk(tmp_path)
    disk.save_memory("r", NOTED)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, "fedkin"):
        assert disk.load_memory("r") == {}
    assert str(path) in caplog.text and "cannot be read" in caplog.text
    disk.save_memory("r", NOTED)
    assert disk.load_memory("r").keys() == NOTED.keys()


def test_half_a_file_is_damaged(tmp_path: Path) -> None:
    disk = NodeDisk(tmp_path)
    disk.save_memory("r", NOTED)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-10])
    assert disk.load_memory("r") == {}


@pytest.mark.parametrize("run", ["", "../x", "a/b", "a\\b", "x" * 101, "a b", "a\n"])
def test_the_name_of_a_run_cannot_leave_the_folder(run: str, tmp_path: Path) -> None:
    for use in (
        NodeDisk(tmp_path).load_memory,
        lambda name: NodeDisk(tmp_path).save_memory(name, NOTED),
    ):
        with pytest.raises(InvalidMessageError, match="cannot be the name of a run"):
            use(run)
    assert not [*tmp_path.rglob("*.safetensors")]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for use in (
        lambda d: d.save_memory("r", NOTED),
        lambda d: d.save_models("r", {"cluster": np.zeros(2, np.float32)}),
    ):
        with pytest.raises(StorageError, match="file"):
            use(NodeDisk(tmp_path / "file"))


# --- a node with a disk


def site(folder: Path) -> MemoryTransport:
    """One client of the simulator's on a separate disk. It is made again for every request, as a
    process is."""
    transport = MemoryTransport()
    transport.join(
        1,
        lambda request: build_node(
            model_of(), clustered_data(), SiteSettings("site-0", folder=str(folder), clients=(0,))
        ).handle(request),
    )
    return transport


def test_a_client_has_its_notes_in_its_next_process(tmp_path: Path) -> None:
    transport = site(tmp_path / "state")
    world = remote(transport, clustered_data(), model_of(), wait_for=1)
    world.begin(Stream(0, 0))
    model = world.initial(Stream(0, 0, "init"))
    world.run(Note(), np.array([0]))
    train(world, model[None], np.array([0]), np.array([0]), stream=Stream(0, 0, "m"))
    (memory,) = (path for path in (tmp_path / "state").iterdir() if "models" not in path.name)
    counts = clustered_data().label_counts()[:1]
    np.testing.assert_array_equal(load_file(memory)["clients/noted_labels"], counts)
    # As if its data had been others when it was placed.
    moved = np.roll(100 * counts, 3, axis=1).astype(np.int32)
    stored = NodeDisk(tmp_path / "state").load_memory("trial-run")
    NodeDisk(tmp_path / "state").save_memory("trial-run", {**stored, "clients/noted_labels": moved})
    world.begin(Stream(0, 1))
    assert world.run(Shifted(), np.array([0])).shifted.tolist() == [True]


def test_a_disk_that_cannot_store_models_costs_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("in the way")
    world = remote(site(tmp_path / "state"), clustered_data(), model_of(), wait_for=1)
    world.begin(Stream(0, 0))
    model = world.initial(Stream(0, 0, "init"))
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world, model[None], np.array([0]), np.array([0]), stream=Stream(0, 0, "m"))
    assert got.arrived.all() and "cannot write" in caplog.text and "state" in caplog.text
    world.run(Note(), np.array([0]))  # remembered values are another matter
    with caplog.at_level(logging.WARNING, "fedkin"):
        got = train(world, model[None], np.array([0]), np.array([0]), stream=Stream(0, 0, "m"))
    assert not got.arrived.any() and "no reply from site-0" in caplog.text


def test_requests_that_no_server_sends_are_refused(tmp_path: Path) -> None:
    node = build_node(
        model_of(), clustered_data(), SiteSettings("site-0", folder=str(tmp_path), clients=(0,))
    )
    fine = {"operation": "train", "run": "r", "first": 0}
    clients = {"clients": np.array([0])}
    requests = {
        "no operation": RpcMessage(),
        "another operation": RpcMessage({**fine, "operation": "dance"}, clients),
        "no run": RpcMessage({"operation": "train", "first": 0}, clients),
        "no clients": RpcMessage(fine),
        "clients it does not have": RpcMessage(fine, {"clients": np.array([1])}),
        "no models": RpcMessage(fine, clients),
        "no stream": RpcMessage(
            {**fine, "reduce": False, "gradient": False, "work": {}},
            {**clients, "models": np.zeros((1, 42), np.float32)},
        ),
    }
    for what, request in requests.items():
        with pytest.raises(FedkinError):
            node.handle(request)
            pytest.fail(what)
