"""Workers as processes: the bits of a new node for every message, a worker that is killed while it
answers, and its end with the site. Flower's process for a message hands it on, or answers it
itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.server import load_client, load_server
from fedkin.run.folder import checkpoint
from fedkin.security.line_chain import read_chain
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.processes import MARK
from fedkin.server.deploy.run_server import serve
from fedkin.server.deploy.worker_client import SiteWorker
from fedkin.server.deploy.worker_link import is_alive, process_mark, worker_folder
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import EGRESS
from fedkin.server.message import RpcMessage, from_parts, to_parts
from fedkin.server.node import respond
from tests.free_ports import until
from tests.process import flower_project as project
from tests.server.memory_transport import MemoryTransport

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
pytestmark = pytest.mark.timeout(600)  # seconds; on a busy machine every process takes many
ROUNDS = 2
SHARED: dict[str, Any] = {**project.SHARED, "model": {"name": "mlp", "hidden": 8}}
SECTIONS: dict[str, dict[str, Any]] = {
    "federation": {"capacity": 2, "wait_for": 2},
    "method": {"name": "flexcfl", "clusters": 2, "alpha": 2},  # arrays to keep, and a standing task
    "local": {"epochs": 1, "batch_size": 10, "lr": 0.1},
    "run": {
        "rounds": ROUNDS,
        "cohort": 2,
        "against": [{"name": "fedper"}],
    },  # heads stay on the nodes' disks
}
Reply = Callable[[RpcMessage], RpcMessage]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process for a site's: workers end with it."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    yield process
    process.communicate()


def sites(folder: Path) -> list[Path]:
    """The files of two sites."""
    own = {f"site-{k}": {**project.DATA, "clients": 2} for k in range(2)}
    configs = [
        project.client(folder=folder, name=name, clients=[k], data=data, shared=SHARED)
        for k, (name, data) in enumerate(own.items())
    ]
    return [Path(config["config"]) for config in configs]


def run_with(folder: Path, replies: list[Reply]) -> list[np.ndarray]:
    """The last models of a run, of both methods, with these in place of the sites."""
    transport = MemoryTransport()
    for node, reply in enumerate(replies):
        transport.join(node, reply)
    config = load_server(Path(project.server(folder, SECTIONS, SHARED)))
    serve(config, transport, transport.clock.time, transport.clock.sleep)
    runs = [folder / "run", folder / "run" / "against" / "fedper"]
    return [checkpoint.newest(run / "checkpoints")[0].state.models for run in runs]


def new_node(config: Path) -> Reply:
    return lambda request: respond(lambda: node_from_config(load_client(config)), lambda: request)


def warm(worker: SiteWorker) -> Reply:
    return lambda request: from_parts(worker.reply(to_parts(request)))


def worker_process(config: Path) -> int | None:
    """The process that listens for a site."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fedkin.server.deploy.worker" in words and str(config).encode() in words:
            return int(entry.name)
    return None


def test_a_worker_gives_the_bits_of_a_new_process_for_every_message(
    tmp_path: Path, site: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "cold").mkdir()
    (tmp_path / "warm").mkdir()
    cold = run_with(tmp_path / "cold", [new_node(config) for config in sites(tmp_path / "cold")])
    workers = [SiteWorker(config, site.pid) for config in sites(tmp_path / "warm")]
    kept = run_with(tmp_path / "warm", [warm(worker) for worker in workers])
    for one, other in zip(cold, kept, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert np.abs(cold[0]).max() > 0.01
    processes = {process for worker in workers if (process := worker_process(worker.config))}
    assert len(processes) == 2
    marks = {process: process_mark(process) for process in processes}
    site.communicate()
    assert until(lambda: not any(is_alive(*one) for one in marks.items()), 120)
    assert not any((worker_folder(worker.config) / "socket").exists() for worker in workers)


def test_a_worker_that_is_killed_while_it_answers_costs_no_message(
    short_path: Path, site: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    config = sites(short_path)[0]
    worker = SiteWorker(config, site.pid)
    request = RpcMessage({"operation": "no such task"})
    expected = from_parts(worker.reply(to_parts(request)))
    assert "no such task" in expected.header["failed"]
    first = worker_process(config)
    replies = []
    assert first is not None
    # It has left the first message's connection, and listens.
    assert until(lambda: connections(config) == 1)
    os.kill(first, signal.SIGSTOP)
    thread = threading.Thread(
        target=lambda: replies.append(from_parts(worker.reply(to_parts(request))))
    )
    thread.start()
    assert until(lambda: connections(config) > 1)  # the listening one, and ours
    os.kill(first, signal.SIGKILL)
    thread.join(120)
    assert [without_line(reply) for reply in replies] == [without_line(expected)]
    assert worker_process(config) not in (None, first) and "died while it answered" in caplog.text


def without_line(reply: RpcMessage) -> dict[str, object]:
    """The header of a reply, without the entry that names its line in the site's ledger."""
    assert EGRESS in reply.header
    return {name: value for name, value in reply.header.items() if name != EGRESS}


def connections(config: Path) -> int:
    table = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(str(worker_folder(config) / "socket")) for line in table)


def test_flowers_process_for_a_message_hands_it_on_or_answers_itself(
    tmp_path: Path,
    site: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    flower = pytest.importorskip("flwr.app", reason="needs pip install 'fedkin[flower]'")
    from fedkin.server.deploy import client_app
    from fedkin.server.flower_transport import from_record, to_record

    assert MARK not in os.environ
    config = sites(tmp_path)[0]
    monkeypatch.setattr(client_app.os, "getppid", lambda: site.pid)
    metadata = flower.Metadata(1, "m1", 1, 7, "", "3", 0.0, 1e12, "train")
    content = to_record(RpcMessage({"operation": "no such task"}))[0]
    node_config = {"config": str(config)}

    def said() -> RpcMessage:
        message = flower.Message(metadata=metadata, content=content)
        context = flower.Context(1, 7, node_config, flower.RecordDict(), {})
        return from_record(client_app.app(message, context).content)[0]

    kept = said()
    assert worker_process(config) is not None
    folder = worker_folder(config)
    folder.chmod(0o755)
    # Without it, in this process.
    assert without_line(said()) == without_line(kept) and "other users can open" in caplog.text
    folder.chmod(0o700)
    process = worker_process(config)
    config.write_text(config.read_text().replace("[client]", '[client]\nworker = "none"'))
    os.kill(process or 0, signal.SIGKILL)
    assert without_line(said()) == without_line(kept)
    assert until(lambda: worker_process(config) is None)
    # All three replies have a line in the site's ledger, whichever process wrote it.
    chain = read_chain(SiteLedger(config.parent).lines())
    assert chain.broken is None and len(chain.lines) == 3
