"""PENS: peers evaluate other peers' models on their own data, and trust the peers whose models were
often among the best.

N. Onoszko, G. Karlsson, O. Mogren, E. Listo Zec: Decentralized Federated Learning of Deep Neural
Networks on Non-IID Data. FL-ICML workshop 2021, arXiv 2107.08517 (Performance-based neighbour
selection).

    stage one:  n_s random peers are queried; the n_t with the lowest loss on i's training data get
                a vote each, and i averages with them
    then        N_i = the peers with more votes than n_t / N times the rounds of stage one,
                which is the number expected by chance
    stage two:  i averages with n_s random peers of N_i (all, if there are fewer)

Means are weighted by training samples, and include the peer's own model.

In stage one a peer's neighbours are the n_t best peers of the round, in stage two the peers with
enough votes.
If stage one is short, a single vote is enough, so that neighbours are random.

Differs from the authors' later code: there peers act one after another and read models of the same
round; here all act at once. There a round is averaging and then training, after one training of all
peers, and models are tested after the training. Here a round is training and then averaging, and
models are tested after that. A peer that comes late has its stage one then, and a peer without
neighbours trains alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from fedkin.core.errors import MethodError
from fedkin.core.plain import plain_options
from fedkin.core.requirements import Requirements
from fedkin.core.validation import check_positive_integer
from fedkin.methods.about import UNLIKE_OTHERS, About
from fedkin.methods.decentralized import Neighbourhood, PeerMethod, lowest


@plain_options
@dataclass(frozen=True)
class PENS(PeerMethod):
    """Each peer selects, once after the first rounds (stage one), the peers whose models have a low
    loss on its data.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.PENS(sampled=3, top=2, stage_one=1)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> run.models.shape
        (6, 650)
    """

    about: ClassVar[About] = About(
        name="pens",
        paper="Onoszko et al., arXiv 2107.08517",
        compares="losses of peers' models",
        when="every round",
        membership="hard",
        decides="peers",
        count="found",
        leaves="its model, to peers",
        meanings={
            "stage_one": UNLIKE_OTHERS,
        },
    )

    sampled: int = 10  # number of peers queried in a round (n_s)
    top: int = 2  # number of best peers in a round (n_t)
    stage_one: int = 200  # number of rounds of stage one

    similarity_of: ClassVar[str] = "loss"

    def __post_init__(self) -> None:
        for name in ("sampled", "top", "stage_one"):
            check_positive_integer(name, getattr(self, name))
        if self.top > self.sampled:
            raise MethodError(
                f"the option top must be at most the option sampled, which is {self.sampled}; got "
                f"{self.top}"
            )

    def requirements(self) -> Requirements:
        needs = super().requirements()
        return replace(needs, rounds=replace(needs.rounds, stage_one=self.stage_one))

    def select_queries(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        return lowest(noise, reachable, self.sampled) & self._in_stage_one(neighbourhood)

    def match_neighbours(
        self,
        neighbourhood: Neighbourhood,
        replied: Bool[np.ndarray, "n N"],
        similarity: Float[np.ndarray, "n N"],
    ) -> Neighbourhood:
        stage_one = self._in_stage_one(neighbourhood)
        best = lowest(-similarity, replied, self.top) & stage_one
        votes = neighbourhood.votes + best
        enough = votes * votes.shape[1] > self.top * self.stage_one
        return replace(neighbourhood, votes=votes, trust=np.where(stage_one, best, enough))

    def select_partners(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        return lowest(noise, neighbourhood.trust & reachable, self.sampled)

    def _in_stage_one(self, neighbourhood: Neighbourhood) -> Bool[np.ndarray, "n 1"]:
        """Mask of the peers that are in stage one. It is a column, so that it broadcasts over
        arrays with one row per peer."""
        return (neighbourhood.age <= self.stage_one)[:, None]
