"""Samples of forecasts from a table, as the readers of tables need them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.client_columns import values_by_client
from fedkin.data.client_ids import client_ids, whole_ids
from fedkin.data.federated import FederatedData
from fedkin.data.files import Table
from fedkin.data.forecast_options import ForecastOptions
from fedkin.data.forecast_tables import prepare
from fedkin.data.partition import by_owner
from fedkin.data.table_options import TableOptions
from fedkin.data.table_scaling import TableScaling
from fedkin.data.tables import Columns, check_table, resolved_columns, table_samples
from fedkin.data.user_samples import OwnSamples
from fedkin.task_types.forecast import Forecast
from fedkin.task_types.task_type import TaskType

_TEST_SHARE = 0.1  # share of test samples if the user gives none


@dataclass(frozen=True)
class ForecastReader:
    """Makes samples of forecasts from tables of series.

    Attributes:
        options: time, season, lags and dates of the split.
        task_type: the loss, without statistics.
        test_share: share of test samples, at the end, which applies without a date; None for 0.1,
            or for the column of the split.
    """

    options: ForecastOptions
    task_type: Forecast
    test_share: float | int | None

    @classmethod
    def of(
        cls, task_type: TaskType | None, test_share: float | int | None, **options: Any
    ) -> ForecastReader | None:
        """The reader for a task type; None for another task than ``forecast``.

        Args:
            task_type: task type and loss.
            test_share: share of test samples; None if the user gives none.
            options: options of ``ForecastOptions.of``, by name.

        Raises:
            ConfigError: an option does not apply or has an invalid value, or a forecast has no
                time.
        """
        is_forecast = isinstance(task_type, Forecast)
        found = ForecastOptions.of(Forecast.name if is_forecast else None, **options)
        if found is None:
            return None
        assert isinstance(task_type, Forecast)
        return cls(found, task_type, test_share)

    def federation(
        self, table: Table, columns: Columns, options: TableOptions, *, name: str, seed: int
    ) -> FederatedData:
        """The federation of a table of series, divided by time.

        Args:
            table, columns: as for ``samples``.
            options: how the feature columns are scaled.
            name: name of the data set.
            seed: seed of the federation.

        Raises:
            DataError, ConfigError: as for ``samples``.
        """
        scaling = options.scaling()
        samples = self.samples(table, columns, scaling=scaling, place=name, title=name)
        return samples.federation(None, 1, seed)

    def samples(
        self,
        table: Table,
        columns: Columns,
        *,
        scaling: TableScaling,
        place: Path | str,
        title: str,
    ) -> OwnSamples:
        """The samples of a table of series, divided by time.

        Args:
            table: a row for each client and step.
            columns: roles of the columns.
            scaling: how the feature columns are scaled.
            place: file or name with which messages begin.
            title: name of the data set.

        Raises:
            DataError: as for ``prepare``, all labels are equal, or a fact differs between rows of a
                client.
            ConfigError: there is no column of clients, or options contradict each other.
        """
        check_table(table, place)
        columns = resolved_columns(table, columns)
        _check_roles(columns, place)
        if columns.split is not None and self.test_share is not None:
            raise ConfigError(
                f"{place}: train_fraction does not apply, because the column {columns.split} "
                "divides the samples; leave it out"
            )
        # Facts are read from all rows, also from those that do not become samples.
        owners = whole_ids(client_ids(table[columns.client], place, str(columns.client)))
        of_clients = {str(name): table[name] for name in columns.client_columns}
        values_by_client(of_clients, by_owner(owners), np.unique(owners), place)
        prepared = prepare(
            table,
            self.options,
            self.task_type,
            label=columns.label,
            client=columns.client,
            features=columns.features,
            unused=columns.unused,
            split=columns.split,
            test_share=_TEST_SHARE if self.test_share is None else self.test_share,
            place=place,
        )
        label = prepared.table[columns.label]
        if label.min() == label.max():
            raise DataError(
                f"{place}: column {columns.label!r}: all labels are {label.iloc[0]:g}, so there is "
                "nothing to learn; name another label column (label), or add clients with other "
                "labels"
            )
        features = columns.features
        # A lag that was made may have the name of a column that is left out.
        unused = [name for name in columns.unused if str(name) not in prepared.lags]
        not_features = [name for name in table.columns if str(name) in self.options.time]
        if columns.split is not None:
            not_features.append(columns.split)
        if features is not None:
            new = [name for name in prepared.lags if name not in features]
            features = [*features, *new]
        return table_samples(
            prepared.table,
            columns._replace(
                features=features,
                split=prepared.split,
                unused=(*unused, *not_features),
            ),
            place=place,
            title=title,
            scaling=scaling,
            task_type=prepared.task_type,
            task_type_is_given=True,
            series=prepared.rows,
        )


def _check_roles(columns: Columns, place: Path | str) -> None:
    """Raise ConfigError if no column has the client of each row, or one has exposures
    or units."""
    if columns.client is None:
        raise ConfigError(
            f"{place}: a forecast needs the client of each row, since each client is a "
            "series, and a partition would divide a series; name the column: client = 'shop'"
        )
    if columns.exposure is not None:
        raise ConfigError(
            "exposure applies to counts only; set task = 'count', or leave exposure out"
        )
    if columns.unit is not None:
        raise ConfigError(
            f"{place}: unit does not apply to a forecast, whose rows are divided by date; leave it "
            "out"
        )
