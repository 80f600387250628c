"""PENS: peers try the models of others on their own data, and keep those whose models were often among the best.

N. Onoszko, G. Karlsson, O. Mogren, E. Listo Zec: Decentralized Federated Learning of Deep Neural Networks on Non-IID
Data. FL-ICML workshop 2021, arXiv 2107.08517 (Performance-based neighbour selection).

    stage one:  n_s random peers are tried; the n_t with the lowest loss on i's training data get a vote each, and i
                averages with them
    then        N_i = the peers with more votes than n_t / N times the rounds of stage one, what chance would give
    stage two:  i averages with n_s random of N_i (all, where there are fewer)

Means are weighted by training samples, the peer's own model included.

In stage one its neighbours are those of the round, in stage two those with votes enough: few rounds of stage one make
the threshold a single vote, and neighbours by chance.

Differs from the authors' later code: there peers act one after another and read models of the same round; here all act
at once. There a round is averaging and then training, after one training of everybody, and models are tested after the
training; here it is training and then averaging, and models are tested after that. A peer that comes late has a stage
one of its own, and one that has no neighbours left trains alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float

from fedkin.core.errors import MethodError
from fedkin.core.validation import check_positive_integer
from fedkin.methods.decentralized import PeerMethod, Ties, lowest


@dataclass(frozen=True)
class PENS(PeerMethod):
    """Neighbours by performance, chosen once."""

    sampled: int = 10  # n_s
    top: int = 2  # n_t
    stage_one: int = 200  # rounds

    judges: ClassVar[str] = "loss"

    def __post_init__(self) -> None:
        for name in ("sampled", "top", "stage_one"):
            check_positive_integer(name, getattr(self, name))
        if self.top > self.sampled:
            raise MethodError(f"top must be at most sampled ({self.sampled}), got {self.top}")

    def asks(
        self, ties: Ties, there: Bool[np.ndarray, "n N"], noise: Float[np.ndarray, "n N"]
    ) -> Bool[np.ndarray, "n N"]:
        return lowest(noise, there, self.sampled) & self._first(ties)

    def matched(self, ties: Ties, answered: Bool[np.ndarray, "n N"], similar: Float[np.ndarray, "n N"]) -> Ties:
        best = lowest(-similar, answered, self.top) & self._first(ties)
        votes = ties.votes + best
        often = votes * votes.shape[1] > self.top * self.stage_one
        return replace(ties, votes=votes, trust=np.where(self._first(ties), best, often))

    def partners(
        self, ties: Ties, there: Bool[np.ndarray, "n N"], noise: Float[np.ndarray, "n N"]
    ) -> Bool[np.ndarray, "n N"]:
        return lowest(noise, ties.trust & there, self.sampled)

    def _first(self, ties: Ties) -> Bool[np.ndarray, "n 1"]:
        return (ties.age <= self.stage_one)[:, None]
