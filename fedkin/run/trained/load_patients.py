"""A file of patients as federated data, for evaluation and placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedkin.data.federated import FederatedData
from fedkin.data.load_with import load_with
from fedkin.task_types.survival import Survival

# Columns of the time and of the event, if the run's data name none.
_COLUMNS = {"label": "time", "event": "event"}


def load_patients(
    task_type: Survival, path: Path, places: int, options: Mapping[str, Any]
) -> FederatedData:
    """The patients of a file, all of them for training, as risk sets like those of the run.

    Args:
        task_type: task type of the run.
        path: a table or an npz file with the time and the event of each patient.
        places: number of places in a risk set.
        options: options of ``load_with``, such as the names of columns.

    Raises:
        DataError: a column is missing, a value is impossible, or no client has an event while
            another patient was at risk.
    """
    risk_sets = {"at_risk": places, "draws": task_type.draws, "ties": task_type.ties}
    data = load_with(
        task_type,
        path,
        **{**_COLUMNS, **options},
        loss_options=risk_sets,
        train_fraction=1.0,
    )
    # A file without a column of clients has one client without a name.
    return replace(data, client_names=None) if "partition" in options else data
