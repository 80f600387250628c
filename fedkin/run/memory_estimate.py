"""What a simulated run allocates besides its samples, from what its methods declare.

It is known before the first round, so that a run which cannot end is not begun.
"""

from __future__ import annotations

from fedkin.config.plan import Plan
from fedkin.core.requirements import Requirements

_NUMBER = 4  # bytes of a parameter
_PAIR = 16  # bytes of a pair of clients: its distance, and a copy of it where clusters are made of distances


def memory_parts(
    needs: Requirements, plan: Plan, clients: int, parameters: int, together: int | None = None
) -> dict[str, int]:
    """Bytes of a run, by what they are for.

    Args:
        needs: of its method.
        plan: of its rounds.
        clients: N.
        parameters: P.
        together: clients that a device computes at once; None for one.
    """
    model = _NUMBER * parameters
    models = clients if needs.peers else needs.clients.number
    memory = needs.memory
    parts = {
        "models": 2 * models * model,  # before and after a round
        "local training": 4 * (together or 1) * model,  # weights, gradient, update and the optimiser's memory
    }
    if needs.reads.updates == "single":
        rows = clients if memory.compares_all else min(plan.cohort, clients)
        updates = "updates of all clients" if memory.compares_all else "updates of a cohort"
        parts[updates] = rows * model
    if memory.kept_models:
        parts["what is kept of each client"] = memory.kept_models * clients * model
    if memory.compares_all:
        parts["all pairs of clients"] = _PAIR * clients**2
    return parts
