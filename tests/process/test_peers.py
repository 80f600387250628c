"""Real peers: a process each, on the loopback, that are killed, hung, doubled and joined."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import fedkin as fk
from fedkin.config import peer
from fedkin.core.storage import complete_lines
from fedkin.methods.decentralized import PeerState
from fedkin.p2p.init_federation import init_federation
from fedkin.p2p.peer_folder import STATE
from tests.free_ports import QUICK, free_ports, until

pytest.importorskip("zenoh", reason="real peers need pip install 'fedkin[p2p]'")
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = [
    *(
        "data.samples=20",
        "data.test_samples=5",
        "method.neighbours=2",
        "method.candidates=3",
        "method.stage_one=1000",
    ),
    *("peer.pause=0.05", "network.deadline=5.0", "network.zenoh=quick.json5"),
]
# Seconds; everything here takes a few on a quiet machine, and a busy disk can stop it for a minute.
PATIENCE = 180.0


@dataclass
class PeerProcess:
    """A peer that was started."""

    process: int
    folder: Path
    log: Path

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in complete_lines(self.folder / "metrics.jsonl")]

    def last(self) -> dict[str, Any]:
        return (self.records() or [{"round": 0, "answered": [], "asked": []}])[-1]

    def continues(self, rounds: int = 3) -> bool:
        """Whether so many more rounds come."""
        goal = self.last()["round"] + rounds
        return until(lambda: self.last()["round"] >= goal, PATIENCE)

    def receives_from(self, name: str) -> bool:
        return until(lambda: name in self.last()["answered"], PATIENCE)

    def stops_asking(self, name: str) -> bool:
        """Whether ``name`` is not asked any more, in three rounds on end."""
        return until(
            lambda: len(r := self.records()[-3:]) == 3 and all(name not in e["asked"] for e in r),
            PATIENCE,
        )

    def signal(self, number: int) -> None:
        os.kill(self.process, number)


class PeerProcesses:
    """Starts peers (``tests.p2p.fork_server``)."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "tests.p2p.fork_server"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def start(self, config: Path, *changes: str, log: str = "log") -> PeerProcess:
        path = config.parent / log
        process = self._say([str(path), ["--config", str(config), *changes]])
        return PeerProcess(process, config.parent, path)

    def ended(self, one: PeerProcess) -> int:
        """Waits for its end."""
        return self._say(one.process)

    def close(self) -> None:
        self._process.communicate()

    def _say(self, order: Any) -> int:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def processes() -> Iterator[PeerProcesses]:
    processes = PeerProcesses()
    yield processes
    processes.close()


def federation(
    folder: Path, peers: int, *, tls: bool = False, settings: list[str] = SETTINGS
) -> list[Path]:
    """The configurations of a federation on ports that are free."""
    configs = init_federation(folder, peers, tls=tls, settings=settings)
    ports = free_ports(peers)
    for config in configs:
        text = config.read_text()
        for k, port in enumerate(ports):
            text = text.replace(f"127.0.0.1:{7450 + k}", f"127.0.0.1:{port}")
        config.write_text(text)
        (config.parent / "quick.json5").write_text(QUICK)
    return configs


def stopped(processes: PeerProcesses, peers: list[PeerProcess]) -> None:
    """All end cleanly when asked to."""
    for k, one in enumerate(peers):
        one.signal(signal.SIGTERM if k % 2 else signal.SIGINT)
    for one in peers:
        assert processes.ended(one) == 0, one.log.read_text()
        assert "stopped after round" in one.log.read_text()


def test_one_is_killed_one_hangs_one_joins_and_the_rest_goes_on(
    tmp_path: Path, processes: PeerProcesses
) -> None:
    configs = federation(tmp_path, 5)
    peers = [processes.start(config) for config in configs[:4]]
    names = [f"peer-{k}" for k in range(5)]
    for one, name in zip(peers, names, strict=False):
        assert all(one.receives_from(other) for other in names[:4] if other != name), (
            one.log.read_text()
        )
        assert one.continues()
    failures = [
        record["failures"] for one in peers for record in one.records() if record["failures"]
    ]
    assert not failures  # nothing fails while nothing dies

    peers[1].signal(signal.SIGSTOP)
    assert peers[0].stops_asking(names[1]) and peers[2].stops_asking(names[1])
    assert peers[0].continues()
    peers[1].signal(signal.SIGCONT)
    # Taken back, and back.
    assert peers[0].receives_from(names[1]) and peers[1].receives_from(names[0])

    first = peers.pop(0)  # the one whose address all others were given
    first.signal(signal.SIGKILL)
    assert processes.ended(first) == -signal.SIGKILL
    late = processes.start(configs[4])
    assert all(one.receives_from(names[4]) for one in peers) and late.receives_from(names[1])
    assert all(one.stops_asking(names[0]) and one.continues() for one in [*peers, late])
    age = first.last()["round"]

    # It goes on where its disk has it, at most the round of the kill behind.
    again = processes.start(configs[0])
    assert again.continues() and peers[0].receives_from(names[0])
    rounds = [record["round"] for record in again.records()]
    assert rounds == list(range(1, len(rounds) + 1)) and len(rounds) > age
    stopped(processes, [*peers, late, again])


def test_in_lock_step_four_processes_are_the_simulators_four(
    tmp_path: Path, processes: PeerProcesses
) -> None:
    names = [f"peer-{k}" for k in range(4)]
    method = ["method.neighbours=1", "method.candidates=2", "method.stage_one=3", "method.period=2"]
    lockstep = [
        "peer.rounds=6",
        f"lockstep.peers={names}",
        "data.samples=20",
        "data.test_samples=5",
    ]
    configs = federation(tmp_path, 4, settings=[*method, *lockstep])
    peers = [processes.start(config) for config in configs]
    assert [processes.ended(one) for one in peers] == [0] * 4
    config = peer.load(configs[0])
    data = config.data.make()
    model = config.model.make(data)
    panm = config.method.made
    state = fk.simulate(panm, data, model, rounds=6, cohort=4, local=config.work, seed=0).state
    assert isinstance(state, PeerState)
    for k, one in enumerate(peers):
        np.testing.assert_allclose(
            load_file(one.folder / STATE)["model"], state.models[k], rtol=1e-4, atol=1e-6
        )
        assert one.last()["neighbours"] == [names[j] for j in np.flatnonzero(state.trust[k])]
        assert not any(record["failures"] for record in one.records())


def test_the_second_of_one_name_stops_with_one_line(
    tmp_path: Path, processes: PeerProcesses
) -> None:
    configs = federation(tmp_path, 2)
    first = processes.start(configs[0])
    assert first.continues(1)
    second = processes.start(configs[1], "peer.name=peer-0", "peer.folder=twin", log="twin.log")
    assert processes.ended(second) == 2
    (line,) = [line for line in second.log.read_text().splitlines() if line.startswith("error:")]
    assert (
        "another peer had the name 'peer-0' first" in line
        and "Traceback" not in second.log.read_text()
    )
    assert first.continues()
    stopped(processes, [first])


def test_members_with_certificates_and_one_without(
    tmp_path: Path, processes: PeerProcesses
) -> None:
    # That file has the access rules.
    settings = [text for text in SETTINGS if not text.startswith("network.zenoh")]
    configs = federation(tmp_path / "ours", 3, tls=True, settings=settings)
    members = [processes.start(config) for config in configs[:2]]
    assert members[0].receives_from("peer-1") and members[1].receives_from("peer-0")
    plain = federation(tmp_path / "plain", 3)[2]
    known = configs[2].read_text().replace("tls/", "tcp/").split("connect = [")[1].split("]")[0]
    text = plain.read_text()
    begin = text.index("connect = [") + len("connect = [")
    end = text.index("]", text.index("connect = ["))
    plain.write_text(text[:begin] + known + text[end:])
    stranger = processes.start(plain)
    assert stranger.continues(5)
    assert not any(record["answered"] for record in stranger.records())
    assert "no other peer can be reached" in stranger.log.read_text()
    assert not any("peer-2" in record["asked"] for one in members for record in one.records())
    assert members[0].continues() and not any(record["failures"] for record in members[0].records())
    stopped(processes, [*members, stranger])
