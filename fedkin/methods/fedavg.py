"""FedAvg: one model for everybody.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Aguera y Arcas: Communication-Efficient Learning of Deep Networks
from Decentralized Data. AISTATS 2017, arXiv 1602.05629.

    w_{t+1} = sum_i n_i w_i / sum_i n_i        over the clients whose solution w_i came back, n_i training samples

Differs from the common code bases: the sum is over updates w_i - w_t (equal, and what travels), in float64; batches
are drawn anew in every epoch, where the FedProx family repeats one permutation for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.method import UNASSIGNED, State
from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining, World


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging; it has no hyper-parameters beyond the local work and the cohort."""

    def init(self, world: World, stream: Stream) -> State:
        return single_model(world, stream)

    def round(self, world: World, state: State, cohort: Int[np.ndarray, "n"], stream: Stream) -> State:
        return replace(state, models=averaged(world, state, cohort, world.work, stream))

    def place(self, world: World, state: State, newcomers: Int[np.ndarray, "c"], stream: Stream) -> State:
        return state  # there is one cluster, and everybody is in it from the start


def single_model(world: World, stream: Stream) -> State:
    """One fresh model and all clients in its cluster."""
    return State(world.initial(stream.child("model"))[None], np.zeros(world.total_clients, np.int64))


def averaged(
    world: World, state: State, cohort: Int[np.ndarray, "n"], work: LocalTraining, stream: Stream
) -> Float[np.ndarray, "K P"]:
    """Each client of the cohort trains its cluster's model; every model moves by the mean update of its clients.

    A model that nobody trained, or whose clients all fell silent, stays as it is. A client without a cluster is left
    out.
    """
    cohort = cohort[state.assignment[cohort] != UNASSIGNED]
    trained = world.train(
        state.models, cohort, state.assignment[cohort], work=work, reduce=True, stream=stream.child("train")
    )
    return state.models + trained.update
