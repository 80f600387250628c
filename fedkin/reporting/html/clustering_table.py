"""What happened to the clusters, as a table: agreement with the true ones, migrations, and shifts of data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.reporting.html.recovery import is_intact
from fedkin.run.metrics import clustering
from fedkin.run.results import Run

HEADING = "Clusters, shifts and migrations"
_COLUMNS = {  # of the table: what a run's numbers are called, and how one is written
    "ARI at the end": ("ari", "{:.2f}"),
    "migrations": ("migrations", "{:,.0f}"),
    "stability (ARI)": ("stability", "{:.2f}"),
    "shifts of data": ("data_shifts", "{:,.0f}"),
    "of these detected": ("shift_recall", "{:.0%}"),
    "detections with a cause": ("shift_precision", "{:.0%}"),
    "rounds to detection": ("shift_delay", "{:.1f}"),
    "right migrations": ("migration_precision", "{:.0%}"),
    "changes followed": ("migration_recall", "{:.0%}"),
}
_NOTES = {  # what a column is, where it is shown
    "ARI at the end": "ARI: adjusted Rand index, agreement with the true clusters, 1 is equal.",
    "stability (ARI)": "Stability: agreement (adjusted Rand index) of a round's clusters with those before.",
    "right migrations": "A right migration ends in the client's true cluster.",
    "changes followed": "A change followed is one of a true cluster after which the client was in the right one again.",
}


def clustering_table(report: ReportInput) -> Json | None:
    """Heading, heads, rows and notes; None where clusters never changed and nothing is known of the true ones.

    Args:
        report: the runs, by setting and method.
    """
    several = len(report.settings) > 1
    rows: list[tuple[list[str], dict[str, float | None]]] = []
    for setting in report.settings:
        for method in report.methods:
            if runs := [run for run in report.runs_of(setting, method) if is_intact(run)]:
                rows.append(([*([setting] if several else []), method], _means([_numbers(run) for run in runs])))
    moved = any(numbers["migrations"] or numbers["data_shifts"] or numbers["ari"] is not None for _, numbers in rows)
    if not moved:
        return None
    shown = {head: one for head, one in _COLUMNS.items() if any(numbers[one[0]] is not None for _, numbers in rows)}
    cells = [[*first, *(_text(numbers[name], form) for name, form in shown.values())] for first, numbers in rows]
    heads = [*(["setting"] if several else []), "method", *shown]
    notes = ["Means over the seeds.", *(note for head, note in _NOTES.items() if head in shown)]
    return {"heading": HEADING, "heads": heads, "rows": cells, "bold": [], "notes": notes}


def _numbers(run: Run) -> dict[str, Any]:
    """The numbers of one run; ``data_shifts`` only where its data ever shifted."""
    shifts = sum(record.get("data_shifts") or 0 for record in run.records)
    return {**clustering.summary(run.records), "ari": run.records[-1].get("ari"), "data_shifts": shifts or None}


def _means(runs: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Means over the runs that have a number."""
    names = [name for name, _ in _COLUMNS.values()]
    known = {name: [run[name] for run in runs if run.get(name) is not None] for name in names}
    return {name: float(np.mean(values)) if values else None for name, values in known.items()}


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
