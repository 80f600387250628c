"""Selection of a round's cohort from the reachable clients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.config.plan import Plan
from fedkin.core.randomness import Stream


def select_cohort(
    reachable: Int[np.ndarray, "c"], total_clients: int, plan: Plan, stream: Stream
) -> Int[np.ndarray, "n"]:
    """The cohort of round ``stream.round``, ascending; all clients if fewer than a cohort are
    reachable.

    Args:
        reachable: ids of the eligible clients, ascending.
        total_clients: N, the number of clients. A round robin gives each client its turn, and
            replaces an unreachable client by another. Poisson selection draws each client with
            probability cohort / N.
        plan: size and selection of cohorts.
        stream: random numbers of the round.
    """
    if plan.selection == "poisson":
        return reachable[stream.rng().random(len(reachable)) < plan.cohort / total_clients].astype(
            np.int64
        )
    size = min(plan.cohort, len(reachable))
    earlier = (stream.round - 1) * plan.cohort
    in_turn = plan.selection == "round_robin" and earlier < total_clients
    turn = (
        np.sort(np.arange(earlier, earlier + size) % total_clients)
        if in_turn
        else np.zeros(0, np.int64)
    )
    place = np.searchsorted(reachable, turn).clip(max=len(reachable) - 1)
    # Set operations would sort or hash all N ids in every round, so positions are used.
    place = place[reachable[place] == turn]
    others = np.delete(reachable, place) if len(place) else reachable
    sample = stream.rng().choice(others, size=size - len(place), replace=False)
    return np.sort(np.concatenate([reachable[place], sample])).astype(np.int64)
