"""The report's table of what the monitor of clusters has found."""

from __future__ import annotations

from fedkin.reporting.html.json_values import Json
from fedkin.run.metrics.monitor_record import monitor_acts
from fedkin.run.run import Run

TITLE = "Monitor of clusters"
LIMIT = 200  # largest number of rows


def monitor_table(run: Run) -> Json:
    """The table of alarms, moves and proposals, the newest first.

    Args:
        run: a run with the monitor. For other runs the table is empty.
    """
    acts = monitor_acts(run.records)
    heads = ["round", "finding", "evidence (log)"]
    if acts is None:
        return {"heads": heads, "rows": [], "note": ""}
    rows = []
    for act in reversed(acts[-LIMIT:]):
        evidence = "-" if act.log_evidence is None else f"{act.log_evidence:.1f}"
        rows.append([str(act.round), act.in_words(run.client_names), evidence])
    limit = f" The last {LIMIT} of {len(acts)} are shown." if len(acts) > LIMIT else ""
    note = (
        "Each line has an e-value behind it; its natural logarithm is the evidence. "
        f"An empty table does not show that no data have changed.{limit}"
    )
    return {"heads": heads, "rows": rows, "note": note}
