"""One fault in one operation on one disk, for every operation: of the server, of a node, and of a
peer.

The run without a fault says how many operations there are; then the same run meets the fault in the
first, in the second, and so on. The same invariants must hold as after every schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.deterministic import federation, peer_federation
from tests.deterministic.peer_schedule import METHODS as PEER_METHODS
from tests.deterministic.peer_schedule import PeerSchedule
from tests.deterministic.schedule import METHODS, Fault, Schedule
from tests.deterministic.shrinking import violation_of

ALL = (*METHODS, *PEER_METHODS)
SITE = "site-1"
SERVER_FAULTS = ("fail_server", "crash_server", "power_server")
SITE_FAULTS = ("fail_site", "crash_in_write", "power_site")
_SITES = {"site-0": 1, SITE: 2, "site-2": 1}


def of_server(method: str) -> Schedule:
    """Three rounds without a fault, a checkpoint after every second one."""
    return Schedule(
        seed=1,
        method=method,
        sites=_SITES,
        rounds=3,
        cohort=3,
        wait_for=4,
        deadline=30.0,
        quorum=1.0,
        retries=1,
        checkpoint_every=2,
    )


def of_peers(method: str) -> PeerSchedule:
    """Peers that save after every second round."""
    return PeerSchedule(1, method, ("site-0", SITE, "site-2"), 2)


def operations(schedule: Schedule | PeerSchedule) -> dict[str, int]:
    """Operations on the disk of each machine in a run without faults. For peers, operations that
    leave time to go on."""
    if isinstance(schedule, PeerSchedule):
        return peer_federation.run_schedule(schedule).early_operations
    machines = federation.run_schedule(schedule).disk.machines
    return {name: machine.operations for name, machine in machines.items()}


def schedules(quiet: Any, kinds: tuple[str, ...], most: int | None = None) -> Iterator[Any]:
    """The schedule with a fault in the first operation, in the second, ...; each of one of these
    kinds."""
    site = "" if kinds[0] in SERVER_FAULTS else SITE
    last = operations(quiet)[site or "server"]
    for number in range(1, min(last, most or last) + 1):
        kind = Random(number).choice(kinds)
        yield replace(quiet, faults=(Fault(kind, site, number, length=10.0),))


def violations(quiet: Any, *kinds: str, most: int | None = None) -> list[str]:
    """What did not hold, with the operation; of the first operations only, if so many are named."""
    run = (peer_federation if isinstance(quiet, PeerSchedule) else federation).run_schedule
    runs = ((one, violation_of(one, run)) for one in schedules(quiet, kinds, most))
    return [
        f"{one.method}, {one.faults[0]}: {violation}"[:500]
        for one, violation in runs
        if violation is not None
    ]


def all_violations(method: str) -> list[str]:
    """Violations with one method, by every fault in every operation."""
    if method in PEER_METHODS:
        return [text for kind in SITE_FAULTS for text in violations(of_peers(method), kind)]
    return [
        text for kind in SERVER_FAULTS + SITE_FAULTS for text in violations(of_server(method), kind)
    ]
