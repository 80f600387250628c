"""pFedMe: the global model minimises the Moreau envelopes of the clients' losses. Each client's
personal model is the minimiser theta_i in the definition of its envelope.

C. T. Dinh, N. H. Tran, T. D. Nguyen: Personalized Federated Learning with Moreau Envelopes. NeurIPS
2020, arXiv 2006.08848 (Algorithm 1).

    client i, on each batch:  theta_i = argmin_theta f_i(theta) + lambda/2 |theta - w_i|^2,
                                        by ``own_steps`` of SGD
                              w_i    <- w_i - eta lambda (w_i - theta_i)
    server:                   w      <- (1 - beta) w + beta mean_i w_i

eta is the run's learning rate, and the R local rounds are the run's local steps. The authors take
lambda = 15 and eta = 0.005. For a convex f_i the envelope's gradient is lambda-Lipschitz, so that
its steps converge if eta lambda is below 2. (Summaries of pFedMe give the limit 1, which is too
strict: between 1 and 2, w_i overshoots theta_i, but converges.) The steps to theta_i follow a
gradient with a slope of at least lambda, so they diverge if ``own_lr`` times lambda is above 2. If
either product is 2 or more, an error is raised (for eta lambda only if the optimizer is SGD).

Clients are tested with theta_i of the last batch, as in public code (PFLlib, FedEM's): a noisy
model if batches are small. Differs: the mean is weighted by numbers of samples, as in FedAvg (the
paper: the plain mean); theta_i starts at w_i. A client that never trained, such as a new client, is
tested with w. The recorded training loss is f_i(w_i).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import MethodError
from fedkin.core.method import State
from fedkin.core.model_spec import ModelSpec
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import MemoryNeeds, ModelParts, Requirements
from fedkin.core.task import Task
from fedkin.core.training import LocalTraining
from fedkin.core.validation import check_positive, check_positive_integer
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.methods.fedavg import single_model_state
from fedkin.tasks.own_model import EvaluateOwn
from fedkin.tasks.pfedme import TrainEnvelope


@dataclass(frozen=True)
class PFedMeState(State):
    """The global model. Each client keeps a personal model, and is tested with it."""

    def evaluation(self, spec: ModelSpec, clients: Int[np.ndarray, "n"]) -> Task:
        return EvaluateOwn(self.models, self.assignment[clients])


@plain_options
@dataclass(frozen=True)
class PFedMe:
    """One global model, which minimises the Moreau envelopes of the clients' losses.

    The envelope of a loss f at w is the minimum over theta of f(theta) + strength/2 |theta - w|^2.
    Each client's personal model is the theta that reaches this minimum.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> method = fk.PFedMe(own_steps=3)
        >>> run = fk.simulate(method, data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="pfedme",
        paper="Dinh et al., NeurIPS 2020",
    )

    strength: float = 15.0  # strength of the proximal term (lambda)
    own_steps: int = 5  # number of SGD steps of the personal model on each batch
    own_lr: float = 0.01  # learning rate of these steps
    beta: float = 1.0  # server step size; 1: the mean of the clients' models

    def __post_init__(self) -> None:
        check_positive_integer("own_steps", self.own_steps)
        for name in ("strength", "own_lr", "beta"):
            check_positive(name, getattr(self, name))
        if self.own_lr * self.strength >= 2:
            raise MethodError(
                f"own_lr {self.own_lr:g} with strength {self.strength:g}: the inner steps diverge "
                f"if the product is 2 or more; set own_lr below {2 / self.strength:.2g}, or a "
                "lower strength"
            )

    def requirements(self) -> Requirements:
        return Requirements(
            parts=ModelParts(own="models of clients"),
            memory=MemoryNeeds(kept_models=1),
        )

    def check_run(self, spec: ModelSpec, clients: int, work: LocalTraining) -> None:
        """Raise MethodError for a learning rate with which training diverges."""
        self._check_rate(work)

    def init(self, world: World, stream: Stream) -> PFedMeState:
        """One model. Raises MethodError for a learning rate with which training diverges."""
        self._check_rate(world.work)
        start = single_model_state(world, stream)
        return PFedMeState(models=start.models, assignment=start.assignment)

    def round(
        self, world: World, state: PFedMeState, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> PFedMeState:
        task = TrainEnvelope(
            models=state.models,
            work=world.work,
            model_index=state.assignment[cohort],
            reduce=True,
            strength=float(self.strength),
            own_steps=self.own_steps,
            own_lr=float(self.own_lr),
        )
        reply = world.run(task, cohort, stream.child("train"))
        step = np.float32(self.beta) * reply.update
        return replace(state, models=state.models + step)

    def place(
        self, world: World, state: PFedMeState, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> PFedMeState:
        return state  # there is one cluster, and all clients are in it from the start

    def _check_rate(self, work: LocalTraining) -> None:
        """Raise MethodError if the learning rate is so high for ``strength`` that SGD diverges."""
        rate = work.highest_rate()
        if work.optimizer == "sgd" and rate * self.strength >= 2:
            raise MethodError(
                f"PFedMe with strength {self.strength:g} diverges at a learning rate of {rate:g}, "
                "since their product is 2 or more; keep local.lr and its schedules below "
                f"{2 / self.strength:.2g} (the authors: 0.005), or set a lower strength"
            )
