"""A schedule of peers: a small federation without a server, and the faults that it meets, drawn
from one seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.deterministic.schedule import Fault

# Seconds after which nothing new happens, and at which peers are stopped.
QUIET = 20.0
END = 50.0
HOSTILE = ("garbage", "cut", "nan", "shape", "sender", "federation", "another", "dtype")
METHODS: dict[str, dict[str, Any]] = {
    "panm": {"neighbours": 2, "candidates": 3, "stage_one": 5, "period": 3},
    "panm_loss": {"neighbours": 2, "candidates": 3, "stage_one": 5, "period": 3},
    "pens": {"sampled": 3, "top": 2, "stage_one": 5},
    "gossip": {"neighbours": 2},
}
ON_MESSAGES = ("lose_request", "lose_reply", "repeat_reply", "tamper", "contradict")
AT_TIMES = ("kill_site", "partition", "fill_site", "twin", "leave")
STORY_OF_CONTRADICTION = "{site} replies to request {number} twice, and differently"


@dataclass(frozen=True)
class PeerSchedule:
    """Peers and their faults. The seed also decides how long peers work and which data a disk
    loses."""

    seed: int
    method: str
    peers: tuple[str, ...]
    save_every: int
    faults: tuple[Fault, ...] = ()

    def without(self, index: int) -> PeerSchedule:
        """The same schedule without one of its faults."""
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    def __str__(self) -> str:
        title = (
            f"seed {self.seed}: {len(self.peers)} peers with {self.method}, saved every "
            f"{self.save_every} rounds"
        )
        return "\n".join([title, *(f"  * {fault}" for fault in self.faults)])


def draw(seed: int) -> PeerSchedule:
    """The schedule of a seed."""
    random = Random(f"peers {seed}")
    peers = tuple(f"p{i}" for i in range(random.randint(3, 6)))
    late = [
        Fault("join", name, at=random.uniform(3, 15)) for name in peers[2:] if random.random() < 0.2
    ]
    drawn = PeerSchedule(seed, random.choice(list(METHODS)), peers, random.choice((1, 1, 3)))
    return replace(drawn, faults=(*late, *_faults(random, drawn)))


def _faults(random: Random, schedule: PeerSchedule) -> Iterator[Fault]:
    kinds = random.sample(
        (*ON_MESSAGES, *AT_TIMES, "crash_in_write", "power_site"), random.randint(1, 5)
    )
    for kind in kinds:
        many = random.choice((1, 2, 4, 8)) if kind in ON_MESSAGES else random.choice((1, 1, 2))
        for _ in range(many):
            fault = Fault(kind, random.choice(schedule.peers), length=random.uniform(1, 12))
            if kind in AT_TIMES:
                yield replace(fault, at=random.uniform(0, QUIET - 1))
            else:
                what = random.choice(HOSTILE) if kind == "tamper" else ""
                yield replace(fault, number=random.randint(1, 25), what=what)
