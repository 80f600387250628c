"""Peers on one machine, without a server: one is killed, and one joins late.

    pip install '.[p2p]'
    python examples/peers/run.py

Each peer is a process with its own images of handwritten digits. The peers are of two clusters
with different permutations of the labels, and no peer knows the cluster of another. All files are
in runs/peers, or in another FOLDER, which must be new. At the end a table shows the neighbours of
each peer, and a figure draws them.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedkin.config import peer
from fedkin.core.storage import complete_lines
from fedkin.p2p.init_federation import init_federation
from fedkin.reporting.style import save_as
from fedkin.reporting.trust_graph_figure import draw_circle

SETTINGS = ["peer.pause=0.2", "network.deadline=2.0"]
Peers = dict[int, subprocess.Popen[bytes]]  # processes by the peer's number


def main() -> None:
    """Run the example."""
    options = read_options()
    folder = options.folder
    if folder.exists():
        sys.exit(f"error: {folder} exists: remove it, or name another folder")
    # One peer more than the number that begins: the last one joins late.
    configs = init_federation(folder, options.peers + 1, port=options.port, settings=SETTINGS)
    running: Peers = {}
    try:
        run_scenario(configs, running, options)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()
    show(configs, sorted(running), folder)


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/peers"))
    parser.add_argument("--peers", type=int, default=8, help="peers that begin (8)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds before one is killed (20)")
    parser.add_argument("--port", type=int, default=7950, help="port of the first peer (7950)")
    parser.add_argument("--minutes", type=float, default=10, help="longest time to wait (10)")
    options = parser.parse_args()
    if options.peers < 3:
        parser.error(f"--peers: expected 3 or more, got {options.peers}")
    if options.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, got {options.rounds}")
    return options


def run_scenario(configs: list[Path], running: Peers, options: argparse.Namespace) -> None:
    """Start the peers, kill one, let one join, and wait until it has found similar peers."""
    deadline = time.monotonic() + 60 * options.minutes
    late = options.peers
    print(f"starting {options.peers} peers, which takes a while", flush=True)
    for k in range(options.peers):
        running[k] = start(configs[k])
    wait(configs, running, options.rounds, deadline)
    print(f"peer-0, the entry point of the others, is killed; peer-{late} joins", flush=True)
    running[0].kill()
    running.pop(0).wait()
    running[late] = start(configs[late])
    newcomer = {late: running[late]}
    wait(configs, newcomer, 2 * options.rounds, deadline)


def start(config: Path) -> subprocess.Popen[bytes]:
    """Start a peer as a process, whose output goes to output.txt in its folder."""
    command = [sys.executable, "-m", "fedkin.cli", "peer", "--config", str(config)]
    with output_of(config).open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def output_of(config: Path) -> Path:
    """The file of a peer's output."""
    return config.parent / "output.txt"


def wait(configs: list[Path], peers: Peers, rounds: int, deadline: float) -> None:
    """Wait until these peers have done ``rounds`` rounds. Exit if one ends, or at the deadline."""
    while min(len(records(configs[k])) for k in peers) < rounds:
        for k, process in peers.items():
            if process.poll() is not None:
                fail(configs[k], f"peer-{k} has ended")
        if time.monotonic() > deadline:
            slowest = min(peers, key=lambda k: len(records(configs[k])))
            reason = f"peer-{slowest} did not end {rounds} rounds in time; --minutes sets the limit"
            fail(configs[slowest], reason)
        time.sleep(0.2)


def fail(config: Path, reason: str) -> None:
    """Show the last lines of a peer's output, and exit."""
    print(*output_of(config).read_text().splitlines()[-5:], sep="\n")
    sys.exit(f"error: {reason}; its output is in {output_of(config)}")


def records(config: Path) -> list[dict]:
    """The records of a peer's rounds."""
    return [json.loads(line) for line in complete_lines(config.parent / "metrics.jsonl")]


def show(configs: list[Path], online: list[int], folder: Path) -> None:
    """Print the table of neighbours, and draw them."""
    data = peer.load(configs[0]).data.make()
    clusters = data.true_clusters
    trust = np.zeros((len(configs), len(configs)), bool)
    print("\npeer     cluster rounds accuracy exchanges failed  neighbours")
    for k in online:
        own = records(configs[k])
        neighbours = [int(name.removeprefix("peer-")) for name in own[-1]["neighbours"]]
        trust[k, neighbours] = True
        exchanges = sum(record["exchanges"] for record in own)
        failed = sum(sum(record["failures"].values()) for record in own)
        numbers = f"{len(own):6} {own[-1]['accuracy']:8.2f} {exchanges:9} {failed:6}"
        names = []
        for j in sorted(neighbours):
            names.append(neighbour_name(j, clusters[j] == clusters[k], j in online))
        print(f"peer-{k:<3} {'AB'[clusters[k]]:7} {numbers}  {', '.join(names) or 'none'}")
    correct = (trust & (clusters[:, None] == clusters)).sum()
    print(f"\n{correct} of {trust.sum()} neighbours are of the same cluster")
    paths = save_as(lambda: draw(trust, clusters, online), folder / "trust")
    print(f"figure: {paths[0]}")


def neighbour_name(k: int, same_cluster: bool, online: bool) -> str:
    """The name of a neighbour in the table."""
    wrong = "" if same_cluster else " (wrong)"
    offline = "" if online else " (offline)"
    return f"peer-{k}{wrong}{offline}"


def draw(trust: np.ndarray, clusters: np.ndarray, online: list[int]) -> Figure:
    """Peers in a circle, cluster by cluster, with a line from each peer to its neighbours."""
    figure = Figure(figsize=(5.5, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_circle(axes, trust, clusters)
    place = np.empty(len(clusters))
    place[np.argsort(clusters, kind="stable")] = np.arange(len(clusters))
    angles = 2 * np.pi * place / len(clusters)
    for k, angle in enumerate(angles):
        name = f"peer-{k}{'' if k in online else ' (offline)'}"
        axes.text(1.15 * np.cos(angle), 1.15 * np.sin(angle), name, ha="center", va="center")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_title("Neighbours of each peer (orange: of another cluster)")
    return figure


if __name__ == "__main__":
    main()
