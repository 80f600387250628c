"""The two baselines of peer-to-peer learning: gossip averages with random peers, local training
averages with none.

Source: PANM, section 2. PENS calls gossip "random".

    gossip:  w_i^t = mean of w_j^{t-1/2} over k random peers and i, weighted by training samples
    local:   w_i^t = w_i^{t-1/2}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from fedkin.core.plain import plain_options
from fedkin.core.validation import check_positive_integer
from fedkin.methods.about import AVERAGED_PEERS, About
from fedkin.methods.decentralized import Neighbourhood, PeerMethod, lowest


@plain_options
@dataclass(frozen=True)
class Gossip(PeerMethod):
    """Peers average with other random peers, which are drawn in every round.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.Gossip(neighbours=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (6, 650)
    """

    about: ClassVar[About] = About(
        name="gossip",
        decides="peers",
        leaves="its model, to peers",
        meanings={
            "neighbours": AVERAGED_PEERS,
        },
    )

    neighbours: int = 3  # number of peers to average with (k)

    def __post_init__(self) -> None:
        check_positive_integer("neighbours", self.neighbours)

    def select_partners(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        return lowest(noise, reachable, self.neighbours)


@plain_options
@dataclass(frozen=True)
class Local(PeerMethod):
    """Every client trains alone.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.Local(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (6, 650)
    """

    about: ClassVar[About] = About(
        name="local",
        leaves="nothing at all",
    )

    def select_partners(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        return np.zeros_like(reachable)
