"""The report's table of the model that serves each client, from the run's file ``serving.json``."""

from __future__ import annotations

import json
from typing import Any

from fedkin.analysis.serving.choice_texts import FILE, HEADS, cells, sentences
from fedkin.core.storage import storage_errors
from fedkin.reporting.html.json_values import Json
from fedkin.run.run import Run

LIMIT = 200  # largest number of rows


def served_table(run: Run) -> Json:
    """The table of clients, those with the largest gain first; empty if no choice was made.

    Args:
        run: a run; its folder may hold a choice.
    """
    choice = _choice(run)
    clients = choice.get("table", [])
    ordered = sorted(clients, key=lambda row: -(row["gain"] if row["gain"] is not None else -1e9))
    rows = [cells(row) for row in ordered[:LIMIT]]
    note = " ".join(sentences(choice)) if rows else ""
    return {"heads": list(HEADS), "rows": rows, "note": note}


def _choice(run: Run) -> dict[str, Any]:
    """The choice in the run's folder; empty if there is none."""
    if run.folder is None or not (run.folder / FILE).is_file():
        return {}
    with storage_errors(run.folder / FILE):
        return json.loads((run.folder / FILE).read_text())
