"""The report's table of the model that serves each client, from the run's file ``serving.json``."""

from __future__ import annotations

import json
import math
from typing import Any

from fedkin.analysis.serving.choice_texts import FILE, HEADS, cells, sentences
from fedkin.reporting.html.json_values import Json
from fedkin.run.run import Run

LIMIT = 200  # largest number of rows


def served_table(run: Run) -> Json:
    """The table of clients, those with the largest gain first; empty if no choice was made.

    Args:
        run: a run; its folder may hold a choice. If its file is damaged, the table is empty, and
            the note says so.
    """
    if run.folder is None or not (run.folder / FILE).is_file():
        return _table([], "")
    try:
        choice = json.loads((run.folder / FILE).read_text())
        clients = sorted(choice["table"], key=_loss_of_gain)
        rows = [cells(row) for row in clients[:LIMIT]]
        return _table(rows, " ".join(sentences(choice)) if rows else "")
    # The file cannot be read, or has another form.
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return _table([], f"{run.folder / FILE} is damaged, and is left out.")


def _loss_of_gain(row: dict[str, Any]) -> float:
    """The sort key of a client: minus its gain; clients without a gain are last."""
    return math.inf if row["gain"] is None else -row["gain"]


def _table(rows: list[Any], note: str) -> Json:
    """The table as JSON."""
    return {"heads": list(HEADS), "rows": rows, "note": note}
