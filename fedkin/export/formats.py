"""The file formats of a trained model.

* ``safetensors``: the arrays by name, for any model, without code or pickle
* ``torch``: a ``state_dict`` as written by ``torch.save``, for ``torch.load(weights_only=True)``
* ``onnx``: the whole computation, samples [batch, ...] to scores [batch, C], for any ONNX runtime

The formats of adapters are folders (``export.adapters``).
"""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fedkin.core.errors import ConfigError, MissingExtra, ModelError, unknown
from fedkin.data.patient_columns import has_patients
from fedkin.data.table_transform import transform_of
from fedkin.export.architecture import architecture_of
from fedkin.export.backbones import origin_of
from fedkin.export.predictor import Predictor
from fedkin.simulation.workers import ModelWithWorkers

if TYPE_CHECKING:
    from torch import nn

SUFFIXES = {"safetensors": ".safetensors", "torch": ".pt", "onnx": ".onnx"}
ADAPTER_FORMATS = ("peft", "merged")
# The library that reads each format, by Hugging Face's names.
LIBRARIES = {
    "safetensors": "fedkin",
    "torch": "pytorch",
    "onnx": "onnx",
    "peft": "peft",
    "merged": "transformers",
}
MLFLOW = "mlflow"  # a folder with an export, which ``service.mlflow_folder`` writes
_OPSET = 20


def check_format(format: str) -> str:
    """Return a format's name if it is known. Raises ConfigError for an unknown format."""
    known = (*SUFFIXES, *ADAPTER_FORMATS)
    if format not in known:
        raise ConfigError(unknown("format", str(format), (*known, MLFLOW)))
    return format


def encoded_model(predictor: Predictor, format: str) -> bytes:
    """Encode a model as the bytes of a file.

    Args:
        predictor: the model.
        format: ``safetensors``, ``torch`` or ``onnx``.

    Raises:
        ModelError: the model cannot be written in this format.
        MissingExtra: a library of the format is not installed.
    """
    if format == "safetensors":
        from safetensors.numpy import save

        return save({name: np.ascontiguousarray(array) for name, array in predictor.layers.items()})
    network = torch_module(predictor, format)
    return _torch_bytes(network) if format == "torch" else _onnx_bytes(predictor, network)


def torch_module(predictor: Predictor, format: str) -> nn.Module:
    """A model as a PyTorch module: the user's module, or a module that ``plain_torch`` builds.

    Args:
        predictor: the model.
        format: format of the export, for messages.

    Raises:
        ModelError: ``plain_torch`` cannot build this JAX model.
        MissingExtra: PyTorch is not installed.
    """
    library("torch", f"format {format!r}", "torch" if format == "torch" else "onnx")
    from fedkin.export import plain_torch

    model = predictor.model
    architecture = architecture_of(predictor.model)
    if architecture is None and not isinstance(model, ModelWithWorkers):
        raise ModelError(
            f"model {model.name!r} cannot be exported as {format!r}: of the JAX models, only "
            "mclr, mlp, cnn and detector can; use format 'safetensors', which has the layers by "
            f"name, or {_other_way(model)}"
        )
    # Only detectors have ``positive``, the class of each. Any other exported model is one network,
    # since mixtures were refused.
    if predictor.positive is None:
        return _network(predictor, architecture, predictor.vectors[0])
    pairs = zip(predictor.positive, predictor.vectors, strict=True)
    detectors = {int(c): _network(predictor, architecture, vector) for c, vector in pairs}
    return plain_torch.Detectors(detectors, int(predictor.samples.classes)).eval()


def _other_way(model: Any) -> str:
    """What else a JAX model can be exported as, or trained as, for a message."""
    if origin_of(model) is not None:
        return "'peft' or 'merged', which peft and transformers read"
    return "train the model as a PyTorch module"


def _network(
    predictor: Predictor, architecture: dict[str, Any] | None, vector: np.ndarray
) -> nn.Module:
    """A predictor's network as a PyTorch module with the given weights, in evaluation mode."""
    from fedkin.export import plain_torch
    from fedkin.export.predictor import layers_of

    if architecture is None:
        return predictor.model.network(vector).eval()  # type: ignore[attr-defined]
    import torch

    network = plain_torch.build(architecture)
    layers = layers_of(predictor.model, vector)
    state = {name: torch.tensor(array) for name, array in layers.items()}
    network.load_state_dict(state, strict=True)
    return network.eval()


def _torch_bytes(network: nn.Module) -> bytes:
    """The weights of a PyTorch module as the bytes that ``torch.save`` writes."""
    import torch

    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    return file.getvalue()


def _onnx_bytes(predictor: Predictor, network: nn.Module) -> bytes:
    """A module as the bytes of an ONNX file, for batches of any size. Raises ModelError if
    PyTorch's exporter fails."""
    for name in ("onnx", "onnxscript"):
        library(name, "format 'onnx'", "onnx")
    import torch

    x = predictor.samples.x
    dtype = torch.float32 if x.dtype.kind == "f" else torch.int64
    transform = transform_of(predictor.samples)
    if transform is not None and not has_patients(predictor.samples):
        from fedkin.export.plain_torch import Scaling

        scaling = Scaling(list(transform.mean), list(transform.scale))
        network = torch.nn.Sequential(scaling, network).eval()
        # Raw values of a table may need more digits than float32 has.
        dtype = torch.float64
    # The exporter runs the module on an example. Two samples, because it would take a batch of one
    # for a constant size.
    example = torch.zeros((2, *x.shape[1:]), dtype=dtype)
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            # Warnings of the exporter's libraries do not concern the user.
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                (example,),
                dynamo=True,
                input_names=["samples"],
                output_names=["scores"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                opset_version=_OPSET,
                verbose=False,
            )
    except Exception as error:
        # A user's module may raise any exception.
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(
            f"model {predictor.model.name!r} cannot be exported as 'onnx': {reason}; use format "
            "'torch' or 'safetensors'"
        ) from error
    finally:
        log.setLevel(level)
    assert program is not None
    return program.model_proto.SerializeToString()


def library(module: str, purpose: str, extra: str) -> Any:
    """Import an optional library.

    Args:
        module: name of the library's module.
        purpose: the feature that needs it, for the message.
        extra: the extra of fedkin that installs it.

    Raises:
        MissingExtra: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {module}, which is not installed; run pip install 'fedkin[{extra}]'"
        ) from error
