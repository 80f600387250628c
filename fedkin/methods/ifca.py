"""IFCA: in every round each client joins the cluster whose model has the lowest loss on its data.

A. Ghosh, J. Chung, D. Yin, K. Ramchandran: An Efficient Framework for Clustered Federated Learning.
NeurIPS 2020, arXiv 2006.04088 (Iterative Federated Clustering Algorithm, Alg. 1).

Notation: k clusters, theta_j the model of cluster j, F_i the training loss of client i, S_j the
clients that chose cluster j in this round, M the number of clients that replied in this round.

    j_i = argmin_j F_i(theta_j)     on the client's training data; in a tie, the first
    models:     theta_j <- mean of the local solutions of S_j
    gradients:  theta_j <- theta_j - lr/M sum of the gradients of S_j

All k models are sent to each of the n clients of a cohort, and one returns: n (k + 1) messages.

Differs from the authors' code: clients choose by the losses of this round's models, as in Alg. 1.
The code uses losses from the end of the last round. Differs from FlexCFL's IFCA: its "simple mean"
counts only the first client of a cluster, in the order in which the cohort was drawn (a round-robin
cohort: by id). ``weighting="first_client"`` keeps this error. FlexCFL's earlier code weighted by
samples (``"examples"``). docs/results-flexcfl.md compares these weightings with the published
numbers. Clusters have no common start, so newcomers cannot be placed by direction.

The random initial models determine the clusters: one model may attract the clients of two true
clusters (docs/results-planted.md counts how often). A cluster that no client chose keeps its model.
IFCA-MIG (FlexCFL, section 5.3): clients whose data have shifted choose again: k more messages each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, ClientReads, ModelNeeds, ModelParts, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choice, check_positive_integer
from fedkin.core.world import World
from fedkin.methods import cluster_steps
from fedkin.methods.about import NUMBER_OF_MODELS, SHIFTED_SHARE, About
from fedkin.tasks.train import TrainingReply, train

# Names of the options with which the method reads single updates, for messages.
_SINGLE = "averaging, weighting or shared_base (averages of models by examples need means only)"
_MIXING = {"averaging": "gradients", "shared_base": True}  # all clients change every model
_WHOLE = 2**31 - 1  # batch size larger than any client's data: one batch of all samples


@plain_options
@dataclass(frozen=True)
class IFCA:
    """Every client selects the model with the lowest training loss on its data, in each round.

    Examples:
        >>> import fedkin as fk
        >>> fk.IFCA(clusters=2).averaging
        'models'
    """

    about: ClassVar[About] = About(
        name="ifca",
        paper="Ghosh et al., NeurIPS 2020",
        compares="losses of all models",
        when="every round",
        membership="hard",
        decides="client",
        count="given",
        leaves="the cluster that it chose",
        meanings={
            "clusters": NUMBER_OF_MODELS,
            "threshold": SHIFTED_SHARE,
            "averaging": "as in IFCA",
            "weighting": "as in IFCA",
            "shared_base": "as in IFCA",
            "newcomers": "as in IFCA",
        },
    )

    clusters: int = 3  # number of clusters (k)
    averaging: Literal["models", "gradients"] = "models"  # content of a reply
    # weights of clients in a mean; "first_client" is FlexCFL's error, as coded
    weighting: Literal["simple", "examples", "first_client"] = "simple"
    shared_base: bool = False  # all layers except the last are shared, and trained by all clients
    newcomers: Literal["round", "loss", "random"] = "round"  # "round": clients choose at selection
    migration: cluster_steps.Migration = "none"  # shift test of clients
    threshold: float = 0.2  # largest change of labels without a shift, in the unit of migration
    eta_g: float = 0.0  # learning rate between clusters; 0: clusters share nothing

    def __post_init__(self) -> None:
        check_positive_integer("clusters", self.clusters)
        check_choice("averaging", self.averaging, ("models", "gradients"))
        check_choice("weighting", self.weighting, cluster_steps.WEIGHTING)
        check_choice("shared_base", self.shared_base, (True, False))
        cluster_steps.check_policies(self, ("round", "loss", "random"))

    def requirements(self) -> Requirements:
        reads = ClientReads(
            updates="means" if self._reads_means else "single",
            because="" if self._reads_means else _SINGLE,
            sends=cluster_steps.sends(self),
            standing=cluster_steps.standing_tasks(self),
        )
        return Requirements(
            clients=AtLeast(self.clusters, because="clusters"),
            model=ModelNeeds(last_layer=self.shared_base, because="shared_base"),
            reads=reads,
            parts=ModelParts(shared_head="losses of all models"),
            separation=cluster_steps.separation(self, _MIXING, choosing=True),
        )

    def init(self, world: World, stream: Stream) -> State:
        """k different random models; no client has a cluster.

        Raises:
            MethodError: gradients are averaged, but local training is not one plain step.
        """
        if self.averaging == "gradients":
            cluster_steps.check_plain_steps(
                world.work, "averaging = 'gradients'", "set averaging to 'models'"
            )
        models = cluster_steps.random_models(world, self.clusters, stream)
        if self.shared_base:
            base = _base_mask(world.spec)
            models[:, base] = models[0, base]
        assignment = np.full(world.total_clients, UNASSIGNED, np.int64)
        return State(models, assignment)

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        state = cluster_steps.migrate(world, state, method=self, place=self._choose, stream=stream)

        # j_i, and local training of theta_{j_i}
        reply = train(
            world,
            state.models,
            cohort,
            work=self._work(world),
            reduce=self._reads_means,
            stream=stream.child("train"),
        )

        # theta_j
        weight = cluster_steps.aggregation_weights(
            self.weighting, reply, clients=cohort, world=world, stream=stream
        )
        state = replace(state, models=self._average(world, state.models, reply, weight))
        state = cluster_steps.update_assignment(
            world, state, cohort[reply.arrived], reply.model_index[reply.arrived]
        )
        return cluster_steps.aggregate_between_clusters(world, state, self.eta_g)

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        """Give new clients a cluster, unless they choose one in their first round."""
        return state if self.newcomers == "round" else self._choose(world, state, newcomers, stream)

    def _choose(
        self, world: World, state: State, clients: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        """The state with clients assigned to clusters now, by loss or by ``newcomers``."""
        policy = "loss" if self.newcomers == "round" else self.newcomers
        return cluster_steps.place_by_policy(
            world, state, policy=policy, clients=clients, stream=stream
        )

    @property
    def _reads_means(self) -> bool:
        """Whether these options need only the mean update of each model, no single updates."""
        return self.averaging == "models" and self.weighting == "examples" and not self.shared_base

    def _average(
        self,
        world: World,
        models: Float[np.ndarray, "K P"],
        reply: TrainingReply,
        weight: Float[np.ndarray, "n"],
    ) -> Float[np.ndarray, "K P"]:
        """The clusters' models after a round; shared layers get the mean update of all clients."""
        if self._reads_means:
            return models + reply.update
        step, mass = mean_by_model(reply.update, weight, reply.model_index, self.clusters)
        if self.averaging == "gradients":
            step *= (mass / max(mass.sum(), 1))[:, None]
        after = models + step
        if self.shared_base:
            one_cluster = np.zeros_like(reply.model_index)
            base_update, _ = mean_by_model(reply.update, weight, one_cluster, 1)
            base = _base_mask(world.spec)
            after[:, base] = (models[0] + base_update[0])[base]
        return after

    def _work(self, world: World) -> LocalTraining:
        """The run's local training. If gradients are averaged, it is one step of plain SGD on all
        samples, which gives -lr times their gradient, including decay and clipping."""
        work = world.work
        if self.averaging == "models":
            return work
        return LocalTraining(
            batch_size=_WHOLE,
            lr=work.lr,
            weight_decay=work.weight_decay,
            partial=work.partial,
            schedule=work.schedule,
            clip_norm=work.clip_norm,
            label_smoothing=work.label_smoothing,
            class_weights=work.class_weights,
            precision=work.precision,
        )


@plain_options
@dataclass(frozen=True)
class IFCAMig(IFCA):
    """IFCA whose clients select a cluster again when their data shift (FlexCFL's IFCA-MIG).

    Examples:
        >>> import fedkin as fk
        >>> fk.IFCAMig(clusters=4).migration
        'label_blind'
    """

    about: ClassVar[About] = replace(
        IFCA.about,
        name="ifca_mig",
        paper="Duan et al., TPDS 2022",
        leaves="the cluster that it chose; a bit at a shift",
    )

    # test with which clients detect a shift of their data
    migration: cluster_steps.Migration = "label_blind"


def _base_mask(spec: ModelSpec) -> Bool[np.ndarray, "P"]:
    """Mask of the shared base: all parameters except the last layer's."""
    if spec.head is None:
        raise MethodError(
            "shared_base needs a model with a known last layer, but this model has none; set "
            "shared_base=False"
        )
    base = np.ones(spec.parameters, bool)
    base[spec.head] = False
    return base
