"""A comparison in two processes against the same one in one process: six cells of MNIST, 784-128-10.

    python -m benchmarks.jobs [--rounds 60] [--jobs 2]

Both use the same cache of compiled programs, which a first short comparison fills. The two take turns, and each turn is
one ratio, so that whatever else the machine does weighs on both alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.compare import timed

METHODS = ("fedavg", "ifca", "fedgroup")
TURNS = 3
STUDY = """
[data]
name = "mnist"
[model]
name = "mlp"
[method]
name = "fedavg"
[local]
epochs = 20
batch_size = 10
lr = 0.03
[run]
rounds = {rounds}
cohort = 20
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study = root / "study.toml"
        study.write_text(STUDY.format(rounds=options.rounds))
        command = ("compare", str(study), "--methods", ",".join(METHODS), "--seeds", "2")
        for jobs in (1, options.jobs):  # a device more or less is another program
            timed(*command, "run.rounds=2", "--jobs", str(jobs), "--out", str(root / f"first-{jobs}"))
        turns = []
        for turn in range(TURNS):
            one = timed(*command, "--out", str(root / f"one-{turn}"))
            several = timed(*command, "--jobs", str(options.jobs), "--out", str(root / f"several-{turn}"))
            turns.append((one, several))
    ratios = [one / several for one, several in turns]
    one, several = (statistics.median(times) for times in zip(*turns, strict=True))
    print(
        f"{2 * len(METHODS)} cells of {options.rounds} rounds: {one:.0f} s in one process, {several:.0f} s in "
        f"{options.jobs}, {statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
