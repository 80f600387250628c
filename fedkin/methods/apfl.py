"""APFL: each client uses a mix of the global model and a personal model, with a weight that it
learns.

Y. Deng, M. M. Kamani, M. Mahdavi: Adaptive Personalized Federated Learning. arXiv 2003.13461
(2020).

    w:        trained by FedAvg; w_i is client i's copy of w, which changes with each local step
    client i: v_i  <- v_i - lr grad_v f_i(v~_i),   v~_i = a_i v_i + (1 - a_i) w_i
                      (the gradient has a factor a_i)
              a_i  <- a_i - lr <v_i - w, grad f_i(v~_i)>, cut to 0 .. 1, once a round
    tested:   a_i v_i + (1 - a_i) w

w_i and v_i take their steps on the same batch, and the mix uses w_i before its step. The share a_i
is updated at the start of a round, with the gradient at the received w, but training still uses the
old a_i. This gradient is an inner product over the *whole* model, so at lr 0.1 a share becomes 0 or
1 after a few rounds. A smaller ``share_lr`` slows this change, and ``adapt=False`` keeps the share
fixed.

Differs from the paper: the gradient of a_i uses the full training loss (the text: one batch), which
costs one more pass. v_i starts as the first w that the client receives. A client that never
trained, such as a new client, is tested with w. Other libraries use the name APFL for other
methods: PFLlib trains v_i on the loss of v_i, and then overwrites v_i with the mix; the code of
FedEM and FedRC overwrites v_i with the mix after every batch.
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
from fedkin.core.validation import check_fraction, check_positive
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.apfl import EvaluateMixed, TrainMixed


@dataclass(frozen=True)
class APFLState(State):
    """The global model. Each client keeps a personal model and a share, and is tested with share
    times the personal model plus (1 - share) times the global model."""

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateMixed(self.models, self.assignment[clients])


@plain_options
@dataclass(frozen=True)
class APFL:
    """A global model, mixed with each client's personal model in a learned share.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.APFL(share=0.5), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="apfl",
        paper="Deng et al., arXiv 2003.13461",
    )

    share: float = 0.5  # initial share of the personal model in the mix
    adapt: bool = True  # whether clients learn their shares
    share_lr: float | None = None  # learning rate of the share; None for the run's

    def __post_init__(self) -> None:
        check_fraction("share", self.share)
        if self.share_lr is not None:
            check_positive("share_lr", self.share_lr)

    def requirements(self) -> Requirements:
        return Requirements(
            parts=ModelParts(own="models of clients"),
            memory=MemoryNeeds(kept_models=1),
        )

    def init(self, world: World, stream: Stream) -> APFLState:
        start = single_model_state(world, stream)
        return APFLState(models=start.models, assignment=start.assignment)

    def round(
        self, world: World, state: APFLState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> APFLState:
        share_lr = world.work.rate(stream.round) if self.share_lr is None else self.share_lr
        task = TrainMixed(
            models=state.models,
            work=world.work,
            model_index=state.assignment[cohort],
            reduce=True,
            share=float(self.share),
            share_lr=float(share_lr) if self.adapt else 0.0,
        )
        reply = world.run(task, cohort, stream.child("train"))
        return replace(state, models=state.models + reply.update)

    def place(
        self, world: World, state: APFLState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> APFLState:
        return state  # there is one cluster, and all clients are in it from the start
