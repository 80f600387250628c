"""FedProx: FedAvg with a proximal term that keeps local models close to the global model.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith: Federated Optimization in
Heterogeneous Networks. MLSys 2020, arXiv 1812.06127.

    local step:    w <- w - lr (grad F_i(w; batch) + mu (w - w_t))
    aggregation:   w_{t+1} = sum_i n_i w_i / sum_i n_i

A client that runs out of time sends its unfinished solution (after a random number of epochs in [1,
E)), while FedAvg drops the client. Weighting by n_i follows the authors' code; the paper's
Algorithm 2 samples clients by n_i and takes the plain mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from fedkin.core.method import State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, Separation
from fedkin.core.validation import check_not_negative
from fedkin.core.world import World
from fedkin.methods.about import PROXIMAL_WEIGHT, About
from fedkin.methods.fedavg import single_model_state, train_and_average


@plain_options
@dataclass(frozen=True)
class FedProx:
    """FedAvg with a proximal term. Unfinished solutions of stragglers are averaged too.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedProx(mu=0.1), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="fedprox",
        paper="Li et al., MLSys 2020",
        meanings={
            "mu": PROXIMAL_WEIGHT,
        },
    )

    mu: float = 1.0  # weight of the proximal term; 0: FedAvg that keeps stragglers

    def __post_init__(self) -> None:
        check_not_negative("mu", self.mu)

    def requirements(self) -> Requirements:
        return Requirements(keeps_clusters=True, separation=Separation("one"))

    def init(self, world: World, stream: Stream) -> State:
        return single_model_state(world, stream)

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        work = replace(world.work, mu=self.mu, partial=True)
        models = train_and_average(world, state, cohort, work=work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        return state
