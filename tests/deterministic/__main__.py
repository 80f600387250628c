"""Run schedules, and tell those after which something that must hold does not: ``python -m
tests.deterministic``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.deterministic import federation, peer_federation, peer_schedule, schedule
from tests.deterministic.every_write import ALL, all_violations
from tests.deterministic.shrinking import (
    Found,
    find,
    find_kill,
    find_ledgers,
    find_options,
    find_peers,
    smallest,
    story,
)

_PART = 25  # schedules of one process at a time


class Kind(NamedTuple):
    """A kind of schedules: how one is drawn, run, and found to end in a violation."""

    draw: Callable[[int], Any]
    run: Callable[[Any], Any]
    find: Callable[[int], Found | None]


_KINDS = {
    "server": Kind(schedule.draw, federation.run_schedule, find),
    "kill one": Kind(schedule.draw_kill, federation.run_schedule, find_kill),
    "ledgers": Kind(schedule.draw, federation.run_with_ledgers, find_ledgers),
    "options": Kind(schedule.draw_options, federation.run_schedule, find_options),
    "peers": Kind(peer_schedule.draw, peer_federation.run_schedule, find_peers),
}


def main(arguments: list[str]) -> int:
    """Run them on all processes; 1 where there was a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.deterministic", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000, help="how many (1000)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first; the next has the next (0)"
    )
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--peers", action="store_true", help="of peers, without a server")
    kinds.add_argument(
        "--kill-one",
        action="store_true",
        help="in which one of four sites is killed in a random step",
    )
    kinds.add_argument(
        "--ledgers",
        action="store_true",
        help="of sites that write ledgers, which must explain every reply",
    )
    kinds.add_argument(
        "--options",
        action="store_true",
        help="with first replies, buffers, quorums, a monitor or floors of sites",
    )
    kinds.add_argument(
        "--every-write", action="store_true", help="one fault in every operation on a disk, instead"
    )
    options = parser.parse_args(arguments)
    if options.every_write:
        return every_write(options.processes)
    chosen = {
        "peers": options.peers,
        "kill one": options.kill_one,
        "ledgers": options.ledgers,
        "options": options.options,
    }
    kind = _KINDS[next((name for name, is_chosen in chosen.items() if is_chosen), "server")]
    seeds = range(options.seed, options.seed + options.schedules)
    start = time.monotonic()
    found: list[Found] = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for done, some in enumerate(pool.imap_unordered(kind.find, seeds, _PART), 1):
            found += [some] if some else []
            if some:
                print(f"seed {some.seed}: {some.text}", flush=True)
            if done % 500 == 0:
                print(
                    f"{done} schedules, {len(found)} violations, {time.monotonic() - start:.0f} s",
                    flush=True,
                )
    for one in found[:3]:
        drawn = kind.draw(one.seed)
        print(f"\n{story(smallest(drawn, kind.run), kind.run)}")
    seconds = time.monotonic() - start
    print(
        f"{len(seeds)} schedules in {seconds:.0f} s on {options.processes} processes: "
        f"{len(found)} violations"
    )
    return int(bool(found))


def every_write(processes: int) -> int:
    """Every method, with one fault in every operation; 1 where there was a violation."""
    start = time.monotonic()
    violations = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for method, texts in zip(ALL, pool.imap(all_violations, ALL), strict=True):
            print("\n".join([f"{method}: {len(texts)} violations", *texts]), flush=True)
            violations += len(texts)
    print(
        f"{len(ALL)} methods in {time.monotonic() - start:.0f} s on {processes} processes: "
        f"{violations} violations"
    )
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
