"""Features of a frozen network as data: what its first layers compute from each text, once."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from fedkin.core.errors import DataError, ModelError
from fedkin.core.model_spec import BackboneFeatures, Samples
from fedkin.core.plain import plain_arguments
from fedkin.core.storage import user_path, write_atomic
from fedkin.models.backbone import Backbone, from_transformers
from fedkin.models.encoder import Encoder
from fedkin.models.model import check_samples, prepare_jax

_WIDTH = 64  # texts in one compiled call
# What a file keeps features of, if one of its labels is another one.
_OTHER = {"texts": "other texts", "backbone": "another backbone", "layer": "another layer"}


@plain_arguments
def features(data: Any, backbone: Any, *, layer: int, file: str | Path | None = None) -> Any:
    """Federated data whose samples are the inputs of a layer of a backbone.

    The layers below are frozen and have no dropout, so they compute the same for a text in every
    round. Training then starts at ``layer``.

    Args:
        data: federated data of token numbers [M, L] of the backbone's tokenizer.
        backbone: a backbone of ``fk.models.from_transformers``, or its folder.
        layer: number of the first layer that gets factors. The samples of the new data are its
            inputs, float32 [M, L, d]; padding is zero.
        file: an .npz file that keeps the features. The first call writes it, and later ones read
            it. None: they are computed in each call.

    Returns:
        The data with these samples. Everything else is unchanged.

    Raises:
        ModelError: the samples are no token numbers, the backbone is another network, or it has no
            such layer.
        DataError: the file keeps the features of other texts, or of another backbone or layer.
    """
    prepare_jax()
    check_samples(data)
    if isinstance(backbone, (str, Path)):
        backbone = from_transformers(backbone)
    if not isinstance(backbone, Backbone):
        raise ModelError(
            "features are computed by a backbone of fk.models.from_transformers, got "
            f"{type(backbone).__name__}; fk.lora(data, module) trains a module on the whole samples"
        )
    below = _layers_below(backbone, layer)
    tokens = _tokens(data)
    made = BackboneFeatures(backbone=backbone.name, digest=backbone.digest, layer=layer)
    if file is None:
        found = hidden_states(below, tokens)
    else:
        found = _kept(user_path(file), below, tokens, made)
    return dataclasses.replace(
        data,
        name=f"{data.name}-features",
        x=found,
        vocabulary=None,
        features_of=made,
    )


def layer_inputs(
    tokens: Int[np.ndarray, "M L"], backbone: Backbone | str | Path, layer: int
) -> Float[np.ndarray, "M L d"]:
    """The inputs of a layer for texts: what ``features`` computes. A run on features predicts from
    them, and places clients by them.

    Args:
        tokens: token numbers of the texts, as many for each as in the run's data.
        backbone: a backbone of ``fk.models.from_transformers``, or its folder.
        layer: number of the layer.

    Raises:
        ModelError: the backbone has no such layer.
    """
    prepare_jax()
    if isinstance(backbone, (str, Path)):
        backbone = from_transformers(backbone)
    return hidden_states(_layers_below(backbone, layer), tokens)


def _layers_below(backbone: Backbone, layer: int) -> Encoder:
    """The embeddings and the layers below a layer. Raises ModelError if there is no such layer."""
    count = len(backbone.encoder.layers)
    is_whole = isinstance(layer, int) and not isinstance(layer, bool)
    if not (is_whole and 1 <= layer < count):
        raise ModelError(
            f"backbone {backbone.name!r} has the layers 0 to {count - 1}; layer must be between 1 "
            f"and {count - 1}, got {layer!r}"
        )
    return dataclasses.replace(backbone.encoder, layers=backbone.encoder.layers[:layer])


def _kept(
    path: Path, encoder: Any, tokens: Int[np.ndarray, "M L"], made: BackboneFeatures
) -> Float[np.ndarray, "M L d"]:
    """The features in a file, which is written if it is not there.

    Args:
        path: the file.
        encoder: the layers that compute the features.
        tokens: token numbers of the texts.
        made: the backbone and the layer.
    """
    texts = hashlib.sha256(f"{tokens.shape}".encode() + tokens.astype(np.int64).tobytes())
    labels = {
        "texts": texts.hexdigest(),
        "backbone": made.digest,
        "layer": str(made.layer),
    }
    if path.is_file():
        return _read(path, labels)
    found = hidden_states(encoder, tokens)
    content = io.BytesIO()
    np.savez(
        content,
        x=found,
        texts=labels["texts"],
        backbone=labels["backbone"],
        layer=labels["layer"],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.getvalue())
    return found


def _read(path: Path, labels: dict[str, str]) -> Float[np.ndarray, "M L d"]:
    """The features in a file. Raises DataError if its labels are others."""
    cure = "name another file, or delete this one to compute them again"
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            stored = {name: str(file[name]) for name in labels}
            found = file["x"]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: has no features ({error}); {cure}") from error
    for name, expected in labels.items():
        if stored[name] != expected:
            raise DataError(
                f"{path}: has the features of {_OTHER[name]}: {stored[name][:12]} instead of "
                f"{expected[:12]}; {cure}"
            )
    return found


def _tokens(data: Samples) -> Int[np.ndarray, "M L"]:
    """The token numbers of all texts."""
    if data.x.ndim != 2 or not np.issubdtype(data.x.dtype, np.integer):
        raise ModelError(
            f"{data.name}: features are computed from token numbers [M, L], got samples of shape "
            f"{data.x.shape[1:]}, {data.x.dtype}; make them with backbone.tokens(texts)"
        )
    return data.x


def hidden_states(encoder: Any, tokens: Int[np.ndarray, "M L"]) -> Float[np.ndarray, "M L d"]:
    """The outputs of an encoder's last layer, zero for padding."""
    arrays, static = eqx.partition(encoder, eqx.is_inexact_array)
    arrays = jax.device_put(arrays)
    program = jax.jit(partial(_masked_states, static))
    out = np.empty((*tokens.shape, encoder.width), np.float32)
    for start in range(0, len(tokens), _WIDTH):
        block = tokens[start : start + _WIDTH]
        # The last block is filled up, so that one program is compiled.
        filled = np.pad(block, [(0, _WIDTH - len(block)), (0, 0)])
        out[start : start + len(block)] = np.asarray(program(arrays, filled))[: len(block)]
    return out


def _masked_states(static: Any, arrays: Any, tokens: Array) -> Array:
    """The outputs of the last layer for a block of texts."""
    encoder = eqx.combine(arrays, static)
    hidden, mask = encoder.inputs(tokens)
    return encoder.through(hidden, mask) * mask[..., None]
