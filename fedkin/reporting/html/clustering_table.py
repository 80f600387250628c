"""The report's table of how clusters developed: agreement with true clusters, migrations, and data
shifts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedkin.measures.lookup import measures_of
from fedkin.measures.table import MEASURES
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.lenient_reader import is_intact
from fedkin.reporting.html.read_runs import ReportInput
from fedkin.run.metrics import clustering
from fedkin.run.run import Run

HEADING = "Clusters, shifts and migrations"
_MEASURES = (
    "migrations",
    "stability",
    "data_shifts",
    "shift_recall",
    "shift_precision",
    "shift_delay",
    "migration_precision",
    "migration_recall",
)
# Measures by column heading.
_COLUMNS = {
    f"{MEASURES['ari'].head} at the end": MEASURES["ari"],
    **{measure.head: measure for measure in measures_of(_MEASURES)},
}
# Explanations of columns, by measure.
_NOTES = {
    "ari": "ARI: adjusted Rand index, the agreement with the true clusters; 1 means equal.",
    "stability": ("Stability: agreement (adjusted Rand index) of clusters in consecutive rounds."),
    "migration_precision": "A correct migration ends in the client's true cluster.",
    "migration_recall": (
        "A followed change is a change of the true cluster after which the client reached the "
        "matching cluster again."
    ),
}


def clustering_table(report: ReportInput) -> Json | None:
    """The table of how clusters developed. None if clusters never changed and true clusters are
    unknown.

    Args:
        report: the runs, by setting and method.
    """
    several = len(report.settings) > 1
    rows: list[tuple[list[str], dict[str, float | None]]] = []
    for setting in report.settings:
        for method in report.methods:
            runs = [run for run in report.runs_of(setting, method) if is_intact(run)]
            if runs:
                names = [setting, method] if several else [method]
                rows.append((names, _means([_numbers(run) for run in runs])))
    # If clusters and data never changed, and true clusters are unknown, all rows would be empty.
    moved = any(
        numbers["migrations"] or numbers["data_shifts"] or numbers["ari"] is not None
        for _, numbers in rows
    )
    if not moved:
        return None
    shown = {
        head: measure
        for head, measure in _COLUMNS.items()
        if any(numbers[measure.name] is not None for _, numbers in rows)
    }
    cells = [
        [*first, *(measure.text_with_unit(numbers[measure.name]) for measure in shown.values())]
        for first, numbers in rows
    ]
    heads = [*(["setting"] if several else []), "method", *shown]
    notes = [
        "Means over the seeds.",
        *(_NOTES[measure.name] for measure in shown.values() if measure.name in _NOTES),
    ]
    return {"heading": HEADING, "heads": heads, "rows": cells, "bold": [], "notes": notes}


def _numbers(run: Run) -> dict[str, Any]:
    """The values of one run in the table of how clusters developed, by measure. ``data_shifts`` is
    None if the data never shifted."""
    shifts = sum(record.get("data_shifts") or 0 for record in run.records)
    return {
        **clustering.summary(run.records),
        "ari": run.records[-1].get("ari"),
        "data_shifts": shifts or None,
    }


def _means(runs: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The mean of each measure over the runs with a value; None if no run has one."""
    names = [measure.name for measure in _COLUMNS.values()]
    means: dict[str, float | None] = {}
    for name in names:
        values = [run[name] for run in runs if run.get(name) is not None]
        means[name] = float(np.mean(values)) if values else None
    return means
