"""A method whose clients count their calls: work that is done twice shows, as it would not in
training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.client import Client
from fedkin.core.method import State
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements
from fedkin.core.schema import Memory, Rows, integers
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.methods.fedavg import single_model_state, train_and_average

_MEMORY = {"calls_until_now": Memory("", np.int64)}


@dataclass(frozen=True)
class CountRequests(Task):
    """How often a client was called, this call included."""

    up = Rows(calls=integers(low=1, high=10_000))
    memory = _MEMORY
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        client.memory["calls_until_now"] = client.memory.get("calls_until_now", 0) + np.int64(1)
        return {"calls": client.memory["calls_until_now"]}


@dataclass(frozen=True)
class Counts(State):
    """The model, and each client's last reply."""

    calls: Int[np.ndarray, "N"]


@dataclass(frozen=True)
class Counting:
    """Federated averaging, with a count."""

    def requirements(self) -> Requirements:
        return Requirements()

    def init(self, world: World, stream: Stream) -> Counts:
        start = single_model_state(world, stream)
        return Counts(start.models, start.assignment, np.zeros(world.total_clients, np.int64))

    def round(
        self, world: World, state: Counts, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> Counts:
        reply = world.run(CountRequests(), cohort)
        calls = state.calls.copy()
        calls[cohort[reply.arrived]] = reply.calls[reply.arrived]
        return replace(
            state,
            models=train_and_average(
                world=world, state=state, cohort=cohort, work=world.work, stream=stream
            ),
            calls=calls,
        )

    def place(
        self, world: World, state: Counts, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> Counts:
        return state
