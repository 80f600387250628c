"""What methods without a server share: peers keep their own models, ask each other, and average with whom they trust.

Row i of an array is what peer i knows, and nothing that a peer decides needs another row: so the simulator decides for
all peers at once, and a real peer, by the same functions, for itself. Letters: N peers, n rows, P parameters.

A round of a peer, the t-th of its own:

    w_i^{t-1/2} <- local training from w_i^{t-1};  g_i = what it changed
    asks        whom it questions, and from the answers the similarities s_ij
    matched     whom it trusts now
    partners    with whom it averages:  w_i^t <- mean of w_j^{t-1/2} over these and itself, weighted by examples
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from scipy.sparse.csgraph import connected_components

from fedkin.core.method import AssignedModels, State
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.measures.cosine import blocks, cosine_from

_LEAST = 1e-12  # a loss that is as good as none


@dataclass(frozen=True)
class Ties:
    """What peers know of each other."""

    trust: Bool[np.ndarray, "n N"]  # their neighbours; where there is one, the bag
    votes: Int[np.ndarray, "n N"]  # how often each was chosen, where that is counted
    age: Int[np.ndarray, "n"]  # the round that each peer is in, of its own, from 1


@dataclass(frozen=True)
class PeerState(State):
    """A model for every peer; ``assignment`` has the communities of peers that trust each other both ways."""

    start: Float[np.ndarray, "P"]  # w_0, which all have in common
    trust: Bool[np.ndarray, "N N"]
    votes: Int[np.ndarray, "N N"]
    age: Int[np.ndarray, "N"]  # rounds that each peer has done
    messages: Int[np.ndarray, "N 2"]  # answers that each peer got, and gave
    vectors: Int[np.ndarray, "N 2"]  # models and updates in them

    @property
    def clusters(self) -> int:
        return int(self.assignment.max()) + 1

    def models_for(self, clients: Int[np.ndarray, "n"]) -> AssignedModels:
        return AssignedModels(self.models, clients)

    def aggregated_into(self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        return trained

    def ties(self, peers: Int[np.ndarray, "n"]) -> Ties:
        """What these peers know, in the round that they begin."""
        return Ties(self.trust[peers], self.votes[peers], self.age[peers] + 1)


class PeerMethod:
    """A method whose clients decide for themselves, and how its rounds go in any world.

    ``asks``, ``matched`` and ``partners`` are pure, with a row per peer. Peers outside the cohort, and those that drop
    out, sleep in that round: they do not train, and who asks them gets no answer. Who has left is forgotten. A peer
    that runs out of time goes on with what it has done. The default peer asks nobody, and averages with ``neighbours``
    of those it trusts.
    """

    neighbours: int
    alpha: float | int = 0.0  # how much the last updates count, where similarity is that of gradients
    judges: ClassVar[str] = "nothing"  # what similarity is of: "gradient" (updates, last and all), "loss"

    @property
    def needs_updates(self) -> bool:
        """Whether an answer holds the last update beside the model."""
        return self.judges == "gradient" and self.alpha > 0

    def asks(
        self, ties: Ties, there: Bool[np.ndarray, "n N"], noise: Float[np.ndarray, "n N"]
    ) -> Bool[np.ndarray, "n N"]:
        """Whom each peer questions in this round, of those that are ``there``."""
        return np.zeros_like(there)

    def matched(self, ties: Ties, answered: Bool[np.ndarray, "n N"], similar: Float[np.ndarray, "n N"]) -> Ties:
        """Whom each peer trusts after the answers; ``similar`` counts only where somebody ``answered``."""
        return ties

    def partners(
        self, ties: Ties, there: Bool[np.ndarray, "n N"], noise: Float[np.ndarray, "n N"]
    ) -> Bool[np.ndarray, "n N"]:
        """With whom each peer averages, of those that are ``there``."""
        return lowest(noise, ties.trust & there, self.neighbours)

    def init(self, world: World, stream: Stream) -> PeerState:
        """Everybody has the same model, and trusts nobody."""
        start, total = world.initial(stream.child("model")), world.total_clients
        nobody, nothing = np.zeros((total, total), bool), np.zeros((total, 2), np.int64)
        ties = (nobody, nobody.astype(np.int32), np.zeros(total, np.int64))
        return PeerState(np.tile(start, (total, 1)), np.arange(total), start, *ties, nothing, nothing.copy())

    def place(self, world: World, state: PeerState, newcomers: Int[np.ndarray, "c"], stream: Stream) -> PeerState:
        """Nothing to do: a peer begins with w_0, and its first round is its own round 1."""
        return state

    def round(self, world: World, state: PeerState, cohort: Int[np.ndarray, "n"], stream: Stream) -> PeerState:
        """Every peer of the cohort does its next round, all at once: what they answer is of this round."""
        work = replace(world.work, partial=True)
        with world.ledger.local():
            reply = world.train(state.models, cohort, cohort, work=work, stream=stream.child("train"))
        awake, update = cohort[reply.arrived], reply.update[reply.arrived]
        everybody = np.arange(len(state.models))
        whole = np.array_equal(awake, everybody)
        solution = (state.models if whole else state.models[awake]) + update
        there = (awake[:, None] != everybody) & np.isin(everybody, world.clients(stream.round))
        in_reach = np.isin(everybody, cohort[~reply.nonfinite])
        ties = state.ties(awake)
        ties = replace(ties, trust=ties.trust & there)

        asked = self.asks(ties, there, noise(stream.child("ask"), awake, len(everybody)))
        answered, state = heard(world, state, awake, asked & in_reach, 2 if self.needs_updates else 1)
        similar = np.zeros(there.shape)
        if answered.any():
            similar[:, awake] = self._similar(world, state.start, awake, solution, update, answered[:, awake])
        ties = self.matched(ties, answered, similar)
        ties = replace(ties, trust=ties.trust & there)
        partners = self.partners(ties, there, noise(stream.child("partners"), awake, len(everybody)))
        later, state = heard(world, state, awake, partners & in_reach & ~asked, 1)
        together = (partners & (answered | later))[:, awake] | np.eye(len(awake), dtype=bool)
        mixed(solution, together * reply.examples[reply.arrived], solution)
        return became(state, awake, ties, solution if whole else replaced(state.models, awake, solution))

    def _similar(
        self,
        world: World,
        start: Float[np.ndarray, "P"],
        awake: Int[np.ndarray, "n"],
        solution: Float[np.ndarray, "n P"],
        update: Float[np.ndarray, "n P"],
        answered: Bool[np.ndarray, "n n"],
    ) -> Float[np.ndarray, "n n"]:
        """s_ij: by gradient for all pairs at once, by loss for those that were asked."""
        if self.judges == "gradient":
            both = (solution, update)
            return similarity(self.alpha, start, both, both)
        similar = np.zeros(answered.shape)
        asker, asked = np.nonzero(answered)
        with world.ledger.local():
            similar[asker, asked] = by_loss(world.evaluate(solution, awake[asker], asked, split="train").loss)
        return similar


def similarity(
    alpha: float | int,
    start: Float[np.ndarray, "P"],
    own: tuple[Float[np.ndarray, "n P"], Float[np.ndarray, "n P"]],
    others: tuple[Float[np.ndarray, "m P"], Float[np.ndarray, "m P"]],
) -> Float[np.ndarray, "n m"]:
    """alpha cos(g_i, g_j) + (1 - alpha) cos(h_i, h_j), with h = w - w_0, from (models, updates) of both sides.

    Source: PANM, eqs. 2-4. A vector of zeros is like nothing: its cosine is 0.
    """
    similar = np.zeros((len(own[0]), len(others[0])))
    if alpha:
        similar += alpha * cosine_from(own[1], others[1])
    if alpha < 1:
        similar += (1 - alpha) * cosine_from(own[0], others[0], start)
    return similar


def by_loss(loss: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """s_ij = 1 / F_i(w_j) (PANM, eq. 1): 0 for a loss that is not finite, and never infinite."""
    return np.where(np.isfinite(loss), 1 / np.maximum(loss, _LEAST), 0.0)


def mixed(
    models: Float[np.ndarray, "m P"], weights: Num[np.ndarray, "n m"], out: Float[np.ndarray, "n P"] | None = None
) -> Float[np.ndarray, "n P"]:
    """Each row's weighted mean of the models, a matrix product for all rows; into ``out``, which may be the models
    themselves."""
    share = (weights / weights.sum(axis=1, keepdims=True)).astype(models.dtype)
    out = np.empty((len(weights), models.shape[1]), models.dtype) if out is None else out
    for columns in blocks(models.shape[1]):
        out[:, columns] = share @ models[:, columns]
    return out


def noise(stream: Stream, peers: Int[np.ndarray, "n"], total: int) -> Float[np.ndarray, "n N"]:
    """A peer's own random number for every peer; that of peer j is the same however many there are."""
    return np.array([stream.client(int(peer)).random(total) for peer in peers]).reshape(len(peers), total)


def lowest(values: Float[np.ndarray, "n N"], mask: Bool[np.ndarray, "n N"], count: int) -> Bool[np.ndarray, "n N"]:
    """The ``count`` lowest values of each row under the mask (all where there are fewer), the first of equals."""
    return ranks(values, mask) < count


def ranks(values: Float[np.ndarray, "n N"], mask: Bool[np.ndarray, "n N"]) -> Int[np.ndarray, "n N"]:
    """The place of each value under the mask among those of its row, from 0 for the lowest; others have none
    that is below any number of places."""
    order = np.lexsort((values, ~mask), axis=1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(mask.shape[1]), order.shape), axis=1)
    return np.where(mask, place, np.iinfo(place.dtype).max)


def heard(
    world: World, state: PeerState, peers: Int[np.ndarray, "n"], asked: Bool[np.ndarray, "n N"], vectors: int
) -> tuple[Bool[np.ndarray, "n N"], PeerState]:
    """Who answers, each with so many ``vectors``; and the state that has counted it."""
    row, other = np.nonzero(asked)
    came = world.ask(peers[row], other, vectors)
    answered = np.zeros_like(asked)
    answered[row[came], other[came]] = True
    got = [np.bincount(side, minlength=len(state.models)) for side in (peers[row[came]], other[came])]
    count = np.stack(got, axis=1)
    return answered, replace(state, messages=state.messages + count, vectors=state.vectors + vectors * count)


def became(state: PeerState, peers: Int[np.ndarray, "n"], ties: Ties, models: Float[np.ndarray, "N P"]) -> PeerState:
    """The state after a round of these peers, with the models of all."""
    now = {name: replaced(getattr(state, name), peers, getattr(ties, name)) for name in ("trust", "votes", "age")}
    return replace(state, models=models, **now, assignment=communities(now["trust"]))


def replaced(whole: np.ndarray, rows: Int[np.ndarray, "n"], values: np.ndarray) -> np.ndarray:
    """A copy with other values in some rows."""
    copy = whole.copy()
    copy[rows] = values
    return copy


def communities(trust: Bool[np.ndarray, "N N"]) -> Int[np.ndarray, "N"]:
    """Peers that trust each other, and whom these trust: numbered in the order of their first members."""
    return connected_components(trust & trust.T, directed=False)[1].astype(np.int64)
