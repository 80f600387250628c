"""Byzantine clients in a simulation: a method around a method, a world around its world, in which some clients reply
what an attack says, knowing the honest updates of the model that they train.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import ConfigError
from fedkin.core.method import Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.core.validation import check_choice, check_fraction
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.robust.attacks import ATTACKS

OWN = {"stretch": -10.0, "own_sign_flip": -1.0}  # what each attacker multiplies its own update with
LABELS = "label_flip"  # it trains on other labels, and sends what comes of it
KINDS = (*ATTACKS, *OWN, LABELS)


@dataclass(frozen=True)
class Byzantine:
    """Who attacks, how, and from when on.

    Attributes:
        attack: ``sign_flip`` (- mean of the honest), ``ipm`` (- 0.5 mean), ``alie`` (mean - 1.5 deviations), ``mimic``
            (a copy of one), ``min_max``, ``min_sum``; of the attacker's own update, ``own_sign_flip`` (-1 times) and
            ``stretch`` (-10 times); or ``label_flip`` (it trains on labels y -> classes - 1 - y).
        share: of the clients.
        spread: ``evenly`` over the true clusters, or ``random``.
        start: the round from which on they attack (sleepers: above 0); 0 is the start, where clusters are found.
        clients: the attackers' numbers, in place of share and spread.
        seed: of who they are.
    """

    attack: str = "sign_flip"
    share: float = 0.3
    spread: Literal["evenly", "random"] = "evenly"
    start: int = 0
    clients: tuple[int, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("attack", self.attack, KINDS)
        check_choice("spread", self.spread, ("evenly", "random"))
        check_fraction("share", self.share)
        if self.attack == LABELS and self.start:
            raise ConfigError("attack.start: labels are flipped from the start on; leave it out for label_flip")

    def attackers(self, total: int, true_clusters: Int[np.ndarray, "N"] | None) -> Bool[np.ndarray, "N"]:
        """Which clients attack.

        Args:
            total: N.
            true_clusters: of the clients, over which they are spread; None: as if there were one.

        Raises:
            ConfigError: a client that is not there.
        """
        if self.clients is not None:
            return _mask(self.clients, total)
        rng = Stream(self.seed, 0, "byzantine").rng()
        known = np.zeros(total, np.int64) if true_clusters is None or self.spread == "random" else true_clusters
        order = rng.permutation(total)
        chosen: list[int] = []
        for cluster in np.unique(known):
            members = order[known[order] == cluster]
            upto = round(
                self.share * np.count_nonzero(known <= cluster)
            )  # of all clusters so far, so that shares add up
            chosen += members[: upto - len(chosen)].tolist()
        return _mask(chosen, total)

    def replies(
        self, updates: Float[np.ndarray, "n p"], index: Int[np.ndarray, "n"], attacks: Bool[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n p"]:
        """What arrives: the honest updates as they are, the attackers' as the attack has it.

        Args:
            updates: of all rows.
            index: the model that each row trained.
            attacks: whose rows are changed.
        """
        sent = updates.copy()
        if self.attack in OWN:
            sent[attacks] *= OWN[self.attack]
            return sent
        if self.attack == LABELS:  # it is in the data
            return sent
        for k in np.unique(index[attacks]):
            honest = updates[(index == k) & ~attacks].astype(np.float64)
            least = 2 if self.attack in ("alie", "min_max", "min_sum") else 1
            if len(honest) >= least:  # else nobody to imitate: they stay honest
                sent[(index == k) & attacks] = ATTACKS[self.attack](honest)
        return sent


def _mask(clients: Sequence[int], total: int) -> Bool[np.ndarray, "N"]:
    mask = np.zeros(total, bool)
    for client in clients:
        if not 0 <= client < total:
            raise ConfigError(f"attack.clients: there is no client {client}; clients are 0 to {total - 1}")
        mask[client] = True
    return mask


@dataclass(frozen=True)
class Attacked:
    """A method in whose world some clients attack.

    Attributes:
        method: any.
        attack: who and how.
    """

    method: Method
    attack: Byzantine

    def requirements(self) -> Requirements:
        return requirements_of(self.method)

    def init(self, world: World, stream: Stream) -> State:
        return self.method.init(self._world(world, 0), stream)

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        return self.method.round(self._world(world, stream.round), state, cohort, stream)

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return self.method.place(self._world(world, stream.round), state, newcomers, stream)

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(state) if isinstance(self.method, Remarking) else ()

    def _world(self, world: World, round: int) -> World:
        return AttackedWorld(world, self.attack) if round >= self.attack.start else world


class AttackedWorld(WorldProxy):
    """A world in which some clients send other updates than they have computed.

    Args:
        world: of the clients.
        attack: who and how.
    """

    def __init__(self, world: World, attack: Byzantine) -> None:
        super().__init__(world)
        self._attack = attack
        self._attackers = attack.attackers(world.total_clients, world.true_clusters)

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply, with the updates of attackers changed."""
        attacks = self._attackers[clients]
        single: Any = task if task.single() is None else task.single()
        vectors = [name for name, array in single.up.of("row").items() if array.norm_checked]
        if not attacks.any() or not vectors:
            return self._world.run(task, clients, stream)
        reply = self._world.run(single, clients, stream)
        index = reply.arrays.get(INDEX, np.zeros(len(clients), np.int64))
        changed = {
            name: self._attack.replies(reply.arrays[name], index, attacks & reply.arrived).astype(np.float32)
            for name in vectors
        }
        reply = dataclasses.replace(reply, arrays=reply.arrays | changed)
        return reply if single is task else mean_reply(task, reply, clients)
