"""FEROMA: each client trains a mix of all clients' last solutions, weighted by similarity of data.

M. Li, D. Fenoglio, M. Gjoreski, M. Langheinrich: Federated Learning with Profile Mapping under
Distribution Shifts and Drifts. ICLR 2026, arXiv 2602.07671.

    FedAvg until the mean accuracy of a cohort is ``accuracy``, or for ``latest`` rounds;
    then, in each round t,
    s_i(t)   profile of client i (FLUX's descriptor): means and deviations of C projected
             features, over all samples and over the samples of each class; each block of C
             numbers is scaled to 0 .. 1
    a_ij     = 1 / (|s_i(t) - s_j(t-1)| + 1e-8), divided by its sum over j, for the clients j
             that have a solution
    theta_i  <- local training from  sum_j a_ij n_j theta_j / sum_j a_ij n_j
    tested:  theta_i; a newcomer gets the theta_j of the client j with the nearest profile, where
             only the moments over all samples are compared, because they need no labels

A client with an unchanged profile is at distance 0 to itself and keeps its solution. Clients with
equal data get the same mix. There are no clusters.

The available sources do not say which model makes the profiles. Here it is the joint model at the
end of the first phase. It stays fixed, since otherwise s_i(t) and s_j(t-1) could not be compared.
Its last layer is FLUX's random projection (``methods/flux.py`` says how it differs from the code).
The first cohort that mixes gives the ranges for scaling. Left out: noise for private profiles;
the authors' random sub-sampling of profiles; variants that sharpen or cut weights.

Differs: cohorts are parts of all clients, and s_j is the profile at the time of client j's last
solution. A client that was present when the mixing began and has no solution yet uses the joint
model; one that comes later is a new client. In the first phase the mean is sent twice in a round.
Model 0 is the joint model; each other model is the solution of a client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import (
    ClientReads,
    DataNeeds,
    MemoryNeeds,
    ModelChanges,
    ModelNeeds,
    ModelParts,
    Requirements,
)
from fedkin.core.reused_memory import appended
from fedkin.core.validation import check_integer_from_zero, check_not_negative
from fedkin.core.world import World
from fedkin.measures.descriptors import inverse_distances, scaled, value_ranges
from fedkin.methods import cluster_steps
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.methods.random_head import (
    class_count,
    descriptors,
    training_accuracy,
    with_projection,
)
from fedkin.tasks.score_moments import DescribingModel
from fedkin.tasks.train import train

NO_SOLUTION = 0  # in ``FEROMAState.solution``: the client has not trained since mixing began


@dataclass(frozen=True)
class FEROMAState(State):
    """Arrays that FEROMA keeps from round to round."""

    accuracy: Float[np.ndarray, ""]  # mean over the last cohort of the first phase; NaN before
    extractor: Float[np.ndarray, "P"]  # the joint model, whose last layer is the projection
    ranges: Float[np.ndarray, "2 B"]  # lowest and highest number of each block; NaN at first
    profiles: Float[np.ndarray, "N D"]  # at each client's last solution, D = 2C + 2C^2; or NaN
    examples: Int[np.ndarray, "N"]  # n_j; 0 if the client has no solution
    solution: Int[np.ndarray, "N"]  # index of client j's model, or NO_SOLUTION
    informed: Bool[np.ndarray, "N"]  # whether a client has received the extractor
    mixing: Bool[np.ndarray, ""]


@plain_options
@dataclass(frozen=True)
class FEROMA:
    """Each client trains a mix of all clients' solutions, weighted by similarity of their data.

    Examples:
        >>> import fedkin as fk
        >>> fk.FEROMA(latest=5)
        FEROMA(accuracy=0.8, latest=5)
    """

    about: ClassVar[About] = About(
        name="feroma",
        paper="Li, Fenoglio, et al., ICLR 2026",
        compares="descriptors of data",
        when="every round",
        membership="soft",
        decides="server",
        leaves="its model; moments of outputs, every round",
    )

    accuracy: float = 0.8  # mixing starts at this training accuracy (CIFAR-10 in the paper: 0.5)
    latest: int = 20  # largest number of rounds with one model

    def __post_init__(self) -> None:
        check_not_negative("accuracy", self.accuracy)
        check_integer_from_zero("latest", self.latest)

    def requirements(self) -> Requirements:
        return Requirements(
            model=ModelNeeds(last_layer=True),
            reads=ClientReads(updates="single"),
            changes=ModelChanges(always="stores each client's own solution"),
            parts=ModelParts(own="a mix of models for each client"),
            memory=MemoryNeeds(kept_models=1),
            data=DataNeeds(newcomer_labels=False, classes="compares the samples of each class"),
        )

    def init(self, world: World, stream: Stream) -> FEROMAState:
        """One model, which all clients use. Raises MethodError if its last layer is unknown."""
        start = single_model_state(world, stream)
        classes = class_count(world.spec)
        clients = world.total_clients
        return FEROMAState(
            models=start.models,
            assignment=start.assignment,
            accuracy=np.array(np.nan),
            extractor=start.models[0],
            ranges=np.full((2, 2 * classes + 2), np.nan),
            profiles=np.full((clients, 2 * classes * (classes + 1)), np.nan),
            examples=np.zeros(clients, np.int64),
            solution=np.full(clients, NO_SOLUTION, np.int64),
            informed=np.zeros(clients, bool),
            mixing=np.array(False),
        )

    def round(
        self, world: World, state: FEROMAState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FEROMAState:
        if state.mixing:
            return self._mix(world, state, cohort, stream)
        # FedAvg in the first phase; before the first round the accuracy is NaN.
        if stream.round <= self.latest and not state.accuracy >= self.accuracy:
            models = train_and_average(world, state, cohort, work=world.work, stream=stream)
            state = replace(state, models=models)
            return replace(state, accuracy=np.array(training_accuracy(world, state, cohort)))
        return self._mix(world, self._begin_mixing(world, state, stream), cohort, stream)

    def _begin_mixing(self, world: World, state: FEROMAState, stream: Stream) -> FEROMAState:
        """The state at the start of mixing, with the fixed model that computes profiles (the
        extractor). Clients that are absent now are placed later."""
        assignment = np.full_like(state.assignment, UNASSIGNED)
        assignment[world.clients(stream.round)] = 0
        extractor = with_projection(state.models[0], world.spec)
        return replace(state, assignment=assignment, extractor=extractor, mixing=np.array(True))

    def place(
        self, world: World, state: FEROMAState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FEROMAState:
        """New clients get the solution with the nearest profile, by entries that need no labels."""
        trained = np.flatnonzero(state.examples)
        if not len(trained):
            return cluster_steps.assign(world, state, newcomers, np.zeros(len(newcomers), np.int64))
        state, newcomers, described = self._describe(world, state, newcomers, labels=False)
        classes = class_count(world.spec)
        points = scaled(described, state.ranges, classes)
        profiles = state.profiles[trained, : 2 * classes]
        nearest = trained[inverse_distances(points, profiles).argmax(axis=1)]
        return cluster_steps.assign(world, state, newcomers, state.solution[nearest])

    def _mix(
        self, world: World, state: FEROMAState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FEROMAState:
        """A mixing round: profiles of the cohort, a mix for each client, and its training."""
        state, clients, described = self._describe(world, state, cohort, labels=True)
        if not len(clients):
            return state
        # s_i(t)
        classes = class_count(world.spec)
        ranges = state.ranges
        if not np.isfinite(ranges).all():
            ranges = value_ranges(described, classes)
        points = scaled(described, ranges, classes)

        # theta_i <- local training from the mix
        start = self._mixes(state, points)
        local = train(world, start, clients, np.arange(len(clients)), stream=stream.child("train"))
        replied = local.arrived
        trained = clients[replied]

        # A client that trains for the first time gets a new row, which its solution then fills.
        solution = state.solution.copy()
        newly_trained = trained[solution[trained] == NO_SOLUTION]
        solution[newly_trained] = len(state.models) + np.arange(len(newly_trained))
        models = appended(state.models, start[: len(newly_trained)])
        models[solution[trained]] = (start + local.update)[replied]
        profiles = state.profiles.copy()
        profiles[trained] = points[replied]
        examples = state.examples.copy()
        examples[trained] = local.examples[replied]
        state = replace(
            state,
            models=models,
            profiles=profiles,
            examples=examples,
            solution=solution,
            ranges=ranges,
        )
        return cluster_steps.update_assignment(world, state, trained, solution[trained])

    def _describe(
        self, world: World, state: FEROMAState, clients: Int[np.ndarray, "c"], labels: bool
    ) -> tuple[FEROMAState, Int[np.ndarray, "n"], Float[np.ndarray, "n D"]]:
        """Let clients describe their data. Returns the state (which notes who got the profile
        model), the clients that replied, and their descriptors."""
        world.run(DescribingModel(state.extractor), clients[~state.informed[clients]])
        replied, described = descriptors(world, state.extractor, clients, labels)
        informed = state.informed.copy()
        informed[replied] = True
        return replace(state, informed=informed), replied, described

    def _mixes(
        self, state: FEROMAState, points: Float[np.ndarray, "n D"]
    ) -> Float[np.ndarray, "n P"]:
        """Start model of each client: a mix of known solutions, or the joint model at first."""
        trained = np.flatnonzero(state.examples)
        if not len(trained):
            return np.repeat(state.models[:1], len(points), axis=0)
        similarity = inverse_distances(points, state.profiles[trained])
        shares = similarity * state.examples[trained]
        # float32, since float64 weights would need a float64 copy of all models.
        weights = np.zeros((len(points), len(state.models)), np.float32)
        weights[:, state.solution[trained]] = shares / shares.sum(axis=1, keepdims=True)
        return weights @ state.models
