"""FEROMA: no clusters; each client trains a mix of the clients' last solutions, by how alike their
data are.

M. Li, D. Fenoglio, M. Gjoreski, M. Langheinrich: Federated Learning with Profile Mapping under
Distribution Shifts and Drifts. ICLR 2026, arXiv 2602.07671.

    FedAvg until the mean accuracy of a cohort is ``accuracy``, or for ``latest`` rounds; then, in each round t,
    s_i(t)   profile of client i: FLUX's descriptor [means, deviations; the same by class], in blocks scaled to 0 .. 1
    a_ij     = 1 / (|s_i(t) - s_j(t-1)| + 1e-8) over the clients j that have a solution, in shares of 1
    theta_i  <- local training from  sum_j a_ij n_j theta_j / sum_j a_ij n_j
    served:  theta_i;  a newcomer gets the theta_j of the nearest profile, by its part without labels

A client whose profile is unchanged is at distance 0 from itself and keeps its solution; equal data
share one mix.

Which model makes the profiles, the sources at hand do not say. Here it is the joint model at the
end of the first phase, for good, as otherwise s_i(t) and s_j(t-1) could not be compared; its last
layer is FLUX's random projection (``methods/flux.py`` says how that differs from the code), and the
blocks' ranges are those of the first cohort that is mixed. Left out: the noise that makes profiles
private; the authors' random sub-sampling of profiles, and variants that sharpen or cut weights.
Differs: cohorts are parts of all clients, and s_j is the profile at the time of client j's last
solution; a client that was there when the mixing began and has none yet is served the joint model,
and one that comes later is a newcomer. In the first phase the mean travels twice in a round. Model
0 is joint, the others clients' own.
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
from fedkin.core.validation import check_not_negative
from fedkin.core.world import World
from fedkin.measures.descriptors import inverse_distances, scaled, value_ranges
from fedkin.methods import policies
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state, train_and_average
from fedkin.methods.projected_model import class_count, with_projection
from fedkin.tasks.evaluate import evaluate
from fedkin.tasks.score_moments import DescribingModel, ScoreMoments
from fedkin.tasks.train import train


@dataclass(frozen=True)
class FEROMAState(State):
    """What FEROMA keeps from round to round."""

    accuracy: Float[np.ndarray, ""]  # mean over the last cohort of the first phase; NaN before
    extractor: Float[np.ndarray, "P"]  # the joint model, whose last layer is the projection
    ranges: Float[
        np.ndarray, "2 B"
    ]  # lowest and highest number of each block; NaN before there are profiles
    profiles: Float[np.ndarray, "N D"]  # at the time of each client's solution, D = 2C + 2C^2; NaN
    examples: Int[np.ndarray, "N"]  # n_j; 0: the client has no solution
    solution: Int[np.ndarray, "N"]  # the model that is client j's; 0: it has none
    informed: Bool[np.ndarray, "N"]  # who has the extractor
    mixing: Bool[np.ndarray, ""]


@plain_options
@dataclass(frozen=True)
class FEROMA:
    """Each client trains a mix of the clients' solutions, by how alike descriptors of their data
    are."""

    about: ClassVar[About] = About(
        name="feroma",
        paper="Li, Fenoglio, et al., ICLR 2026",
        compares="descriptors of data",
        when="every round",
        membership="soft",
        decides="server",
        leaves="its model; moments of outputs, every round",
    )

    accuracy: float = (
        0.8  # on training samples, at which the mixing begins: 0.8 for digits, 0.5 for CIFAR-10
    )
    latest: int = 20  # rounds with one model at most

    def __post_init__(self) -> None:
        for name in ("accuracy", "latest"):
            check_not_negative(name, getattr(self, name))

    def requirements(self) -> Requirements:
        return Requirements(
            model=ModelNeeds(last_layer=True),
            reads=ClientReads(updates="single"),
            changes=ModelChanges(always="stores each client's own solution"),
            parts=ModelParts(own="a mix of models for each client"),
            memory=MemoryNeeds(kept_models=1),
            data=DataNeeds(newcomer_labels=False),
        )

    def init(self, world: World, stream: Stream) -> FEROMAState:
        """One model, and all clients have it. Raises MethodError where the last layer is not known."""
        one, classes, N = (
            single_model_state(world, stream),
            class_count(world.spec),
            world.total_clients,
        )
        profiles, ranges = (
            np.full((N, 2 * classes * (classes + 1)), np.nan),
            np.full((2, 2 * classes + 2), np.nan),
        )
        first, nobody = (
            (one.models, one.assignment, np.array(np.nan), one.models[0]),
            np.zeros(N, np.int64),
        )
        return FEROMAState(*first, ranges, profiles, nobody, nobody, nobody > 0, np.array(False))

    def round(
        self, world: World, state: FEROMAState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FEROMAState:
        if state.mixing:
            return self._mix(world, state, cohort, stream)
        if stream.round <= self.latest and not state.accuracy >= self.accuracy:
            state = replace(
                state, models=train_and_average(world, state, cohort, world.work, stream)
            )
            return replace(state, accuracy=self._accuracy(world, state, cohort))
        extractor = with_projection(state.models[0], world.spec)
        later = np.full_like(state.assignment, UNASSIGNED)  # who is not there yet will be placed
        later[world.clients(stream.round)] = 0
        state = replace(state, assignment=later, extractor=extractor, mixing=np.array(True))
        return self._mix(world, state, cohort, stream)

    def place(
        self, world: World, state: FEROMAState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> FEROMAState:
        """The solution of the nearest profile, by its part without labels: none is sent."""
        known = np.flatnonzero(state.examples)
        if not len(known):
            return policies.assign(world, state, newcomers, np.zeros(len(newcomers), np.int64))
        state, newcomers, descriptors = self._describe(world, state, newcomers, labels=False)
        classes = class_count(world.spec)
        points = scaled(descriptors, state.ranges, classes)
        nearest = inverse_distances(points, state.profiles[known, : 2 * classes]).argmax(axis=1)
        return policies.assign(world, state, newcomers, state.solution[known[nearest]])

    def _accuracy(
        self, world: World, state: FEROMAState, cohort: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, ""]:
        """Mean over the clients of the cohort, on their training samples."""
        scores = evaluate(world, state.models, cohort, state.assignment[cohort], split="train")
        counted = scores.examples > 0
        return np.array(
            np.mean(scores.correct[counted] / scores.examples[counted]) if counted.any() else np.nan
        )

    def _mix(
        self, world: World, state: FEROMAState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> FEROMAState:
        """Profiles of the cohort, a mix for each client, and its training."""
        state, clients, descriptors = self._describe(world, state, cohort, labels=True)
        if not len(clients):
            return state
        classes = class_count(world.spec)
        ranges = (
            state.ranges if np.isfinite(state.ranges).all() else value_ranges(descriptors, classes)
        )
        points = scaled(descriptors, ranges, classes)
        start = self._mixes(state, points)
        local = train(world, start, clients, np.arange(len(clients)), stream=stream.child("train"))
        done = clients[local.arrived]
        profiles, examples, solution = (
            state.profiles.copy(),
            state.examples.copy(),
            state.solution.copy(),
        )
        first = done[solution[done] == 0]
        solution[first] = len(state.models) + np.arange(len(first))
        models = np.concatenate(
            [state.models, start[: len(first)]]
        )  # of these all rows are written next
        models[solution[done]] = (start + local.update)[local.arrived]
        profiles[done], examples[done] = points[local.arrived], local.examples[local.arrived]
        state = replace(
            state,
            models=models,
            profiles=profiles,
            examples=examples,
            solution=solution,
            ranges=ranges,
        )
        return policies.update_assignment(world, state, done, solution[done])

    def _describe(
        self, world: World, state: FEROMAState, clients: Int[np.ndarray, "c"], labels: bool
    ) -> tuple[FEROMAState, Int[np.ndarray, "n"], Float[np.ndarray, "n D"]]:
        """The state with who has the extractor now, the clients that replied, and their
        descriptors."""
        world.run(DescribingModel(state.extractor), clients[~state.informed[clients]])
        reply = world.run(ScoreMoments(state.extractor, labels), clients)
        clients, informed = clients[reply.arrived], state.informed.copy()
        informed[clients] = True
        parts = [reply.overall, reply.by_class] if labels else [reply.overall]
        descriptors = np.concatenate(
            [part[reply.arrived].reshape(len(clients), -1) for part in parts], axis=1
        )
        return replace(state, informed=informed), clients, descriptors

    def _mixes(
        self, state: FEROMAState, points: Float[np.ndarray, "n D"]
    ) -> Float[np.ndarray, "n P"]:
        """Where each of some clients begins; with the joint model where there is no solution yet."""
        known = np.flatnonzero(state.examples)
        if not len(known):
            return np.repeat(state.models[:1], len(points), axis=0)
        own = inverse_distances(points, state.profiles[known]) * state.examples[known]
        weights = np.zeros(
            (len(points), len(state.models)), np.float32
        )  # in float64 all models would be copied
        weights[:, state.solution[known]] = own / own.sum(axis=1, keepdims=True)
        return weights @ state.models
