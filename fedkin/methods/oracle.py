"""Oracle: peers know the true clusters from the start, and average with random peers of the same
cluster.

It is an upper bound for peer-to-peer methods, which must find the clusters (PANM, section 2; the
code of PENS' authors). It runs only if the true clusters are known, as in simulated data with
planted clusters. If the true clusters change, it follows them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import MethodError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements
from fedkin.core.validation import check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import AVERAGED_PEERS, About
from fedkin.methods.decentralized import PeerMethod, PeerState, communities


@plain_options
@dataclass(frozen=True)
class Oracle(PeerMethod):
    """Peers average with other random peers of their true cluster.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.planted("digits", clusters=2, clients=6, samples=20, test_samples=5)
        >>> method = fk.Oracle(neighbours=1)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (6, 650)
    """

    about: ClassVar[About] = About(
        name="oracle",
        compares="true clusters, which it is told",
        membership="hard",
        count="given",
        leaves="its model, to peers",
        meanings={
            "neighbours": AVERAGED_PEERS,
        },
    )

    neighbours: int = 3  # number of peers to average with (k)

    def __post_init__(self) -> None:
        check_positive_integer("neighbours", self.neighbours)

    def requirements(self) -> Requirements:
        needs = super().requirements()
        return replace(needs, data=replace(needs.data, true_clusters=True))

    def init(self, world: World, stream: Stream) -> PeerState:
        return _trust_true_clusters(world, super().init(world, stream))

    def round(
        self, world: World, state: PeerState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> PeerState:
        return super().round(world, _trust_true_clusters(world, state), cohort, stream)


def _trust_true_clusters(world: World, state: PeerState) -> PeerState:
    """The peers' state in which each peer trusts exactly the other peers of its true cluster."""
    true_clusters = world.true_clusters
    if true_clusters is None:
        raise MethodError(
            "Oracle needs the true cluster of every client, but the data do not contain them; use "
            "data with planted clusters, such as data.name=planted"
        )
    trust: Bool[np.ndarray, "N N"] = true_clusters[:, None] == true_clusters
    np.fill_diagonal(trust, False)
    return replace(state, trust=trust, assignment=communities(trust))
