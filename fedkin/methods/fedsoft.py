"""FedSoft: each client trains one model, pulled towards all K centres by how many of its samples
each centre fits best.

Y. Ruan, C. Joe-Wong: FedSoft: Soft Clustered Federated Learning with Proximal Local Updating. AAAI
2022, arXiv 2112.06053.

Notation: c_k the centres, w_i client i's own model, n_i its training samples, l the loss.

    u_ik = (1/n_i) #{ j : k = argmin_m l(c_m; x_ij, y_ij) },  sigma in place of 0          importance
    w_i  <- local SGD on f_i(w) + (lambda/2) sum_k u_ik |w - c_k|^2, from the client's own last w_i
    v_ik = u_ik n_i / sum_i' u_i'k n_i'                                  over the clients that take part
    c_k  <- sum_i v_ik w_i;  or the plain mean of ``selected`` clients, drawn for k by v_.k without replacement

u is measured anew every ``every`` rounds, and by a client that has none yet. All centres travel to
every client of a round, as all are in its proximal term; one model comes back, and K numbers. As in
the authors' code u is not divided by its sum after the floor. Clients are tested with their own
models; one that never trained with sum_k u_ik c_k, where w_i begins too. A client is in the cluster
of its largest u, the first of equals. A newcomer measures u and trains nothing.

Differs: clients of a round are the run's cohort, v is over those that replied, and ``selected``
clients are drawn among them; the paper draws from all clients, for each centre apart. Plain SGD by
default, where the code has Adam. The code's estimation does not run as published: it calls the
client with an argument that it does not take. Centres that start equal never separate: they are
drawn at random, and refused where they are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.layout import ModelSpec
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, MemoryNeeds, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.fedem import first_mixture
from fedkin.tasks.fedsoft import Importance, TrainTowards, mixed
from fedkin.tasks.own_model import EvaluateOwn


@dataclass(frozen=True)
class FedSoftState(State):
    """Centres, and how far each client is of each."""

    importance: Float[np.ndarray, "N K"]  # u; a row of zeros: not known yet

    @property
    def membership(self) -> Float[np.ndarray, "N K"]:
        """u in shares of 1; 1/K where it is not known."""
        known = np.where(self.importance.any(axis=1, keepdims=True), self.importance, 1.0)
        return known / known.sum(axis=1, keepdims=True)

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateOwn(mixed(self.models, self.membership[clients]), np.arange(len(clients)))


@plain_options
@dataclass(frozen=True)
class FedSoft:
    """Every client has a model, pulled to all centres by how many of its samples each fits best."""

    about: ClassVar[About] = About(
        name="fedsoft",
        paper="Ruan, Joe-Wong, AAAI 2022",
        compares="losses of samples",
        when="every round",
        membership="soft",
        decides="client",
        count="given",
        leaves="its model; K numbers",
        meanings={
            "clusters": NUMBER_OF_MODELS,
        },
    )

    clusters: int = 2  # K
    strength: float = 0.1  # lambda
    floor: float = 1e-4  # sigma
    every: int = 1  # tau, rounds from one measurement of u to the next
    selected: int | None = (
        None  # S, clients drawn for each centre; None: all that took part, with weights v
    )

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_positive_integer("every", self.every)
        if self.selected is not None:
            check_positive_integer("selected", self.selected)
        check_not_negative("strength", self.strength)
        check_positive("floor", self.floor)

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(updates="single"),
            parts=ModelParts(own="models of clients"),
            memory=MemoryNeeds(kept_models=1),
        )

    def init(self, world: World, stream: Stream) -> FedSoftState:
        """K different random centres. Raises MethodError where some of them are equal."""
        models, assignment, weights, _ = first_mixture(world, self.clusters, stream)
        return FedSoftState(models, assignment, np.zeros_like(weights))

    def round(
        self, world: World, state: FedSoftState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedSoftState:
        cohort = cohort[state.assignment[cohort] != UNASSIGNED]
        measured = (stream.round - 1) % self.every == 0
        known = np.zeros((len(cohort), state.clusters)) if measured else state.importance[cohort]
        base, strength, floor = state.assignment[cohort], float(self.strength), float(self.floor)
        task = TrainTowards(
            state.models, world.work, base, importance=known, strength=strength, floor=floor
        )
        reply = world.run(task, cohort, stream.child("train"))
        if not reply.arrived.any():
            return state
        solutions = (state.models[base] + reply.update)[reply.arrived]
        importance, samples = reply.importance[reply.arrived], reply.examples[reply.arrived]
        centers = self._centers(solutions, selection_probabilities(importance, samples), stream)
        return replace(
            _measured(state, cohort[reply.arrived], importance), models=centers.astype(np.float32)
        )

    def place(
        self, world: World, state: FedSoftState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedSoftState:
        """The newcomers' u, by their labelled samples."""
        reply = world.run(Importance(state.models, float(self.floor)), newcomers)
        return _measured(state, newcomers[reply.arrived], reply.importance[reply.arrived])

    def _centers(
        self, solutions: Float[np.ndarray, "a P"], v: Float[np.ndarray, "a K"], stream: Stream
    ) -> Float[np.ndarray, "K P"]:
        """The new centres, from the clients' models and v."""
        if self.selected is not None and self.selected < len(solutions):
            rng, drawn = stream.child("select").rng(), np.zeros_like(v)
            for k, own in enumerate(v.T):
                drawn[rng.choice(len(own), self.selected, replace=False, p=own), k] = (
                    1 / self.selected
                )
            v = drawn
        return v.T @ solutions.astype(np.float64)


def selection_probabilities(
    importance: Float[np.ndarray, "a K"], samples: Int[np.ndarray, "a"]
) -> Float[np.ndarray, "a K"]:
    """v: each client's share of all samples that count for a centre.

    Args:
        importance: u, above 0.
        samples: of each client.
    """
    counted = importance * samples[:, None]
    return counted / counted.sum(axis=0)


def _measured(
    state: FedSoftState, clients: Int[np.ndarray, "c"], importance: Float[np.ndarray, "c K"]
) -> FedSoftState:
    """The state with the importances of some clients, and their clusters."""
    known, assignment = state.importance.copy(), state.assignment.copy()
    known[clients], assignment[clients] = importance, importance.argmax(axis=1)
    return replace(state, importance=known, assignment=assignment)
