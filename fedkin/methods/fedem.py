"""FedEM: every client's data distribution is a mixture of K shared components, with weights that
differ between clients.

O. Marfoq, G. Neglia, A. Bellet, L. Kameni, R. Vidal: Federated Multi-Task Learning under a Mixture
of Distributions. NeurIPS 2021, arXiv 2108.10252 (Alg. 1).

Notation: theta_k the components, pi_i the mixture weights of client i, n_i its number of training
samples, B the number of samples in a batch.

    E:  q_ij(k) = pi_ik exp(-l(theta_k; x_ij, y_ij)), divided by its sum over k
        l is a negative log likelihood: the loss / phi, with the dispersion phi of numbers and
        counts (for squares, the mean of the squared residuals), and phi = 1 for classes
    M:  pi_ik   = (1/n_i) sum_j q_ij(k)
        theta_ik <- local SGD on (1/B) sum_j q_ij(k) l(theta_k; x_ij, y_ij), from theta_k
    server: phi <- sum_ijk q_ij(k) d_ij(k) / sum_i n_i          d: ``Loss.deviations``
            theta_k <- sum_i n_i theta_ik / sum_i n_i           n_i, and not n_i pi_ik
    prediction: sum_k pi_ik softmax(h_k(x))                     probabilities are mixed, not scores
                sum_k pi_ik mu_k(x) for numbers and counts      and so are predicted means

The E-step uses the mixture weights pi of the last round, and evaluates the components in inference
mode. q stays fixed for all local epochs. K models are sent to every client of a round, and K back.
Components that start equal never separate. Therefore they are drawn at random, and equal ones are
refused. A mixture weight that has become 0 stays 0.

Partial participation is as in the authors' code (the paper has none): the mean is over all N
clients. Clients that are not selected count with the unchanged models, so a smaller cohort makes a
smaller step. ``average_over="cohort"`` is the usual mean over the clients that replied. Differs
from the code: a client never seen counts with the mean number of samples of the known clients, and
a client whose reply is lost counts as not selected. The server knows the mixture weights of every
client (``membership``, K numbers). In the authors' code they stay on the clients; here clients keep
nothing.

A client is in the cluster of its largest mixture weight (in a tie, the first). Before its first
round all its mixture weights are 1/K. A new client gets its mixture weights by one E-step on its
training samples, and trains nothing, as in the authors' code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.requirements import AtLeast, ClientReads, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.validation import check_choice, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.cluster_steps import random_models
from fedkin.tasks.fedem import EvaluateMixture, MixtureWeights, TrainMixture


@dataclass(frozen=True)
class MixtureState(State):
    """The K components of a mixture, and the weight of each component for each client."""

    membership: Float[np.ndarray, "N K"]  # pi
    samples: Int[np.ndarray, "N"]  # number of training samples of each client; 0 if unknown
    # phi, by which the loss of numbers or counts is divided in the E-step; 1 for classes.
    dispersion: Float[np.ndarray, "1"] = field(default_factory=lambda: np.ones(1), kw_only=True)

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task | None:
        return EvaluateMixture(self.models, self.membership[clients])


@plain_options
@dataclass(frozen=True)
class FedEM:
    """Every client uses a mixture of K shared models, with weights that it learns.

    The models' probabilities are mixed.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedEM(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="fedem",
        paper="Marfoq et al., NeurIPS 2021",
        compares="losses of samples",
        when="every round",
        membership="soft",
        decides="client",
        count="given",
        leaves="updates of components, summed; shares",
        meanings={
            "clusters": NUMBER_OF_MODELS,
        },
    )

    clusters: int = 3  # number of components (K)
    average_over: Literal["all", "cohort"] = "all"  # clients over which a round's mean is taken

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("average_over", self.average_over, ("all", "cohort"))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(sends="shares of clusters"),
            parts=ModelParts(own="mixtures of each client's own"),
        )

    def init(self, world: World, stream: Stream) -> MixtureState:
        """K different random models; every client has weight 1/K for each.

        Raises:
            MethodError: two of the models are equal.
        """
        return first_mixture(world, self.clusters, stream)

    def round(
        self, world: World, state: MixtureState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> MixtureState:
        cohort = cohort[state.assignment[cohort] != UNASSIGNED]
        task = TrainMixture(
            models=state.models.reshape(1, -1),
            work=world.work,
            membership=state.membership[cohort],
            dispersion=float(state.dispersion[0]),
        )
        reply = world.run(task, cohort, stream.child("train"))
        state = with_membership(state, cohort, reply, reply.examples)
        share = self._share(state, cohort[reply.arrived])
        models = state.models + share * steps(state, reply)
        return replace(state, models=models, dispersion=new_dispersion(state, reply))

    def place(
        self, world: World, state: MixtureState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> MixtureState:
        """New clients get their weights by one E-step, from equal weights."""
        task = MixtureWeights(
            state.models,
            equal_weights(len(newcomers), state.clusters),
            dispersion=float(state.dispersion[0]),
        )
        return with_membership(state, newcomers, world.run(task, newcomers))

    def _share(self, state: MixtureState, trained: Int[np.ndarray, "a"]) -> np.float32:
        """The factor by which the mean update is multiplied: the share of all clients' training
        samples that belong to the clients of this round; 1 for a mean over the cohort."""
        # A client reports its number of samples when it trains. Until then the mean is assumed.
        is_known = state.samples > 0
        if self.average_over == "cohort" or not is_known.any():
            return np.float32(1)
        sizes = np.where(is_known, state.samples, state.samples[is_known].mean())
        total = sizes[state.assignment != UNASSIGNED].sum()
        return np.float32(state.samples[trained].sum() / total)


def first_mixture(world: World, clusters: int, stream: Stream) -> MixtureState:
    """The initial state of a mixture: different random components, and equal weights.

    Reachable clients are in the first cluster. Their numbers of samples are not known yet.

    Args:
        world, stream: clients and random numbers of the start.
        clusters: number of components K.

    Raises:
        MethodError: two components are equal.
    """
    models = random_models(world, clusters, stream)
    total = world.total_clients
    assignment = np.full(total, UNASSIGNED, np.int64)
    assignment[world.clients(stream.round)] = 0
    return MixtureState(
        models=models,
        assignment=assignment,
        membership=equal_weights(total, clusters),
        samples=np.zeros(total, np.int64),
    )


def equal_weights(clients: int, clusters: int) -> Float[np.ndarray, "n K"]:
    """The mixture weights before any E-step: 1/K for each client and component."""
    return np.full((clients, clusters), 1 / clusters)


def steps(state: MixtureState, reply: Reply) -> Float[np.ndarray, "K P"]:
    """The mean update of each component, from a reply to ``TrainMixture``."""
    return reply.update.reshape(state.models.shape)


def new_dispersion(state: MixtureState, reply: Reply) -> Float[np.ndarray, "1"]:
    """The dispersion phi after a reply to ``TrainMixture``: the mean of the deviations of all
    samples. It stays as it was for classes, and if no deviation is known."""
    samples = reply.examples[reply.arrived].sum()
    total = float(np.sum(reply.deviations))
    if not (samples and np.isfinite(total) and total > 0):
        return state.dispersion
    return np.array([total / samples])


def with_membership(
    state: MixtureState,
    clients: Int[np.ndarray, "n"],
    reply: Reply,
    samples: Int[np.ndarray, "n"] | None = None,
) -> Any:
    """The state with the new mixture weights of the clients that replied. Each of these clients is
    then in the cluster of its component with the largest weight.

    Args:
        state: state before the reply.
        clients: the clients that were asked, one for each row of the reply.
        reply: reply with ``membership``.
        samples: number of training samples of each of these clients; None if not reported.
    """
    arrived = clients[reply.arrived]

    membership = state.membership.copy()
    membership[arrived] = reply.membership[reply.arrived]

    assignment = state.assignment.copy()
    assignment[arrived] = membership[arrived].argmax(axis=1)

    sizes = state.samples.copy()
    if samples is not None:
        sizes[arrived] = samples[reply.arrived]
    return replace(state, membership=membership, assignment=assignment, samples=sizes)
