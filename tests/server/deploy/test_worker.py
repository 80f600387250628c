"""A site's worker: found over a socket of the site's own, started, replaced, and ended. Workers are
threads here."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.security.line_chain import read_chain
from fedkin.server.deploy import worker, worker_client, worker_link
from fedkin.server.deploy.worker import LoadedNode, Worker
from fedkin.server.deploy.worker_client import SiteWorker, WorkerFailure
from fedkin.server.deploy.worker_link import (
    WorkerLinkError,
    check_peer,
    open_folder,
    process_mark,
    worker_folder,
)
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import EGRESS
from fedkin.server.frames import read_frame, write_frame
from fedkin.server.message import IN_REPLY, RpcMessage, from_parts, to_parts
from fedkin.server.node import Node, respond
from tests.free_ports import until
from tests.server.small_federations import ABOUT, fake_node

HELLO = RpcMessage({"operation": "hello", **ABOUT.header()}, {"numbers": np.arange(5.0)})
Make = Callable[[], Node]


class Workers:
    """Starts workers of a node as threads, where a site would start processes."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.make = lambda: fake_node("berlin")
        self.started = 0
        self.threads: list[threading.Thread] = []

    def spawn(self, site: SiteWorker) -> subprocess.Popen[bytes]:
        own = Worker(self.config, os.getpid(), process_mark(os.getpid()))
        own.loaded.node = lambda: self.make()  # type: ignore[method-assign]
        self.threads.append(threading.Thread(target=own.serve, daemon=True))
        self.threads[-1].start()
        self.started += 1
        return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def stop(self) -> None:
        (worker_folder(self.config) / "socket").unlink(missing_ok=True)
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    started = Workers(tmp_path / "client.toml")
    processes: list[subprocess.Popen[bytes]] = []

    def spawn(site: SiteWorker) -> subprocess.Popen[bytes]:
        processes.append(started.spawn(site))
        return processes[-1]

    monkeypatch.setattr(SiteWorker, "_spawn", spawn)
    monkeypatch.setattr(worker, "_CHECK", 0.02)
    yield started
    started.stop()
    for process in processes:
        process.communicate()


@pytest.fixture
def site(workers: Workers) -> SiteWorker:
    return SiteWorker(workers.config, os.getpid())


def said(site: SiteWorker, request: RpcMessage = HELLO) -> RpcMessage:
    return from_parts(site.reply(to_parts(request)))


def without_line(reply: RpcMessage) -> dict[str, object]:
    """The header of a reply, without the entry that names its line in the site's ledger."""
    assert EGRESS in reply.header
    return {name: value for name, value in reply.header.items() if name != EGRESS}


def test_the_reply_is_the_nodes_own(site: SiteWorker, workers: Workers) -> None:
    expected = respond(workers.make, lambda: HELLO)
    reply = from_parts(site.reply(to_parts(HELLO)))
    # The reply also names its line in the site's ledger.
    head = reply.header.pop(EGRESS)["head"]
    assert to_parts(reply, IN_REPLY) == to_parts(expected, IN_REPLY)
    assert read_chain(SiteLedger(workers.config.parent).lines()).head == head
    # The second message starts none.
    assert said(site).header["name"] == "berlin" and workers.started == 1


def test_only_the_sites_user_can_come_near(site: SiteWorker) -> None:
    said(site)
    folder = worker_folder(site.config)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "socket").stat().st_mode) == 0o600


def test_a_folder_that_others_can_enter_is_refused(site: SiteWorker) -> None:
    worker_folder(site.config).mkdir(mode=0o755)
    with pytest.raises(WorkerLinkError, match="chmod 700"):
        said(site)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "client.worker").symlink_to("elsewhere")
    with pytest.raises(WorkerLinkError, match="not a folder of this user"):
        open_folder(tmp_path / "client.worker")


def test_another_user_at_the_other_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        check_peer(one)
        own = os.getuid()
        monkeypatch.setattr(worker_link.os, "getuid", lambda: own + 1)
        with pytest.raises(WorkerLinkError, match=f"other end of the socket belongs to user {own}"):
            check_peer(one)


def test_a_worker_of_another_version_is_replaced(
    site: SiteWorker,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said(site)
    monkeypatch.setattr(worker_client, "__version__", "9.9")
    monkeypatch.setattr(Workers, "spawn", _of_version(Workers.spawn, monkeypatch, "9.9"))
    assert said(site).header["name"] == "berlin"
    assert workers.started == 2 and "but the site runs 9.9" in caplog.text


def _of_version(spawn: Callable, monkeypatch: pytest.MonkeyPatch, version: str) -> Callable:
    def spawned(self: Workers, site: SiteWorker) -> subprocess.Popen[bytes]:
        monkeypatch.setattr(worker, "__version__", version)
        return spawn(self, site)

    return spawned


def test_a_worker_whose_programs_lie_elsewhere_is_replaced(
    site: SiteWorker,
    workers: Workers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said(site)
    monkeypatch.setattr(sys, "path", [*sys.path, "/another/app"])
    assert said(site).header["name"] == "berlin"
    assert workers.started == 2 and "from other folders" in caplog.text


def test_a_socket_without_a_listener_is_removed(
    site: SiteWorker, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    open_folder(worker_folder(site.config))
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(worker_folder(site.config) / "socket"))
    assert said(site).header["name"] == "berlin"
    assert workers.started == 1 and "of a worker that has ended" in caplog.text


def test_a_worker_that_dies_while_it_answers_costs_no_message(
    site: SiteWorker, workers: Workers, caplog: pytest.LogCaptureFixture
) -> None:
    deaths = dying(site, 1)
    assert said(site).header["name"] == "berlin"
    assert workers.started == 1 and "died while it answered" in caplog.text
    deaths.join(60)


def test_a_message_of_which_workers_die_is_given_up(site: SiteWorker, workers: Workers) -> None:
    deaths = dying(site, 2)
    with pytest.raises(WorkerFailure, match="died 2 times while it answered"):
        said(site)
    assert workers.started == 0
    deaths.join(60)


def dying(site: SiteWorker, times: int) -> threading.Thread:
    """Something listens that reads so many messages and ends, as a process does that is killed."""
    folder = worker_folder(site.config)
    open_folder(folder)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen()

    def die() -> None:
        for left in reversed(range(times)):
            connection, _ = listener.accept()
            with connection:
                read_frame(connection)
                if not left:  # no caller may connect once more before all is closed
                    listener.close()
                    (folder / "socket").unlink()

    thread = threading.Thread(target=die, daemon=True)
    thread.start()
    return thread


def test_an_error_of_the_node_is_a_reply(site: SiteWorker, workers: Workers) -> None:
    def make() -> Node:
        raise DataError("mine.npz\n is not there")

    workers.make = make
    assert without_line(said(site)) == {"failed": "mine.npz is not there"}


def test_a_refusal_names_the_site_and_reaches_its_program(workers: Workers) -> None:
    """The server then knows who is refused, and the site's own log and status have the reason."""
    workers.config.write_text('[client]\nname = "berlin"\n')
    reasons: list[str] = []
    site = SiteWorker(workers.config, os.getpid(), reasons.append)
    said(site)

    def make() -> Node:
        raise DataError("mine.npz is not there")

    fine = workers.make
    workers.make = make
    assert without_line(said(site)) == {"failed": "mine.npz is not there", "name": "berlin"}
    workers.make = fine
    other = RpcMessage({"operation": "hello", **replace(ABOUT, version="0.0.1").header()})
    assert "install the same version" in said(site, other).header["refused"]
    said(site)
    assert reasons[0] == reasons[3] == "" and reasons[1] == "mine.npz is not there"
    assert "'0.0.1' at the server" in reasons[2]


def test_a_worker_that_cannot_be_started_is_named_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MODULE", "fedkin.no_such_module")
    site = SiteWorker(tmp_path / "client.toml", os.getpid())
    with pytest.raises(
        WorkerLinkError,
        match=r"could not be started: .*No module named fedkin\.no_such_module.*worker\.log",
    ):
        site.start()


def test_a_fault_of_the_program_is_named_and_the_worker_goes_on(
    site: SiteWorker, workers: Workers
) -> None:
    def make() -> Node:
        raise ZeroDivisionError("division by zero")

    good = workers.make
    workers.make = make
    with pytest.raises(WorkerFailure, match="ZeroDivisionError: division by zero"):
        said(site)
    workers.make = good
    assert said(site).header["name"] == "berlin" and workers.started == 1


def test_noise_at_the_socket_does_not_end_the_worker(site: SiteWorker, workers: Workers) -> None:
    said(site)
    for noise in (
        b"",
        b"abc",
        b"\xff" * 8,
        b"\0" * 7 + b"\x02[]",
        b"\0" * 7 + b"\x0c" + b'{"rest": {}}',
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(worker_folder(site.config) / "socket"))
            connection.sendall(noise)
    assert said(site).header["name"] == "berlin" and workers.started == 1


def test_a_long_path_has_a_socket_too(workers: Workers, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    workers.config = folder / "client.toml"
    assert said(SiteWorker(workers.config, os.getpid())).header["name"] == "berlin"
    assert (folder / "client.worker" / "socket").exists()


def test_the_worker_ends_with_its_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CHECK", 0.02)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    own = Worker(tmp_path / "client.toml", process.pid, process_mark(process.pid))
    own.loaded.node = lambda: fake_node("berlin")  # type: ignore[method-assign]
    thread = threading.Thread(target=own.serve, daemon=True)
    thread.start()
    path = worker_folder(tmp_path / "client.toml") / "socket"
    assert until(path.exists)
    process.communicate()
    thread.join(60)
    assert not thread.is_alive() and not path.exists()


def test_files_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "client.toml"
    data = tmp_path / "mine.npz"
    np.savez(
        data, x=np.zeros((4, 2), np.float32), y=np.array([0, 1, 0, 1]), client_id=np.zeros(4, int)
    )
    text = (
        '[client]\nname = "{}"\n[samples]\nshape = [2]\nclasses = 2\n'
        '[data]\nname = "file"\npath = "mine.npz"\n'
    )
    config.write_text(text.format("berlin"))
    loaded = LoadedNode(config)
    first = loaded.node()
    assert loaded.node() is first and first.name == "berlin"
    config.write_text(text.format("hamburg"))
    assert loaded.node().name == "hamburg"
    before = loaded.node()
    np.savez(
        data, x=np.zeros((40, 2), np.float32), y=np.arange(40) % 2, client_id=np.zeros(40, int)
    )
    assert loaded.node() is not before and loaded.node().samples.sum() > before.samples.sum()
    data.unlink()
    with pytest.raises(DataError):
        loaded.node()


def test_a_frame_is_read_as_it_was_written() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.arange(3)}
        message = to_parts(RpcMessage({"a": 1}, arrays), whole=0)
        assert message.arrays["x"].shape == (2, 3)
        write_frame(one, {"version": "1"}, message)
        write_frame(one, {"replace": "why"})
        assert read_frame(other) == ({"version": "1"}, message)
        assert read_frame(other) == ({"replace": "why"}, None)


def test_a_process_for_a_message_imports_nothing_heavy() -> None:
    program = (
        "import sys, fedkin.server.deploy.client_app as a; print(*sorted(m for m in sys.modules if "
        "'fedkin.' in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    light = (
        "core core.errors core.progress core.records core.suggestions core.torch_adapters "
        "server server.deploy server.deploy.client_app server.deploy.worker_client "
        "server.deploy.worker_link "
        "server.flower_record server.frames"
    )
    assert set(done.stdout.split()) <= {f"fedkin.{name}" for name in light.split()}
