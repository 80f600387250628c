"""PANM: every peer finds the peers that are like it, and averages with them; there is no server.

Z. Li, C. Wu: Towards Effective Clustered Federated Learning: A Peer-to-peer Framework with Adaptive Neighbor Matching.
Poster, MLSys 2022, arXiv 2203.12285 (eqs. 1-10).

Notation: w_i^{t-1/2} the model of peer i after local training, g_i what that changed, h_i = w_i^{t-1/2} - w_0, l the
size of a candidate list, k of a list of neighbours, B_i the bag, T1 the rounds of stage one, tau the period of HNM.

    PANMGrad:  s_ij = alpha cos(g_i, g_j) + (1 - alpha) cos(h_i, h_j)        PANMLoss:  s_ij = 1 / F_i(w_j)
    CNI, t <= T1:  N_i^t = the k with the highest s_ij of C_i and N_i^{t-1}, C_i = l random peers that are no neighbours
    then B_i = N_i^{T1}, and N_i^t = k random of B_i;  HNM, in every tau-th round:
        C_i = l random peers outside the bag, S_i = l random of it (all, where there are fewer), M_i = C_i and S_i
        the s_ij of M_i are split in two Gaussians, C_i and S_i at first;  H_i = the one of the higher mean
        B_i <- (B_i - S_i) and H_i
    w_i^t = mean of w_j^{t-1/2} over N_i^t and i itself, weighted by training samples

Differs from the poster: it starts the mixture with S_i in the component that it says is *not* of the same cluster,
which selects exactly the wrong peers: S_i begins in the right one here. It averages over N in stage two where the arXiv
paper has the bag B and k of it; so do we. What becomes of degenerate mixtures is settled in ``clustering.two_kinds``.

Left open, and settled here: t is a peer's own round, so that one that comes late has a stage one of its own. Peers that
do not answer are no candidates; in the bag they stay. A peer whose bag is gone, or is asked and does not answer at all,
initialises again in that round.
No code of the authors is public; T1, k, l, tau and alpha have the values of the re-implementations we know of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from fedkin.clustering.two_kinds import two_kinds
from fedkin.errors import MethodError
from fedkin.method import at_least_one, not_negative
from fedkin.peers import PeerMethod, Ties, lowest


@dataclass(frozen=True)
class PANM(PeerMethod):
    """Personalised adaptive neighbour matching, by gradients (PANMGrad)."""

    neighbours: int = 3  # k
    candidates: int = 6  # l
    stage_one: int = 100  # T1
    period: int = 10  # tau
    alpha: float | int = 0.5  # of the similarity of the last updates; the rest is that of all since w_0

    judges: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        for name in ("neighbours", "candidates", "stage_one", "period"):
            at_least_one(name, getattr(self, name))
        not_negative("alpha", self.alpha)
        if self.alpha > 1:
            raise MethodError(f"alpha must be a number in [0, 1], got {self.alpha!r}")

    def asks(
        self, ties: Ties, there: Bool[np.ndarray, "n N"], noise: Float[np.ndarray, "n N"]
    ) -> Bool[np.ndarray, "n N"]:
        """C_i and N_i in stage one, C_i and S_i where the bag is matched, else nobody."""
        candidates = lowest(noise, there & ~ties.trust, self.candidates)
        neighbours = there & ties.trust
        sample = lowest(noise, neighbours, self.candidates)
        first = (ties.age <= self.stage_one) | ~neighbours.any(axis=1)
        matching = (ties.age % self.period == 0)[:, None] & (candidates | sample)
        return np.where(first[:, None], candidates | neighbours, matching)

    def matched(self, ties: Ties, answered: Bool[np.ndarray, "n N"], similar: Float[np.ndarray, "n N"]) -> Ties:
        known, trust = ties.trust & answered, ties.trust.copy()
        early, lost = ties.age <= self.stage_one, answered.any(axis=1) & ~known.any(axis=1)
        first, matching = early | lost, ~early & known.any(axis=1)
        trust[first] = lowest(-similar[first], answered[first], self.neighbours)  # eq. 5
        same = two_kinds(similar[matching], known[matching], answered[matching])  # eqs. 6-9
        trust[matching] = (trust[matching] & ~answered[matching]) | same  # eq. 10
        return replace(ties, trust=trust)


@dataclass(frozen=True)
class PANMLoss(PANM):
    """PANM that judges others by the loss of their models on its own training data."""

    judges: ClassVar[str] = "loss"
