"""A comparison in one process against the same runs started one by one: MNIST, 784-10, the papers'
local work.

    python -m benchmarks.compare [--rounds 100] [--seeds 3]

Both use the same cache of compiled programs, which a first short comparison fills. They share
no other files.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHODS = ("fedavg", "fedprox", "ifca", "fedgroup", "flexcfl")
STUDY = """
[data]
name = "mnist"
[model]
name = "{model}"
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study = root / "study.toml"
        study.write_text(STUDY.format(model="mclr", rounds=options.rounds))
        timed(*compare_command(study, 1, root / "first"), "run.rounds=3")
        ours = timed(*compare_command(study, options.seeds, root / "together"))
        single = sum(
            timed(*run_command(study, method, seed, root))
            for method, seed in itertools.product(METHODS, range(options.seeds))
        )
    runs = len(METHODS) * options.seeds
    print(
        f"{runs} runs of {options.rounds} rounds: {ours:.0f} s together, {single:.0f} s one by "
        f"one, {single / ours:.2f}x"
    )


def compare_command(study: Path, seeds: int, folder: Path) -> list[str]:
    """The command that makes the whole comparison in one process."""
    methods = ",".join(METHODS)
    return [
        "compare",
        str(study),
        "--methods",
        methods,
        "--seeds",
        str(seeds),
        "--out",
        str(folder),
    ]


def run_command(study: Path, method: str, seed: int, root: Path) -> list[str]:
    """The command that makes a single run of the comparison."""
    folder = str(root / f"{method}-{seed}")
    settings = [f"method.name={method}", f"run.seed={seed}"]
    return ["run", str(study), *settings, "--out", folder]


def timed(*arguments: str, prefix: tuple[str, ...] = ()) -> float:
    """Seconds of a command of fedkin, from start to end; ``prefix`` is a program that starts it."""
    start = time.perf_counter()
    subprocess.run(
        [*prefix, sys.executable, "-m", "fedkin.cli", *arguments], check=True, capture_output=True
    )
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
