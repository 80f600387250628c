"""Features of a frozen network as data: what its first layers compute from each text, once."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from fedkin.core.errors import ModelError
from fedkin.core.model_spec import BackboneFeatures, Samples
from fedkin.models.backbone import Backbone, from_transformers
from fedkin.models.model import check_samples, prepare_jax

_WIDTH = 64  # texts in one compiled call


def features(data: Any, backbone: Backbone | str | Path, *, layer: int) -> Any:
    """Federated data whose samples are the inputs of a layer of a backbone.

    The layers below are frozen and have no dropout, so they compute the same for a text in every
    round. Training then starts at ``layer``.

    Args:
        data: federated data of token numbers [M, L] of the backbone's tokenizer.
        backbone: a backbone of ``fk.models.from_transformers``, or its folder.
        layer: number of the first layer that gets factors. The samples of the new data are its
            inputs, float32 [M, L, d]; padding is zero.

    Returns:
        The data with these samples. Everything else is unchanged.

    Raises:
        ModelError: the samples are no token numbers, or the backbone has no such layer.
    """
    prepare_jax()
    check_samples(data)
    if isinstance(backbone, (str, Path)):
        backbone = from_transformers(backbone)
    count = len(backbone.encoder.layers)
    if not 1 <= layer < count:
        raise ModelError(
            f"backbone {backbone.name!r} has the layers 0 to {count - 1}; layer must be between 1 "
            f"and {count - 1}, got {layer}"
        )
    below = dataclasses.replace(backbone.encoder, layers=backbone.encoder.layers[:layer])
    made = BackboneFeatures(backbone=backbone.name, digest=backbone.digest, layer=layer)
    return dataclasses.replace(
        data,
        name=f"{data.name}-features",
        x=hidden_states(below, _tokens(data)),
        vocabulary=None,
        features_of=made,
    )


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
