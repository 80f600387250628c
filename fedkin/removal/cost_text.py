"""The cost of a removal in words: before it starts, and when it is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedkin.removal.plan import ReplayPlan
from fedkin.removal.taint import NEVER


def plan_text(plan: ReplayPlan, names: Sequence[str]) -> list[str]:
    """What a replay will train again, as lines.

    Args:
        plan: the plan.
        names: the names of the clients to be removed.
    """
    touched = np.flatnonzero(plan.first != NEVER)
    rounds = [f"{cluster} from round {plan.first[cluster]}" for cluster in touched.tolist()]
    trained = np.flatnonzero(plan.trained)
    origin = f"the checkpoint of round {plan.start}" if plan.start else "the beginning"
    lines = [
        f"to remove: {', '.join(names)}",
        f"touched clusters: {', '.join(rounds) or 'none'} (of {len(plan.first)})",
        f"rounds to repeat: {plan.rounds - plan.start} of {plan.rounds}, from {origin}",
        f"clusters to train again: {_list(trained)}",
        f"cost: {plan.client_rounds:,} of {plan.of:,} trainings by clients in rounds "
        f"({plan.share:.0%} of the run)",
    ]
    if plan.why_all:
        lines.append(f"every cluster is trained again: {plan.why_all}")
    elif plan.client_rounds < plan.of:
        lines.append("more, if other clients are in other clusters without the removed ones")
    return lines


def result_text(record: dict[str, Any], names: Sequence[str] | None) -> list[str]:
    """What a replay has done, as lines.

    Args:
        record: the content of forgotten.json.
        names: the names of all clients; None if they have no names.
    """
    measured = record["measured"]
    others = record["clients_with_another_model"]
    shown = [str(one) if names is None else str(names[one]) for one in others[:_MOST]]
    more = f" and {len(others) - _MOST:,} more" if len(others) > _MOST else ""
    share = measured["share"]
    lines = [
        f"done: {record['what']}",
        f"clusters trained again: {_list(record['clusters_replayed'])}; "
        f"rounds: {record['rounds_replayed']} of {record['rounds']}",
        f"cost: {measured['client_rounds']:,} of {measured['of']:,} trainings by clients in rounds "
        f"({share or 0:.0%}), and {measured['trainings_at_start_or_placement']:,} at the start or "
        "for placements",
        f"clients with another model: {', '.join(shown) or 'none'}{more}",
    ]
    if record["equal_bits"]:
        lines.append("same environment: equal to a run in which the site never replied, bit by bit")
    else:
        lines.append(
            "retrained without the site; the last bits may differ from a run in which it never "
            f"replied, since the environment has changed ({record['environment_changes']})"
        )
    return [*lines, "limits:", *(f"  {limit}" for limit in record["limits"])]


_MOST = 20  # clients named in a line


def _list(clusters: Any) -> str:
    """Numbers of clusters as text."""
    return ", ".join(str(int(cluster)) for cluster in clusters) or "none"
