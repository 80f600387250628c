"""Messages of the Open Inference Protocol, version 2, in their JSON form.

Shapes: B samples, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.core.errors import ConfigError, unknown
from fedkin.export.predictor import Classifier
from fedkin.service.json_body import InvalidBodyError, optional_text
from fedkin.service.models import LoadedModels

VERSION = "1"  # an export has one version of each model
INPUT = "samples"
SCORES = "scores"
PREDICTIONS = "predictions"
# NumPy's types by the protocol's names.
_TYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP32": np.float32,
    "FP64": np.float64,
}
_LOWEST = float(np.finfo(np.float32).min)  # stands for minus infinity, which JSON does not have
_MOST_SIZE = 2**40  # of a shape, so that its product cannot overflow


def server_metadata() -> dict[str, Any]:
    """The answer of ``GET /v2``."""
    return {"name": "fedkin", "version": __version__, "extensions": []}


def model_metadata(served: LoadedModels, name: str) -> dict[str, Any]:
    """The answer of ``GET /v2/models/NAME``. Raises ConfigError for an unknown name."""
    model = served.named(name)
    card = served.export.card
    onnx = card["format"] == "onnx"
    floats = model.samples.x.dtype.kind == "f"
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "onnx_onnxv1" if onnx else f"fedkin_{card['format']}",
        "inputs": [
            {
                "name": INPUT,
                "datatype": "FP32" if floats else "INT64",
                "shape": [-1, *card["input"]["shape"]],
            }
        ],
        "outputs": [
            {"name": SCORES, "datatype": "FP32", "shape": [-1, int(model.samples.classes)]},
            {"name": PREDICTIONS, "datatype": _label_type(model), "shape": [-1]},
        ],
    }


def inferred(served: LoadedModels, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of ``POST /v2/models/NAME/infer``.

    Args:
        served: the models.
        name: name of the model.
        body: the request.

    Raises:
        ConfigError: the model or a requested output is unknown.
        DataError: the input is not valid.
        ModelError: scores are not finite.
    """
    model = served.named(name)
    x = input_array(body)
    scores = model.finite_scores(x)
    outputs = [_tensor(SCORES, "FP32", np.maximum(scores, _LOWEST))]
    outputs.append(_predictions(model, scores))
    answer: dict[str, Any] = {
        "model_name": name,
        "model_version": VERSION,
        "outputs": _requested(outputs, body.get("outputs")),
    }
    identifier = optional_text(body, "id")
    return answer if identifier is None else {**answer, "id": identifier}


def input_array(body: Mapping[str, Any]) -> np.ndarray:
    """The only input tensor of a request. Raises InvalidBodyError."""
    inputs = body.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise InvalidBodyError("inputs: expected a list with one tensor")
    tensor = inputs[0]
    kind = tensor.get("datatype")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise InvalidBodyError(f"inputs: unknown datatype {str(kind)[:20]!r}; {', '.join(_TYPES)}")
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not _are_sizes(shape):
        raise InvalidBodyError("inputs: shape must be a list of one to eight sizes")
    try:
        # Numbers too large for the type become infinite, which the model refuses.
        with np.errstate(over="ignore"):
            array = _values(tensor.get("data"), _TYPES[kind])
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidBodyError(f"inputs: data are not of {kind}: {str(error)[:100]}") from None
    if array.size != int(np.prod([1, *shape], dtype=object)):
        raise InvalidBodyError(f"inputs: {array.size} values do not fill the shape {shape}")
    return array.reshape(shape)


def _values(data: Any, dtype: Any) -> np.ndarray:
    """Data as an array of a type. Raises ValueError, TypeError or OverflowError for data that are
    not of this type, such as fractions for integers."""
    array = np.array(data, dtype=dtype)
    given = np.array(data)
    # NumPy would read the text "1.5" as a number.
    if given.dtype.kind not in "biuf":
        raise ValueError("a value is no number")
    # NumPy would cut 1.7 to the integer 1. Fractions are rounded to the type's precision.
    if array.dtype.kind != "f" and not np.array_equal(given, array):
        raise ValueError("a value is no number of this type")
    return array


def _are_sizes(shape: list[Any]) -> bool:
    """Whether a list has the sizes of one to eight dimensions."""
    return 1 <= len(shape) <= 8 and all(_is_size(size) for size in shape)


def _is_size(size: Any) -> bool:
    """Whether a value is the size of a dimension. True is no size, although Python counts it as
    1."""
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size < _MOST_SIZE


def _predictions(model: Classifier, scores: np.ndarray) -> dict[str, Any]:
    """The tensor of predicted classes, or of numbers in units of the label."""
    if model.predicts_numbers:
        return _tensor(PREDICTIONS, "FP64", model.task_type.predict(scores, None))
    classes = scores.argmax(axis=1)
    if model.label_names is None:
        return _tensor(PREDICTIONS, "INT64", classes)
    names = np.array([str(name) for name in model.label_names])
    return _tensor(PREDICTIONS, "BYTES", names[classes])


def _label_type(model: Classifier) -> str:
    """The protocol's name of the type of predictions."""
    if model.predicts_numbers:
        return "FP64"
    return "INT64" if model.label_names is None else "BYTES"


def _tensor(name: str, kind: str, array: np.ndarray) -> dict[str, Any]:
    """An output tensor, with its values in one list."""
    values = array.ravel().tolist()
    return {"name": name, "datatype": kind, "shape": list(array.shape), "data": values}


def _requested(outputs: list[dict[str, Any]], requested: Any) -> list[dict[str, Any]]:
    """The outputs that a request names, in its order; all if it names none. Raises ConfigError for
    an unknown one."""
    if requested is None:
        return outputs
    by_name = {tensor["name"]: tensor for tensor in outputs}
    if not isinstance(requested, list):
        raise InvalidBodyError("outputs: expected a list")
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in requested]
    for name in names:
        if not isinstance(name, str) or name not in by_name:
            raise ConfigError(f"outputs: {unknown('output', str(name)[:40], by_name)}")
    return [by_name[name] for name in names]
