"""New clients of a table without labels, for methods that place clients without them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.config import registry
from fedkin.core.errors import MethodError
from fedkin.core.object_repr import listed
from fedkin.core.requirements import requirements_of
from fedkin.core.storage import user_path
from fedkin.data.client_ids import client_ids
from fedkin.data.column_checks import check_columns
from fedkin.data.file_samples import CLIENT, LABEL
from fedkin.data.files import Table, read_table, table_kind
from fedkin.data.patient_columns import has_patients
from fedkin.data.table_transform import UNCHANGED, transform_of
from fedkin.export.input_samples import as_samples
from fedkin.export.text_inputs import TEXT
from fedkin.run.trained.load_texts import text_inputs
from fedkin.run.trained.models import TrainedModels
from fedkin.task_types.classification import task_type_of_samples


class UnlabelledClients(NamedTuple):
    """The samples of a table without labels, and the rows of each client.

    Attributes:
        x: samples of all clients, in the format of the run's data.
        rows: for each client its name, and the indices of its samples.
    """

    x: np.ndarray
    rows: dict[str, Int[np.ndarray, "s"]]


def unlabelled_clients(
    trained: TrainedModels, path: Path, *, own: dict[str, Any], options: dict[str, Any], name: str
) -> UnlabelledClients | None:
    """The clients of a table that has no column of labels.

    Args:
        trained: the models of the run.
        path: the file.
        own: the run's section [data]; a run from Python has no names of columns there.
        options: columns with other names. With any other than ``client``, the table has labels.
        name: name of the only client, if the table has no column of clients.

    Returns:
        The clients. None for a table with labels, for an npz file, and for forecasts and survival,
        whose tables always have labels.

    Raises:
        MethodError: the method needs labels to place a client.
        DataError: the table cannot be read, or a column is missing.
    """
    path = user_path(path)
    samples = trained.parts.samples
    in_table = task_type_of_samples(samples).by_time or has_patients(samples)
    if in_table or options.keys() - {"client"} or not path.is_file():
        return None
    if table_kind(path) == "npz":
        return None
    roles = {"label": LABEL, "client": CLIENT} | (getattr(samples, "columns", None) or {})
    roles |= {role: own[role] for role in (TEXT, *roles) if own.get(role) is not None} | options
    table = (transform_of(samples) or UNCHANGED).rename(read_table(path, str(roles["client"])))
    if str(roles["label"]) in table:
        return None
    _check_method(trained, path, str(roles["label"]))
    if "client" in options:
        check_columns(table, [options["client"]], path)
    if TEXT in roles:
        x = text_inputs(table, str(roles[TEXT]), path, samples=samples, model=trained.parts.model)
    else:
        x = as_samples(table, samples)
    return UnlabelledClients(x, _rows_of(table, path, str(roles["client"]), name))


def _check_method(trained: TrainedModels, path: Path, label: str) -> None:
    """Raise MethodError if the method needs labels to place a client.

    Args:
        trained: the models of the run.
        path: the table without labels.
        label: the name that its column of labels would have.
    """
    method = trained.parts.method
    needs_labels = requirements_of(method).data.newcomer_labels
    if trained.state.clusters == 1 or not needs_labels:
        return
    others = listed(_without_labels())
    raise MethodError(
        f"{path}: has no column {label!r}, and {trained.method} needs labels to place a client; "
        f"add the column, or name it: label=COLUMN (methods that need none: {others})"
    )


def _without_labels() -> list[str]:
    """The names of the library's methods that place clients without labels."""
    names = []
    for name, kind in registry.methods().items():
        parameters = inspect.signature(kind).parameters.values()
        has_defaults = all(one.default is not one.empty for one in parameters)
        if has_defaults and not requirements_of(kind()).data.newcomer_labels:
            names.append(name)
    return names


def _rows_of(table: Table, path: Path, column: str, name: str) -> dict[str, Int[np.ndarray, "s"]]:
    """The rows of each client in a table; without a column of clients, all rows are one
    client's."""
    if column not in table:
        return {name: np.arange(len(table))}
    owners = client_ids(table[column].to_numpy(), path, column)
    names, owner = np.unique(owners.astype(str), return_inverse=True)
    return {str(one): np.flatnonzero(owner == number) for number, one in enumerate(names)}
