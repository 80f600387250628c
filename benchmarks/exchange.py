"""Seconds of an exchange with four real sites: a process per message against a worker that stays.

    python -m benchmarks.exchange [--rounds 5] [--passes 2] [--write docs/deploy-operations.md]

A SuperLink and four sites on this machine, with TLS and registered keys, written by ``fedkin deploy
init`` and started by ``fedkin deploy up``. FedAvg with a 784-128-10 network; a round is one
exchange to train and one to evaluate, and the median is over all but the first round. All ways
take turns. The last models must have the same bits with every way. Ends with status 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedkin.methods  # noqa: F401 (a checkpoint holds a state that it must know)
from benchmarks.tables import put
from fedkin.run.folder import checkpoint
from fedkin.server.deploy.init import init
from fedkin.server.deploy.status import wait_for_run
from fedkin.server.deploy.up import down, up

SITES = 4
WAYS = {"cold": "a process a message, on Flower's SuperNode", "warm": "a worker, and fedkin's node"}
SETTINGS = [
    *("samples.shape=[784]", "samples.classes=10", "data.name=file", "data.path=mine.npz"),
    *(
        "model.name=mlp",
        "model.hidden=128",
        "method.name=fedavg",
        "local.epochs=1",
        "local.lr=0.03",
        "run.against=[]",
    ),
]


def deployment(folder: Path, way: str, rounds: int, port: int) -> Path:
    """The folder of a federation.

    Args:
        folder: where it is made.
        way: a key of WAYS.
        rounds: of its run.
        port: of the SuperLink.
    """
    worker = f"client.worker={'none' if way == 'cold' else 'warm'}"
    init(folder, SITES, port=port, settings=[*SETTINGS, f"run.rounds={rounds}", worker])
    for site in range(SITES):
        rng = np.random.default_rng(site)
        x = rng.random((60, 784), np.float32)
        y = rng.integers(0, 10, 60)
        np.savez(folder / f"site-{site}" / "mine.npz", x=x, y=y, client_id=np.zeros(60, np.int64))
    return folder


def seconds(folder: Path) -> tuple[list[float], list[float]]:
    """Seconds of each exchange of a federation's run, to train and to evaluate, from round 1 on."""
    try:
        up(folder, say=lambda line: None)
        if not wait_for_run(folder, lambda line: None):
            sys.exit(f"the run has failed:\n{(folder / 'superlink.log').read_text()[-3000:]}")
    finally:
        down(folder)
    lines = [
        json.loads(line) for line in (folder / "run" / "timings.jsonl").read_text().splitlines()[1:]
    ]
    return [line["train"] for line in lines], [line["score"] for line in lines]


def answers(folder: Path) -> list[float]:
    """Seconds in which the workers answered, from the logs of the sites; the first two messages of
    each left out."""
    logs = [path.read_text() for path in sorted(folder.glob("site-*/site.log"))]
    return [
        float(seconds) for log in logs for seconds in re.findall(r"answered in ([\d.]+) s", log)[3:]
    ]


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--passes", type=int, default=2)
    arguments.add_argument("--port", type=int, default=18100)
    arguments.add_argument("--write", type=Path, help="a page that holds the table")
    options = arguments.parse_args()
    place = Path(tempfile.mkdtemp(prefix="fedkin-exchange-"))
    train = {way: [] for way in WAYS}
    score = {way: [] for way in WAYS}
    own = []
    models = []
    for turn in range(options.passes):
        for way in WAYS:
            folder = deployment(place / f"{way}-{turn}", way, options.rounds, options.port)
            trained, scored = seconds(folder)
            train[way] = train[way] + trained
            score[way] = score[way] + scored
            own += answers(folder)
            models.append(checkpoint.newest(folder / "run" / "checkpoints")[0].state.models)
            print(way, "train", trained, "evaluate", scored, flush=True)
    times = {way: (float(np.median(train[way])), float(np.median(score[way]))) for way in WAYS}
    rows = [
        [WAYS[way], *(f"{t:.1f}" for t in own), f"{sum(own) / sum(times['cold']):.2f}"]
        for way, own in times.items()
    ]
    for row in rows:
        print("{}: train {} s, evaluate {} s, {} of a process a message".format(*row), flush=True)
    print(
        f"the workers answered in {np.median(own):.2f} s (median), {np.quantile(own, 0.95):.2f} s "
        "(95%)"
    )
    if options.write:
        put(
            options.write,
            "python -m benchmarks.exchange",
            ["", "seconds to train", "to evaluate", "share"],
            rows,
        )
    shutil.rmtree(place)
    if any(model.tobytes() != models[0].tobytes() for model in models):
        sys.exit("the models differ")
    print("the models are equal, bit for bit")


if __name__ == "__main__":
    main()
