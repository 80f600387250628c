"""Byzantine clients in a simulation: a method around a method, a world around its world, in which some clients reply
what an attack says, knowing the honest updates of the model that they train.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError
from fedkin.core.method import Method, Remarking, State
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply, mean_reply
from fedkin.core.requirements import Requirements, requirements_of
from fedkin.core.schema import INDEX
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.core.world_proxy import WorldProxy
from fedkin.robust.byzantine import NOTHING, Byzantine
from fedkin.robust.lies import lie


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
        return self.method.init(AttackedWorld(world, self.attack, 0), stream)

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        return self.method.round(AttackedWorld(world, self.attack, stream.round), state, cohort, stream)

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return self.method.place(AttackedWorld(world, self.attack, stream.round), state, newcomers, stream)

    def remarks(self, state: State) -> tuple[str, ...]:
        return self.method.remarks(state) if isinstance(self.method, Remarking) else ()


class AttackedWorld(WorldProxy):
    """A world in which some clients reply other things than they have computed.

    Args:
        world: of the clients.
        attack: who and how.
        round: of the calls.

    Raises:
        ConfigError: a disguise, and nobody knows true clusters.
    """

    def __init__(self, world: World, attack: Byzantine, round: int) -> None:
        super().__init__(world)
        self._attack, self._round, self._asleep = attack, round, round < attack.start
        self._attackers = attack.attackers(world.total_clients, world.true_clusters)
        if attack.disguise != NOTHING and world.true_clusters is None:
            raise ConfigError(f"attack.disguise = {attack.disguise!r} needs data with known true clusters")

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """The reply, with what attackers send and say."""
        attacks = self._attackers[clients]
        single: Any = task if task.single() is None else task.single()
        vectors = [name for name, array in single.up.of("row").items() if array.norm_checked]
        silent = self._asleep and self._attack.disguise == NOTHING
        changes = (vectors and not silent) or self._attack.lie != NOTHING
        if not attacks.any() or not changes or single.up.of("model"):
            return self._world.run(task, clients, stream)
        reply = self._world.run(single, clients, stream)
        if self._attack.lie != NOTHING:
            false_arrays = lie(self._attack.lie, single, reply.arrays, attacks & reply.arrived)
            reply = dataclasses.replace(reply, arrays=false_arrays)
        reply = self._with_vectors(reply, vectors, clients, attacks)
        return reply if single is task else mean_reply(task, reply, clients)

    def _with_vectors(
        self, reply: Reply, vectors: list[str], clients: Int[np.ndarray, "n"], attacks: Bool[np.ndarray, "n"]
    ) -> Reply:
        """The reply with vectors of attackers changed; what is not finite does not count as arrived."""
        here = np.flatnonzero(reply.arrived)
        index = reply.arrays.get(INDEX, np.zeros(len(clients), np.int64))[here]
        arrays, broken = dict(reply.arrays), np.zeros(len(clients), bool)
        for name in vectors:
            rows = arrays[name][here]
            if self._asleep:
                kinds = np.zeros(self.total_clients, np.int64) if self.true_clusters is None else self.true_clusters
                sent = self._attack.disguised(rows, index, attacks[here], kinds[clients[here]])
            else:
                noise = Stream(self._attack.seed, self._round, f"byzantine/{name}").rng()
                sent = self._attack.replies(rows, index, attacks[here], noise)
            arrays[name] = arrays[name].copy()
            arrays[name][here] = sent.astype(np.float32)
            broken[here] |= ~np.isfinite(arrays[name][here]).all(axis=1)
            arrays[name][broken] = 0
        flags = {"arrived": reply.arrived & ~broken, "nonfinite": reply.nonfinite | broken}
        return dataclasses.replace(reply, arrays=arrays, **flags)
