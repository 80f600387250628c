"""A transformer encoder of the BERT family on batches of token numbers.

Source: Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers (NAACL 2019). The
layers follow each other as there: attention, addition and normalisation, two dense layers, addition
and normalisation. There is no dropout, so the same text always has the same features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

# AnyArray and samples are NumPy arrays until a compiled program takes them.
AnyArray = Array | np.ndarray
# Score of a padded position before the softmax.
_HIDDEN = -1e9


class Projection(eqx.Module):
    """A dense layer on the last axis, y = x w^T + b."""

    weight: Float[AnyArray, "o i"]
    bias: Float[AnyArray, "o"]

    def __call__(self, x: Float[Array, "... i"], **options: Any) -> Float[Array, "... o"]:
        """The outputs. Options, such as the random key of ``eqx.nn.Sequential``, have no effect."""
        return x @ self.weight.T + self.bias


class LayerNorm(eqx.Module):
    """Normalisation of the last axis to mean 0 and variance 1, then a scale and a shift."""

    weight: Float[AnyArray, "d"]
    bias: Float[AnyArray, "d"]
    eps: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "... d"]) -> Float[Array, "... d"]:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + self.eps) * self.weight + self.bias


class Attention(eqx.Module):
    """Self-attention with several heads."""

    query: Projection
    key: Projection
    value: Projection
    output: Projection
    heads: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "B L d"], mask: Bool[Array, "B L"]) -> Float[Array, "B L d"]:
        def by_head(projection: Callable[[Array], Array]) -> Float[Array, "B h L e"]:
            projected = projection(x).reshape(*x.shape[:2], self.heads, -1)
            return projected.transpose(0, 2, 1, 3)

        query = by_head(self.query)
        scores = query @ by_head(self.key).transpose(0, 1, 3, 2) / jnp.sqrt(query.shape[-1])
        weights = jax.nn.softmax(jnp.where(mask[:, None, None], scores, _HIDDEN), axis=-1)
        mixed = (weights @ by_head(self.value)).transpose(0, 2, 1, 3)
        return self.output(mixed.reshape(x.shape))


class EncoderLayer(eqx.Module):
    """One layer: attention and two dense layers, each followed by addition and normalisation."""

    attention: Attention
    attention_norm: LayerNorm
    intermediate: Projection
    output: Projection
    output_norm: LayerNorm

    def __call__(self, x: Float[Array, "B L d"], mask: Bool[Array, "B L"]) -> Float[Array, "B L d"]:
        x = self.attention_norm(x + self.attention(x, mask))
        inner = jax.nn.gelu(self.intermediate(x), approximate=False)
        return self.output_norm(x + self.output(inner))


class Embeddings(eqx.Module):
    """From token numbers to the input of the first layer."""

    word: Float[AnyArray, "V d"]
    position: Float[AnyArray, "S d"]
    token_type: Float[AnyArray, "t d"]
    norm: LayerNorm

    def __call__(self, tokens: Int[AnyArray, "B L"]) -> Float[Array, "B L d"]:
        positions = self.position[: tokens.shape[1]]
        return self.norm(jnp.asarray(self.word)[tokens] + positions + self.token_type[0])


class Encoder(eqx.Module):
    """An encoder: from texts to one vector for each text, the mean over its tokens.

    Attributes:
        embeddings: embeddings of tokens; None if samples are inputs of layer ``first``.
        layers: the layers from ``first`` on.
        first: number of the first layer.
        padding: the token number of padding.
    """

    embeddings: Embeddings | None
    layers: tuple[EncoderLayer, ...]
    first: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    @property
    def width(self) -> int:
        """Length d of the vector of a token."""
        return int(self.layers[0].output.bias.shape[0])

    def __call__(self, x: AnyArray) -> Float[Array, "B d"]:
        """The mean over the tokens of each text.

        Args:
            x: token numbers [B, L]; or, without embeddings, inputs of layer ``first`` [B, L, d], in
                which padding is zero.
        """
        hidden, mask = self.inputs(x)
        hidden = self.through(hidden, mask)
        return pooled(hidden, mask)

    def inputs(self, x: AnyArray) -> tuple[Float[Array, "B L d"], Bool[Array, "B L"]]:
        """The input of layer ``first``, and which positions are tokens."""
        if self.embeddings is None:
            x = jnp.asarray(x)
            return x, jnp.any(x != 0, axis=-1)
        return self.embeddings(x), jnp.asarray(x) != self.padding

    def through(
        self, hidden: Float[Array, "B L d"], mask: Bool[Array, "B L"]
    ) -> Float[Array, "B L d"]:
        """The outputs of the last layer."""
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden


def pooled(hidden: Float[Array, "B L d"], mask: Bool[Array, "B L"]) -> Float[Array, "B d"]:
    """The mean over the tokens of each text; zeros for a text without tokens."""
    summed = jnp.sum(hidden * mask[..., None], axis=1)
    return summed / jnp.maximum(jnp.sum(mask, axis=1, keepdims=True), 1)
