"""Eight peers on one machine, without a server: one is killed, one joins late; at the end the graph of trust.

    python examples/peers/run.py [FOLDER]

Each peer is a process with images of handwritten digits of its own. The peers are of two clusters with different
permutations of the labels, and none knows the cluster of another. FOLDER (new; else runs/peers) keeps what they write.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedkin.config import peer, registry
from fedkin.core.storage import complete_lines
from fedkin.p2p.init_federation import init_federation
from fedkin.reporting.style import save_as
from fedkin.reporting.trust_graph_figure import draw_circle

PEERS, LATE = 8, 8  # peer-0 to peer-7 begin; peer-8 comes later
PATIENCE = 180.0  # seconds


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/peers")
    if folder.exists():
        sys.exit(f"{folder} exists: remove it, or name another folder")
    configs = init_federation(folder, PEERS + 1, port=7950, settings=["peer.pause=0.2", "network.deadline=2.0"])
    running: dict[int, subprocess.Popen[bytes]] = {}
    try:
        run_scenario(configs, running)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()
    show(configs, sorted(running), folder)


def run_scenario(configs: list[Path], running: dict[int, subprocess.Popen[bytes]]) -> None:
    """Start the peers, kill one, let one join, and wait for enough rounds to find similar peers."""
    print(f"starting {PEERS} peers; the first lines take a while, because each of them loads its libraries")
    for k in range(PEERS):
        running[k] = start(configs[k])
    wait(configs, list(running), 20)
    print("peer-0 is killed, whose address all others were given; peer-8 joins")
    running[0].kill()
    running.pop(0).wait()
    running[LATE] = start(configs[LATE])
    wait(configs, [LATE], 40)


def start(config: Path) -> subprocess.Popen[bytes]:
    """A peer as a process of its own; what it prints goes to a file beside its configuration."""
    command = [sys.executable, "-m", "fedkin.cli", "peer", "--config", str(config)]
    with (config.parent / "output.txt").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def wait(configs: list[Path], peers: list[int], rounds: int) -> None:
    """Wait until all of these peers have done so many rounds."""
    end = time.monotonic() + PATIENCE
    while min(len(records(configs[k])) for k in peers) < rounds:
        if time.monotonic() > end:
            sys.exit(f"not done after {PATIENCE:.0f} seconds; see {configs[peers[0]].parent}/output.txt")
        time.sleep(0.2)


def records(config: Path) -> list[dict]:
    """The records of a peer's rounds."""
    return [json.loads(line) for line in complete_lines(config.parent / "metrics.jsonl")]


def show(configs: list[Path], online: list[int], folder: Path) -> None:
    """Print the table of neighbours, and draw the graph of trust."""
    clusters = registry.make(registry.datasets(), peer.load(configs[0]).data).true_clusters
    trust = np.zeros((len(configs), len(configs)), bool)
    print(f"\n{'peer':8} {'cluster':7} {'rounds':>6} {'accuracy':>8} {'exchanges':>9} {'failed':>6}  neighbours")
    for k in online:
        own = records(configs[k])
        neighbours = [int(name.removeprefix("peer-")) for name in own[-1]["neighbours"]]
        trust[k, neighbours] = True
        names = [f"peer-{j}{'' if clusters[j] == clusters[k] else ' (wrong)'}{'' if j in online else ' (offline)'}"
                 for j in sorted(neighbours)]  # fmt: skip
        exchanges, failed = sum(r["exchanges"] for r in own), sum(sum(r["failures"].values()) for r in own)
        numbers = f"{len(own):6} {own[-1]['accuracy']:8.2f} {exchanges:9} {failed:6}"
        print(f"peer-{k:<3} {'AB'[clusters[k]]:7} {numbers}  {', '.join(names) or 'none'}")
    correct = (trust & (clusters[:, None] == clusters)).sum()
    print(f"\n{correct} of {trust.sum()} neighbours are of the same cluster")
    paths = save_as(lambda: draw(trust, clusters, online), folder / "trust")
    print(f"figure: {paths[0]}")


def draw(trust: np.ndarray, clusters: np.ndarray, online: list[int]) -> Figure:
    """Peers in a circle, cluster by cluster, a line from each peer to its neighbours; orange lines are wrong."""
    figure = Figure(figsize=(5.5, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_circle(axes, trust, clusters)
    place = np.empty(len(clusters))
    place[np.argsort(clusters, kind="stable")] = np.arange(len(clusters))
    for k, angle in enumerate(2 * np.pi * place / len(clusters)):
        name = f"peer-{k}{'' if k in online else ' (offline)'}"
        axes.text(1.15 * np.cos(angle), 1.15 * np.sin(angle), name, ha="center", va="center")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_title("Neighbours of each peer (orange: of another cluster)")
    return figure


if __name__ == "__main__":
    main()
