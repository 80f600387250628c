"""A newer table of texts as federated data, for evaluation and placement."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.core.model_spec import Samples
from fedkin.data.column_checks import check_columns
from fedkin.data.federated import FederatedData
from fedkin.data.files import Table, read_table
from fedkin.data.texts import checked_texts, texts, token_reader
from fedkin.export.backbones import origin_of
from fedkin.export.text_inputs import TEXT, inputs_of_texts

_ROLES = (TEXT, "label", "client")


def load_texts(
    path: Path,
    own: dict[str, Any],
    samples: Samples,
    *,
    model: Any,
    options: dict[str, Any],
    pooled: bool,
) -> FederatedData:
    """The texts of a table, with the tokenizer and the length of the run.

    Args:
        path: a CSV or Parquet file.
        own: the run's section [data]; a run from Python has no names of columns there.
        samples: the run's samples, whose ``columns`` name the columns of a run from Python.
        model: the run's model, whose backbone has the tokenizer.
        options: other names of ``label`` and ``client``.
        pooled: whether a file without a column of clients is taken as one client's data.

    Raises:
        ConfigError: the model has no backbone of a folder, or an option does not apply.
        DataError: as for ``fk.data.texts``.
    """
    folder = _backbone_folder(model, path)
    if "features" in options:
        raise ConfigError("features: the run reads one column of texts; leave it out")
    roles = getattr(samples, "columns", None) or {}
    chosen: dict[str, Any] = {name: roles[name] for name in _ROLES if name in roles}
    names = (*_ROLES, "label_names")
    chosen |= {name: own[name] for name in names if own.get(name) is not None} | options
    if pooled and chosen.get("client") not in read_table(path):
        if "client" not in options:
            chosen.pop("client", None)
            chosen |= {"partition": "iid", "clients": 1}
    length = int(samples.x.shape[1])
    data = texts(path, tokenizer=folder, length=length, **chosen)
    return dataclasses.replace(data, x=inputs_of_texts(data.x, samples, folder))


def text_inputs(
    table: Table, column: str, path: Path, *, samples: Samples, model: Any
) -> np.ndarray:
    """The texts of a table as samples of the run: token numbers [B L], or features [B L d].

    Args:
        table: a DataFrame.
        column: its column of texts.
        path: the table's file, for messages.
        samples: the run's samples.
        model: the run's model, whose backbone has the tokenizer.

    Raises:
        ConfigError: the model has no backbone of a folder.
        DataError: the column is missing, or an entry is no text.
    """
    folder = _backbone_folder(model, path)
    check_columns(table, [column], path, {column: "the model reads it"})
    length = int(samples.x.shape[1])
    found = checked_texts(table[column], path, column)
    tokens = token_reader(folder).tokens(found, length, path)
    return inputs_of_texts(tokens, samples, folder)


def _backbone_folder(model: Any, path: Path) -> Path:
    """The folder of the model's backbone. Raises ConfigError if it has none.

    Args:
        model: the run's model.
        path: a table of texts, for the message.
    """
    origin = origin_of(model)
    if origin is None:
        raise ConfigError(
            f"{path}: the run has no backbone of a folder, whose tokenizer could read the texts; "
            "give token numbers in an .npz file"
        )
    return origin.folder
