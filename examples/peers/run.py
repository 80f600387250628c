"""Eight peers on one machine, without a server: one is killed, one joins late, and at the end who trusts whom.

    python examples/peers/run.py [FOLDER]

Each peer is a process with images of handwritten digits of its own. There are two kinds of peers, which call the digits
by different names; nobody tells them who is of which kind. FOLDER (new; else runs/peers) keeps what they write.
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
from fedkin.core.storage import whole_lines
from fedkin.p2p.init_federation import init_federation
from fedkin.reporting.style import save_as
from fedkin.reporting.trust_graph_figure import draw_circle

PEERS, LATE = 8, 8  # peer-0 to peer-7 begin; peer-8 comes later
PATIENCE = 180.0  # seconds


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/peers")
    if folder.exists():
        sys.exit(f"{folder} is there already: remove it, or name another folder")
    configs = init_federation(folder, PEERS + 1, port=7950, settings=["peer.pause=0.2", "network.deadline=2.0"])
    running: dict[int, subprocess.Popen[bytes]] = {}
    try:
        play(configs, running)
    finally:
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()
    tell(configs, sorted(running), folder)


def play(configs: list[Path], running: dict[int, subprocess.Popen[bytes]]) -> None:
    """Start, kill, join, and wait until all have had the time to find each other."""
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


def wait(configs: list[Path], who: list[int], rounds: int) -> None:
    """Until all of these have done so many rounds."""
    end = time.monotonic() + PATIENCE
    while min(len(records(configs[k])) for k in who) < rounds:
        if time.monotonic() > end:
            sys.exit(f"not done after {PATIENCE:.0f} seconds; see {configs[who[0]].parent}/output.txt")
        time.sleep(0.2)


def records(config: Path) -> list[dict]:
    """What a peer has written, a record per round."""
    return [json.loads(line) for line in whole_lines(config.parent / "metrics.jsonl")]


def tell(configs: list[Path], there: list[int], folder: Path) -> None:
    """The table of neighbours, and the picture."""
    described = peer.load(configs[0])
    kind = registry.make(registry.datasets(), described.data).true_clusters
    trust = np.zeros((len(configs), len(configs)), bool)
    print(f"\n{'peer':8} {'kind':5} {'rounds':>6} {'accuracy':>8} {'exchanges':>9} {'failed':>6}  neighbours")
    for k in there:
        told = records(configs[k])
        neighbours = [int(name.removeprefix("peer-")) for name in told[-1]["neighbours"]]
        trust[k, neighbours] = True
        names = [f"peer-{j}{'' if kind[j] == kind[k] else ' (wrong kind)'}{'' if j in there else ' (gone)'}"
                 for j in sorted(neighbours)]  # fmt: skip
        exchanges, failed = sum(r["exchanges"] for r in told), sum(sum(r["failures"].values()) for r in told)
        numbers = f"{len(told):6} {told[-1]['accuracy']:8.2f} {exchanges:9} {failed:6}"
        print(f"peer-{k:<3} {'AB'[kind[k]]:5} {numbers}  {', '.join(names) or 'none'}")
    right = (trust & (kind[:, None] == kind)).sum()
    print(f"\n{right} of {trust.sum()} neighbours are of the right kind")
    paths = save_as(lambda: picture(trust, kind, there), folder / "trust")
    print(f"picture: {paths[0]}")


def picture(trust: np.ndarray, kind: np.ndarray, there: list[int]) -> Figure:
    """Peers in a circle, kin beside kin, a line to everybody whom one trusts; orange lines are wrong."""
    figure = Figure(figsize=(5.5, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    draw_circle(axes, trust, kind)
    place = np.empty(len(kind))
    place[np.argsort(kind, kind="stable")] = np.arange(len(kind))
    for k, angle in enumerate(2 * np.pi * place / len(kind)):
        name = f"peer-{k}{'' if k in there else ' (gone)'}"
        axes.text(1.15 * np.cos(angle), 1.15 * np.sin(angle), name, ha="center", va="center")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_title("Who trusts whom (orange: of the wrong kind)")
    return figure


if __name__ == "__main__":
    main()
