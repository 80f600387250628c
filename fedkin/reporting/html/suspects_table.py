"""The table of clients that a robust rule suspects: how much their updates counted, and whether
they attack."""

from __future__ import annotations

from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.display import SUSPECT
from fedkin.run.results import Run

LIMIT = 50  # rows: more is a file's matter
_HEADS = ("client", "cluster", "weight")


def suspects_table(run: Run) -> Json:
    """Heads, rows and a note: the clients whose updates counted less than half of a mean's, the
    least first; in a simulated attack with who attacks.

    Args:
        run: with a robust rule; any other has no rows.
    """
    weights = run.final.get("rule_weights") or []
    attackers = run.final.get("attackers")
    has_names = {"client", "name"} <= set(run.clients)
    names = dict(zip(run.clients["client"], run.clients["name"], strict=True)) if has_names else {}
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
    if not suspects:
        return ""
    roles = ""
    if attackers is not None:
        found = len(set(attackers) & set(suspects))
        roles = (
            f" {found} of {len(attackers)} attackers are among them, and {len(suspects) - found} "
            "honest clients."
        )
    limit = ""
    if len(suspects) > LIMIT:
        limit = f" The first {LIMIT} are shown; run.summary() has all weights."
    return (
        f"The robust rule gave these clients' updates less than {SUSPECT:g} of the weight that a "
        "mean gives (0: left out in every round): they were far from the others of their cluster, "
        f"as a client is that attacks, or whose data are unlike theirs.{roles}{limit}"
    )
