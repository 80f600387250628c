"""Real peers on the loopback: how many exchanges a second they complete, and whether any fails.

    python -m benchmarks.peers [--tls] [--peers 8] [--seconds 10]

Every peer is a process with the whole loop (questions, checks, similarity or mean) but for training and disk: its
clients are quadratic, so that what is measured is the exchange. A model has 100,000 parameters, 400 kB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.config.peer_settings import NetworkSettings, PeerSettings, TlsSettings
from fedkin.methods import PANM, Gossip
from fedkin.methods.decentralized import PeerMethod
from fedkin.p2p.peer import Memory, Peer
from fedkin.p2p.zenoh_transport import ZenohNetwork
from fedkin.security.signatures import Signer
from fedkin.simulation.fake_world import FakeWorld

PARAMETERS, PORT = 100_000, 7850
METHODS: dict[str, PeerMethod] = {"gossip": Gossip(neighbours=3), "panm": PANM(neighbours=3, stage_one=10**6)}
PATIENCE = 60.0  # seconds for all to be there


class NoDisk:
    """Keeps nothing but the records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def save(self, memory: Memory) -> None:
        pass

    def append(self, record: dict[str, Any]) -> None:
        self.records.append(record)


def peer(client: int, peers: int, method: str, seconds: float, certificates: Path | None) -> dict[str, Any]:
    """One of the processes: rounds without a pause for so long, once all are there. What it counted."""
    target = np.random.default_rng(0).standard_normal((peers, PARAMETERS)).astype(np.float32)
    world, name = FakeWorld(target, np.full(peers, 60)), f"peer-{client}"
    own = certificates / name if certificates else None
    files = tuple(str(own / file) for file in ("ca.pem", "certificate.pem", "key.pem")) if own else ()
    way = "tls" if own else "tcp"
    known = [f"{way}/127.0.0.1:{PORT + k}" for k in (0, 1) if k != client]
    links = NetworkSettings([f"{way}/127.0.0.1:{PORT + client}"], known, tls=TlsSettings(*files) if own else None)
    network = ZenohNetwork("benchmark", name, links, PARAMETERS)
    disk, seal = NoDisk(), Signer(name, *map(Path, files)) if own else None
    one = Peer(PeerSettings(name, "benchmark", client), METHODS[method], world, network, disk, seal=seal)
    try:
        one.round()
        end = time.monotonic() + PATIENCE
        while len(network.peers()) < peers - 1 and time.monotonic() < end:
            time.sleep(0.05)
        disk.records.clear()
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            one.round()
        lasted = time.monotonic() - began
        time.sleep(2)  # the others may have a question left
        return {
            "exchanges": sum(record["exchanges"] for record in disk.records),
            "failures": sum(sum(record["failures"].values()) for record in disk.records),
            "rounds": len(disk.records),
            "seconds": lasted,
            "round": float(np.median([record["seconds"] for record in disk.records])),
        }
    finally:
        network.close()


def measure(method: str, peers: int, seconds: float, tls: bool) -> dict[str, float]:
    """All of them at once: exchanges a second in all, failures, megabytes a second, median seconds of a round."""
    with tempfile.TemporaryDirectory() as folder:
        if tls:
            from fedkin.p2p.init import init

            init(Path(folder), peers, tls=True, federation="benchmark")
        command = [sys.executable, "-m", "benchmarks.peers", "--peers", str(peers), "--seconds", str(seconds)]
        command += ["--method", method, *(["--certificates", folder] if tls else [])]
        running = [subprocess.Popen([*command, "--client", str(k)], stdout=subprocess.PIPE) for k in range(peers)]
        told = [json.loads(each.communicate()[0].splitlines()[-1]) for each in running]
    rate = sum(each["exchanges"] / each["seconds"] for each in told)
    vectors = 2 if METHODS[method].judges == "gradient" else 1
    return {
        "exchanges a second": rate,
        "failures": sum(each["failures"] for each in told),
        "megabytes a second": rate * vectors * 4 * PARAMETERS / 1e6,
        "median seconds of a round": float(np.median([each["round"] for each in told])),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--peers", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--tls", action="store_true", help="with certificates and signatures")
    arguments.add_argument("--method", choices=METHODS, help="one alone")
    arguments.add_argument("--client", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--certificates", type=Path, help=argparse.SUPPRESS)
    told = arguments.parse_args()
    if told.client is not None:
        print(json.dumps(peer(told.client, told.peers, told.method, told.seconds, told.certificates)))
        return
    for method in [told.method] if told.method else METHODS:
        found = measure(method, told.peers, told.seconds, told.tls)
        print(f"{method}: " + ", ".join(f"{value:.4g} {name}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
