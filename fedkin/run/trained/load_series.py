"""A newer table of series as federated data, for evaluation and placement."""

from __future__ import annotations

from pathlib import Path

from fedkin.core.errors import DataError
from fedkin.core.model_spec import Samples
from fedkin.data.federated import FederatedData
from fedkin.data.files import read_table
from fedkin.data.table_options import TableOptions
from fedkin.data.table_transform import UNCHANGED, transform_of
from fedkin.data.tables import Columns, table_samples
from fedkin.export.forecast_inputs import new_rows
from fedkin.task_types.forecast import Forecast


def load_series(path: Path, samples: Samples) -> FederatedData:
    """The rows of a table that have a label and all lags, in the way of the run's data. A client of
    the run keeps its scale; the scale of a newcomer is computed from its labels in the table. A
    table without clients is one series, named after the file.

    Args:
        path: a CSV or Parquet file with the run's columns of time, client and label.
        samples: the run's samples.

    Raises:
        DataError: as for ``new_rows``, or no row has a label and all lags.
    """
    task_type: Forecast = samples.task_type  # type: ignore[attr-defined]
    series = task_type.series
    assert series is not None
    new = new_rows(read_table(path, series.client), samples, path, path.stem)
    scorable = new.scorable
    if not scorable.any():
        raise DataError(
            f"{path}: no row has both {series.label!r} and all lags; add rows of earlier steps"
        )
    transform = transform_of(samples)
    names = getattr(samples, "feature_names", None)
    if transform is not None and transform.encoding is not None:
        names = transform.inputs
    found = table_samples(
        new.table[scorable].reset_index(drop=True),
        Columns(
            label=series.label,
            client=series.client,
            features=None if names is None else list(names),
        ),
        place=path,
        title=path.name,
        scaling=TableOptions.of(scale_from=transform or UNCHANGED).scaling(),
        task_type=task_type,
        task_type_is_given=True,
        series=new.rows.select(scorable),
    )
    return found.federation(None, 1, 0)
