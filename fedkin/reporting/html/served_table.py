"""The report's table of the model that serves each client, from the run's file ``serving.json``."""

from __future__ import annotations

import json
from typing import Any

from fedkin.core.storage import storage_errors
from fedkin.reporting.html.json_values import Json, cluster_name
from fedkin.run.run import Run

FILE = "serving.json"  # as ``fk.serve(run).save(folder)`` and ``fedkin serve-choice`` write it
LIMIT = 200  # largest number of rows
_HEADS = ("client", "cluster", "served by", "gain", "held-out samples", "own test says worse")


def served_table(run: Run) -> Json:
    """The table of clients, those with the largest gain first; empty if no choice was made.

    Args:
        run: a run; its folder may hold a choice.
    """
    choice = _choice(run)
    clients = choice.get("table", [])
    ordered = sorted(clients, key=lambda row: -(row["gain"] if row["gain"] is not None else -1e9))
    rows = [
        [
            str(row["name"]),
            cluster_name(int(row["cluster"])),
            str(row["served_by"]),
            "-" if row["gain"] is None else f"{row['gain']:+.1%}",
            str(row["held_out"]),
            "yes" if row["worse"] else "",
        ]
        for row in ordered[:LIMIT]
    ]
    note = _note(choice) if rows else ""
    return {"heads": list(_HEADS), "rows": rows, "note": note}


def _choice(run: Run) -> dict[str, Any]:
    """The choice in the run's folder; empty if there is none."""
    if run.folder is None or not (run.folder / FILE).is_file():
        return {}
    with storage_errors(run.folder / FILE):
        return json.loads((run.folder / FILE).read_text())


def _note(choice: dict[str, Any]) -> str:
    """The note above the table: how many clients are served by what, the gain, and clients whose
    own tests say worse."""
    served = ", ".join(f"{count} by {name}" for name, count in choice["served_by"].items() if count)
    interval = ""
    if choice["gain_low"] is not None:
        interval = f" [{choice['gain_low']:+.1%}, {choice['gain_high']:+.1%}]"
    return (
        f"Clients served: {served}. Gain of {choice['best_alternative']} over own models on "
        f"held-out samples: {choice['gain']:+.1%}{interval}. Own tests that say worse: "
        f"{choice['worse_by_own_test']} clients; by chance about "
        f"{choice['expected_by_chance']:.1f}."
    )
