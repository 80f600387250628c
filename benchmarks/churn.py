"""A federation with failures: rounds with a killed node, a late node and a killed server.

    python -m benchmarks.churn [--deadline 60] [--rounds 12]

Four nodes with certificates and registered keys run FlexCFL with two clusters. In the middle of a
round one is killed; it is started again (Flower lets it in a minute later), and a fifth comes. Then
the SuperLink and the server's process are killed, and started again. A node without a
registered key and a node without encryption are refused. Ends with status 1 if a round took
longer than its deadline and five seconds, a cluster was lost, the newcomer was not assigned, or the
server restarted from round 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fedkin.methods  # noqa: F401 (a checkpoint holds a state that it must know)
from fedkin.run.folder import checkpoint
from tests.process import flower_project as project
from tests.process.flower_lab import SUPERLINK, Ended, Lab

CAPACITY = 8
PATIENCE = 900.0
SPARE = 5.0
DATA = {**project.DATA, "clients": CAPACITY}


class Churn:
    """One federation and its records."""

    def __init__(self, folder: Path, deadline: float, rounds: int) -> None:
        # The current round at the kill.
        self.folder = folder
        self.deadline = deadline
        self.resumed = 0
        federation = {"capacity": CAPACITY, "wait_for": 4, "deadline": deadline}
        self.sections: dict[str, dict[str, Any]] = {
            "federation": federation | {"registered": True},
            "method": {"name": "flexcfl", "clusters": 2},
            "local": {"epochs": 2, "batch_size": 10, "lr": 0.1},
            "run": {
                "rounds": rounds,
                "cohort": CAPACITY,
                "checkpoint_every": 1,
                "evaluate_every": 0,
            },
        }

    def records(self) -> list[dict[str, Any]]:
        """The records of the rounds that are done."""
        path = self.folder / "run" / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_rounds(self, rounds: int) -> None:
        """Wait until the given number of further rounds is done."""
        target = len(self.records()) + rounds
        end = time.monotonic() + PATIENCE
        while len(self.records()) < target:
            if time.monotonic() > end:
                sys.exit(f"no round was done in {PATIENCE:.0f} s")
            time.sleep(0.2)

    def start_node(self, lab: Lab, k: int) -> None:
        """Start node k, which has the data set's client k."""
        lab.node(f"site-{k}", project.client(self.folder, f"site-{k}", [k], DATA))


def refusal(lab: Lab, name: str, secure: list[str] | None) -> str:
    """The message that a node without a right to join gets.

    Args:
        lab: where it is started.
        name: of the node.
        secure: its options for security; None: the federation's.
    """
    try:
        lab.node(name, {}, secure)
    except Ended as error:
        return next(
            (line for line in error.log.splitlines() if "Failed" in line or "refused" in line),
            "not accepted",
        )
    sys.exit(f"{name} was accepted")


def restart(lab: Lab, name: str) -> float:
    """Restart a killed node until it is accepted; the seconds that took."""
    start = time.monotonic()
    while True:
        try:
            lab.restart(name)
            return time.monotonic() - start
        except Ended:
            time.sleep(1)


def run_failures(churn: Churn, lab: Lab) -> None:
    """Run all failures one after another, and print them."""
    lab.superlink()
    for k in range(5):
        lab.register(f"site-{k}")
    for k in range(4):
        churn.start_node(lab, k)
    settings = {"config": project.server(churn.folder, churn.sections)}
    app = project.app(churn.folder)
    run = lab.run(app, settings)
    print(f"unregistered key: {refusal(lab, 'stranger', None)}", flush=True)
    churn.wait_for_rounds(2)
    time.sleep(3)  # messages are out
    lab.kill("site-1")
    print(f"site-1 killed in round {len(churn.records())}", flush=True)
    churn.start_node(lab, 4)
    print(
        f"site-1 was accepted again after {restart(lab, 'site-1'):.0f} s, before round "
        f"{len(churn.records())}",
        flush=True,
    )
    churn.wait_for_rounds(3)
    lab.kill(SUPERLINK)
    churn.resumed = len(churn.records())
    print(f"the server was killed in round {churn.resumed}", flush=True)
    lab.restart(SUPERLINK)
    run = lab.run(app, settings)
    status = lab.wait(run, PATIENCE)
    if status != "finished:completed":
        sys.exit(f"{status}:\n{lab.output(run)}")
    print(f"plain connection: {plain_refusal(lab)}", flush=True)


def plain_refusal(lab: Lab) -> str:
    """An unencrypted node keeps trying and is never activated."""
    try:
        lab.node("plain", {}, ["--insecure"])
    except Ended as error:  # not ready within the lab's patience
        return "not accepted" if error.code is None else f"not accepted, ended with {error.code}"
    sys.exit("a plain connection was accepted")


def check(churn: Churn) -> list[str]:
    """The failures found; prints the measurements."""
    lines = (churn.folder / "run" / "timings.jsonl").read_text().splitlines()
    seconds = [line["train"] + line["score"] for line in map(json.loads, lines)]
    print(
        f"round {churn.resumed}, which was restarted and waited for the nodes: "
        f"{seconds[churn.resumed]:.1f} s"
    )
    longest = max(
        duration for round, duration in enumerate(seconds) if round not in (0, churn.resumed)
    )
    records = churn.records()
    state, _ = checkpoint.newest(churn.folder / "run" / "checkpoints")
    assignment = state.state.assignment.tolist()
    print(
        f"rounds {len(records) - 1}, longest {longest:.1f} s of {churn.deadline:.0f}, clusters "
        f"{assignment}"
    )
    print("missing by round:", [record["missing"] for record in records])
    wrong = [] if longest <= churn.deadline + SPARE else [f"a round took {longest:.1f} s"]
    wrong += (
        [] if len(state.state.models) == 2 and {0, 1} <= set(assignment) else ["a cluster was lost"]
    )
    wrong += [] if assignment[4] >= 0 else ["the newcomer has no cluster"]
    return wrong + (
        [] if [r["round"] for r in records] == list(range(len(records))) else ["rounds are missing"]
    )


def main() -> None:
    """The command line."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--deadline", type=float, default=60.0)
    arguments.add_argument("--rounds", type=int, default=12)
    options = arguments.parse_args()
    churn = Churn(Path(tempfile.mkdtemp(prefix="fedkin-churn-")), options.deadline, options.rounds)
    with Lab(churn.folder / "lab", tls=True) as lab:
        run_failures(churn, lab)
    wrong = check(churn)
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
