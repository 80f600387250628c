"""A ten-line method and a world of quadratic clients: enough to see a runner at work by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import AtLeast, Requirements
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.simulation.fake_world import FakeWorld
from fedkin.tasks.losses import Losses
from fedkin.tasks.train import train


@dataclass(frozen=True)
class ToyState(State):
    rounds_trained: Int[np.ndarray, "N"]
    noise: Int[np.ndarray, ""]


@dataclass(frozen=True)
class Toy:
    """Clients whose id is below ``warm`` start in cluster id % K, the rest is cold until it is
    selected."""

    clusters: int = 2
    warm: int = 100

    def requirements(self) -> Requirements:
        return Requirements(clients=AtLeast(self.clusters, because="clusters"))

    def init(self, world: World, stream: Stream) -> ToyState:
        models = np.stack([world.initial(stream.child(f"model {k}")) for k in range(self.clusters)])
        ids = np.arange(world.total_clients)
        assignment = np.where(ids < self.warm, ids % self.clusters, UNASSIGNED)
        return ToyState(models, assignment, np.zeros(len(ids), np.int64), np.array(0))

    def round(
        self, world: World, state: ToyState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> ToyState:
        trained = train(
            world, state.models, cohort, state.assignment[cohort], reduce=True, stream=stream
        )
        trained_so_far = state.rounds_trained.copy()
        trained_so_far[cohort] += 1
        noise = np.array(stream.rng().integers(2**40))
        return replace(
            state, models=state.models + trained.update, rounds_trained=trained_so_far, noise=noise
        )

    def place(
        self, world: World, state: ToyState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> ToyState:
        assignment = state.assignment.copy()
        assignment[newcomers] = np.argmin(world.run(Losses(state.models), newcomers).losses, axis=1)
        return replace(state, assignment=assignment)


def fake_world(clients: int = 8, parameters: int = 3, **options: Any) -> FakeWorld:
    """Clients around two targets, even ids near +1, odd ids near -1, with 10, 11, ... examples."""
    side = np.where(np.arange(clients) % 2 == 0, 1.0, -1.0)
    spread = np.linspace(-0.2, 0.2, clients * parameters).reshape(clients, parameters)
    target = (side[:, None] + spread).astype(np.float32)
    return FakeWorld(target, np.arange(10, 10 + clients), work=LocalTraining(lr=0.25), **options)
