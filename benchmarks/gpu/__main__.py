"""The command line of ``python -m benchmarks.gpu``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.gpu.needs import missing

RESULTS = Path("benchmarks/gpu_results.json")
PAGE = Path("docs/gpu.md")


def main(arguments: list[str] | None = None) -> None:
    """Make the measurements that are not stored yet, and write the page.

    Args:
        arguments: of the command; None for those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="no measurement begins later")
    parser.add_argument("--parts", default="abcd", help="which parts are measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of the measurements")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the tables are written")
    parser.add_argument("--only-page", action="store_true", help="write the stored results")
    parser.add_argument("--small", action="store_true", help="the smallest form, on any device")
    options = parser.parse_args(arguments)
    lacking = missing()
    if lacking:
        raise SystemExit(f"fedkin needs {', '.join(lacking)}, not installed here: see {PAGE}")
    # PyTorch needs memory of the same card. The setting counts before JAX starts.
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    from benchmarks.gpu import page, store
    from benchmarks.gpu.parts import measure_all
    from benchmarks.gpu.size import FULL, SMALL

    if not options.only_page:
        measure_all(
            size=SMALL if options.small else FULL,
            parts=options.parts,
            minutes=options.minutes,
            path=options.results,
        )
    page.write(options.page, store.load(options.results))


if __name__ == "__main__":
    main()
