"""Damage run folders, configurations, files of samples and messages: ``python -m tests.fuzzing
--cases 10000``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzzing.cases import failure, targets


def main(arguments: list[str]) -> int:
    """Run cases of every target; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="of every target (1000)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first; the next has the next (0)"
    )
    parser.add_argument("--target", action="append", help="only this one; may be given again")
    options = parser.parse_args(arguments)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="fuzzing-") as folder:
        for name, target in targets(Path(folder)).items():
            if options.target and name not in options.target:
                continue
            start = time.monotonic()
            before = failures
            for seed in range(options.seed, options.seed + options.cases):
                if text := failure(target, seed):
                    failures += 1
                    print(f"{name}, seed {seed}: {text}", flush=True)
            seconds = time.monotonic() - start
            print(
                f"{name}: {options.cases} cases, {failures - before} failures, {seconds:.0f} s",
                flush=True,
            )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
