"""FedAvg: one global model for all clients.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas: Communication-Efficient Learning
of Deep Networks from Decentralized Data. AISTATS 2017, arXiv 1602.05629.

    w_{t+1} = sum_i n_i w_i / sum_i n_i     over the clients whose solution w_i arrived;
                                            n_i is the number of client i's training samples

Differs from common code: the sum is over updates w_i - w_t, which is equivalent (clients send
updates), and it is in float64. Every epoch draws new batches. The code of FedProx and GrouProx
shuffles a client's samples in place, each time with the same seed: its epochs have the orders s,
s^2, s^3, ... of one permutation s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.core.requirements import Requirements, Separation
from fedkin.core.training import LocalTraining
from fedkin.core.world import World
from fedkin.methods.about import About
from fedkin.tasks.train import train


@plain_options
@dataclass(frozen=True)
class FedAvg:
    """One global model for all clients. It has no hyper-parameters: local training and
    the cohort are settings of the run.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
        >>> run.models.shape
        (1, 650)
    """

    about: ClassVar[About] = About(
        name="fedavg",
        paper="McMahan et al., AISTATS 2017",
    )

    def requirements(self) -> Requirements:
        return Requirements(keeps_clusters=True, separation=Separation("one"))

    def init(self, world: World, stream: Stream) -> State:
        return single_model_state(world, stream)

    def round(
        self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream
    ) -> State:
        models = train_and_average(world, state, cohort, work=world.work, stream=stream)
        return replace(state, models=models)

    def place(
        self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream
    ) -> State:
        return state  # there is one cluster, and all clients are in it from the start


def single_model_state(world: World, stream: Stream) -> State:
    """A state with one new model and one cluster, which holds all clients."""
    start = world.initial(stream.child("model"))
    return State(models=start[None], assignment=np.zeros(world.total_clients, np.int64))


def train_and_average(
    world: World, state: State, cohort: Int[np.ndarray, "n"], work: LocalTraining, stream: Stream
) -> Float[np.ndarray, "K P"]:
    """The models of all clusters after one round of FedAvg in each.

    Each client of the cohort trains the model of its cluster, and every model gets the mean update
    of its clients. A model without a reply stays as it is.

    Args:
        world: the clients.
        state: state before the round.
        cohort: clients of the round; clients without a cluster are left out.
        work: local training of every client.
        stream: stream of the round.
    """
    members = cohort[state.assignment[cohort] != UNASSIGNED]
    reply = train(
        world,
        state.models,
        members,
        state.assignment[members],
        work=work,
        reduce=True,
        stream=stream.child("train"),
    )
    return state.models + reply.update
