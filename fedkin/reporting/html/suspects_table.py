"""The table of clients that a robust rule suspects: how much their updates counted, and whether they attack."""

from __future__ import annotations

from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.display import SUSPECT
from fedkin.run.results import Run

LIMIT = 50  # rows: more is a file's matter
_HEADS = ("client", "cluster", "weight", "role")


def suspects_table(run: Run) -> Json:
    """Heads, rows and a note: the clients whose updates counted less than half of a mean's, the least first.

    Args:
        run: under attack, with a robust rule; any other has no rows.
    """
    weights, attackers = run.final.get("rule_weights") or [], set(run.final.get("attackers") or [])
    known = {"client", "name"} <= set(run.clients)
    names = dict(zip(run.clients["client"], run.clients["name"], strict=True)) if known else {}
    suspects = sorted((w, c) for c, w in enumerate(weights[: len(run.assignment)]) if w is not None and w < SUSPECT)
    rows = [
        [
            str(names.get(c, c)),
            cluster_name(int(run.assignment[c])),
            f"{weight:.2f}",
            "attacker" if c in attackers else "honest",
        ]
        for weight, c in suspects[:LIMIT]
    ]
    return {"heads": list(_HEADS), "rows": rows, "note": _note(len(suspects), attackers, [c for _, c in suspects])}


def _note(count: int, attackers: set[int], suspects: list[int]) -> str:
    if not count:
        return ""
    more = f" The first {LIMIT} are shown; run.summary() has all weights." if count > LIMIT else ""
    return (
        f"The robust rule gave these clients' updates less than {SUSPECT:g} of the weight that a mean gives "
        "(0: left out in every round): they were far from the others of their cluster. "
        f"{len(attackers & set(suspects))} of {len(attackers)} attackers are among them, and "
        f"{len(set(suspects) - attackers)} honest clients.{more}"
    )
