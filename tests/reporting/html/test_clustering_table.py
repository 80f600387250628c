"""The table of clusters, shifts and migrations: means of the summaries over the seeds."""

from __future__ import annotations

import numpy as np

from fedkin.reporting.html.clustering_table import clustering_table
from fedkin.reporting.html.read_runs import ReportedRun, ReportInput
from tests.reporting.written_runs import a_run

ROWS = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 1, 1, 1]])


def shifted(seed: int, detected: int) -> ReportedRun:
    """Two rounds of shifts, three in all. Some were detected, without a false alarm."""
    return ReportedRun(
        "",
        "X",
        a_run(
            ROWS,
            seed=seed,
            data_shifts=[0, 1, 2],
            data_shifts_assigned=[0, 1, 2],
            data_shifts_new=[0, 1, 2],
            shifts_detected=[0, 0, detected],
            shifts_detected_true=[0, 0, detected],
            detection_delay_sum=[0, 0, detected],
            migrations=[None, 0, 1],
            ari=[None, None, 0.5],
        ),
    )


def test_means_over_the_seeds() -> None:
    table = clustering_table(ReportInput("seeds", (shifted(0, 3), shifted(1, 0))))
    assert table is not None
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert row["shifts of data"] == "3" and row["of these detected"] == "50%"
    # In one seed only.
    assert row["detections with a cause"] == "100%" and row["rounds to detection"] == "1.0"
    assert row["ARI at the end"] == "0.50" and row["migrations"] == "1"
    assert "correct migrations" not in row  # not known in any seed: no column
    assert "ARI: " in " ".join(table["notes"]) and "correct migration" not in " ".join(
        table["notes"]
    )


def test_where_nothing_ever_happened_there_is_none() -> None:
    run = a_run(np.zeros((3, 4), np.int64))
    assert clustering_table(ReportInput("run", (ReportedRun("", "X", run),))) is None
