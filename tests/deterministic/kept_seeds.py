"""The smallest schedule of every violation that was ever found: each holds now, and stays here.

They are written out, because another way to draw schedules gives a seed another one.
"""

from __future__ import annotations

from tests.deterministic.peer_schedule import PeerSchedule
from tests.deterministic.schedule import IN_REPLY, IN_WORK, NEVER, Fault, Schedule

_FOUR = {"site-0": 3, "site-1": 3, "site-2": 2, "site-3": 2}
_THREE = {"site-0": 1, "site-1": 3, "site-2": 3}

KEPT: dict[str, Schedule] = {
    "a reply that is delivered twice ended the server": Schedule(
        5019,
        "fedavg",
        _THREE,
        rounds=5,
        cohort=3,
        wait_for=3,
        deadline=45.0,
        quorum=1.0,
        retries=2,
        checkpoint_every=2,
        faults=(Fault("repeat_reply", "site-2", 2),),
    ),
    "a handshake that is answered twice ended the server": Schedule(
        5019,
        "fedavg",
        _THREE,
        rounds=3,
        cohort=3,
        wait_for=3,
        deadline=45.0,
        quorum=1.0,
        retries=2,
        checkpoint_every=2,
        faults=(Fault("repeat_reply", "site-2", 1),),
    ),
    "nodes refused every request of a user's own method": Schedule(
        23,
        "tests.deterministic.counting:Counting",
        _THREE,
        rounds=3,
        cohort=3,
        wait_for=4,
        deadline=30.0,
        quorum=0.5,
        retries=1,
        checkpoint_every=1,
    ),
    "a power cut took a finished checkpoint back": Schedule(
        5000,
        "ifca",
        _FOUR,
        rounds=4,
        cohort=10,
        wait_for=4,
        deadline=30.0,
        quorum=1.0,
        retries=2,
        checkpoint_every=1,
        faults=(Fault("power_server", number=74, length=39.8),),
    ),
    "a run that went on waited for ever for a site that had left": Schedule(
        0,
        "fedgroup",
        {"site-0": 1, "site-1": 1, "site-2": 1, "site-3": 3},
        rounds=5,
        cohort=5,
        wait_for=6,
        deadline=30.0,
        quorum=1.0,
        retries=1,
        checkpoint_every=1,
        faults=(Fault("leave", "site-2", at=21.8), Fault("crash_server", number=125, length=4.7)),
    ),
    "a node was sent nothing after the clock was set back": Schedule(
        2205,
        "fedavg",
        {"site-0": 1, "site-1": 1, "site-2": 1},
        rounds=5,
        cohort=3,
        wait_for=3,
        deadline=30.0,
        quorum=1.0,
        retries=0,
        checkpoint_every=1,
        faults=(Fault("lose_reply", "site-1", 2), Fault("set_clock", at=5.0, length=-3600.0)),
    ),
    (
        "a call before the first reply, in which a process crashed, was taken for one of another "
        "run"
    ): Schedule(
        107702,
        "tests.deterministic.counting:Counting",
        {"site-0": 1, "site-1": 1, "site-2": 1},
        rounds=4,
        cohort=3,
        wait_for=2,
        deadline=45.0,
        quorum=1.0,
        retries=1,
        checkpoint_every=1,
        faults=(Fault("crash_in_write", "site-2", 5), Fault("refuse", "site-2", 3)),
    ),
    (
        "a site that was killed in a cold start took the time of the others in every later request"
    ): Schedule(
        24,
        "private_clusters",
        {"site-0": 1, "site-1": 3, "site-2": 2, "site-3": 1},
        rounds=5,
        cohort=7,
        wait_for=5,
        deadline=60.0,
        quorum=1.0,
        retries=0,
        checkpoint_every=1,
        faults=(Fault("kill_in_step", "site-2", 2, length=NEVER, what=IN_WORK),),
        engine_seconds=0.4,
    ),
    "a reply that was cut off made a round of 185 s with a deadline of 120 s": Schedule(
        2,
        "flux",
        {"site-0": 1, "site-1": 1, "site-2": 1, "site-3": 1},
        rounds=4,
        cohort=4,
        wait_for=3,
        deadline=120.0,
        quorum=1.0,
        retries=1,
        checkpoint_every=1,
        faults=(Fault("kill_in_step", "site-3", 3, length=38.0, what=IN_REPLY),),
    ),
    "a round in which no client described its data ended a run": Schedule(
        1202,
        "feroma",
        {"site-0": 1, "site-1": 3, "site-2": 1},
        rounds=4,
        cohort=3,
        wait_for=2,
        deadline=45.0,
        quorum=1.0,
        retries=2,
        checkpoint_every=1,
        faults=(
            Fault("lose_request", "site-0", 1, length=20.65),
            Fault("refuse", "site-1", 13, length=4.53),
            Fault("report_lost", "site-1", 7, length=0.35),
        ),
    ),
}

KEPT_PEERS: dict[str, PeerSchedule] = {
    "a power cut took records of saved rounds": PeerSchedule(
        seed=22,
        method="gossip",
        peers=("p0", "p1", "p2", "p3"),
        save_every=1,
        faults=(Fault("power_site", "p1", 37, length=5.0),),
    ),
}
