"""Runs on numbers whose errors are written by hand: the score is the RMSE, of which less is
better."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fedkin.analysis.compare.comparison import Comparison
from fedkin.core.records import Record
from fedkin.run.run import Run
from tests.analysis.written_comparisons import Curves
from tests.analysis.written_comparisons import comparison as of_accuracies

RMSE = "root_mean_squared_error"
HIGHER = 0.25  # the worst 10% of clients have so much more
UNRANKED = 3  # clients with too few samples
_ACCURACY = ("accuracy", "bottom_decile", "median_client", "accuracy_by_cluster")


def comparison(settings: Mapping[str, Curves], **run: Any) -> Comparison:
    """The comparison of those RMSEs; ``run`` goes into the section [run]."""
    found = of_accuracies(settings, **run)
    return Comparison(found.grid, {key: as_errors(run) for key, run in found.finished.items()})


def as_errors(run: Run) -> Run:
    """The run with its accuracies as RMSEs."""
    return dataclasses.replace(
        run,
        records=[_record(record) for record in run.records],
        against={name: as_errors(other) for name, other in run.against.items()},
    )


def _record(record: Record) -> Record:
    """A round's record in which the accuracy is the RMSE."""
    error = record["accuracy"]
    kept = {name: value for name, value in record.items() if name not in _ACCURACY}
    clusters = len(record["cluster_sizes"] or [0])
    return kept | {
        "measure": RMSE,
        RMSE: error,
        f"{RMSE}_worst_decile": None if error is None else error + HIGHER,
        f"{RMSE}_median_client": error,
        f"{RMSE}_by_cluster": [error] * clusters,
        f"{RMSE}_per_client": None if error is None else 2 * error,
        "mean_absolute_error": None if error is None else error / 2,
        "r2_score": None if error is None else 1 - error**2,
        "unranked": UNRANKED,
    }
