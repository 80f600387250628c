"""Texts of a table as the input of a model that was trained on token numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.model_spec import Samples
from fedkin.data.column_checks import check_columns
from fedkin.data.texts import checked_texts
from fedkin.data.tokenizer import Tokenizer
from fedkin.export.backbones import entry_with_backbone
from fedkin.export.reader import Export

TEXT = "text"  # the role of the column of texts


def text_column(export: Export) -> str | None:
    """The column of the texts in the training table; None if the run had no texts."""
    columns = export.card.get("columns") or {}
    return columns.get(TEXT)


def text_samples(export: Export, table: Any, column: str, path: Path) -> np.ndarray:
    """The texts in a table as samples: token numbers [B L] as long as in training, or the features
    [B L d] of a model that was trained on these.

    Args:
        export: the export, with the folder of its backbone.
        table: a DataFrame.
        column: its column of texts.
        path: the table's file, for messages.

    Raises:
        DataError: the column is missing, or an entry is no text.
        ConfigError: the folder of the backbone, which has the tokenizer, is unknown.
    """
    check_columns(table, [column], path, {column: "the model reads it"})
    if "backbone" not in export.card:
        raise ConfigError(
            f"{path}: the models of this export take token numbers and have no backbone whose "
            "tokenizer could make them; predict an npz file with the array x"
        )
    entry = entry_with_backbone(export.card, export.folder, export.backbone)
    tokenizer = Tokenizer.from_folder(entry["backbone"])
    length = int(export.card["input"]["shape"][0])
    tokens = tokenizer.tokens(checked_texts(table[column], path, column), length, path)
    return inputs_of_texts(tokens, export.samples, Path(entry["backbone"]))


def inputs_of_texts(tokens: Int[np.ndarray, "B L"], samples: Samples, backbone: Path) -> np.ndarray:
    """Token numbers as they are, or the features of a run that was trained on features.

    Args:
        tokens: token numbers of texts.
        samples: the run's samples.
        backbone: the folder of the run's backbone.
    """
    computed = getattr(samples, "features_of", None)
    if computed is None:
        return tokens
    # Imported here, since it needs JAX.
    from fedkin.models.features import layer_inputs

    return layer_inputs(tokens, backbone, computed.layer)
