"""FedSoft: each client trains one model with proximal terms to all K centres, weighted by the share
of its samples that each centre fits best.

Y. Ruan, C. Joe-Wong: FedSoft: Soft Clustered Federated Learning with Proximal Local Updating. AAAI
2022, arXiv 2112.06053.

Notation: c_k the centres, w_i the model of client i, n_i its training samples, l the loss.

    u_ik = (1/n_i) #{ j : k = argmin_m l(c_m; x_ij, y_ij) },  or sigma if this is 0
           (the importance of centre k for client i)
    w_i  <- local SGD on f_i(w) + (lambda/2) sum_k u_ik |w - c_k|^2, from the client's last w_i
    v_ik = u_ik n_i / sum_i' u_i'k n_i'                            over the clients that take part
    c_k  <- sum_i v_ik w_i;  or the plain mean of the w_i of ``selected`` clients, which are drawn
            for centre k with probabilities v_ik, without replacement

Every ``every`` rounds all clients of the round measure u. In the other rounds only clients without
u measure it. All centres are sent to every client of a round, since all are in its proximal term.
The client returns one model and K numbers. As in the authors' code, zeros in u are replaced by
sigma, and u is not divided by its sum after that. Clients are tested with their models. A client
that never trained is tested with sum_k u_ik c_k, which is also the initial w_i. A client is in the
cluster of its largest u (in a tie, the first). A new client measures u and trains nothing.

Differs: the clients of a round are the run's cohort, v is over the clients that replied, and
``selected`` clients are drawn among them; the paper draws from all clients, separately for each
centre. The default is plain SGD, while the code has Adam. The code's estimation does not run as
published, since it passes an argument that the client does not accept. Centres that start equal
never separate. Therefore they are drawn at random, and equal ones are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
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
    """The centres (cluster models), and the importance of each centre for each client."""

    importance: Float[np.ndarray, "N K"]  # u; a row of zeros if unknown

    @property
    def membership(self) -> Float[np.ndarray, "N K"]:
        """The importance of each centre for each client, divided by the client's sum; 1/K if it is
        unknown."""
        is_known = self.importance.any(axis=1, keepdims=True)
        importance = np.where(is_known, self.importance, 1.0)
        return importance / importance.sum(axis=1, keepdims=True)

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        starts = mixed(self.models, self.membership[clients])
        return EvaluateOwn(models=starts, model_index=np.arange(len(clients)))


@plain_options
@dataclass(frozen=True)
class FedSoft:
    """Every client has a model with proximal terms to all centres.

    The weight of a centre is the share of the client's samples that this centre fits best.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FedSoft(clusters=2)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

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

    clusters: int = 2  # number of centres (K)
    strength: float = 0.1  # strength of the proximal terms (lambda)
    floor: float = 1e-4  # importance that replaces 0 (sigma)
    every: int = 1  # rounds from one measurement of importance to the next (tau)
    selected: int | None = None  # clients drawn for each centre (S); None: all, weighted

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
        """K different random centres (cluster models). Raises MethodError if two centres are
        equal."""
        start = first_mixture(world, self.clusters, stream)
        return FedSoftState(
            models=start.models,
            assignment=start.assignment,
            importance=np.zeros_like(start.membership),
        )

    def round(
        self, world: World, state: FedSoftState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedSoftState:
        cohort = cohort[state.assignment[cohort] != UNASSIGNED]

        # Clients with a row of zeros measure u first. Then w_i <- local SGD
        importance = state.importance[cohort]
        if (stream.round - 1) % self.every == 0:
            importance = np.zeros((len(cohort), state.clusters))
        cluster = state.assignment[cohort]
        task = TrainTowards(
            models=state.models,
            work=world.work,
            model_index=cluster,
            importance=importance,
            strength=float(self.strength),
            floor=float(self.floor),
        )
        reply = world.run(task, cohort, stream.child("train"))
        if not reply.arrived.any():
            return state

        # v, and c_k <- sum_i v_ik w_i
        solutions = (state.models[cluster] + reply.update)[reply.arrived]
        importance = reply.importance[reply.arrived]
        v = selection_probabilities(importance, reply.examples[reply.arrived])
        centers = self._centers(solutions, v, stream)
        state = _measured(state, cohort[reply.arrived], importance)
        return replace(state, models=centers.astype(np.float32))

    def place(
        self, world: World, state: FedSoftState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedSoftState:
        """New clients measure u, the importance of each centre, on their labelled samples."""
        reply = world.run(Importance(state.models, float(self.floor)), newcomers)
        return _measured(state, newcomers[reply.arrived], reply.importance[reply.arrived])

    def _centers(
        self, solutions: Float[np.ndarray, "a P"], v: Float[np.ndarray, "a K"], stream: Stream
    ) -> Float[np.ndarray, "K P"]:
        """The new centres: means of the clients' models (``solutions``), weighted by v (each
        client's share of a centre's samples), or over clients that are drawn by v."""
        weights = v
        if self.selected is not None and self.selected < len(solutions):
            rng = stream.child("select").rng()
            weights = np.zeros_like(v)
            for k, shares in enumerate(v.T):
                drawn = rng.choice(len(shares), self.selected, replace=False, p=shares)
                weights[drawn, k] = 1 / self.selected
        return weights.T @ solutions.astype(np.float64)


def selection_probabilities(
    importance: Float[np.ndarray, "a K"], samples: Int[np.ndarray, "a"]
) -> Float[np.ndarray, "a K"]:
    """v: each client's share of the samples of each centre. Client i counts as u_ik n_i samples of
    centre k.

    Args:
        importance: u, above 0.
        samples: number of training samples of each client.
    """
    counted = importance * samples[:, None]
    return counted / counted.sum(axis=0)


def _measured(
    state: FedSoftState, clients: Int[np.ndarray, "c"], importance: Float[np.ndarray, "c K"]
) -> FedSoftState:
    """The state with the newly measured importances of some clients, each now in the cluster of its
    most important centre."""
    importances = state.importance.copy()
    importances[clients] = importance
    assignment = state.assignment.copy()
    assignment[clients] = importance.argmax(axis=1)
    return replace(state, importance=importances, assignment=assignment)
