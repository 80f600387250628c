"""Ditto: with the global model each client trains a personal one, pulled to the global one.

T. Li, S. Hu, A. Beirami, V. Smith: Ditto: Fair and Robust Federated Learning Through
Personalization. ICML 2021, arXiv 2012.04221.

    w:        FedAvg, from the w^t that clients receive in round t
    client i: v_i <- v_i - lr (grad f_i(v_i) + lambda (v_i - w^t))     v_i stays on the client

w^t is the model as it was received in this round, and not the client's solution from it. Two known
misreadings pull to that solution, or to parameters that are trained at the same time (the term is
then always 0). lambda = 0 is training alone, a large one FedAvg; the text lets each client pick one
on validation samples, here it is one number for all. Clients are tested with v_i. Differs: v_i
begins as the first w^t that the client receives (the text has w^0 for all: the same where all
clients take part in the first round), and v_i is trained on the same batches as w, for as many
epochs unless ``own_epochs`` says otherwise (the authors' code alternates single steps). A client
that never trained, such as a newcomer, is tested with w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from fedkin.core.layout import ModelSpec
from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import MemoryNeeds, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.validation import check_not_negative, check_positive, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.ditto import TrainBeside
from fedkin.tasks.own_model import EvaluateOwn


@dataclass(frozen=True)
class DittoState(State):
    """One model; clients keep a personal model, and are tested with it."""

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateOwn(self.models, self.assignment[clients])


@plain_options
@dataclass(frozen=True)
class Ditto:
    """One global model, and for each client a model that it keeps, pulled to the global one."""

    about: ClassVar[About] = About(
        name="ditto",
        paper="Li et al., ICML 2021",
    )

    strength: float = 1.0  # lambda
    own_epochs: int | None = None  # of v_i's training (steps, where the run's training has steps)
    own_lr: float | None = None  # None: the run's

    def __post_init__(self) -> None:
        check_not_negative("strength", self.strength)
        if self.own_epochs is not None:
            check_positive_integer("own_epochs", self.own_epochs)
        if self.own_lr is not None:
            check_positive("own_lr", self.own_lr)

    def requirements(self) -> Requirements:
        return Requirements(
            parts=ModelParts(own="models of clients"),
            memory=MemoryNeeds(kept_models=1),
        )

    def init(self, world: World, stream: Stream) -> DittoState:
        start = single_model_state(world, stream)
        return DittoState(models=start.models, assignment=start.assignment)

    def round(
        self, world: World, state: DittoState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> DittoState:
        task = TrainBeside(
            models=state.models,
            work=world.work,
            model_index=state.assignment[cohort],
            reduce=True,
            strength=float(self.strength),
            own_epochs=self.own_epochs,
            own_lr=self.own_lr,
        )
        reply = world.run(task, cohort, stream.child("train"))
        return replace(state, models=state.models + reply.update)

    def place(
        self, world: World, state: DittoState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> DittoState:
        return state  # there is one cluster, and all clients are in it from the start
