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
    weights, attackers = run.final.get("rule_weights") or [], run.final.get("attackers")
    known = {"client", "name"} <= set(run.clients)
    names = dict(zip(run.clients["client"], run.clients["name"], strict=True)) if known else {}
    suspects = sorted(
        (w, c)
        for c, w in enumerate(weights[: len(run.assignment)])
        if w is not None and w < SUSPECT
    )
    rows = [
        [
            str(names.get(c, c)),
            cluster_name(int(run.assignment[c])),
            f"{weight:.2f}",
            *([] if attackers is None else ["attacker" if c in attackers else "honest"]),
        ]
        for weight, c in suspects[:LIMIT]
    ]
    heads = [*_HEADS, *([] if attackers is None else ["role"])]
    return {"heads": heads, "rows": rows, "note": _note([c for _, c in suspects], attackers)}


def _note(suspects: list[int], attackers: list[int] | None) -> str:
    if not suspects:
        return ""
    more = (
        f" The first {LIMIT} are shown; run.summary() has all weights."
        if len(suspects) > LIMIT
        else ""
    )
    guilty = ""
    if attackers is not None:
        both = len(set(attackers) & set(suspects))
        guilty = f" {both} of {len(attackers)} attackers are among them, and {len(suspects) - both} honest clients."
    return (
        f"The robust rule gave these clients' updates less than {SUSPECT:g} of the weight that a "
        f"mean gives "
        "(0: left out in every round): they were far from the others of their cluster, as a "
        "client is that attacks, or "
        f"whose data are unlike theirs.{guilty}{more}"
    )
