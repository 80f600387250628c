"""The report's chart of the clients' own accuracies at the end: their distribution, bottom 10% and spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkin.reporting.html.json_values import Json, rounded, thinned
from fedkin.run.metrics.accuracy import bottom_decile
from fedkin.run.results import Run


def client_accuracy(runs: Sequence[Run]) -> Json | None:
    """Accuracies of the clients of one method, lowest first, those of all seeds together; None where no run has them.

    ``shares`` are their places from 0 (lowest) to 1; ``bottom`` is the mean of the bottom 10%, ``spread`` the standard
    deviation, ``quartiles`` are at 25, 50 and 75%.
    """
    own = [run.clients["accuracy"].to_numpy(np.float64) for run in runs if "accuracy" in run.clients]
    accuracies = np.concatenate([np.zeros(0), *own])
    accuracies = np.sort(accuracies[np.isfinite(accuracies)])
    if not len(accuracies):
        return None
    places = thinned(len(accuracies))
    return {
        "shares": rounded((places + 0.5) / len(accuracies)),
        "accuracy": rounded(accuracies[places]),
        "clients": len(accuracies),
        "bottom": bottom_decile(accuracies),
        "quartiles": rounded(np.quantile(accuracies, [0.25, 0.5, 0.75])),
        "spread": round(float(accuracies.std()), 4),
    }
