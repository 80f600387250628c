"""Shared parts of ``python -m papers``, ``python -m papers.trust`` and ``python -m
papers.benchmark``: options, printing of runs as they are made, and errors in one line."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from fedkin.core.errors import ConfigError, FedkinError
from papers.result_store import Line

DOCS = Path("docs")
RESULTS = Path("papers/results")
# results.csv and claims.csv are written into it.
TABLES = Path("papers")


def parser(prog: str, about: str | None) -> argparse.ArgumentParser:
    """A command line with ``--hours``.

    Args:
        prog: the command.
        about: its description; line breaks are kept.
    """
    options = argparse.ArgumentParser(
        prog, description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--hours", type=hours, help="make missing runs for this time, the most valuable ones first"
    )
    return options


def add_workers(options: argparse.ArgumentParser) -> None:
    """``--workers``, of all cores where it is not given."""
    cores = os.cpu_count() or 1
    options.add_argument(
        "--workers",
        type=whole_number,
        default=cores,
        help=f"processes side by side (here: {cores})",
    )


def hours(text: str) -> float:
    """A number of hours above 0.

    Raises ArgumentTypeError.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"expected a number of hours above 0, got {text}")
    return value


def whole_number(text: str) -> int:
    """A whole number from 1 on.

    Raises ArgumentTypeError.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text}")
    return int(text)


@contextmanager
def ends_in_one_line() -> Iterator[None]:
    """Ends the program with one line at an error of fedkin's own, such as missing data or a full
    disk; and outside a checkout, where an empty page would be written."""
    try:
        if not RESULTS.is_dir():
            raise ConfigError(
                f"{RESULTS} is no folder here: start this in a checkout of the repository"
            )
        yield
    except FedkinError as error:
        raise SystemExit(f"error: {error}") from None


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM ends a queue as Ctrl-C does, worker processes included."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def print_runs(lines: Iterable[Line], text: Callable[[Line], str], store: Path) -> int:
    """Print each run as it is made, and return their number. Ctrl-C ends the program with a line.

    Args:
        lines: runs, made one by one.
        text: of a run.
        store: the file of the runs.
    """
    done = 0
    try:
        for line in lines:
            done += 1
            print(text(line), flush=True)
    except KeyboardInterrupt:
        raise SystemExit(
            f"interrupted; {done} runs are kept in {store}, and the same command goes on"
        ) from None
    return done
