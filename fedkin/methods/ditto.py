"""Ditto: each client also trains a personal model, which is regularised towards the global model.

T. Li, S. Hu, A. Beirami, V. Smith: Ditto: Fair and Robust Federated Learning Through
Personalization. ICML 2021, arXiv 2012.04221.

    w:        FedAvg, from the w^t that clients receive in round t
    client i: v_i <- v_i - lr (grad f_i(v_i) + lambda (v_i - w^t))     v_i stays on the client

w^t is the model as received in this round, not the solution that the client trains from it. Other
code has one of two known errors: it regularises v_i towards that solution, or towards the
parameters that are being trained, so that the term is always 0. lambda = 0 is local training
without federation; a large lambda approaches FedAvg. In the paper each client may choose lambda on
validation samples; here it is one number for all. Clients are tested with v_i. A client that never
trained, such as a new client, is tested with w.

Differs from the paper: v_i starts as the first w^t that the client receives. The paper has w^0 for
all, which is the same if all clients take part in the first round. v_i is trained on the same
batches as w, for as many epochs unless ``own_epochs`` is set (the authors' code alternates single
steps).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
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
    """The global model. Each client keeps a personal model, and is tested with it."""

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateOwn(self.models, self.assignment[clients])


@plain_options
@dataclass(frozen=True)
class Ditto:
    """One global model, and a personal model of each client, regularised towards the global
    model.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.Ditto(strength=0.5)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="ditto",
        paper="Li et al., ICML 2021",
    )

    strength: float = 1.0  # strength of the regularisation (lambda)
    own_epochs: int | None = (
        None  # epochs (or steps, as in the run) of the personal model; None for the run's
    )
    own_lr: float | None = None  # learning rate of the personal model; None for the run's

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
