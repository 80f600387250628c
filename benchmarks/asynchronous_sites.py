"""Time to a target accuracy on four real sites, one of which is 20 times slower.

    python -m benchmarks.asynchronous_sites [--seeds 3] [--write docs/asynchronous.md]

MNIST is read from the folder FEDKIN_DATA.

Each run is a deployment of ``fedkin deploy init`` and ``up``: a server and four sites on Flower,
with TLS and keys, on this machine. The processes of one site are stopped for 95% of the time, so
that this site computes and answers 20 times slower. The data are scikit-learn's digits in two
permutations of the labels, two sites each, and FlexCFL trains two clusters.

Each round leaves a checkpoint, whose time is the file's. The benchmark computes the accuracy of its
models on the test samples of all sites. The target of a seed is one point below the final accuracy
of its synchronous run. The time counts from the models of round 0 on. All runs train the same
number of updates.

The results are kept in ``benchmarks/asynchronous_sites_results.json`` after each run; a run that is
there is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors.numpy import load_file

import fedkin as fk
from benchmarks.asynchronous import ALL, Points, final_accuracy, gain
from benchmarks.deployment import fedkin, free_port
from benchmarks.tables import put
from fedkin.server.deploy.processes import SITE, Program, find
from fedkin.server.deploy.status import wait_for_run

RESULTS = Path(__file__).with_name("asynchronous_sites_results.json")
COMMAND = "python -m benchmarks.asynchronous_sites"
SITES = 4
SLOW_FACTOR = 20
PERIOD = 1.0  # seconds from one stop of the slow site to the next
# The settings of each way to wait, and how many of its rounds train as many updates as a
# synchronous one.
WAITING: dict[str, tuple[list[str], int]] = {
    ALL: ([], 1),
    "first 3 of 4": (["asynchronous.name=first_replies", "asynchronous.count=3"], 1),
    "buffers of 1": (["asynchronous.name=buffered", "asynchronous.buffer=1"], SITES),
}


@dataclass(frozen=True)
class Sites:
    """What the sites hold, and how long they train.

    Attributes:
        base: image set.
        kind: difference between the two clusters.
        samples, test_samples: number of images of each site.
        epochs, rate: settings of a training.
        rounds: number of rounds of four updates each.
    """

    base: str
    kind: Literal["label_permutation", "rotation"]
    samples: int
    test_samples: int
    epochs: int
    rate: float
    rounds: int

    def data(self, seed: int) -> fk.data.FederatedData:
        """The data of all sites, as their configurations read them."""
        return fk.planted(
            self.base,
            self.kind,
            clusters=2,
            clients=SITES,
            samples=self.samples,
            test_samples=self.test_samples,
            seed=seed,
        )

    def settings(self, seed: int) -> list[str]:
        """The settings of a deployment."""
        return [
            f"local.epochs={self.epochs}",
            f"local.lr={self.rate}",
            "data.name=planted",
            f"data.base={self.base}",
            f"data.kind={self.kind}",
            "data.clusters=2",
            f"data.clients={SITES}",
            f"data.samples={self.samples}",
            f"data.test_samples={self.test_samples}",
            f"data.seed={seed}",
        ]


MNIST = Sites(
    base="mnist",
    kind="rotation",
    samples=4000,
    test_samples=500,
    epochs=5,
    rate=0.01,
    rounds=10,
)
DATA = {
    "digits": Sites(
        base="digits",
        kind="label_permutation",
        samples=60,
        test_samples=100,
        epochs=20,
        rate=0.05,
        rounds=20,
    ),
    "MNIST": MNIST,
    # Each training takes four times longer, and a message does not.
    "MNIST, 20 epochs": replace(MNIST, epochs=20),
}


class SlowSite(threading.Thread):
    """Stops the processes of a site again and again, until ``end`` is called.

    Args:
        folder: the site's folder.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._program = Program(folder, SITE)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            self._signal(signal.SIGCONT)
            self._ended.wait(PERIOD / SLOW_FACTOR)
            self._signal(signal.SIGSTOP)
            self._ended.wait(PERIOD - PERIOD / SLOW_FACTOR)
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """Let the site run at its own speed."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def _signal(self, number: int) -> None:
        """Send a signal to all processes of the site."""
        for process in find([self._program])[self._program]:
            # The process may have ended a moment ago.
            with suppress(ProcessLookupError):
                os.kill(process.number, number)


def init(folder: Path, sites: Sites, waiting: str, seed: int) -> None:
    """Write a deployment."""
    settings, factor = WAITING[waiting]
    fedkin(
        "deploy",
        "init",
        folder,
        "--clients",
        str(SITES),
        "--port",
        str(free_port()),
        "method.name=flexcfl",
        "method.clusters=2",
        "run.against=[]",
        "run.evaluate_every=0",
        "run.checkpoint_every=1",
        "run.keep_checkpoints=true",
        f"run.rounds={sites.rounds * factor}",
        f"run.seed={seed}",
        "federation.deadline=300",
        *sites.settings(seed),
        *settings,
    )


def accuracy_of(checkpoint: Path, data: fk.data.FederatedData) -> float:
    """Accuracy of the models of a checkpoint on the test samples of all sites."""
    arrays = load_file(checkpoint)
    model = fk.models.mclr(data)
    correct = list[bool]()
    for site in json.loads(arrays["memory/registry"].tobytes()):
        # A site's configuration names the client of the data that it holds.
        rows = data.test[int(site["name"].removeprefix("site-"))]
        cluster = arrays["assignment"][site["first"]]
        scores = np.asarray(
            model.scores(arrays["models"][cluster], data.x[rows], model.frozen_arrays)
        )
        correct += (scores.argmax(axis=1) == data.y[rows]).tolist()
    return float(np.mean(correct))


def curve(sites: Sites, waiting: str, seed: int) -> Points:
    """Seconds since the models of round 0, and accuracy, of each checkpoint of a deployment."""
    place = Path(tempfile.mkdtemp(prefix="fedkin-"))
    folder = place / "fed"
    init(folder, sites, waiting, seed)
    slow = SlowSite(folder / "site-0")
    try:
        fedkin("deploy", "up", folder)
        first = wait_for_models(folder)
        slow.start()
        if not wait_for_run(folder, lambda line: None):
            sys.exit(f"the run has failed:\n{(folder / 'superlink.log').read_text()[-3000:]}")
        checkpoints = sorted((folder / "run" / "checkpoints").glob("round-*.safetensors"))
        data = sites.data(seed)
        start = first.stat().st_mtime
        return [[one.stat().st_mtime - start, accuracy_of(one, data)] for one in checkpoints]
    finally:
        slow.end()
        fedkin("deploy", "down", folder)
        shutil.rmtree(place)


def wait_for_models(folder: Path) -> Path:
    """Wait until the models of round 0 are there, at most two minutes. Returns their file."""
    path = folder / "run" / "checkpoints" / "round-000000.safetensors"
    end = time.monotonic() + 120
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"no models:\n{(folder / 'superlink.log').read_text()[-3000:]}")
        time.sleep(0.05)
    return path


def key(data: str, waiting: str, seed: int) -> str:
    """Name of a run in the results."""
    return f"{data} | {waiting} | {seed}"


def measure(seeds: int) -> dict[str, Points]:
    """All runs' curves by name, of the file or measured now."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for data, seed, waiting in product(DATA, range(seeds), WAITING):
        name = key(data, waiting, seed)
        if name in results:
            continue
        results[name] = curve(DATA[data], waiting, seed)
        RESULTS.write_text(json.dumps(results) + "\n")
        last = results[name][-1][0]
        print(name, f"{final_accuracy(results[name]):.3f}", f"{last:.0f} s", flush=True)
    return results


def row(results: dict[str, Points], data: str, waiting: str, seeds: int) -> list[str]:
    """A line of the table."""
    pairs = [
        (results[key(data, ALL, seed)], results[key(data, waiting, seed)]) for seed in range(seeds)
    ]
    found = gain(pairs)
    accuracies = " / ".join(f"{accuracy:.1f}" for accuracy in found.finals)
    return [data, waiting, accuracies, *found.cells]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="a page that holds the table")
    options = parser.parse_args()
    results = measure(options.seeds)
    head = ["data", "a round waits for", "final accuracy by seed (%)", "reached the target"]
    head += ["median time to it", "times faster"]
    table = [row(results, data, waiting, options.seeds) for data, waiting in product(DATA, WAITING)]
    print("\n".join(" | ".join(line) for line in [head, *table]))
    if options.write:
        put(options.write, COMMAND, head, table)


if __name__ == "__main__":
    main()
