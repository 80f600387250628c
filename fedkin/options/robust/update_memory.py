"""The last update of each client, which goes on counting for some rounds: so that a rule compares
all clients of a cluster, and not only the few that were drawn in a round, of whom attackers are a
majority sooner or later.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

REMEMBERED = ("last_update", "last_model", "last_round")  # arrays of a state


@dataclass(frozen=True)
class UpdateMemory:
    """What clients sent last. N clients, P parameters.

    Attributes:
        last_update: [N P].
        last_model: which model each was of; -1: none yet.
        last_round: when.
    """

    last_update: Float[np.ndarray, "N P"]
    last_model: Int[np.ndarray, "N"]
    last_round: Int[np.ndarray, "N"]

    @classmethod
    def empty(cls, clients: int, parameters: int) -> UpdateMemory:
        """Nothing yet.

        Args:
            clients: N.
            parameters: P.
        """
        none = np.full(clients, -1, np.int64)
        return cls(np.zeros((clients, parameters), np.float32), none, none)

    def kept(
        self,
        updates: Float[np.ndarray, "n P"],
        clients: Int[np.ndarray, "n"],
        model: int,
        round: int,
    ) -> UpdateMemory:
        """The memory after clients sent updates.

        Args:
            updates: one for each client.
            clients: who.
            model: that they trained.
            round: when.
        """
        arrays = [self.last_update.copy(), self.last_model.copy(), self.last_round.copy()]
        for array, value in zip(arrays, (updates, model, round), strict=True):
            array[clients] = value
        return UpdateMemory(*arrays)

    def clients(self, model: int, oldest: int) -> Int[np.ndarray, "m"]:
        """Clients whose last update was of a model.

        Args:
            model: its number.
            oldest: the round before which updates are forgotten.
        """
        return np.flatnonzero((self.last_model == model) & (self.last_round >= oldest))
