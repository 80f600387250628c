"""The schedules can find faults: a small schedule finds each fault that is put into fedkin on
purpose."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from fedkin.p2p import peer_folder
from tests.deterministic import federation, peer_federation
from tests.deterministic.federation import Violation
from tests.deterministic.kept_seeds import KEPT, KEPT_PEERS
from tests.deterministic.mutations import MUTATIONS
from tests.deterministic.schedule import HIDDEN_SCORES, IN_REPLY, NEVER, Fault, Schedule

_POWER = KEPT["a power cut took a finished checkpoint back"]
# The same run with the cut some writes later, after a checkpoint that a fault can leave out.
_LATER_POWER = replace(_POWER, faults=(Fault("power_server", number=92, length=39.8),))
_COLD_START = KEPT[
    "a site that was killed in a cold start took the time of the others in every later request"
]
_COUNTING = "tests.deterministic.counting:Counting"


def small(
    *faults: Fault, method: str = "fedavg", retries: int = 0, every: int = 1, wait_for: int = 3
) -> Schedule:
    """Five rounds of a few sites."""
    sites = {"site-0": 1, "site-1": 1, "site-2": 1, "site-3": 1}
    return Schedule(
        1,
        method,
        sites,
        rounds=5,
        cohort=4,
        wait_for=wait_for,
        deadline=30.0,
        quorum=1.0,
        retries=retries,
        checkpoint_every=every,
        faults=faults,
    )


_LATE = replace(small(Fault("delay_reply", "site-2", 3, length=25.0)), late=2)
FOUND_BY: dict[str, Schedule] = {
    "the first reply of a call counts twice": Schedule(
        5001,
        "fedgroup",
        {"site-0": 1, "site-1": 2, "site-2": 1, "site-3": 1, "site-4": 1},
        rounds=4,
        cohort=6,
        wait_for=3,
        deadline=20.0,
        quorum=0.5,
        retries=2,
        checkpoint_every=1,
    ),
    "a repeated reply ends the server": KEPT["a reply that is delivered twice ended the server"],
    "nothing is forced to disk": _POWER,
    "new names are not forced to disk": _POWER,
    "records are not forced to disk before their checkpoint": _POWER,
    "the deadline is ignored": small(Fault("lose_request", "site-1", 3)),
    "the ledger is not restored": _POWER,
    "a checkpoint is skipped": _LATER_POWER,
    "only later heartbeats count": KEPT["a node was sent nothing after the clock was set back"],
    "a run that goes on waits for all": KEPT[
        "a run that went on waited for ever for a site that had left"
    ],
    "the last reply stands for a missing one": small(Fault("lose_reply", "site-2", 3)),
    "the registry is not written": small(
        Fault("join", "site-3", at=6.0),
        Fault("join", "site-2", at=14.0),
        Fault("kill_server", at=24.0),
        every=5,
        wait_for=2,
    ),
    "nodes keep nothing": small(method=_COUNTING),
    "a late reply counts twice": _LATE,
    "a late reply counts for another client": _LATE,
    "a reply that was cut off holds up all others": small(
        Fault("kill_in_step", "site-2", 4, length=NEVER, what=IN_REPLY), every=1
    ),
    "a node whose request has expired is asked again": replace(_COLD_START, deadline=45.0),
    "bytes within a step are not counted": replace(small(), options=("buffers",)),
    "staleness is forgotten": replace(small(), options=("buffers",), slow=0.5),
    "floors are ignored": replace(small(), test_floor=HIDDEN_SCORES),
    "nodes forget their replies": small(
        *(Fault("crash_after", "site-1", n) for n in (3, 5, 7)), method=_COUNTING, retries=1
    ),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_server_with_a_fault(name: str) -> None:
    federation.run_schedule(FOUND_BY[name])
    with MUTATIONS[name](), pytest.raises(Violation):
        federation.run_schedule(FOUND_BY[name])


def test_a_peer_with_a_fault() -> None:
    schedule = KEPT_PEERS["a power cut took records of saved rounds"]
    with (
        patch.object(peer_folder, "force_to_disk", lambda path: None),
        pytest.raises(Violation, match="other records"),
    ):
        peer_federation.run_schedule(schedule)


def test_a_peer_that_counts_a_reply_twice() -> None:
    """Its own model is averaged with one reply in place of two."""
    from fedkin.p2p.peer import Peer

    in_order = Peer._in_order
    twice = patch.object(
        Peer,
        "_in_order",
        lambda self, messages: [*(all_of := in_order(self, messages)), all_of[-1]],
    )
    with twice, pytest.raises(Violation):
        peer_federation.run_schedule(KEPT_PEERS["a power cut took records of saved rounds"])
