"""PANM: without a server, every peer finds the peers whose models are similar to its own, and
averages with them.

Z. Li, C. Wu: Towards Effective Clustered Federated Learning: A Peer-to-peer Framework with Adaptive
Neighbor Matching. Poster, MLSys 2022, arXiv 2203.12285 (eqs. 1-10).

Notation: w_i^{t-1/2} the model of peer i after local training, g_i the change by it, h_i =
w_i^{t-1/2} - w_0, F_i the loss on its training samples. N_i are its neighbours (k peers with which
it averages), C_i its candidates (l random other peers). In stage one (CNI, the first T1 rounds) it
chooses neighbours. In stage two it draws them from its bag B_i, a set of similar peers that it
updates every tau rounds (HNM).

    PANMGrad:  s_ij = alpha cos(g_i, g_j) + (1 - alpha) cos(h_i, h_j)
    PANMLoss:  s_ij = 1 / F_i(w_j)
    CNI, t <= T1:  N_i^t = the k with the highest s_ij of C_i and N_i^{t-1}
                   C_i = l random peers that are not neighbours
    then B_i = N_i^{T1}, and N_i^t = k random of B_i
    HNM, in every tau-th round:
        C_i = l random peers outside the bag, S_i = l random peers of it (all, if there are fewer)
        M_i = C_i united with S_i; the s_ij of M_i are split in two Gaussians, which start as C_i
              and S_i
        H_i = the peers of M_i in the Gaussian with the higher mean
        B_i <- (B_i without S_i) united with H_i
    w_i^t = mean of w_j^{t-1/2} over N_i^t and i, weighted by training samples

Differs from the poster: there the mixture starts with S_i in the component said *not* to be of the
same cluster, which selects the wrong peers; here S_i starts in the other one. The poster also calls
the bag N_i, and does not say which peers are averaged in stage two. Here, as in the arXiv paper,
they are k peers of the bag. The poster matches the bag in every round (section 1.3):
``period=1``. Here, as in the arXiv paper's Algorithm 1, a period tau is set; its default is 10.
``clustering.gaussian_mixture`` treats degenerate mixtures. A bag of all peers has no peer outside
for comparison, and stays unchanged, so k should be small.

Left open in the paper, and defined here: t counts the rounds of each peer, so a peer that comes
late has its stage one then. Candidates that do not reply are not chosen. A neighbour that does not
reply stays a neighbour; one that has left does not. A peer without neighbours in stage two chooses
as in stage one in that round. The authors published no code, and neither the poster nor the part
of the arXiv paper that we could read has values; T1, k, l, tau and alpha have those of the
re-implementations we know of. With alpha = 0.25 PANM found clusters that it did not
find with their alpha = 0.5 (60 images a peer, T1 = 20: docs/results-panm.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from fedkin.clustering.gaussian_mixture import split_two_gaussians
from fedkin.core.errors import MethodError
from fedkin.core.plain import plain_options
from fedkin.core.requirements import Requirements
from fedkin.core.validation import check_choice, check_not_negative, check_positive_integer
from fedkin.methods.about import AVERAGED_PEERS, COMPARED_PART, UNLIKE_OTHERS, About
from fedkin.methods.compared_part import PARTS, Part
from fedkin.methods.decentralized import Neighbourhood, PeerMethod, lowest, ranks

# Meanings of the options that both methods have.
MEANINGS = {
    "neighbours": AVERAGED_PEERS,
    "candidates": "as in PANM",
    "stage_one": "as in PANM",
    "period": "as in PANM",
}


@dataclass(frozen=True)
class Matching(PeerMethod):
    """Base of PANM and PANMLoss: peers choose neighbours in stage one. In stage two each keeps a
    list of similar peers (its bag), which it updates from time to time (matching)."""

    neighbours: int = 3  # number of neighbours (k)
    candidates: int = 6  # number of candidates (l)
    stage_one: int = 100  # number of rounds of stage one (T1)
    # rounds from one matching of the bag to the next (tau); the poster has 1
    period: int = 10

    def __post_init__(self) -> None:
        for name in ("neighbours", "candidates", "stage_one", "period"):
            check_positive_integer(name, getattr(self, name))

    def requirements(self) -> Requirements:
        needs = super().requirements()
        return replace(needs, rounds=replace(needs.rounds, stage_one=self.stage_one))

    def select_queries(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        """The peers that each peer queries. In stage one, they are its random candidates C_i and
        its neighbours N_i. When a peer updates its bag (list of similar peers), they are C_i and a
        sample S_i of the bag. Otherwise there are none."""
        candidates = lowest(noise, reachable & ~neighbourhood.trust, self.candidates)
        neighbours = reachable & neighbourhood.trust
        sample = lowest(noise, neighbours, self.candidates)
        stage_one, matching = self._stages(neighbourhood)
        in_stage_two = matching[:, None] & (candidates | sample)
        return np.where(stage_one[:, None], candidates | neighbours, in_stage_two)

    def match_neighbours(
        self,
        neighbourhood: Neighbourhood,
        replied: Bool[np.ndarray, "n N"],
        similarity: Float[np.ndarray, "n N"],
    ) -> Neighbourhood:
        stage_one, matching = self._stages(neighbourhood)
        before = neighbourhood.trust
        # Neighbours that do not reply stay neighbours.
        silent = before & ~replied

        # CNI, eq. 5
        places = self.neighbours - silent.sum(axis=1, keepdims=True)
        nearest = silent | (ranks(-similarity, replied) < places)

        # HNM, eqs. 6-9: S_i begins in one component, C_i in the other.
        sample = before & replied
        same = np.zeros_like(sample)
        same[matching] = split_two_gaussians(
            similarity[matching], initial=sample[matching], mask=replied[matching]
        )

        # eq. 10
        bag = np.where(matching[:, None], silent | same, before)
        return replace(neighbourhood, trust=np.where(stage_one[:, None], nearest, bag))

    def _stages(
        self, neighbourhood: Neighbourhood
    ) -> tuple[Bool[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Two masks of peers: those that choose their neighbours in this round (stage one), and
        those that update their bags. A peer without neighbours chooses as in stage one."""
        stage_one = (neighbourhood.age <= self.stage_one) | ~neighbourhood.trust.any(axis=1)
        return stage_one, ~stage_one & (neighbourhood.age % self.period == 0)


@plain_options
@dataclass(frozen=True)
class PANM(Matching):
    """Peers select neighbours with similar updates, without a server (PANMGrad).

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.PANM(neighbours=2, candidates=2, stage_one=1)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> run.models.shape
        (6, 650)
    """

    about: ClassVar[About] = About(
        name="panm",
        paper="Li & Wu, MLSys 2022 (poster)",
        compares="updates of peers",
        when="every round",
        membership="hard",
        decides="peers",
        count="found",
        leaves="its model, to peers",
        meanings={**MEANINGS, "alpha": UNLIKE_OTHERS, "part": COMPARED_PART},
    )

    alpha: float | int = 0.5  # weight of the last updates; total updates since w_0 have 1 - alpha
    # Compared part of updates: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"

    similarity_of: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative("alpha", self.alpha)
        if self.alpha > 1:
            raise MethodError(f"alpha must be a number in [0, 1], got {self.alpha!r}")
        check_choice("part", self.part, PARTS)


@plain_options
@dataclass(frozen=True)
class PANMLoss(Matching):
    """PANM that compares the losses of other peers' models on the peer's data.

    Examples:
        >>> import fedkin as fk
        >>> fk.PANMLoss(stage_one=20, period=5)
        PANMLoss(neighbours=3, candidates=6, stage_one=20, period=5)
    """

    about: ClassVar[About] = replace(
        PANM.about,
        name="panm_loss",
        compares="losses of peers' models",
        meanings=MEANINGS,
    )

    similarity_of: ClassVar[str] = "loss"
