"""FedLEASE: clients train a low-rank adapter alone, are clustered by its factor B, and each cluster
trains one adapter.

L. Wang et al.: Adaptive LoRA Experts Allocation and Selection for Federated Fine-Tuning. NeurIPS
2025, arXiv 2509.15087. n clients, M adapted layers, B_i^m the factor B of client i in layer m.

    warm-up: every client trains from w_0 alone                               (step 1)
    d_ij = mean over m of 1 - cos(B_i^m, B_j^m)                               (step 2)
    average linkage of d; the number of clusters with the highest silhouette  (step 2)
    each cluster starts from the mean of its clients, A, B and last layer     (step 3)
    FedAvg in each cluster                                                    (step 4)

The model is ``fk.lora``. B starts at 0, so its values are its update. A model without adapters has
no B: then all of its arrays are compared in the same way.

Differs from the authors' code:
* One cluster is possible: if the highest silhouette is at most ``floor``. The code always splits,
  also clients that are alike (docs/measured-adapters.md).
* Step 3 is carried out. In the code each client starts from its own factors.
* The last layer is trained and averaged with the adapter. In the code it stays as drawn, another
  one for each client, and is sent but not averaged.
* A is equal for all clients by construction; in the code only if all have equally many samples.
* Means are weighted by numbers of samples, and the learning rate is the run's.
* The router, which mixes the clusters' adapters for each token, is left out: it needs a model that
  holds all adapters, and clusters do not depend on it. ``measures.adapter_router`` has its rule.
The warm-up is one training of ``warm_up`` times the epochs of a round. In it the server holds N x P
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.aggregation import mean_by_model
from fedkin.clustering.agglomerative import best_silhouette
from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import ClientReads, MemoryNeeds, ModelParts, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_choices, check_not_negative, check_positive_integer
from fedkin.core.world import World
from fedkin.measures.factor_distances import mean_cosine_distances
from fedkin.methods import cluster_steps
from fedkin.methods.about import About
from fedkin.methods.fedavg import train_and_average
from fedkin.tasks.train import train

# The largest distance of ``mean_cosine_distances``: no distance is cut.
_LARGEST = 2.0


@dataclass(frozen=True)
class FedLEASEState(State):
    """Arrays that FedLEASE keeps from round to round."""

    start: Float[np.ndarray, "P"]  # w_0


@plain_options
@dataclass(frozen=True)
class FedLEASE:
    """Clusters of low-rank adapters by their factor B, fixed after a warm-up.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.FedLEASE(most=3)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape[1]
        650
    """

    about: ClassVar[About] = About(
        name="fedlease",
        paper="Wang et al., NeurIPS 2025",
        compares="factors B of adapters",
        when="once, before training",
        membership="hard",
        decides="server",
        count="found",
        leaves="a single update",
    )

    most: int = 4  # largest number of clusters (M_max in the paper)
    warm_up: int = 2  # rounds that each client trains alone (the code's 5 of 25)
    floor: float = 0.15  # largest silhouette that means one cluster
    newcomers: Literal["loss", "direction", "random"] = "loss"  # how clients are placed later

    def __post_init__(self) -> None:
        check_positive_integer("most", self.most)
        check_positive_integer("warm_up", self.warm_up)
        check_not_negative("floor", self.floor)
        check_choices(self)

    def requirements(self) -> Requirements:
        return Requirements(
            reads=ClientReads(updates="single"),
            parts=ModelParts(shared_head=cluster_steps.shared_head(self)),
            memory=MemoryNeeds(compares_all=True),
            keeps_clusters=True,
        )

    def init(self, world: World, stream: Stream) -> FedLEASEState:
        """Step 1 to 3: all clients train alone, are clustered, and each cluster gets a model."""
        start = world.initial(stream.child("model"))
        reachable = world.clients(stream.round)
        reply = train(
            world,
            start[None],
            reachable,
            np.zeros(len(reachable), np.int64),
            work=self._alone(world.work),
            stream=stream.child("warm_up"),
        )
        usable = reply.arrived & reply.update.any(axis=1)
        if not usable.any():
            raise MethodError(
                f"the warm-up of FedLEASE: 0 of {len(reachable)} clients sent an update"
            )
        clients = reachable[usable]
        updates = reply.update[usable]
        labels = self._partition(updates, world.spec)
        mean, _ = mean_by_model(updates, reply.examples[usable], labels, int(labels.max()) + 1)
        state = FedLEASEState(
            models=start + mean,
            assignment=np.full(world.total_clients, UNASSIGNED, np.int64),
            start=start,
        )
        return cluster_steps.assign(world, state, clients, labels)

    def round(
        self, world: World, state: FedLEASEState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FedLEASEState:
        """Step 4."""
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: FedLEASEState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FedLEASEState:
        """A client that took no part in the warm-up joins one of the clusters."""
        return cluster_steps.place_by_policy(
            world,
            state,
            policy=self.newcomers,
            clients=newcomers,
            stream=stream,
            start=state.start,
            part="B" if world.spec.factors else "all",
        )

    def _alone(self, work: LocalTraining) -> LocalTraining:
        """The training of the warm-up: as long as ``warm_up`` rounds."""
        if work.steps is not None:
            return replace(work, steps=self.warm_up * work.steps)
        return replace(work, epochs=self.warm_up * work.epochs)

    def _partition(
        self, updates: Float[np.ndarray, "n P"], spec: ModelSpec
    ) -> Int[np.ndarray, "n"]:
        """Step 2: the cluster of each client, by the update of its factors B."""
        if self.most == 1:
            return np.zeros(len(updates), np.int64)
        matrices = [factor.b for factor in spec.factors]
        if not matrices:
            matrices = list(spec.slices.values()) or [slice(0, spec.parameters)]
        return best_silhouette(
            mean_cosine_distances(updates, matrices),
            linkage="average",
            most=self.most,
            floor=self.floor,
            largest=_LARGEST,
        )
