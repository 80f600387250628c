"""Selection of a round's cohort from the reachable clients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.config.plan import Plan
from fedkin.core.randomness import Stream


def select_cohort(
    reachable: Int[np.ndarray, "c"], total_clients: int, plan: Plan, stream: Stream
) -> Int[np.ndarray, "n"]:
    """The ids of the clients that take part in round ``stream.round``, ascending. If fewer clients
    than a cohort are reachable, all of them take part.

    Args:
        reachable: ids of the reachable clients, ascending.
        total_clients: N, the number of clients. A round robin selects the clients in the order of
            their ids, and replaces an unreachable client by another one; after all clients, cohorts
            are random. Poisson selection draws each client with probability cohort / N.
        plan: the run's plan; its size of the cohort and kind of selection are used.
        stream: random numbers of the round.
    """
    if plan.selection == "poisson":
        return reachable[stream.rng().random(len(reachable)) < plan.cohort / total_clients].astype(
            np.int64
        )
    size = min(plan.cohort, len(reachable))
    if plan.selection == "seed_plus_round":
        # FedProx's and FedSim's code counts rounds from 0.
        random = np.random.RandomState(plan.seed + stream.round - 1)
        return np.sort(random.choice(reachable, size, replace=False)).astype(np.int64)
    # A round robin takes clients in the order of their ids until all had a turn. Later cohorts are
    # random.
    earlier = (stream.round - 1) * plan.cohort
    in_turn = plan.selection == "round_robin" and earlier < total_clients
    turn = (
        np.sort(np.arange(earlier, earlier + size) % total_clients)
        if in_turn
        else np.zeros(0, np.int64)
    )
    # Position at which each client of this turn is, or would be, among the reachable ones. An id
    # above the last reachable one would be beyond the end, hence the clip.
    place = np.searchsorted(reachable, turn).clip(max=len(reachable) - 1)
    # Keep the positions of those clients of this turn that are reachable. Set operations would sort
    # or hash all N ids in every round.
    place = place[reachable[place] == turn]
    others = np.delete(reachable, place) if len(place) else reachable
    sample = stream.rng().choice(others, size=size - len(place), replace=False)
    return np.sort(np.concatenate([reachable[place], sample])).astype(np.int64)
