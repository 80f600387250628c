"""The scaling of the sites' tables in a new deployment, if the files of all sites are on this
machine."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from fedkin.config import registry
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.data.column_statistics import combined
from fedkin.data.files import is_table_file
from fedkin.data.table_scaling import raw_statistics, scales_of
from fedkin.data.table_transform import STANDARD

_log = logging.getLogger("fedkin")


def common_scaling(data: Values, sites: Sequence[Path]) -> Values | None:
    """The mean and the scale of each column over the training samples of all sites, for
    ``scale_from`` in [samples]. None if the data are no tables, a file is on another machine, or
    the user has decided about scaling.

    Args:
        data: the sites' section [data].
        sites: the sites' folders, at which a relative path starts.

    Raises:
        ConfigError: a table cannot be read, or the tables have different columns.
    """
    path = str(data.get("path", ""))
    decided = data.get("scale") is not None or data.get("scale_from") is not None
    if data.get("name") != "file" or not is_table_file(path) or decided:
        return None
    files = sorted({site.absolute() / path for site in sites})
    if not all(file.is_file() for file in files):
        _log.warning(
            "%s is not on this machine, so the tables of the sites are not scaled; if columns have "
            "different units, give mean and scale of each one: samples.scale_from",
            next(file for file in files if not file.is_file()),
        )
        return None
    try:
        tables = [
            registry.make(registry.datasets(), {**data, "path": str(file), "scale": STANDARD})
            for file in files
        ]
    except FedkinError as error:
        raise ConfigError(f"data: {error}; nothing was written") from error
    names = tables[0].feature_names
    if names is None:
        return None
    for file, table in zip(files, tables, strict=True):
        if table.feature_names != names:
            raise ConfigError(_other_columns(files[0], names, file, table.feature_names or ()))
    facts = combined(
        [raw_statistics(table.x, table.train.rows, table.transform) for table in tables]
    )
    return {
        "mean": dict(zip(names, facts.mean.tolist(), strict=True)),
        "scale": dict(zip(names, scales_of(facts.deviation).tolist(), strict=True)),
    }


def _other_columns(first: Path, names: Sequence[str], file: Path, others: Sequence[str]) -> str:
    """The message about a site's table that has other columns than the first site's."""
    found = f"it has {json.dumps(list(others))}, and {first} has {json.dumps(list(names))}"
    if missing := [name for name in names if name not in others]:
        found = f"it has no column {', '.join(missing)}, as {first} has"
    elif further := [name for name in others if name not in names]:
        found = f"it has the column {', '.join(further)}, which {first} has not"
    shared = json.dumps([name for name in names if name in others])
    return (
        f"data: {file}: {found}; nothing was written. Give all sites the same columns in the same "
        f"order, or name the columns that all have: 'data.features={shared}'"
    )
