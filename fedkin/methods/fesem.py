"""FeSEM: a client belongs to the cluster whose model is nearest to the client's last solution.

M. Xie, G. Long, T. Shen, T. Zhou, X. Wang, J. Jiang: Multi-Center Federated Learning. arXiv
2005.01026 (Federated Stochastic Expectation Maximization, Alg. 1).

Notation: K clusters (the paper's centers), w~_k the model of cluster k, w_i the last local solution
of client i.

    E-step:  r_i = argmin_k |w_i - w~_k|_2     for the selected clients (in a tie, the first);
                                               on the server
    update:  client i trains from w~_{r_i}, and sends its solution w_i
    M-step:  w~_k = mean of the w_i of cluster k

The server keeps the w_i, so the choice costs no message: one model down and one up per client and
round. It keeps N solutions; with ``part="head"`` they need much less memory.

As in FlexCFL's code, a client that never trained holds the initial model that all share, and each
cluster starts from another random model. Hence *all new clients are nearest to the same cluster*,
and the method often stays there, with one model for all clients (FlexCFL reports it on MNIST-MLP).
With ``newcomers`` other than "own" a new client holds the model of its assigned cluster instead,
and starts there.

Differs from the authors' code: the E-step is done in every round, for its cohort, not every few
rounds. Clusters start as above, not from centers in (-0.01, 0.01). ``part="head"`` measures only
the last layer's weights, as the authors' code does. The authors' code calls its mean weighted, but
all weights are equal, as here (``weighting="simple"``).
Differs from FlexCFL's code: all clients of a cluster count. There only the first client of each
cluster counts, in the order in which the cohort was drawn; ``weighting="first_client"`` keeps this
error. An earlier version of FlexCFL's code weighted clients by their numbers of samples
(``weighting="examples"``). docs/results-flexcfl.md compares the published numbers with the results
of all three weightings.

The choice of a cluster does not depend on a client's present data. FeSEM-MIG, which reassigns
clients that detect a shift of their data, therefore trains the same models (FlexCFL, section 5.3;
with the default policies).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    AtLeast,
    ClientReads,
    MemoryNeeds,
    ModelNeeds,
    ModelParts,
    Requirements,
)
from fedkin.core.shared_rows import SharedRows
from fedkin.core.validation import check_choice, check_positive_integer
from fedkin.core.world import World
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, SHIFTED_SHARE, About
from fedkin.methods.compared_part import PARTS, Part, is_compared
from fedkin.tasks.train import train


@dataclass(frozen=True)
class FeSEMState(State):
    """Arrays that FeSEM keeps from round to round."""

    local: Float[SharedRows | np.ndarray, "N p"]  # the part of w_i that is measured

    def __post_init__(self) -> None:
        # A checkpoint restores a plain array, which is converted to SharedRows here.
        object.__setattr__(self, "local", self.solutions)

    @property
    def solutions(self) -> SharedRows:
        """The clients' last solutions (the field ``local``) as ``SharedRows``, which store equal
        rows once. A checkpoint restores the field as a plain array, so it is converted here."""
        return SharedRows.of(self.local)


@plain_options
@dataclass(frozen=True)
class FeSEM:
    """Every client belongs to the model that is nearest to its solution in l2 distance.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FeSEM(clusters=2), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (2, 650)
    """

    about: ClassVar[About] = About(
        name="fesem",
        paper="Xie et al., arXiv 2005.01026",
        compares="weights of local models",
        when="every round",
        membership="hard",
        decides="server",
        count="given",
        leaves="updates",
        meanings={
            "clusters": NUMBER_OF_MODELS,
            "threshold": SHIFTED_SHARE,
            "part": "as in FeSEM",
            "weighting": "as in FeSEM",
            "newcomers": "as in FeSEM",
        },
    )

    clusters: int = 3  # number of clusters (K)
    # measured parameters; "head": weights of the last layer; the others are of adapters
    part: Part = "all"
    # weights of clients in a mean; "first_client" is FlexCFL's error, as coded
    weighting: Literal["simple", "examples", "first_client"] = "simple"
    newcomers: Literal["own", "loss", "random"] = "own"  # "own": by distance, as for all clients
    migration: cluster_steps.Migration = "none"  # shift test of clients
    threshold: float = 0.2  # largest change of labels without a shift, in the unit of migration
    eta_g: float = 0.0  # learning rate between clusters; 0: clusters share nothing

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("part", self.part, PARTS)
        check_choice("weighting", self.weighting, cluster_steps.WEIGHTING)
        cluster_steps.check_policies(self, ("own", "loss", "random"))

    def requirements(self) -> Requirements:
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            model=ModelNeeds(last_layer=self.part == "head", because="part"),
            reads=ClientReads(updates="single", standing=cluster_steps.standing_tasks(self)),
            parts=ModelParts(shared_head="whole solutions"),
            memory=MemoryNeeds(kept_models=int(self.part == "all")),
        )

    def init(self, world: World, stream: Stream) -> FeSEMState:
        """K different random models. The solution of every client is one other model, the same for
        all."""
        models = cluster_steps.random_models(world, self.clusters, stream)
        start = world.initial(stream.child("model"))
        local = SharedRows([start[self._measured(world.spec)]] * world.total_clients)
        return FeSEMState(
            models=models,
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            local=local,
        )

    def round(
        self, world: World, state: FeSEMState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FeSEMState:
        state = cluster_steps.migrate(world, state, method=self, place=self.place, stream=stream)
        # A client without a cluster could not be placed, and waits until it is selected again.
        if self.newcomers != "own":
            cohort = cohort[state.assignment[cohort] != UNASSIGNED]

        # E-step
        model_index = self._nearest(world.spec, state, cohort)
        state = cluster_steps.update_assignment(world, state, cohort, model_index)

        # update
        reply = train(world, state.models, cohort, model_index, stream=stream.child("train"))
        solutions = (state.models[model_index] + reply.update)[reply.arrived]
        measured = solutions[:, self._measured(world.spec)]
        local = state.solutions.replaced(cohort[reply.arrived], measured)

        # M-step
        weight = cluster_steps.aggregation_weights(
            self.weighting, reply, clients=cohort, world=world, stream=stream
        )
        step, _ = mean_by_model(reply.update, weight, model_index, self.clusters)
        state = replace(state, models=state.models + step, local=local)
        return cluster_steps.aggregate_between_clusters(world, state, self.eta_g)

    def place(
        self, world: World, state: FeSEMState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FeSEMState:
        """New clients join the nearest cluster, or a cluster by another policy.

        Under another policy, new clients hold that cluster's model as their solution.
        """
        if self.newcomers == "own":
            nearest = self._nearest(world.spec, state, newcomers)
            return cluster_steps.assign(world, state, newcomers, nearest)
        state = cluster_steps.place_by_policy(
            world, state, policy=self.newcomers, clients=newcomers, stream=stream
        )
        placed = newcomers[state.assignment[newcomers] != UNASSIGNED]
        models = state.models[state.assignment[placed]][:, self._measured(world.spec)]
        return replace(state, local=state.solutions.replaced(placed, models))

    def _nearest(
        self, spec: ModelSpec, state: FeSEMState, clients: Int[np.ndarray, "n"]
    ) -> Int[np.ndarray, "n"]:
        """The cluster whose model is nearest to the last solution (trained model) of each
        client."""
        from scipy.spatial.distance import cdist

        centers = state.models[:, self._measured(spec)]
        # Clients that never trained share one solution, so their distances are computed once.
        solutions, row = state.solutions.distinct(clients)
        nearest = np.argmin(cdist(solutions, centers), axis=1)
        return nearest[row]

    def _measured(self, spec: ModelSpec) -> Int[np.ndarray, "p"] | slice:
        """The parameters by which solutions and models are compared: all, a part of an adapter, or
        (``part='head'``) the last layer's weights without its bias."""
        if self.part == "all":
            return slice(None)
        if self.part != "head":
            return np.flatnonzero(is_compared(spec, self.part))
        if spec.head is None:
            raise MethodError(
                "part='head' needs a model with a known last layer, but this model has none; use "
                "part='all'"
            )
        index = np.arange(spec.parameters)
        if spec.head_bias is None:
            return index[spec.head]
        return np.setdiff1d(index[spec.head], index[spec.head_bias])


@plain_options
@dataclass(frozen=True)
class FeSEMMig(FeSEM):
    """FeSEM that reassigns clients when their data shift (FlexCFL's FeSEM-MIG).

    Examples:
        >>> import fedkin as fk
        >>> fk.FeSEMMig(clusters=4).migration
        'label_blind'
    """

    about: ClassVar[About] = replace(
        FeSEM.about,
        name="fesem_mig",
        paper="Duan et al., TPDS 2022",
        leaves="updates; a bit at a shift",
    )

    # test with which clients detect a shift of their data
    migration: cluster_steps.Migration = "label_blind"
