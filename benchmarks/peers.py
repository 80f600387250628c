"""Real peers on the loopback: exchanges per second, and failures.

    python -m benchmarks.peers [--tls] [--peers 8] [--seconds 10]

Every peer is a process with the whole loop (requests, checks, similarity or mean), except training
and disk. Its clients are quadratic, so the benchmark measures the exchange. A model has 100,000
parameters, 400 kB.
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
from fedkin.p2p.peer import Peer, PeerMemory
from fedkin.p2p.zenoh_transport import ZenohTransport
from fedkin.security.signatures import Signer
from fedkin.simulation.fake_world import FakeWorld

PARAMETERS = 100_000
PORT = 7850
METHODS: dict[str, PeerMethod] = {
    "gossip": Gossip(neighbours=3),
    "panm": PANM(neighbours=3, stage_one=10**6),
}
PATIENCE = 60.0  # seconds for all to come online


class RecordsOnly:
    """Storage that keeps only the records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def save(self, memory: PeerMemory) -> None:
        """Forget it."""

    def append(self, record: dict[str, Any]) -> None:
        """Keep it in memory."""
        self.records.append(record)


def peer(
    client: int, peers: int, method: str, seconds: float, certificates: Path | None
) -> dict[str, Any]:
    """One of the processes: rounds without a pause, once all peers are online, and its counts.

    Args:
        client: the number of this peer.
        peers: number of all peers.
        method: a key of METHODS.
        seconds: time for rounds.
        certificates: folder of the peers' certificates; None: plain.
    """
    target = np.random.default_rng(0).standard_normal((peers, PARAMETERS)).astype(np.float32)
    world = FakeWorld(target, np.full(peers, 60))
    name = f"peer-{client}"
    certificate_folder = certificates / name if certificates else None
    files = (
        tuple(str(certificate_folder / file) for file in ("ca.pem", "certificate.pem", "key.pem"))
        if certificate_folder
        else ()
    )
    protocol = "tls" if certificate_folder else "tcp"
    other_endpoints = [f"{protocol}/127.0.0.1:{PORT + k}" for k in (0, 1) if k != client]
    network = NetworkSettings(
        [f"{protocol}/127.0.0.1:{PORT + client}"],
        other_endpoints,
        tls=TlsSettings(*files) if certificate_folder else None,
    )
    transport = ZenohTransport("benchmark", name, network, PARAMETERS)
    storage = RecordsOnly()
    signer = Signer(name, *map(Path, files)) if certificate_folder else None
    own_peer = Peer(
        settings=PeerSettings(name, "benchmark", client),
        method=METHODS[method],
        world=world,
        transport=transport,
        storage=storage,
        signer=signer,
    )
    try:
        own_peer.round()
        end = time.monotonic() + PATIENCE
        while len(transport.peers()) < peers - 1 and time.monotonic() < end:
            time.sleep(0.05)
        storage.records.clear()
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            own_peer.round()
        elapsed = time.monotonic() - start
        time.sleep(2)  # the others may have a request left
        return {
            "exchanges": sum(record["exchanges"] for record in storage.records),
            "failures": sum(sum(record["failures"].values()) for record in storage.records),
            "rounds": len(storage.records),
            "seconds": elapsed,
            "round": float(np.median([record["seconds"] for record in storage.records])),
        }
    finally:
        transport.close()


def measure(method: str, peers: int, seconds: float, tls: bool) -> dict[str, float]:
    """All peers together: exchanges a second, failures, megabytes a second, median seconds of a
    round.

    Args:
        method: a key of METHODS.
        peers: number of peers.
        seconds: time of rounds of each.
        tls: with certificates and signatures.
    """
    with tempfile.TemporaryDirectory() as folder:
        if tls:
            from fedkin.p2p.init_federation import init_federation

            init_federation(Path(folder), peers, tls=True, federation="benchmark")
        command = [
            sys.executable,
            "-m",
            "benchmarks.peers",
            "--peers",
            str(peers),
            "--seconds",
            str(seconds),
        ]
        command += ["--method", method, *(["--certificates", folder] if tls else [])]
        running = [
            subprocess.Popen([*command, "--client", str(k)], stdout=subprocess.PIPE)
            for k in range(peers)
        ]
        results = [json.loads(each.communicate()[0].splitlines()[-1]) for each in running]
    rate = sum(each["exchanges"] / each["seconds"] for each in results)
    vectors = 2 if METHODS[method].similarity_of == "gradient" else 1
    return {
        "exchanges a second": rate,
        "failures": sum(each["failures"] for each in results),
        "megabytes a second": rate * vectors * 4 * PARAMETERS / 1e6,
        "median seconds of a round": float(np.median([each["round"] for each in results])),
    }


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--peers", type=int, default=8)
    arguments.add_argument("--seconds", type=float, default=10.0)
    arguments.add_argument("--tls", action="store_true", help="with certificates and signatures")
    arguments.add_argument("--method", choices=METHODS, help="only this one")
    arguments.add_argument("--client", type=int, help=argparse.SUPPRESS)
    arguments.add_argument("--certificates", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.client is not None:
        print(
            json.dumps(
                peer(
                    client=options.client,
                    peers=options.peers,
                    method=options.method,
                    seconds=options.seconds,
                    certificates=options.certificates,
                )
            )
        )
        return
    for method in [options.method] if options.method else METHODS:
        results = measure(method, options.peers, options.seconds, options.tls)
        print(
            f"{method}: " + ", ".join(f"{value:.4g} {name}" for name, value in results.items()),
            flush=True,
        )


if __name__ == "__main__":
    main()
