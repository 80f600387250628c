"""The base of methods without a server: every client is a peer that keeps its own model, queries
other peers for their models, and averages with some of them.

Row i of an array belongs to peer i, and no decision of a peer needs another row. The simulator
therefore decides for all peers at once, and a real peer uses the same functions for its row.
Shapes: N peers, n rows, P parameters.

Round t of a peer:

    w_i^{t-1/2} <- local training from w_i^{t-1};  g_i = the update
    select_queries      peers whose models it queries; the replies give the similarities s_ij
    match_neighbours    peers that it trusts now
    select_partners     peers that it averages with:  w_i^t <- mean of w_j^{t-1/2} over these and
                        itself, weighted by training samples
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from fedkin.core.method import AssignedModels, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, MemoryNeeds, Requirements, RoundNeeds
from fedkin.core.world import World
from fedkin.measures.cosine import column_blocks
from fedkin.measures.peer_similarity import Vectors, gradient_similarity, loss_similarity
from fedkin.methods.compared_part import Part, is_compared
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.peer_queries import Ask
from fedkin.tasks.train import train


@dataclass(frozen=True)
class Neighbourhood:
    """What n peers know about all N peers."""

    trust: Bool[np.ndarray, "n N"]  # each peer's neighbours; for PANM in stage two, its bag
    votes: Int[np.ndarray, "n N"]  # how often each other peer was among the best (PENS)
    age: Int[np.ndarray, "n"]  # present round of each peer; its first round is 1


@dataclass(frozen=True)
class PeerState(State):
    """One model per peer. ``assignment`` holds the number of each peer's community, which is a
    group of peers that trust each other."""

    start: Float[np.ndarray, "P"]  # w_0, the same for all peers
    trust: Bool[np.ndarray, "N N"]
    votes: Int[np.ndarray, "N N"]
    age: Int[np.ndarray, "N"]  # number of rounds that each peer has done
    messages: Int[np.ndarray, "N 2"]  # number of replies received and sent
    vectors: Int[np.ndarray, "N 2"]  # number of models and updates in these replies

    @property
    def clusters(self) -> int:
        return int(self.assignment.max()) + 1

    def models_for(self, clients: Int[np.ndarray, "n"]) -> AssignedModels:
        return AssignedModels(self.models, clients)

    def aggregated_into(
        self, clients: Int[np.ndarray, "n"], trained: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        return trained

    def neighbourhood(self, peers: Int[np.ndarray, "n"]) -> Neighbourhood:
        """What these peers know at the beginning of their next round."""
        return Neighbourhood(self.trust[peers], self.votes[peers], self.age[peers] + 1)


class PeerMethod:
    """Base class of methods whose clients decide for themselves with whom they average.

    A subclass overrides ``select_queries``, ``match_neighbours`` and ``select_partners``. These are
    functions without side effects, with one row of each array per peer. By default a peer queries
    no peers, and averages with ``neighbours`` random peers among those that it trusts.

    Peers outside the cohort, and peers that drop out, are inactive in that round: they do not train
    and do not reply. Peers that have left are no longer trusted. A peer that runs out of time stops
    its training, and uses the model that it has reached.
    """

    neighbours: int = 0
    alpha: float | int = 0.0  # weight of the last updates, if updates are compared
    part: Part = "all"  # the compared part of updates
    # How peers are compared: by "gradient" (their last and total updates), by "loss" (of the other
    # peer's model on the peer's data), or by "nothing".
    similarity_of: ClassVar[str] = "nothing"

    @property
    def needs_updates(self) -> bool:
        """Whether a reply holds the last update in addition to the model."""
        return self.similarity_of == "gradient" and self.alpha > 0

    def requirements(self) -> Requirements:
        """The method needs all peers in every round, and memory to compare all models. It does not
        need a server."""
        return Requirements(
            clients=AtLeast(self.neighbours + 1, because="neighbours"),
            reads=ClientReads(updates="single"),
            rounds=RoundNeeds(full_cohort=True),
            memory=MemoryNeeds(compares_all=True),
            peers=True,
        )

    def select_queries(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        """The peers that each peer queries in this round.

        Args:
            neighbourhood: what the peers know.
            reachable: peers that can be queried.
            noise: random numbers from ``draw_noise``.
        """
        return np.zeros_like(reachable)

    def match_neighbours(
        self,
        neighbourhood: Neighbourhood,
        replied: Bool[np.ndarray, "n N"],
        similarity: Float[np.ndarray, "n N"],
    ) -> Neighbourhood:
        """The peers that each peer trusts after the replies.

        Args:
            neighbourhood: what the peers knew before.
            replied: peers whose models have arrived.
            similarity: similarity to these peers; values for other peers are ignored.
        """
        return neighbourhood

    def select_partners(
        self,
        neighbourhood: Neighbourhood,
        reachable: Bool[np.ndarray, "n N"],
        noise: Float[np.ndarray, "n N"],
    ) -> Bool[np.ndarray, "n N"]:
        """The peers that each peer averages with.

        Args:
            neighbourhood: what the peers know.
            reachable: peers that can be selected.
            noise: random numbers from ``draw_noise``.
        """
        return lowest(noise, neighbourhood.trust & reachable, self.neighbours)

    def init(self, world: World, stream: Stream) -> PeerState:
        """The initial state: all peers have the same model and no neighbours."""
        start = world.initial(stream.child("model"))
        total = world.total_clients
        return PeerState(
            models=np.tile(start, (total, 1)),
            assignment=np.arange(total),
            start=start,
            trust=np.zeros((total, total), bool),
            votes=np.zeros((total, total), np.int32),
            age=np.zeros(total, np.int64),
            messages=np.zeros((total, 2), np.int64),
            vectors=np.zeros((total, 2), np.int64),
        )

    def place(
        self, world: World, state: PeerState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> PeerState:
        """The same state: a new peer starts with w_0, and its first round is round 1."""
        return state

    def round(
        self, world: World, state: PeerState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> PeerState:
        """The state after every peer of the cohort has done its next round.

        All peers act at the same time, so every reply holds a model of this round.
        """
        # w_i^{t-1/2} <- local training from w_i^{t-1}
        work = replace(world.work, partial=True)
        reply = train(
            world, state.models, cohort, cohort, work=work, local=True, stream=stream.child("train")
        )
        active = cohort[reply.arrived]
        update = reply.update[reply.arrived]
        total = len(state.models)
        all_peers = np.arange(total)
        all_active = np.array_equal(active, all_peers)
        # If all peers are active, the N models need not be copied.
        solution = (state.models if all_active else state.models[active]) + update

        reachable = (active[:, None] != all_peers) & np.isin(all_peers, world.clients(stream.round))
        responsive = np.isin(all_peers, cohort[~reply.nonfinite])
        neighbourhood = _only(reachable, state.neighbourhood(active))

        # select_queries, and similarities from the replies
        noise = draw_noise(stream.child("ask"), active, total)
        queried = self.select_queries(neighbourhood, reachable, noise)
        vectors = 2 if self.needs_updates else 1
        replied, state = query(world, state, active, queried & responsive, vectors=vectors)
        similarity = np.zeros(reachable.shape)
        if replied.any():
            similarity[:, active] = self._similarity(
                world,
                state.start,
                active=active,
                solution=solution,
                update=update,
                replied=replied[:, active],
            )

        # match_neighbours
        neighbourhood = self.match_neighbours(neighbourhood, replied, similarity)
        neighbourhood = _only(reachable, neighbourhood)

        # select_partners; partners that were not queried before are queried now
        noise = draw_noise(stream.child("partners"), active, total)
        partners = self.select_partners(neighbourhood, reachable, noise)
        queried_later = partners & responsive & ~queried
        replied_later, state = query(world, state, active, queried_later, vectors=1)

        # w_i^t <- mean of w_j^{t-1/2} over the partners and itself, by examples
        averaged = (partners & (replied | replied_later))[:, active]
        np.fill_diagonal(averaged, True)
        # The means replace the trained models in place, to save memory.
        average_models(solution, averaged * reply.examples[reply.arrived], solution)
        models = solution if all_active else _replace_rows(state.models, active, solution)
        return update_peers(state, active, neighbourhood, models)

    def _similarity(
        self,
        world: World,
        start: Float[np.ndarray, "P"],
        active: Int[np.ndarray, "n"],
        solution: Float[np.ndarray, "n P"],
        update: Float[np.ndarray, "n P"],
        replied: Bool[np.ndarray, "n n"],
    ) -> Float[np.ndarray, "n n"]:
        """Similarity s_ij of each active peer i to each active peer j: by gradients, for all pairs
        in one matrix product, or by losses, only for pairs with a reply (``similarity_of``).

        Args:
            world: the peers.
            start: w_0, the initial model.
            active: peers that do this round.
            solution: their trained models.
            update: their last updates.
            replied: which active peers have replied to which.
        """
        if self.similarity_of == "gradient":
            vectors = (solution, update)
            return self.gradient_similarity(world.spec, start, vectors, vectors)
        similarity = np.zeros(replied.shape)
        row, other = np.nonzero(replied)
        scores = evaluate(world, solution, active[row], other, split="train", local=True)
        similarity[row, other] = loss_similarity(scores.loss)
        return similarity

    def gradient_similarity(
        self, spec: ModelSpec, start: Float[np.ndarray, "P"], own: Vectors, others: Vectors
    ) -> Float[np.ndarray, "n m"]:
        """``gradient_similarity`` by the method's part of updates. Raises MethodError if the model,
        whose layout is ``spec``, has no such part."""
        if self.part != "all":
            compared = is_compared(spec, self.part)
            start = start[compared]
            own = (own[0][:, compared], own[1][:, compared])
            others = (others[0][:, compared], others[1][:, compared])
        return gradient_similarity(self.alpha, start, own, others)


def average_models(
    models: Float[np.ndarray, "m P"],
    weights: Num[np.ndarray, "n m"],
    out: Float[np.ndarray, "n P"] | None = None,
) -> Float[np.ndarray, "n P"]:
    """Weighted means of models, one mean for each row of ``weights`` (a peer), by a matrix product.

    Args:
        models: models to average.
        weights: weights of the models; nonnegative, not all 0 in a row.
        out: array for the means, which may be ``models`` itself; a new array by default.
    """
    share = (weights / weights.sum(axis=1, keepdims=True)).astype(models.dtype)
    out = np.empty((len(weights), models.shape[1]), models.dtype) if out is None else out
    for columns in column_blocks(models.shape[1]):
        out[:, columns] = share @ models[:, columns]
    return out


def draw_noise(stream: Stream, peers: Int[np.ndarray, "n"], total: int) -> Float[np.ndarray, "n N"]:
    """Random numbers in [0, 1), one for each pair of peers. A peer that draws k others at random
    takes those with the k lowest numbers.

    Args:
        stream: stream of the round and purpose.
        peers: peers that draw.
        total: number of peers N. The number for peer j does not depend on N.
    """
    rows = [stream.client(int(peer)).random(total) for peer in peers]
    return np.array(rows).reshape(len(peers), total)


def lowest(
    values: Float[np.ndarray, "n N"], mask: Bool[np.ndarray, "n N"], count: int
) -> Bool[np.ndarray, "n N"]:
    """Mask of the ``count`` lowest values of each row (a peer), among the values that ``mask``
    selects.

    Args:
        values: values to compare.
        mask: which values are considered.
        count: number of values per row. Of equal values the first are taken. A row with fewer
            values gives all its values.
    """
    return ranks(values, mask) < count


def ranks(
    values: Float[np.ndarray, "n N"], mask: Bool[np.ndarray, "n N"]
) -> Int[np.ndarray, "n N"]:
    """Rank of each value that ``mask`` selects in its row (a peer), from 0 for the lowest value.

    Values outside the mask get the largest integer.
    """
    order = np.lexsort((values, ~mask), axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(mask.shape[1]), order.shape), axis=1)
    return np.where(mask, rank, np.iinfo(rank.dtype).max)


def query(
    world: World,
    state: PeerState,
    peers: Int[np.ndarray, "n"],
    queried: Bool[np.ndarray, "n N"],
    vectors: int,
) -> tuple[Bool[np.ndarray, "n N"], PeerState]:
    """Let peers query others for their models.

    Args:
        world: the peers; queries may fail.
        state: state of the peers, which counts messages and vectors.
        peers: peers that query.
        queried: which peers each of them queries.
        vectors: number of vectors in a reply: the model, and the last update if it is needed.

    Returns:
        Which peers replied, and the state with the replies counted.
    """
    row, other = np.nonzero(queried)
    arrived = world.run(Ask(vectors), other).arrived
    replied = np.zeros_like(queried)
    replied[row[arrived], other[arrived]] = True
    total = len(state.models)
    received = np.bincount(peers[row[arrived]], minlength=total)
    sent = np.bincount(other[arrived], minlength=total)
    count = np.stack([received, sent], axis=1)
    state = replace(state, messages=state.messages + count, vectors=state.vectors + vectors * count)
    return replied, state


def update_peers(
    state: PeerState,
    peers: Int[np.ndarray, "n"],
    neighbourhood: Neighbourhood,
    models: Float[np.ndarray, "N P"],
) -> PeerState:
    """The state of all peers after some of them have done a round.

    Args:
        state: state before the round.
        peers: peers that did the round.
        neighbourhood: what these peers know after the round.
        models: models of all peers.
    """
    trust = _replace_rows(state.trust, peers, neighbourhood.trust)
    return replace(
        state,
        models=models,
        trust=trust,
        votes=_replace_rows(state.votes, peers, neighbourhood.votes),
        age=_replace_rows(state.age, peers, neighbourhood.age),
        assignment=communities(trust),
    )


def _only(reachable: Bool[np.ndarray, "n N"], neighbourhood: Neighbourhood) -> Neighbourhood:
    """What the peers know, without their trust in peers that are not reachable any more."""
    return replace(neighbourhood, trust=neighbourhood.trust & reachable)


def _replace_rows(array: np.ndarray, rows: Int[np.ndarray, "n"], values: np.ndarray) -> np.ndarray:
    """A copy of an array in which the rows with these indices have new values."""
    copy = array.copy()
    copy[rows] = values
    return copy


def communities(trust: Bool[np.ndarray, "N N"]) -> Int[np.ndarray, "N"]:
    """The community of each peer: communities are the connected components of mutual trust,
    numbered in the order of their first members."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    _, labels = connected_components(csr_array(trust & trust.T), directed=False)
    return labels.astype(np.int64)
