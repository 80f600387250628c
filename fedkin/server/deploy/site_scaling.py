"""The scaling of the sites' tables in a new deployment: numbers, if the files of all sites are on
this machine, otherwise the request that the server computes them with the sites."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.config import registry
from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.data.column_statistics import combined
from fedkin.data.federated import FederatedData
from fedkin.data.files import is_table_file
from fedkin.data.patient_columns import training_table
from fedkin.data.table_options import FOR_SUMS, TableOptions
from fedkin.data.table_scaling import raw_statistics, scales_of
from fedkin.data.table_sums import joined, table_sums
from fedkin.data.table_transform import STANDARD, TableTransform

_log = logging.getLogger("fedkin")


def samples_scaling(
    data: Values,
    samples: Values,
    sites: Sequence[Path],
    hidden: bool = False,
    private: bool = False,
) -> Values:
    """The entries of [samples] that say how all sites scale their tables. Empty if the data are no
    tables, the user has decided about scaling, or the tables cannot be scaled.

    Args:
        data: the sites' section [data].
        samples: the user's section [samples].
        sites: the sites' folders, at which a relative path starts.
        hidden: whether the server may not see sums of columns (secret sums, privacy).
        private: whether the federation has differential privacy. Sums of samples get no noise, so
            they are refused, as in a simulation.

    Raises:
        ConfigError: a table cannot be read, the tables have different columns, or the sums are
            refused.
    """
    path = str(data.get("path", ""))
    keys = ("scale", "scale_from")
    decided = any(section.get(key) is not None for section in (data, samples) for key in keys)
    if data.get("name") != "file" or not is_table_file(path) or decided:
        return {}
    files = sorted({site.absolute() / path for site in sites})
    missing = [file for file in files if not file.is_file()]
    if not missing and private:
        raise ConfigError(
            "privacy: the tables would be scaled by sums of the sites' samples, which get no "
            "noise; nothing was written. Give known numbers: 'samples.scale_from={mean={age=50}, "
            "scale={age=12}}' with all columns, or scale nothing: samples.scale=none"
        )
    if not missing:
        scaling = common_scaling(data, files)
        return {} if scaling is None else {"scale_from": scaling}
    if samples.get("features") and not hidden:
        return {"scale": STANDARD}
    why = "sums of its columns may not be seen" if hidden else "samples.features names no columns"
    _log.warning(
        "%s is not on this machine, and %s, so the tables of the sites are not scaled; if columns "
        "have different units, give mean and scale of each one: samples.scale_from",
        missing[0],
        why,
    )
    return {}


def common_scaling(data: Values, files: Sequence[Path]) -> Values | None:
    """The mean and the scale of each column over the training samples of all sites, for
    ``scale_from`` in [samples]; of tables with text or missing values, also their encoding. None if
    the tables cannot be scaled in one way.

    Args:
        data: the sites' section [data].
        files: the sites' tables.
    """
    try:
        whole = _tables(data, files, scale_from=dict(FOR_SUMS))
        if any(table.transform is not None and table.transform.encoding for table in whole):
            return _joined(data, whole, files).values()
        tables = _tables(data, files, scale=STANDARD)
    except FedkinError as error:
        raise ConfigError(f"data: {error}; nothing was written") from error
    names = tables[0].feature_names
    if names is None:
        return None
    for file, table in zip(files, tables, strict=True):
        if table.feature_names != names:
            raise ConfigError(_other_columns(files[0], names, file, table.feature_names or ()))
    facts = combined([raw_statistics(*training_table(table), table.transform) for table in tables])
    return {
        "mean": dict(zip(names, facts.mean.tolist(), strict=True)),
        "scale": dict(zip(names, scales_of(facts.deviation).tolist(), strict=True)),
    }


def _tables(data: Values, files: Sequence[Path], **scaling: Any) -> list[FederatedData]:
    """The tables of all sites, each scaled in the given way."""
    own = {key: value for key, value in data.items() if key not in ("scale", "scale_from")}
    return [
        registry.make(registry.datasets(), {**own, "path": str(file), **scaling}) for file in files
    ]


def _joined(data: Values, tables: Sequence[FederatedData], files: Sequence[Path]) -> TableTransform:
    """The encoding and the scaling of all sites' tables, from sums of each."""
    options = TableOptions.of(
        min_frequency=data.get("min_frequency"), min_clients=data.get("min_clients")
    )
    sums = [table_sums(table) for table in tables]
    return joined(sums, options.rules, [str(file) for file in files])


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
