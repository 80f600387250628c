"""Sattler's CFL: one model for all clients; a cluster is split in two when the updates of its
clients disagree.

F. Sattler, K.-R. Mueller, W. Samek: Clustered Federated Learning: Model-Agnostic Distributed
Multitask Optimization Under Privacy Constraints. IEEE TNNLS 2020, arXiv 1910.01991.

Notation: dW_i the update of client i in this round, c the clients of a cluster that replied, S_ij =
cos(dW_i, dW_j). A cluster is stationary for all of its clients together, but not for each of them,
when

    |mean_i dW_i| < eps1   and   max_i |dW_i| > eps2
    (norms over all parameters; the mean is unweighted)

and then it is split in two. The paper splits so that the largest similarity between clients of
different parts is as small as possible. The code, and this file, split by complete linkage.
``eps1`` and ``eps2`` are norms of updates, so they depend on model, learning rate and local epochs:
measure the norms in a run before you choose them.

As in the authors' code, there is no split in the first rounds (``first_split``), small clusters are
not split (``min_size``), and means are unweighted. The split comes first; then every cluster,
including new ones, gets the mean update of its clients. The paper splits only if gamma_max <
sqrt((1 - alpha) / 2), where alpha is the largest similarity between clients of different parts.
This means alpha < 1 - 2 gamma_max^2. gamma_max, in [0, 1], bounds the distance from a client's
gradient to its true cluster's gradient, relative to the length of the latter. The code does not
check it (``gamma_max=None``).

Differs from both, in which all clients take part in every round: a client that is absent or silent
while its cluster is split has shown no update. It becomes UNASSIGNED, and is placed when it is next
selected (``newcomers``). A zero update has no direction: its client stays in the part that keeps
the cluster's number, which is the part with the lowest client id. Updates are compared with each
other, so a round holds n x P numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.agglomerative import agglomerative
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, ModelParts, Requirements, RoundNeeds
from fedkin.core.validation import (
    check_choice,
    check_integer_from_zero,
    check_not_negative,
    check_positive_integer,
)
from fedkin.core.world import World
from fedkin.measures.cosine import cosine
from fedkin.methods import cluster_steps
from fedkin.methods.about import COMPARED_PART, SHIFTED_SHARE, About
from fedkin.methods.compared_part import PARTS, Part, only_part
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.train import train


@dataclass(frozen=True)
class SattlerState(State):
    """Arrays that Sattler's CFL keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0


@plain_options
@dataclass(frozen=True)
class SattlerCFL:
    """Splits a cluster in two when its clients' updates disagree. It finds the number of
    clusters.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.SattlerCFL(first_split=1)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=2, cohort=6)
        >>> run.assignment.shape
        (6,)
    """

    about: ClassVar[About] = About(
        name="sattler",
        paper="Sattler et al., TNNLS 2020",
        compares="directions of updates",
        when="when a cluster has converged",
        membership="hard",
        decides="server",
        count="found",
        leaves="updates",
        meanings={
            "threshold": SHIFTED_SHARE,
            "part": COMPARED_PART,
        },
    )

    eps1: float = 0.4  # split only if the norm of the mean update is below this
    eps2: float = 1.6  # split only if the largest norm of an update is above this
    first_split: int = 20  # last round without a split
    min_size: int = 2  # clusters with at most this many replies are not split
    gamma_max: float | None = None  # bound on gradients within a cluster; None: not checked
    weighting: Literal["simple", "examples"] = "simple"  # weights of replies in a mean
    newcomers: Literal["loss", "direction", "random"] = "loss"  # how clients are placed later
    migration: cluster_steps.Migration = "none"  # shift test of clients
    threshold: float = 0.2  # largest change of labels without a shift, in the unit of migration
    eta_g: float = 0.0  # learning rate between clusters; 0: clusters share nothing
    # Compared part of updates: of an adapter's model, "B" or "head" find clusters best.
    part: Part = "all"

    def __post_init__(self) -> None:
        for name in ("eps1", "eps2"):
            check_not_negative(name, getattr(self, name))
        check_integer_from_zero("first_split", self.first_split)
        check_positive_integer("min_size", self.min_size)
        if self.gamma_max is not None:
            check_not_negative("gamma_max", self.gamma_max)
            if self.gamma_max > 1:
                raise MethodError(
                    f"gamma_max must be a number from 0 to 1, or None, got {self.gamma_max!r}"
                )
        check_choice("weighting", self.weighting, ("simple", "examples"))
        check_choice("part", self.part, PARTS)
        cluster_steps.check_policies(self, ("loss", "direction", "random"))

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(updates="single", standing=cluster_steps.standing_tasks(self)),
            parts=ModelParts(shared_head=cluster_steps.shared_head(self)),
            rounds=RoundNeeds(first_clustering=self.first_split + 1),
        )

    def init(self, world: World, stream: Stream) -> SattlerState:
        """The initial state: one cluster with all clients, and its model."""
        start = single_model_state(world, stream)
        return SattlerState(
            models=start.models,
            assignment=start.assignment,
            start=start.models[0],
        )

    def round(
        self, world: World, state: SattlerState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> SattlerState:
        if len(state.models) > 1:
            state = cluster_steps.migrate(
                world, state, method=self, place=self.place, stream=stream
            )
        members = np.sort(cohort[state.assignment[cohort] != UNASSIGNED])
        reply = train(
            world,
            state.models,
            members,
            state.assignment[members],
            work=world.work,
            stream=stream.child("train"),
        )
        clients = members[reply.arrived]
        updates = reply.update[reply.arrived]

        # The split comes before the means: a new cluster gets the mean of its clients.
        if stream.round > self.first_split:
            state = self._split(world, state, clients, updates)

        weight = np.ones(len(clients), np.int64)
        if self.weighting == "examples":
            weight = reply.examples[reply.arrived]
        mean, _ = mean_by_model(updates, weight, state.assignment[clients], len(state.models))
        state = replace(state, models=state.models + mean)
        return cluster_steps.aggregate_between_clusters(world, state, self.eta_g)

    def place(
        self, world: World, state: SattlerState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> SattlerState:
        """A client that was absent when its cluster was split joins one of the present clusters."""
        return cluster_steps.place_by_policy(
            world,
            state,
            policy=self.newcomers,
            clients=newcomers,
            stream=stream,
            start=state.start,
            part=self.part,
        )

    def _split(
        self,
        world: World,
        state: SattlerState,
        clients: Int[np.ndarray, "n"],
        updates: Float[np.ndarray, "n P"],
    ) -> SattlerState:
        """Split every cluster whose clients disagree, once in a round.

        A new cluster takes the next number, and starts from the old cluster's model.
        """
        compared = only_part(updates, world.spec, self.part)
        for k in range(len(state.models)):
            rows = np.flatnonzero(state.assignment[clients] == k)
            leaving = self._leaving(updates[rows], compared[rows])
            if leaving.any():
                new = len(state.models)
                models = np.concatenate([state.models, state.models[k : k + 1]])
                # Clients of the cluster that have not replied in this round lose their cluster.
                assignment = np.where(state.assignment == k, UNASSIGNED, state.assignment)
                state = replace(state, models=models, assignment=assignment)
                state = cluster_steps.assign(world, state, clients[rows], np.where(leaving, new, k))
        return state

    def _leaving(
        self, updates: Float[np.ndarray, "c P"], compared: Float[np.ndarray, "c P"]
    ) -> Bool[np.ndarray, "c"]:
        """Mask of the clients that leave a cluster for a new one; all False if the cluster is not
        split. ``updates`` are the updates of the cluster's clients, whose norms decide whether it
        is; ``compared`` are their parts that are compared."""
        leaving = np.zeros(len(updates), bool)
        nonzero = np.flatnonzero(compared.any(axis=1))
        if not self._incongruent(updates) or len(nonzero) < 2:
            return leaving
        similarity = cosine(compared[nonzero], compared[nonzero])
        # The part of the first row keeps the cluster's number.
        away = agglomerative(-similarity, clusters=2, linkage="complete") == 1
        # Both parts must differ enough: no two clients of different parts are more similar than
        # this.
        bound = np.inf if self.gamma_max is None else 1 - 2 * self.gamma_max**2
        largest_across = similarity[np.ix_(away, ~away)].max()
        leaving[nonzero] = away & (largest_across < bound)
        return leaving

    def _incongruent(self, updates: Float[np.ndarray, "c P"]) -> bool:
        """Whether the clients of a cluster disagree: the norm of their mean update is small (the
        cluster is stationary), but the norm of some client's update is large."""
        if len(updates) <= self.min_size:
            return False
        mean = np.linalg.norm(np.mean(updates, axis=0, dtype=np.float64))
        return bool(mean < self.eps1 and np.linalg.norm(updates, axis=1).max() > self.eps2)
