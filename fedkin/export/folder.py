"""The folder of an export: a file for each model, and ``card.json``, which says what they are.

Shapes: B samples, C classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.errors import ConfigError, StorageError
from fedkin.core.storage import storage_errors, user_path, write_atomic
from fedkin.export import architecture
from fedkin.export.formats import SUFFIXES, check_format, encoded_model
from fedkin.export.predictor import Predictor

CARD = "card.json"
DEFINITION = "model.py"
FROM_UINT8 = "uint8 pixels divided by 255"  # how a card says that samples were scaled


@dataclass(frozen=True)
class ModelEntry:
    """One model of an export.

    Attributes:
        predictor: the model.
        clients: names of those that it serves.
        facts: more that its entry in the card says, such as its test accuracy.
    """

    predictor: Predictor
    clients: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def write(
    entries: Sequence[ModelEntry], facts: Mapping[str, Any], folder: Path, format: str
) -> Path:
    """Write models into a new folder, or an empty one.

    Args:
        entries: of one architecture, at least one.
        facts: what the card says of the run: ``method``, ``data``, ``model`` (the entry of a
            configuration, or None), and the like.
        folder: where to.
        format: ``safetensors``, ``torch`` or ``onnx``.

    Returns:
        The card's path.

    Raises:
        ConfigError: an unknown format.
        ModelError, MissingExtra: as ``formats.encoded_model``; then nothing is written.
        StorageError: the folder holds something, or cannot be written.
    """
    suffix = SUFFIXES[check_format(format)]
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder} exists and is not empty; an export needs a new folder")
    names = [_file_name(entry.predictor.name) for entry in entries]
    files = {
        name + suffix: encoded_model(entry.predictor, format)
        for name, entry in zip(names, entries, strict=True)
    }
    if len(files) < len(entries):
        raise StorageError(
            "two clients have names that make the same file name; rename one of them"
        )
    models = [_entry(entry, *file) for entry, file in zip(entries, files.items(), strict=True)]
    first = entries[0].predictor
    plain = architecture.architecture_of(first.model)
    card = {"fedkin": __version__, "format": format, **_described(first), **facts, "models": models}
    card["model"] = card.get("model") or architecture.entry_of(first.model, plain)
    card["architecture"] = plain
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(folder / name, content)
    if format == "torch" and plain is not None:
        write_atomic(folder / DEFINITION, (Path(__file__).with_name("plain_torch.py")).read_text())
    write_atomic(folder / CARD, json.dumps(card, indent=2) + "\n")
    return folder / CARD


def write_model(predictor: Predictor, path: str | Path, format: str = "safetensors") -> Path:
    """Write one model into a new folder, with its card, as ``run.export`` writes those of a run:
    one that was fine-tuned, or that of one client.

    Args:
        predictor: the model, from ``run.fine_tune`` or ``run.model_for``.
        path: the folder.
        format: ``safetensors``, ``torch`` or ``onnx``.

    Returns:
        The card's path.

    Raises:
        ConfigError, ModelError, MissingExtra, StorageError: as ``write``.
    """
    facts: dict[str, Any] = {"data": getattr(predictor.samples, "name", None)}
    if (vocabulary := getattr(predictor.samples, "vocabulary", None)) is not None:
        facts["words"] = len(vocabulary)
    return write([ModelEntry(predictor)], facts, user_path(path), format)


def _described(predictor: Predictor) -> dict[str, Any]:
    """What the card says of samples, labels and layers."""
    x = predictor.samples.x
    labels = predictor.label_names
    features = getattr(predictor.samples, "feature_names", None)
    floats = x.dtype.kind == "f"
    from_uint8 = getattr(predictor.samples, "from_uint8", False)
    return {
        "input": {
            "shape": list(x.shape[1:]),
            "dtype": "float32" if floats else "int64",
            "scaling": (FROM_UINT8 if from_uint8 else "as the training data") if floats else "none",
            "features": None if features is None else list(features),
        },
        "output": "the score of each class before the softmax, [batch, classes]",
        "classes": int(predictor.samples.classes),
        "labels": None if labels is None else [str(name) for name in labels],
        "layers": {name: list(array.shape) for name, array in predictor.layers.items()},
        "parameters": int(predictor.vectors.shape[1]),
    }


def _entry(entry: ModelEntry, file: str, content: bytes) -> dict[str, Any]:
    """What the card says of one model."""
    predictor = entry.predictor
    detected = (
        {} if predictor.positive is None else {"detected": [int(c) for c in predictor.positive]}
    )
    return {
        "name": predictor.name,
        "file": file,
        "cluster": predictor.cluster,
        "clients": list(entry.clients),
        **entry.facts,
        **detected,
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _file_name(name: str) -> str:
    """A name as a file may have it."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name).strip(".") or "model"


def accuracy_facts(correct: np.ndarray, samples: np.ndarray) -> dict[str, Any]:
    """Test accuracy over some clients, as a card has it."""
    total = int(np.sum(samples))
    return {
        "test_accuracy": float(np.sum(correct)) / total if total else None,
        "test_samples": total,
    }


def read_card(folder: Path) -> dict[str, Any]:
    """The card of an export.

    Raises ConfigError where there is none, or it is damaged.
    """
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8-sig"))
        if card["format"] not in SUFFIXES or not card["models"]:
            raise ValueError("it names no model, or a format of another version")
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} holds no export: there is no {CARD} in it (fedkin export RUN --out DIR "
            "makes one)"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / CARD} cannot be read: {error}") from error
    return card
