"""The folder of an export: a file for each model, and ``card.json``, which describes them.

Shapes: B samples, C classes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.errors import ConfigError, MethodError, StorageError
from fedkin.core.storage import storage_errors, user_path, write_atomic
from fedkin.data.patient_columns import has_patients
from fedkin.data.table_transform import transform_of
from fedkin.export import architecture
from fedkin.export.backbones import Files, backbone_files, card_facts
from fedkin.export.formats import ADAPTER_FORMATS, SUFFIXES, check_format, encoded_model
from fedkin.export.model_card import NO_OPTIONS, CardOptions, ModelScores, model_card, shown_name
from fedkin.export.predictor import Predictor
from fedkin.task_types.catalogue import values_of
from fedkin.task_types.survival import Survival
from fedkin.task_types.task_type import TaskType

CARD = "card.json"
CARDS = "cards"  # folder with a folder for each model, which has its card
README = "README.md"
DEFINITION = "model.py"
# The card's entry about scaled samples.
FROM_UINT8 = "uint8 pixels divided by 255"
# The same for the columns of a table: whether the model takes raw values, or the user scales them.
_SCALED_BY_MODEL = "raw columns; the model computes (x - mean) / scale"
_ENCODED = (
    "the columns are input.features: categories as 0 and 1, missing values filled, and indicators "
    "of missing values, as in transform.encoding"
)
_SCALED_BEFORE = (
    "give the model (x - mean) / scale of each column, with the numbers in transform; fedkin "
    "predict does"
)


_RISKS = (
    "the risk score of each patient of a risk set before the softmax, [batch, patients]; the last "
    "feature of a patient is 1, and a patient alone has the first place, with 0 in the others"
)


@dataclass(frozen=True)
class ModelEntry:
    """One model of an export.

    Attributes:
        predictor: the model.
        clients: names of the clients that use the model.
        facts: further facts that ``card.json`` tells about the model, such as the test accuracy.
        scores: the evaluated clients of the model, for its README; None if there are none.
    """

    predictor: Predictor
    clients: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    scores: ModelScores | None = None


def write(
    entries: Sequence[ModelEntry],
    facts: Mapping[str, Any],
    folder: Path,
    format: str,
    with_backbone: bool = False,
    options: CardOptions = NO_OPTIONS,
) -> Path:
    """Write models into a new or empty folder, with a card of each (README.md).

    Args:
        entries: one or more models of the same architecture.
        facts: facts about the run for ``card.json``, such as ``method``, ``data`` and ``model``
            (the section [model] of a configuration, or None).
        folder: the folder of the export.
        format: ``safetensors``, ``torch`` or ``onnx``; for adapters also ``peft`` or ``merged``.
        with_backbone: whether to copy the backbone of adapters into the folder.
        options: what the user says about the cards.

    Returns:
        The path of ``card.json``.

    Raises:
        ConfigError: the format is unknown, or has no place for the backbone.
        MethodError: a client has a mixture of models, or a model for each sample.
        ModelError, MissingExtra: as for ``formats.encoded_model`` and ``adapters.adapter_files``.
            No file is written then.
        StorageError: the folder is not empty, or cannot be written.
    """
    check_format(format)
    _refuse_several_models([entry.predictor for entry in entries], facts)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(f"{folder} exists and is not empty; name a new folder for the export")
    names = [_file_name(entry.predictor.name) for entry in entries]
    if len(set(names)) < len(entries):
        raise StorageError(
            f"the models of two clients would have the file name {max(names, key=names.count)!r}; "
            "rename one of these clients"
        )
    first = entries[0].predictor
    contents = [
        _model_files(entry.predictor, name, format)
        for name, entry in zip(names, entries, strict=True)
    ]
    uses = [_taken_use(files) for files in contents]
    copied = _backbone_files(first, format) if with_backbone else {}
    plain = architecture.architecture_of(first.model)
    transform = transform_of(first.samples)
    scales = format == "onnx" or (format == "torch" and plain is not None)
    scales = scales and not has_patients(first.samples)
    card = {"fedkin": __version__, "format": format, **_described(first, scales), **facts}
    card["model"] = card.get("model") or architecture.entry_of(first.model, plain)
    card |= card_facts(first.model)
    if plain is not None and transform is not None and scales:
        plain = {**plain, "scaling": {"mean": transform.mean, "scale": transform.scale}}
    card["architecture"] = plain
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    card["models"] = [
        _entry(entry, *_write_files(folder, files))
        for entry, files in zip(entries, contents, strict=True)
    ]
    _write_files(folder, copied)
    # The code of the network, so that the weights can be used without fedkin.
    if format == "torch" and plain is not None:
        definition = Path(__file__).with_name("plain_torch.py")
        write_atomic(folder / DEFINITION, definition.read_text())
    for entry, described, use in zip(entries, card["models"], uses, strict=True):
        page = model_card(card, described, entry.scores, options, use=use)
        _write_readme(
            folder, shown_name(card, described, options), file=described["file"], page=page
        )
    write_atomic(folder / CARD, json.dumps(card, indent=2) + "\n")
    return folder / CARD


def _refuse_several_models(predictors: Sequence[Predictor], facts: Mapping[str, Any]) -> None:
    """Raise MethodError if a client predicts with several models, since a file holds one."""
    described = facts.get("method")
    method = described["name"] if described else "the run's method"
    if any(one.routes is not None for one in predictors):
        raise MethodError(
            f"{method} with several kinds of texts chooses a model for each text, which no "
            "export format supports; predict with run.predict(x, client=...), or export a run with "
            "method.kinds=1 and method.routing=local"
        )
    if any(one.shares is not None for one in predictors):
        raise MethodError(
            f"{method} predicts for each client with a mixture of {len(predictors[0].vectors)} "
            "models, which no export format supports; predict with run.predict(x, client=...), or "
            "export a run of fedrc with method.hard=true, which predicts with one model"
        )


def _taken_use(files: Files) -> str:
    """The section on the use of an adapter, which is taken out of its files; empty for others."""
    made = [files.pop(path) for path in list(files) if Path(path).name == README]
    return made[0]().decode() if made else ""


def _write_readme(folder: Path, name: str, file: str, page: str) -> None:
    """Write the card of a model: in the folder of an adapter, or else in ``cards``.

    Args:
        folder: the folder of the export.
        name: the model's name on the card.
        file: path of the model's file in the folder.
        page: the text of the card.
    """
    is_adapter = Path(file).parent != Path()
    readme = (folder / file).parent if is_adapter else folder / CARDS / _file_name(name)
    with storage_errors(readme):
        readme.mkdir(parents=True, exist_ok=True)
    write_atomic(readme / README, page)


def _model_files(predictor: Predictor, name: str, format: str) -> Files:
    """The files of a model, by their paths in the folder of the export; the weights are first.

    Args:
        predictor: the model.
        name: the name of its file without the ending, or of its folder.
        format: the format.
    """
    if format in ADAPTER_FORMATS:
        # Imported here, since it needs JAX.
        from fedkin.export.adapters import adapter_files

        files = adapter_files(predictor, format)
        return {f"{name}/{file}": content for file, content in files.items()}
    content = encoded_model(predictor, format)
    return {name + SUFFIXES[format]: lambda: content}


def _backbone_files(predictor: Predictor, format: str) -> Files:
    """Copies of the backbone's files. Raises ConfigError for a format that has no place for it."""
    if format != "safetensors":
        raise ConfigError(
            f"with_backbone applies to format 'safetensors' only, not to {format!r}; leave it out"
        )
    return backbone_files(predictor.model)


def _write_files(folder: Path, files: Files) -> tuple[str, str]:
    """Write files into the folder of an export, one after the other. Returns the path of the first
    one and the SHA-256 of its content; two empty texts without any files."""
    first = ("", "")
    for name, make in files.items():
        content = make()
        path = folder / name
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
        if not first[0]:
            first = (name, hashlib.sha256(content).hexdigest())
    return first


def write_model(predictor: Predictor, path: str | Path, format: str = "safetensors") -> Path:
    """Write one model, such as a fine-tuned one, and its card (``card.json``) into a new folder, as
    ``run.export`` does.

    Args:
        predictor: the model, from ``run.fine_tune`` or ``run.model_for``.
        path: the folder.
        format: ``safetensors``, ``torch`` or ``onnx``.

    Returns:
        The path of ``card.json``.

    Raises:
        ConfigError, MethodError, ModelError, MissingExtra, StorageError: as for ``write``.
    """
    facts: dict[str, Any] = {"data": getattr(predictor.samples, "name", None)}
    if columns := getattr(predictor.samples, "columns", None):
        facts["columns"] = dict(columns)
    if (vocabulary := getattr(predictor.samples, "vocabulary", None)) is not None:
        facts["words"] = len(vocabulary)
    return write([ModelEntry(predictor)], facts, user_path(path), format)


def _described(predictor: Predictor, scales: bool) -> dict[str, Any]:
    """What ``card.json`` tells about the samples, the labels and the layers. ``scales``: whether
    the exported model itself scales the columns of a table."""
    x = predictor.samples.x
    labels = predictor.label_names
    features = getattr(predictor.samples, "feature_names", None)
    floats = x.dtype.kind == "f"
    scaling = "none"
    if floats:
        from_uint8 = getattr(predictor.samples, "from_uint8", False)
        scaling = FROM_UINT8 if from_uint8 else "as the training data"
    dtype = "float32" if floats else "int64"
    table: dict[str, Any] = {}
    computed = getattr(predictor.samples, "features_of", None)
    transform = transform_of(predictor.samples)
    if transform is not None:
        scaling = _SCALED_BY_MODEL if scales else _SCALED_BEFORE
        if transform.encoding is not None:
            scaling = f"{_ENCODED}; {scaling}"
        dtype = "float64" if scales else "float32"
        table = {"transform": transform.values()}
    return {
        "input": {
            "shape": list(x.shape[1:]),
            "dtype": dtype,
            "scaling": scaling,
            "features": None if features is None else list(features),
            **table,
            **({} if computed is None else {"features_of": asdict(computed)}),
        },
        **_output(predictor.task_type),
        "classes": int(predictor.samples.classes),
        "labels": None if labels is None else [str(name) for name in labels],
        "layers": {name: list(array.shape) for name, array in predictor.layers.items()},
        "parameters": int(predictor.vectors.shape[1]),
    }


def _output(task_type: TaskType) -> dict[str, Any]:
    """What ``card.json`` tells about the output of the models, and how it becomes a prediction."""
    if isinstance(task_type, Survival):
        return {"output": _RISKS, "task_type": values_of(task_type)}
    if task_type.loss is None:
        return {"output": "the score of each class before the softmax, [batch, classes]"}
    levels = getattr(task_type.loss, "levels", None)
    centred = "times task_type.label.scale, plus task_type.label.mean"
    if levels is not None:
        text = f"a score for each quantile {list(levels)}; in ascending order, {centred}"
    elif task_type.loss.link == "identity":
        text = f"scores [batch, {task_type.loss.outputs}]; the prediction is the first, {centred}"
    else:
        inverse = "exp" if task_type.loss.link == "log" else "log(1 + exp)"
        text = (
            f"a score [batch, 1]; the prediction is {inverse} of it, times task_type.rate, times "
            "the exposure"
        )
    return {"output": text, "task_type": values_of(task_type)}


def _entry(entry: ModelEntry, file: str, sha256: str) -> dict[str, Any]:
    """The entry of ``card.json`` about one exported model, with its file and that file's
    SHA-256."""
    predictor = entry.predictor
    facts: dict[str, Any] = {
        "name": predictor.name,
        "file": file,
        "cluster": predictor.cluster,
        "clients": list(entry.clients),
    }
    facts.update(entry.facts)
    if predictor.positive is not None:
        facts["detected"] = [int(c) for c in predictor.positive]
    facts["sha256"] = sha256
    return facts


def _file_name(name: str) -> str:
    """A file name from a model's name, with only characters that every file system allows."""
    allowed = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    return allowed.strip(".") or "model"


# Scores of which the pooled value follows from the clients' values and numbers of samples, with the
# power of the value that is a mean.
_POOLED = {
    "root_mean_squared_error": 2,
    "mean_absolute_error": 1,
    "mean_deviance": 1,
    "mean_pinball_loss": 1,
    "coverage": 1,
}


def score_facts(scores: Mapping[str, np.ndarray], samples: np.ndarray) -> dict[str, Any]:
    """The entries of ``card.json`` about the test scores of the clients that use a model, over all
    of their samples together.

    Args:
        scores: the score of each client, by the score's name.
        samples: number of test samples of each client.
    """
    total = int(np.sum(samples))
    tested = np.asarray(samples) > 0
    facts: dict[str, Any] = {}
    for name, values in scores.items():
        power = _POOLED.get(name)
        if power is None or not total:
            continue
        means = values[tested].astype(np.float64) ** power
        mean = float(np.sum(means * samples[tested]) / total)
        facts[f"test_{name}"] = mean ** (1 / power)
    return {**facts, "test_samples": total}


def share_facts(measure: str, correct: np.ndarray, samples: np.ndarray) -> dict[str, Any]:
    """The entries of ``card.json`` about a measure that is a share of correct test samples.

    Args:
        measure: name of the measure, such as ``accuracy``.
        correct: number of correct predictions of each client that uses the model.
        samples: number of test samples of each client.
    """
    total = int(np.sum(samples))
    return {
        f"test_{measure}": float(np.sum(correct)) / total if total else None,
        "test_samples": total,
    }


def read_card(folder: Path) -> dict[str, Any]:
    """Read the card of an export (``card.json``, which describes the models).

    Raises:
        ConfigError: there is no card, or the card is damaged.
    """
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8-sig"))
        if card["format"] not in (*SUFFIXES, *ADAPTER_FORMATS) or not card["models"]:
            raise ValueError(
                "the card lists no model, or a format that this version of fedkin does not know; "
                "export the run again"
            )
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} holds no export: there is no {CARD} in it; make an export with fedkin "
            "export RUN --out DIR"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{folder / CARD} cannot be read: {error}") from error
    if card["format"] in ADAPTER_FORMATS:
        raise ConfigError(
            f"{folder} is for the libraries peft and transformers (format {card['format']!r}), as "
            "the README of each model says; to predict with fedkin, export the run as 'safetensors'"
        )
    return card
