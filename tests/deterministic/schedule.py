"""A schedule: a small federation, and the faults that it meets, drawn from one seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

QUIET = 240.0  # seconds after which nothing new happens
NEVER = 1e6  # seconds: longer than any run
HOSTILE = (
    "garbage",
    "cut",
    "nan",
    "shape",
    "extra",
    "missing",
    "type",
    "negative",
    "deep",
    "empty",
    "failed",
)

# Faults, with the effect of each; {site}, {number}, {at} and {length} are a fault's own.
STORIES = {
    "lose_request": "request {number} to {site} is lost without notice",
    "report_lost": "request {number} to {site} is lost, and the engine says so",
    "refuse": "the engine does not take request {number} to {site}",
    "delay_request": "request {number} to {site} arrives {length:.1f} s later",
    "lose_reply": "the reply of {site} to request {number} is lost without notice",
    "delay_reply": "the reply of {site} to request {number} arrives {length:.1f} s later",
    "repeat_reply": "the reply of {site} to request {number} is delivered twice",
    "repeat_request": "{site} gets request {number} twice",
    "crash_before": "the process of {site} crashes before it handles request {number}",
    "crash_after": (
        "the process of {site} crashes after it has handled request {number}, before it replies"
    ),
    "crash_in_write": "the process of {site} crashes in operation {number} on its disk",
    "power_site": "the power of {site} fails in operation {number} on its disk, for {length:.1f} s",
    "tamper": "{site} replies to request {number} with something else: {what}",
    "kill_site": "at {at:.1f} s {site} is killed; after {length:.1f} s it is back under another id",
    "partition": "at {at:.1f} s {site} cannot be reached for {length:.1f} s",
    "fill_site": "at {at:.1f} s the disk of {site} is full for {length:.1f} s",
    "twin": (
        "at {at:.1f} s {site} is started a second time; the first is stopped after {length:.1f} s"
    ),
    "join": "at {at:.1f} s {site} comes for the first time",
    "leave": "at {at:.1f} s {site} leaves for good",
    "kill_server": "at {at:.1f} s the server is killed; after {length:.1f} s it is started again",
    "crash_server": (
        "the server is killed in operation {number} on its disk; "
        "after {length:.1f} s it is started again"
    ),
    "fail_site": "{site} has no space for operation {number} on its disk",
    "fail_server": "the server has no space for operation {number} on its disk",
    "power_server": (
        "the server's power fails in operation {number} on its disk; "
        "it is back after {length:.1f} s"
    ),
    "fill_server": "at {at:.1f} s the server's disk is full for {length:.1f} s",
    "freeze": "at {at:.1f} s the server's process is stopped for {length:.1f} s",
    "set_clock": "at {at:.1f} s the engine's time of day is set by {length:.0f} s",
    "contradict": "{site} replies to request {number} with two different replies",
    "restart_engine": "at {at:.1f} s the engine loses all messages that are under way",
    "kill_in_step": (
        "{site} is killed {what} request {number}; after {length:.0f} s it is back under another id"
    ),
}
# The steps of a request in which a site may be killed.
BEFORE_REQUEST = "before it fetches"
IN_WORK = "as it works at"
IN_REPLY = "half-way through sending its reply to"
AFTER_REPLY = "after it has replied to"
KILL_STEPS = (BEFORE_REQUEST, IN_WORK, IN_REPLY, AFTER_REPLY)
ON_MESSAGES = (
    "lose_request",
    "report_lost",
    "refuse",
    "delay_request",
    "lose_reply",
    "delay_reply",
    "repeat_reply",
)
ON_MESSAGES += ("repeat_request", "crash_before", "crash_after", "tamper")
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "ifca": {"clusters": 2},
    "fesem": {"clusters": 2},
    "flexcfl": {"clusters": 2, "alpha": 2},
    "fedgroup": {"clusters": 2, "alpha": 2},
    "fedper": {},
    "fedrep": {},
    "ditto": {},
    "apfl": {},
    "pfedme": {"strength": 1.0},
    "scaffold": {},
    "fedem": {"clusters": 2},
    "fedrc": {"clusters": 2},
    "fedsoft": {"clusters": 2},
    "fedprox": {"mu": 0.1},
    "ifca_mig": {"clusters": 2},
    "sattler": {},
    "flhc": {"clusters": 2, "cluster_round": 2},
    "hierarchical": {},
    "fedsim": {"clusters": 2},
    "feddrift": {"models": 3},
    "cflgp": {"clusters": 2},
    "flux": {},
    "feroma": {"latest": 1},
    "private_clusters": {"clusters": 2, "sketch": 8},
    "pacfl": {"p": 1},
    "tests.deterministic.counting:Counting": {},
}
# Each round of these has one call of training, and it comes first, also where sites are new.
TRAINING_FIRST = (
    "fedavg",
    "ifca",
    "fesem",
    "fedper",
    "fedrep",
    "ditto",
    "apfl",
    "pfedme",
    "scaffold",
    "fedprox",
    "sattler",
    "flhc",
    "fedsim",
    "flux",
)
assert set(TRAINING_FIRST) <= METHODS.keys()
TRAINING = ("train", "personal", "controlled")  # prefixes of training operations
WITH_LATE = (
    "fedavg",
    "fedprox",
    "flexcfl",
    "fedgroup",
    "hierarchical",
    "flhc",
    "cflgp",
    "flux",
    "pacfl",
    "ditto",
)

# Options that schedules switch on, as sections of the server's file.
OPTIONS = {
    "first replies": '[asynchronous]\nname = "first_replies"\nshare = 0.5\n',
    "one reply": '[asynchronous]\nname = "first_replies"\ncount = 1\n',
    "buffers": '[asynchronous]\nname = "buffered"\nbuffer = 2\nmax_staleness = 3\n',
    "quorum": '[quorum]\nname = "per_cluster"\nleast = 2\n',
    "monitor": '[monitor]\nname = "clusters"\nact = "watch"\nsplit = "train"\nfeatures = true\n',
}
TOGETHER = (
    ("first replies",),
    ("one reply",),
    ("buffers",),
    ("quorum",),
    ("monitor",),
    ("first replies", "monitor"),
    ("first replies", "quorum"),
    ("quorum", "monitor"),
)
# Methods whose clusters can be asynchronous on a server, and methods with one model for the others.
WITH_BUFFERS = ("fedavg", "fedprox", "flexcfl", "pacfl")
WITH_OPTIONS = (*WITH_BUFFERS, "ifca", "fedgroup", "fedsim", "sattler")
HIDDEN_SCORES = 1000  # a floor that no client reaches


@dataclass(frozen=True)
class Fault:
    """One fault. ``kind`` says which of the other fields it has (``STORIES``)."""

    kind: str
    site: str = ""
    number: int = 0  # of a message to the site, or of an operation on a disk, from 1 on
    at: float = 0.0  # seconds
    length: float = 0.0  # seconds
    what: str = ""

    def __str__(self) -> str:
        return STORIES[self.kind].format(**vars(self))


@dataclass(frozen=True)
class Schedule:
    """A federation and its faults. The seed also decides how long nodes work and which data a disk
    loses."""

    seed: int
    method: str
    sites: dict[str, int]  # clients of each, by name
    rounds: int
    cohort: int
    wait_for: int
    deadline: float
    quorum: float
    retries: int
    checkpoint_every: int
    faults: tuple[Fault, ...] = ()
    late: int = 0  # rounds after which a late reply is of no use; 0: at once
    engine_seconds: float = 0.0  # that a call of the engine takes at most
    slow: float = 0.0  # of the deadline: the longest that a site trains; 0: a few seconds
    options: tuple[str, ...] = ()  # options of the run, by their names in ``OPTIONS``
    test_floor: int = 0  # fewest test samples behind a score of a site; 0: sites have no floors

    @property
    def clients(self) -> int:
        """All clients that there can be."""
        return sum(self.sites.values())

    def without(self, index: int) -> Schedule:
        """The same schedule without one of its faults."""
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    def __str__(self) -> str:
        sites = ", ".join(f"{name} ({clients})" for name, clients in self.sites.items())
        settings = [
            f"deadline {self.deadline:.0f} s",
            f"quorum {self.quorum:g}",
            f"{self.retries} retries",
            f"a checkpoint every {self.checkpoint_every} rounds",
        ]
        if self.late:
            settings.append(f"late replies count for {self.late} rounds")
        if self.engine_seconds:
            settings.append(f"calls of the engine take up to {self.engine_seconds:g} s")
        if self.slow:
            settings.append(f"sites train up to {self.slow * self.deadline:.1f} s")
        settings += [f"with {option}" for option in self.options]
        if self.test_floor:
            settings.append(f"sites have a floor of {self.test_floor} test samples")
        lines = [
            f"seed {self.seed}: {self.rounds} rounds of {self.method.rpartition(':')[2].lower()}, "
            f"cohorts of {self.cohort} of the clients of {sites}; the server waits for "
            f"{self.wait_for}",
            ", ".join(settings),
            *(f"  * {fault}" for fault in self.faults),
        ]
        return "\n".join(lines)


def draw(seed: int) -> Schedule:
    """The schedule of a seed."""
    random = Random(f"schedule {seed}")
    sites = {f"site-{i}": random.choice((1, 1, 1, 2, 3)) for i in range(random.randint(3, 6))}
    clients = sum(sites.values())
    late = [name for name in list(sites)[2:] if random.random() < 0.2]
    first = sum(clients for name, clients in sites.items() if name not in late)
    drawn = Schedule(
        seed,
        random.choice(list(METHODS)),
        sites,
        rounds=random.randint(3, 5),
        cohort=random.randint(2, clients),
        wait_for=random.randint(min(2, first), first),
        deadline=random.choice((20.0, 30.0, 45.0)),
        quorum=random.choice((1.0, 1.0, 0.5)),
        retries=random.choice((0, 1, 1, 2)),
        checkpoint_every=random.choice((1, 1, 2)),
    )
    if drawn.method in WITH_LATE:
        drawn = replace(drawn, late=Random(f"late {seed}").choice((0, 1, 2)))
    joins = [Fault("join", name, at=random.uniform(5, 50)) for name in late]
    return replace(drawn, faults=(*joins, *_faults(random, drawn)))


def draw_kill(seed: int) -> Schedule:
    """The schedule of a seed in which one of four sites is killed in a random step of a request,
    and nothing else happens: it is back later, or never.

    Sites train for up to six tenths of the deadline, which a first call has time for. Where
    another call may come before training, they train for up to a tenth: a site that is killed in
    that call takes two thirds of the round.
    """
    random = Random(f"kill {seed}")
    sites = {f"site-{i}": random.choice((1, 1, 2, 3)) for i in range(4)}
    killed = random.choice(list(sites))
    others = sum(clients for name, clients in sites.items() if name != killed)
    rounds = random.randint(3, 6)
    fault = Fault(
        "kill_in_step",
        killed,
        number=random.randint(1, 2 * rounds + 1),
        length=random.choice((random.uniform(1, 60), random.uniform(60, 300), NEVER)),
        what=random.choice(KILL_STEPS),
    )
    method = random.choice(list(METHODS))
    slowest = 0.6 if method in TRAINING_FIRST else 0.1
    slow = Random(f"slow {seed}").choice((0.0, slowest / 2, slowest))
    return Schedule(
        seed,
        method,
        sites,
        rounds=rounds,
        cohort=sum(sites.values()),
        wait_for=random.randint(1, others),
        deadline=random.choice((60.0, 90.0, 120.0)),
        quorum=1.0,
        retries=random.choice((0, 1, 2)),
        checkpoint_every=random.choice((1, 1, 2)),
        faults=(fault,),
        engine_seconds=random.choice((0.0, 0.1, 0.4)),
        slow=slow,
    )


def draw_options(seed: int) -> Schedule:
    """The schedule of a seed with options of the run, and sites with floors in some of them."""
    random = Random(f"options {seed}")
    options = random.choice(TOGETHER)
    drawn = draw(seed)
    return replace(
        drawn,
        method=random.choice(WITH_BUFFERS if "buffers" in options else WITH_OPTIONS),
        late=0,
        # Two clients of a round are enough for a quorum of two.
        cohort=max(drawn.cohort, 4) if drawn.clients >= 4 else drawn.clients,
        options=options,
        test_floor=random.choice((0, 0, 1, HIDDEN_SCORES)),
    )


def _faults(random: Random, schedule: Schedule) -> Iterator[Fault]:
    """Some of a few kinds: a schedule of all kinds would find less."""
    kinds = random.sample(list(_DRAWN), random.randint(1, 5))
    if not schedule.checkpoint_every == 1 and random.random() < 0.5:
        kinds.append("kill_server")
    for kind in kinds:
        many = random.choice((1, 2, 4, 8)) if kind in ON_MESSAGES else random.choice((1, 1, 2))
        for _ in range(many):
            site = random.choice(list(schedule.sites))
            yield _DRAWN[kind](random, Fault(kind, site))


def _on_message(random: Random, fault: Fault) -> Fault:
    length = random.choice((random.uniform(0, 5), random.uniform(5, 60)))
    what = random.choice(HOSTILE) if fault.kind == "tamper" else ""
    return replace(fault, number=random.randint(1, 16), length=length, what=what)


def _in_operation(random: Random, fault: Fault) -> Fault:
    most = 120 if fault.kind.endswith("server") else 20
    return replace(fault, number=random.randint(1, most), length=random.uniform(1, 90))


def _at_time(random: Random, fault: Fault) -> Fault:
    return replace(
        fault,
        at=random.uniform(0, 60),
        length=random.choice((random.uniform(1, 10), random.uniform(1, 120))),
    )


def _setting(random: Random, fault: Fault) -> Fault:
    return replace(
        fault,
        at=random.uniform(0, 60),
        length=random.choice((-1, 1)) * random.choice((40.0, 3600.0, 1e6)),
    )


_AT_TIMES = (
    "kill_site",
    "partition",
    "fill_site",
    "twin",
    "leave",
    "kill_server",
    "fill_server",
    "freeze",
    "restart_engine",
)
_DRAWN: dict[str, Callable[[Random, Fault], Fault]] = {
    **dict.fromkeys(ON_MESSAGES, _on_message),
    **dict.fromkeys(
        ("crash_in_write", "power_site", "crash_server", "power_server"), _in_operation
    ),
    **dict.fromkeys(_AT_TIMES, _at_time),
    "set_clock": _setting,
}
