"""Five hospitals on one machine, each a process with its own file, key and encrypted connection.

    pip install '.[flower,torch]'
    python examples/hospital/run.py

Four hospitals start; the fifth joins while FlexCFL runs. FedAvg follows on the same data. All
files are in runs/hospital, or in another FOLDER, and all processes are stopped at the end. The
same command resumes a run that was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import findings

from fedkin.server.deploy.status import UP, status

HERE = Path(__file__).resolve().parent
HOSPITALS = 5  # the last one joins late
LATE = f"site-{HOSPITALS - 1}"
LINES = 5  # of each log, when the run fails
PATIENCE = 60.0  # seconds for the program of the run to start, or to be restarted
SETTINGS = (
    "federation.name=hospitals",
    "federation.wait_for=4",
    "federation.capacity=8",
    "model.torch=hospital:network",
    "data.name=file",
    "data.path=findings.csv",
    "data.train_fraction=0.5",
    "data.classes=10",
    "method.name=flexcfl",
    "method.clusters=2",
    'run.against=["fedavg"]',
    "run.cohort=5",
    "local.epochs=5",
    "local.batch_size=10",
    "local.lr=0.1",
)


def main() -> None:
    """Run the example."""
    options = read_options()
    folder = options.folder.resolve()
    deadline = time.monotonic() + 60 * options.minutes
    try:
        if not (folder / "server.toml").exists():
            prepare(folder, options.rounds, options.port)
        fedkin("deploy", "up", folder)
        if not (folder / LATE).exists():
            enough = max(1, options.rounds // 3)
            wait(folder, lambda: rounds_done(folder) >= enough, deadline)
            add_late_hospital(folder)
            fedkin("deploy", "up", folder)
        wait(folder, lambda: has_results(folder), deadline)
    finally:
        if (folder / "server.toml").exists():
            fedkin("deploy", "down", folder)
    print_results(folder)


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/hospital"))
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each method (6)")
    parser.add_argument("--port", type=int, default=8085, help="port of the server (8085)")
    parser.add_argument("--minutes", type=float, default=30, help="longest time to wait (30)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, got {options.rounds}")
    return options


def prepare(folder: Path, rounds: int, port: int) -> None:
    """Write the data of four hospitals, and the files of the federation."""
    for hospital in range(HOSPITALS - 1):
        findings.write(folder / f"site-{hospital}", hospital)
    fedkin(
        "deploy",
        "init",
        folder,
        "--clients",
        str(HOSPITALS - 1),
        "--port",
        str(port),
        *SETTINGS,
        f"run.rounds={rounds}",
    )
    # The files in app/ are sent to the hospitals with each run.
    shutil.copy(HERE / "hospital.py", folder / "app")


def add_late_hospital(folder: Path) -> None:
    """Add the last hospital to the federation; existing files stay as they are."""
    print(f"{LATE} joins", flush=True)
    findings.write(folder / LATE, HOSPITALS - 1)
    fedkin("deploy", "init", folder, "--clients", str(HOSPITALS))


def fedkin(*arguments: str | Path) -> None:
    """Run one of fedkin's commands, and end with its exit status if it fails."""
    command = [sys.executable, "-m", "fedkin.cli", *map(str, arguments)]
    show = None if "init" not in arguments else subprocess.DEVNULL
    # The module of the network, hospital.py, is found on Python's path.
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    exit_status = subprocess.run(command, env=environment, stdout=show).returncode
    if exit_status:
        sys.exit(exit_status)


def rounds_done(folder: Path) -> int:
    """Rounds of FlexCFL that are complete."""
    metrics = folder / "run" / "metrics.jsonl"
    if not metrics.exists():
        return 0
    # The first line is of the models before training.
    return len(metrics.read_text().splitlines()) - 1


def has_results(folder: Path) -> bool:
    """Whether both methods have their results."""
    return all((path / "summary.json").exists() for path in run_folders(folder))


def wait(folder: Path, done: Callable[[], bool], deadline: float) -> None:
    """Wait until ``done()`` is true.

    Exits with the warnings of the logs if the run stops or the deadline passes.
    """
    last_up = time.monotonic()
    while not done():
        time.sleep(1)
        now = time.monotonic()
        if run_is_up(folder):
            last_up = now
        if now > deadline:
            fail(folder, "the run did not end in time; --minutes sets the limit")
        if now - last_up > PATIENCE:
            fail(folder, "the run has stopped without results")


def run_is_up(folder: Path) -> bool:
    """Whether the server's program of the run is there."""
    return any(line.name == "run" and line.state == UP for line in status(folder))


def fail(folder: Path, reason: str) -> None:
    """Show the warnings of the server and of the hospitals, and exit."""
    for log in sorted(folder.glob("**/*.log")):
        lines = log.read_text(errors="replace").splitlines()
        warnings = [line for line in lines if re.search(" fedkin (WARNING|ERROR)", line)]
        for line in warnings[-LINES:]:
            print(f"{log.relative_to(folder)}: {line}")
    sys.exit(f"error: {reason}; all logs are in {folder}")


def run_folders(folder: Path) -> list[Path]:
    """The run folders of FlexCFL and of FedAvg."""
    return [folder / "run", folder / "run" / "against" / "fedavg"]


def print_results(folder: Path) -> None:
    """Print a line for each method."""
    for path in run_folders(folder):
        summary = json.loads((path / "summary.json").read_text())
        print(
            f"{summary['method']}: accuracy {summary['final_accuracy']:.3f}, worst hospital "
            f"{summary['bottom_decile']:.3f}, clusters of {summary['cluster_sizes']}"
        )


if __name__ == "__main__":
    main()
