"""Memory of each client's last update, which a robust rule uses again for some rounds.

So the rule can compare all clients of a cluster, not only the few that were drawn in a round. In
small cohorts, attackers are sooner or later the majority by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

# Names of the arrays in a state, which are the fields of ``UpdateMemory``.
REMEMBERED = ("last_update", "last_model", "last_round")


@dataclass(frozen=True)
class UpdateMemory:
    """The last update of each client, for N clients and P parameters.

    Attributes:
        last_update: last update of each client [N P].
        last_model: index of the model that each client trained; -1 without an update.
        last_round: round of each update; -1 without an update.
    """

    last_update: Float[np.ndarray, "N P"]
    last_model: Int[np.ndarray, "N"]
    last_round: Int[np.ndarray, "N"]

    @classmethod
    def empty(cls, clients: int, parameters: int) -> UpdateMemory:
        """The memory before any update.

        Args:
            clients: number of clients N.
            parameters: number of parameters P.
        """
        never = np.full(clients, -1, np.int64)
        return cls(
            last_update=np.zeros((clients, parameters), np.float32),
            last_model=never,
            last_round=never,
        )

    def kept(
        self,
        updates: Float[np.ndarray, "n P"],
        clients: Int[np.ndarray, "n"],
        model: int,
        round: int,
    ) -> UpdateMemory:
        """The memory with the new updates of some clients in place of their earlier ones.

        Args:
            updates: one update per client.
            clients: clients that sent the updates.
            model: index of the model that these clients trained.
            round: round of the updates.
        """
        last_update = self.last_update.copy()
        last_update[clients] = updates

        last_model = self.last_model.copy()
        last_model[clients] = model

        last_round = self.last_round.copy()
        last_round[clients] = round

        return UpdateMemory(last_update, last_model, last_round)

    def clients(self, model: int, oldest: int) -> Int[np.ndarray, "m"]:
        """Clients whose last update was for this model.

        Args:
            model: index of the model.
            oldest: updates of earlier rounds are ignored.
        """
        return np.flatnonzero((self.last_model == model) & (self.last_round >= oldest))
