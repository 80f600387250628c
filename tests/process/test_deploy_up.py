"""A trial by one command, with Flower's own programs: all is started, answers, survives a killed
worker, and ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
import fedkin as fk
from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError
from fedkin.run.folder import checkpoint
from fedkin.server.deploy.init import init
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, find, stop
from fedkin.server.deploy.status import UP, status, wait_for_run
from fedkin.server.deploy.up import down, up
from tests.free_ports import free_ports, until

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
pytestmark = pytest.mark.timeout(900)  # seconds; on a busy machine every process takes many
ROUNDS = 3
SETTINGS = [
    f"run.rounds={ROUNDS}",
    "run.against=[]",
    "local.epochs=1",
    "federation.deadline=300",
    "run.cohort=2",
]


@pytest.fixture
def trial(short_path: Path) -> Iterator[Path]:
    # Short, so that the system's list of sockets has the paths of the sites'.
    folder = short_path / "fed"
    init(folder, 2, port=free_ports(1)[0], settings=SETTINGS)
    yield folder
    stop(parts(folder), 0.0)


def parts(folder: Path) -> list[Program]:
    sites = [Program(folder / f"site-{k}", SITE) for k in range(2)]
    return [Program(folder, SUPERLINK), Program(folder, STARTER), *sites]


def worker_of(folder: Path, site: int) -> int | None:
    own = find([Program(folder / f"site-{site}", SITE)]).popitem()[1]
    return next((one.number for one in own if "deploy.worker" in one.command), None)


def test_a_trial_is_started_answers_survives_and_ends(
    trial: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    up(trial, say=said.append)
    assert {"site-0: takes part", "site-1: takes part"} <= set(said)
    with pytest.raises(ConfigError, match="is up already"):
        up(trial)

    # a worker is killed while it answers: it is stopped first, so that a message surely is with it
    assert until(lambda: (trial / "run/metrics.jsonl").exists(), 300)
    worker = worker_of(trial, 0)
    assert worker is not None
    os.kill(worker, signal.SIGSTOP)
    own = trial / "site-0/client.worker/socket"
    assert until(lambda: _is_waited_for(own), 200) and own.exists()
    os.kill(worker, signal.SIGKILL)
    assert wait_for_run(trial, said.append), (trial / "superlink.log").read_text()[-3000:]
    assert worker_of(trial, 0) not in (None, worker)
    assert "died while it answered" in (trial / "site-0/site.log").read_text()
    check_bits(trial)

    # a site that dies is started again by the same command, and nothing else is
    victim = Program(trial / "site-1", SITE)
    for one in find([victim])[victim]:
        os.kill(one.number, signal.SIGKILL)
    assert until(
        lambda: {line.name for line in status(trial) if line.state != UP} == {"site-1", "run"}, 120
    )
    assert [part.name for part in down(trial)] == ["superlink", "site-0"]
    check_ended(trial)
    assert down(trial) == []


def _is_waited_for(worker_socket: Path) -> bool:
    """Whether a process is connected to a stopped worker's socket, and waits.

    The table has the sockets of other deployments on the machine, too.
    """
    table = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {worker_socket}") for line in table) > 1


def check_bits(folder: Path) -> None:
    """The models equal the simulation's: nothing was lost, and a worker computes the same as a new
    process."""
    config = load_server(folder / "server.toml")
    data = fk.planted(
        base="digits", kind="label_permutation", clusters=2, samples=60, seed=3, clients=8
    )
    method = fk.FlexCFL(clusters=2)
    local = config.work
    last, _ = checkpoint.newest(folder / "run" / "checkpoints")
    assert last.round == ROUNDS and last.state.assignment[:2].min() >= 0
    pair = data.select(np.arange(2))
    run = fk.simulate(method, pair, fk.models.mclr(pair), rounds=ROUNDS, cohort=2, local=local)
    np.testing.assert_allclose(last.state.models, run.models, rtol=1e-5, atol=1e-6)


def check_ended(folder: Path) -> None:
    """No process is left, and the port is free."""
    assert not any(find(parts(folder)).values())
    port = int((folder / "site-0/flower.env").read_text().splitlines()[0].rpartition(":")[2])
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("127.0.0.1", port))
