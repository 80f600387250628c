"""Runs killed at random moments until they are done, and compared with an undisturbed run.

    python -m tests.process.kill_drill [--kills 500] [--seed 0]

Each run is of another method; its process gets SIGKILL after a time drawn from the seed, a few
times in a row, and goes on by ``--resume`` (or again, where it had not begun). In the end all
records, tables and arrays of the last checkpoint must have the bytes of the undisturbed run. Ends
with status 1 after a difference; that folder is kept.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from fedkin import cli
from fedkin.run import simulate
from tests.process.comparison import differences

assert simulate  # all that is heavy is imported before the forks; JAX starts its threads after them

METHODS = (
    "fedavg",
    "fedgroup",
    "flexcfl",
    "ifca",
    "ditto",
    "fedsim",
    "sattler",
    "scaffold",
    "panm",
)
KILLS = 4  # of one run at most
DATA = ["data.clients=10", "run.rounds=5", "local.epochs=2", "run.checkpoint_every=2"]
SERVER = ["run.cohort=5", "scenario.dropout=0.3", "scenario.arrivals={2 = 3}"]


def settings(method: str) -> list[str]:
    """Arguments of a run. Except for peers, a second method runs after it."""
    own = ["run.against=[]"] if method == "panm" else SERVER
    return [*DATA, *own, f"method.name={method}"]


def begin(arguments: list[str]) -> int:
    """Start the command in a fork of this process; its number."""
    child = os.fork()
    if child:
        return child
    log = os.open(tempfile.gettempdir() + "/kill_drill.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = ["fedkin", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        os._exit(int(end.code or 0))
    finally:
        os._exit(1)


def end(process: int) -> int:
    """Wait for it; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def command(method: str, out: Path) -> list[str]:
    """Go on where there is a run, or start it."""
    if any(out.glob("checkpoints/round*")):
        return ["run", "--resume", str(out)]
    shutil.rmtree(out, ignore_errors=True)
    return ["run", *settings(method), "--out", str(out)]


def whole(method: str, out: Path) -> float:
    """Run it undisturbed; how long it took in seconds, the second time,
    with programs in the cache."""
    for _ in range(2):
        start = time.monotonic()
        shutil.rmtree(out, ignore_errors=True)
        if end(begin(command(method, out))):
            sys.exit(
                f"{method}: the undisturbed run has failed: fedkin {' '.join(command(method, out))}"
            )
    return time.monotonic() - start


def killed(method: str, out: Path, seconds: float, chance: random.Random) -> int:
    """Run it to its end, with kills on the way; how many there were."""
    kills = 0
    for _ in range(KILLS):
        process = begin(command(method, out))
        time.sleep(chance.uniform(0, seconds))
        os.kill(process, signal.SIGKILL)
        code = end(process)
        if code == 0:  # it was done before
            return kills
        if code != -signal.SIGKILL:
            sys.exit(f"{method}: status {code} after {kills} kills; see {out}")
        kills += 1
    if code := end(begin(command(method, out))):
        sys.exit(f"{method}: status {code} after {kills} kills; see {out}")
    return kills


def drill(place: Path, kills: int, seed: int) -> Iterator[tuple[str, int, list[str]]]:
    """Each run: its method, how often it was killed,
    and how it differs from the undisturbed one."""
    chance = random.Random(seed)
    done = 0
    seconds = {method: whole(method, place / method) for method in METHODS}
    while done < kills:
        method = chance.choice(METHODS)
        out = place / f"after-{done}"
        times = killed(method, out, seconds[method], chance)
        differing = differences(place / method, out)
        done += times
        if not differing:
            shutil.rmtree(out)
        yield method, times, differing


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="fedkin-"))
    kills = 0
    runs = 0
    wrong = 0
    start = time.monotonic()
    for method, times, differing in drill(place, options.kills, options.seed):
        kills = kills + times
        runs = runs + 1
        wrong = wrong + bool(differing)
        if differing:
            print(f"{method}, killed {times} times: {'; '.join(differing)}", flush=True)
        if runs % 20 == 0:
            print(
                f"{kills} kills of {runs} runs, {wrong} differ, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    print(f"{kills} kills of {runs} runs in {time.monotonic() - start:.0f} s: {wrong} differ")
    if not wrong:
        shutil.rmtree(place)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
