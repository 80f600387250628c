"""A deployment from the first command to its report, with the commands that a user types, and its
start and end.

    python -m benchmarks.deployment [--sites 4] [--rounds 11] [--downs 20] [--write
    docs/deploy-operations.md]

Three figures have bars:

* minutes from ``fedkin deploy init`` to the report of a finished FlexCFL run: 3;
* seconds from ``fedkin deploy up`` to the end of the first round: 30;
* processes or ports that ``fedkin deploy down`` leaves: none. It runs ``--downs`` times, at moments
  drawn from a seed, once after a site was killed.

Ends with status 1 if a bar is missed. TLS and registered keys are on, as by default.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.tables import put
from fedkin.core.storage import complete_lines
from fedkin.server.deploy.processes import SITE, STARTER, SUPERLINK, Program, find
from fedkin.server.deploy.status import wait_for_run

MINUTES = 3.0
SECONDS = 30.0
SETTINGS = ["method.name=flexcfl", "method.clusters=2", "local.epochs=1", "run.against=[]"]


def fedkin(*words: str | Path) -> None:
    """Run the command; its output is shown where it fails."""
    command = [str(Path(sys.executable).with_name("fedkin")), *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(
            f"{' '.join(command)} ended with status "
            f"{result.returncode}:\n{result.stdout}\n{result.stderr}"
        )


def free_port() -> int:
    """A port at which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def init(folder: Path, sites: int, rounds: int) -> int:
    """Write a deployment; its port."""
    port = free_port()
    fedkin(
        "deploy",
        "init",
        folder,
        "--clients",
        str(sites),
        "--port",
        str(port),
        *SETTINGS,
        f"run.rounds={rounds}",
    )
    return port


def parts(folder: Path, sites: int) -> list[Program]:
    """All that may run."""
    return [
        Program(folder, SUPERLINK),
        Program(folder, STARTER),
        *(Program(folder / f"site-{k}", SITE) for k in range(sites)),
    ]


def wait_for_round(folder: Path, patience: float = 600.0) -> None:
    """Until the first round has its line of metrics."""
    path = folder / "run" / "metrics.jsonl"
    end = time.monotonic() + patience
    while len(complete_lines(path)) < 2:  # the first is of round 0
        if time.monotonic() > end:
            sys.exit(
                f"no round in {patience:.0f} s:\n{(folder / 'superlink.log').read_text()[-3000:]}"
            )
        time.sleep(0.1)


def whole(folder: Path, sites: int, rounds: int) -> tuple[float, float]:
    """Seconds from init to the report, and from up to the first round."""
    start = time.monotonic()
    init(folder, sites, rounds)
    began = time.monotonic()
    fedkin("deploy", "up", folder)
    wait_for_round(folder)
    first = time.monotonic() - began
    if not wait_for_run(folder, lambda line: None):
        sys.exit(f"the run has failed:\n{(folder / 'superlink.log').read_text()[-3000:]}")
    fedkin("report", folder / "run")
    total = time.monotonic() - start
    fedkin("deploy", "down", folder)
    return total, first


def leftovers(folder: Path, sites: int, port: int) -> list[str]:
    """Processes that still run after ``down``, and the port if it is still bound."""
    left = [
        f"{part.name}: process {one.number}"
        for part, processes in find(parts(folder, sites)).items()
        for one in processes
    ]
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            left.append(f"port {port}: {error.strerror}")
    return left


def downs(place: Path, sites: int, times: int, seed: int) -> list[str]:
    """Start and end a deployment ``times`` times; the leftovers of all turns."""
    chance = random.Random(seed)
    left = list[str]()
    for turn in range(times):
        folder = place / f"down-{turn}"
        port = init(folder, sites, rounds=1000)
        fedkin("deploy", "up", folder)
        time.sleep(chance.uniform(0, 20))
        if turn == times // 2:
            for one in find([Program(folder / "site-0", SITE)]).popitem()[1]:
                os.kill(one.number, signal.SIGKILL)
        fedkin("deploy", "down", folder)
        remains = leftovers(folder, sites, port)
        print(
            f"down {turn + 1} of {times}: "
            f"{'nothing is left' if not remains else '; '.join(remains)}",
            flush=True,
        )
        left += remains
        shutil.rmtree(folder)
    return left


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--sites", type=int, default=4)
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--downs", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--write", type=Path, help="a page that holds the table")
    options = arguments.parse_args()
    place = Path(tempfile.mkdtemp(prefix="fedkin-"))
    total, first = whole(place / "fed", options.sites, options.rounds)
    print(
        f"from init to the report: {total:.0f} s; from up to the end of round 1: {first:.0f} s",
        flush=True,
    )
    left = downs(place, options.sites, options.downs, options.seed)
    shutil.rmtree(place)
    if options.write:
        columns = ["", "measured", "bar"]
        rows = [
            [
                f"`deploy init` to the report of {options.rounds} rounds",
                f"{total:.0f} s",
                f"{MINUTES * 60:.0f} s",
            ],
            ["`deploy up` to the end of round 1", f"{first:.0f} s", f"{SECONDS:.0f} s"],
            [f"left after {options.downs} times `deploy down`", str(len(left)), "0"],
        ]
        put(options.write, "python -m benchmarks.deployment", columns, rows)
    if total > MINUTES * 60 or first > SECONDS or left:
        sys.exit("a bar is missed")


if __name__ == "__main__":
    main()
