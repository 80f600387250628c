"""The report's table of clients that a robust aggregation rule suspects, with the weight that it
gave to their updates."""

from __future__ import annotations

from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.run import Run
from fedkin.run.run_repr import SUSPECT

LIMIT = 50  # largest number of rows
_HEADS = ("client", "cluster", "weight")


def suspects_table(run: Run) -> Json:
    """The table of suspected clients, smallest weight first. The updates of these clients have less
    than half of the weight that they would have in a mean.

    For a simulated attack, the table also shows which clients attack.

    Args:
        run: a run with a robust rule. For other runs the table is empty.
    """
    weights = run.final.get("rule_weights") or []
    attackers = run.final.get("attackers")
    names = run.client_names
    suspects = sorted(
        (weight, client)
        for client, weight in enumerate(weights[: len(run.assignment)])
        if weight is not None and weight < SUSPECT
    )
    heads: list[str] = [*_HEADS]
    if attackers is not None:
        heads.append("role")
    rows = []
    for weight, client in suspects[:LIMIT]:
        row = [
            str(names.get(client, client)),
            cluster_name(int(run.assignment[client])),
            f"{weight:.2f}",
        ]
        if attackers is not None:
            row.append("attacker" if client in attackers else "honest")
        rows.append(row)
    note = _note([client for _, client in suspects], attackers)
    return {"heads": heads, "rows": rows, "note": note}


def _note(suspects: list[int], attackers: list[int] | None) -> str:
    """The note below the table of suspects: why a client counts as suspected, and how many
    attackers were found."""
    if not suspects:
        return ""
    roles = ""
    if attackers is not None:
        found = len(set(attackers) & set(suspects))
        roles = (
            f" These are {found} of {len(attackers)} attackers, and {len(suspects) - found} "
            "honest clients."
        )
    limit = ""
    if len(suspects) > LIMIT:
        limit = f" The first {LIMIT} are shown; run.summary() has all weights."
    return (
        f"The robust rule gave these clients' updates less than {SUSPECT:g} of their weight in a "
        "mean (0: left out in every round). Their updates were far from the others of the cluster, "
        f"because the client attacks or has different data.{roles}{limit}"
    )
