"""Many clients on few machines: fleets of clients behind two real nodes, FlexCFL, a 784-128-10
model.

    python -m benchmarks.fleet [--clients 10000] [--cohort 1000] [--rounds 4]
    python -m benchmarks.fleet --traffic [--write docs/deploy-operations.md]

The first starts a SuperLink and two SuperNodes on this machine, each with half of the clients in
its own file, and prints the server's peak memory, of each process and of all, and bytes by round.
The second needs no processes: it counts the bytes of a round of all clients for fleets of 10, 100
and 1,000 clients.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.tables import put
from benchmarks.work import CLASSES, FEATURES
from tests.process import flower_project as project
from tests.process.flower_lab import SUPERLINK, Lab

NODES = 2
SAMPLES = 10
TIMEOUT = 3600.0
SAMPLES_PER_STATUS = 25
SHARED = {"samples": {"shape": [784], "classes": 10}, "model": {"name": "mlp", "hidden": 128}}
TRAFFIC = ["method", "clients a node", "bytes to a node in a round", "bytes from it"]
METHODS = {"fedavg": {"name": "fedavg"}, "flexcfl": {"name": "flexcfl", "clusters": 3}}


def fleet_file(folder: Path, name: str, count: int, seed: int) -> dict[str, str]:
    """Write a fleet's data file, and return the configuration of its node.

    Args:
        folder: for the file.
        name: of the node.
        count: clients of the fleet.
        seed: of their labels and noise.
    """
    rng = np.random.default_rng(seed)
    path = folder / f"{name}.npz"
    y = rng.integers(0, CLASSES, count * SAMPLES)
    x = np.random.default_rng(0).random((CLASSES, FEATURES), np.float32)[y]
    x += 0.3 * rng.random(x.shape, np.float32)
    np.savez(path, x=x, y=y, client_id=np.repeat(np.arange(count), SAMPLES))
    return project.client(
        folder=folder,
        name=name,
        clients=f"0:{count}",
        data={"name": "file", "path": str(path)},
        shared=SHARED,
    )


def sections(method: str, total: int, cohort: int, rounds: int, scored: int) -> dict[str, dict]:
    """server.toml without the settings that both files have.

    Args:
        method: a key of METHODS.
        total: clients of all fleets.
        cohort: clients in a round.
        rounds: how many.
        scored: rounds between evaluations.
    """
    return {
        "federation": {"capacity": total, "wait_for": total, "deadline": 1800.0},
        "method": METHODS[method],
        "local": {"epochs": 1, "batch_size": 10, "lr": 0.03},
        "run": {"rounds": rounds, "cohort": cohort, "evaluate_every": scored},
    }


class Memory:
    """Peak memory of the server's processes, in megabytes: of each (resident), and of all at one
    moment (shared memory counted once)."""

    def __init__(self) -> None:
        self.each: dict[str, float] = {}
        self.together = 0.0

    def sample(self, lab: Lab) -> None:
        """Measure the server's processes now."""
        now = 0.0
        for process, line in lab.processes(SUPERLINK).items():
            kind = re.search(r"flower-superlink|flwr-serverapp|flower-superexec", line)
            try:
                peak = _megabytes(process, "status", "VmHWM")
                now += _megabytes(process, "smaps_rollup", "Pss")
            except OSError:  # it has ended
                continue
            if kind:
                self.each[kind[0]] = max(self.each.get(kind[0], 0.0), peak)
        self.together = max(self.together, now)


def _megabytes(process: int, file: str, name: str) -> float:
    match = re.search(
        rf"^{name}:\s+(\d+)", Path(f"/proc/{process}/{file}").read_text(), re.MULTILINE
    )
    return int(match[1]) / 1024 if match else 0.0


def run_nodes(total: int, cohort: int, rounds: int) -> None:
    """A run of FlexCFL on two nodes.

    Args:
        total: clients of both nodes.
        cohort: clients in a round.
        rounds: how many.
    """
    folder = Path(tempfile.mkdtemp(prefix="fedkin-fleet-"))
    memory = Memory()
    with Lab(folder / "lab") as lab:
        lab.superlink()
        lab.nodes(
            {
                f"fleet-{k}": fleet_file(folder, f"fleet-{k}", total // NODES, k)
                for k in range(NODES)
            }
        )
        config = project.server(
            folder,
            sections(method="flexcfl", total=total, cohort=cohort, rounds=rounds, scored=rounds),
            SHARED,
        )
        start = time.monotonic()
        run = lab.run(project.app(folder), {"config": config})
        while lab.status(run) in ("pending", "starting", "running"):
            for _ in range(SAMPLES_PER_STATUS):
                memory.sample(lab)
                time.sleep(0.2)
            if time.monotonic() - start > TIMEOUT:
                sys.exit(f"the run takes more than {TIMEOUT:.0f} s")
        status = lab.wait(run, 60)
        if status != "finished:completed":
            sys.exit(f"{status}:\n{lab.output(run)}")
    for name in ("metrics", "timings"):
        for line in (folder / "run" / f"{name}.jsonl").read_text().splitlines():
            record = json.loads(line)
            keys = (
                "round",
                "accuracy",
                "cluster_sizes",
                "missing",
                "messages_by_operation",
                "train",
                "score",
            )
            print({key: record[key] for key in keys if key in record})
    print(
        {kind: f"{value:.0f} MB" for kind, value in memory.each.items()},
        f"{memory.together:.0f} MB together",
    )


def traffic() -> list[list[str]]:
    """Bytes of a round for one node, by the size of its fleet; printed while they are counted."""
    from fedkin.config.server import load_client, load_server
    from fedkin.server.deploy.build_node import node_from_config
    from fedkin.server.deploy.run_server import serve
    from tests.server.memory_transport import MemoryTransport

    print(*TRAFFIC, sep=" | ")
    rows = []
    for method in METHODS:
        for count in (10, 100, 1000):
            folder = Path(tempfile.mkdtemp(prefix="fedkin-traffic-"))
            configs = [fleet_file(folder, f"fleet-{k}", count, k) for k in range(NODES)]
            transport = MemoryTransport()
            for k, one in enumerate(configs):
                transport.join(k, node_from_config(load_client(Path(one["config"]))))
            total = NODES * count
            config = project.server(
                folder,
                sections(method=method, total=total, cohort=total, rounds=4, scored=100),
                SHARED,
            )
            records = serve(load_server(Path(config)), transport).records
            sides = [
                records[3]["messages_by_operation"]["train"][i]
                - records[2]["messages_by_operation"]["train"][i]
                for i in (0, 1)
            ]
            rows.append([method, f"{count:,}", f"{sides[0] // NODES:,}", f"{sides[1] // NODES:,}"])
            print(*rows[-1], sep=" | ", flush=True)
    return rows


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--clients", type=int, default=10_000)
    arguments.add_argument("--cohort", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=4)
    arguments.add_argument("--traffic", action="store_true")
    arguments.add_argument("--write", type=Path, help="a page that holds the table of bytes")
    options = arguments.parse_args()
    if not options.traffic:
        return run_nodes(options.clients, options.cohort, options.rounds)
    rows = traffic()
    if options.write:
        put(options.write, "python -m benchmarks.fleet --traffic", TRAFFIC, rows)


if __name__ == "__main__":
    main()
