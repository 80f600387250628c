"""FedRC: a mixture of K shared models whose components follow the meaning of labels, not their
frequency.

Y. Guo, X. Tang, T. Lin: FedRC: Tackling Diverse Distribution Shifts Challenge in Federated Learning
by Robust Clustering. ICML 2024, arXiv 2301.12379.

Notation: theta_k the components, omega_i the mixture weights of client i, n_i its number of
training samples, B the number of samples in a batch, C_k(y) the share of label y in component k.

    g_ij(k)  = omega_ik exp(-l(theta_k; x_ij, y_ij)) / C_k(y_ij), divided by its sum over k
    omega_ik = (1/n_i) sum_j g_ij(k)
    C_k(y)   = sum_{ij: y_ij = y} g_ij(k) / sum_ij g_ij(k)
    theta_k  <- sum_i n_i theta_ik / sum_i n_i
                theta_ik by local SGD on (1/B) sum_j g_ij(k) l(theta_k; x_ij, y_ij)

Because of the division by C, a component gains nothing from having most samples of a label. Clients
with different labels share a component if each label has the same meaning for them. In a round g
uses C of the last round; the first round has no C (in the code a constant, which cancels). Each
client sends its sum of g for every component and class (K x classes). The server sees only the
total over clients. It raises totals below 1e-8 to 1e-8, and divides them by their sum over the
classes of a component. The mean of models is over the cohort, weighted by n_i.

Differs: small clusters are not removed (the paper does so, but in the code it is commented out).
New clients get their omega by one E-step (g and omega above) with the present C; the code forgets
to send C, so its E-step is FedEM's. If no client replies, C does not change. ``hard=True`` (the
code's ``hard_cluster``) predicts only with the component of the largest omega_ik.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import UNASSIGNED
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, DataNeeds, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.validation import check_choice, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import NUMBER_OF_MODELS, About
from fedkin.methods.fedem import MixtureState, equal_weights, first_mixture, steps, with_membership
from fedkin.tasks.fedem import MixtureWeights, TrainMixture

_FLOOR = 1e-8  # lower bound of the summed weights


@dataclass(frozen=True)
class FedRCState(MixtureState):
    """A mixture of models (components), and the share of each label in each component."""

    shares: Float[np.ndarray, "K c"]  # C_k(y); no column before the first reply
    hard: Int[np.ndarray, "1"]  # 1 if clients are tested only with the component of largest weight

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task | None:
        return None if self.hard[0] else super().evaluation(spec, clients)

    @property
    def known_shares(self) -> Float[np.ndarray, "K C"] | None:
        """The label shares C of the components; None before the first reply, when they are
        unknown."""
        return self.shares if self.shares.shape[1] else None


@plain_options
@dataclass(frozen=True)
class FedRC:
    """FedEM with sample weights divided by label frequency: clusters follow the meaning of labels.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedRC(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="fedrc",
        paper="Guo et al., ICML 2024",
        compares="losses of samples, by label",
        when="every round",
        membership="soft",
        decides="client",
        count="given",
        leaves="label counts of components; shares",
        meanings={
            "clusters": NUMBER_OF_MODELS,
        },
    )

    clusters: int = 3  # number of components (K)
    hard: bool = False  # clients predict only with the model of largest weight

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("hard", self.hard, (True, False))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            reads=ClientReads(sends="shares of clusters"),
            parts=ModelParts(own="mixtures of each client's own"),
            data=DataNeeds(classes="weights samples by their classes"),
        )

    def init(self, world: World, stream: Stream) -> FedRCState:
        """K different random models; every client has weight 1/K for each.

        Raises:
            MethodError: two of the models are equal.
        """
        mixture = first_mixture(world, self.clusters, stream)
        return FedRCState(
            models=mixture.models,
            assignment=mixture.assignment,
            membership=mixture.membership,
            samples=mixture.samples,
            shares=np.zeros((self.clusters, 0)),
            hard=np.array([int(self.hard)]),
        )

    def round(
        self, world: World, state: FedRCState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedRCState:
        cohort = cohort[state.assignment[cohort] != UNASSIGNED]
        task = TrainMixture(
            models=state.models.reshape(1, -1),
            work=world.work,
            membership=state.membership[cohort],
            by_label=True,
            shares=state.known_shares,
        )
        reply = world.run(task, cohort, stream.child("train"))
        state = with_membership(state, cohort, reply, reply.examples)
        shares = label_shares(reply.label_masses) if reply.arrived.any() else state.shares
        return replace(state, models=state.models + steps(state, reply), shares=shares)

    def place(
        self, world: World, state: FedRCState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedRCState:
        """New clients get their weights by one E-step, from equal weights."""
        weights = equal_weights(len(newcomers), state.clusters)
        reply = world.run(MixtureWeights(state.models, weights, state.known_shares), newcomers)
        return with_membership(state, newcomers, reply)


def label_shares(masses: Float[np.ndarray, "K C"]) -> Float[np.ndarray, "K C"]:
    """The label shares C_k(y), from the sample weights of each component, summed by label over all
    clients."""
    floored = np.maximum(masses, _FLOOR)
    return floored / floored.sum(axis=1, keepdims=True)
