"""Recurrent networks on text. Samples are word indices [B L]; padding is read like any other word.

Words are mapped to vectors. If the data have no vectors, an embedding is trained. Vectors that come
with the data are not trained: they are constants of the compiled program, and not among the P
parameters. Each compiled program holds a copy, so a vocabulary should have only the words that
occur.

Equal shapes and options, with the same array object of vectors, return the same ``Model`` object,
so a second run reuses its compiled programs. The array is kept in memory for this.
"""

from __future__ import annotations

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Integer

from fedkin.core.errors import ModelError
from fedkin.core.plain import plain_arguments
from fedkin.models.layers import Dense, glorot
from fedkin.models.model import Model, Text, as_model, check_samples

# Default width of an embedding (McMahan et al. 2017).
_EMBEDDING = 8


@plain_arguments
def rnn(data: Text, hidden: int = 128, embedding: int | None = None) -> Model:
    """A recurrent layer of tanh units, and scores from its last state.

    It is FedSim's network for Goodreads (Table 5).

    Args:
        data: text.
        hidden: number of units in the layer.
        embedding: width of the trained embedding; None for 8. Only for data without vectors.

    Raises:
        ModelError: the data are not text, ``embedding`` is given for data with vectors, or a width
            is below 1.
    """
    return _of(name="rnn", data=data, widths=(hidden,), dense=0, embedding=embedding)


@plain_arguments
def lstm(
    data: Text, hidden: int = 100, layers: int = 2, dense: int = 30, embedding: int | None = None
) -> Model:
    """Stacked LSTM layers, then a linear layer on their last output, then the scores.

    The default is FedGroup's network for Sent140 (300-wide vectors, 2 classes: 243,861 parameters).
    With ``hidden=256, dense=0, embedding=8`` it is the next-character network for Shakespeare of
    McMahan et al. (AISTATS 2017) and LEAF (80 characters: 817,872).

    Args:
        data: text.
        hidden: number of units in each layer.
        layers: number of LSTM layers.
        dense: width of the linear layer before the head; 0 for none.
        embedding: width of the trained embedding; None for 8. Only for data without vectors.

    Raises:
        ModelError: the data are not text, ``embedding`` is given for data with vectors, or a width
            is below 1.
    """
    if layers < 1 or dense < 0:
        raise ModelError(
            f"lstm: layers must be at least 1 and dense at least 0, got {layers} and {dense}"
        )
    return _of(name="lstm", data=data, widths=(hidden,) * layers, dense=dense, embedding=embedding)


class Vectors:
    """Fixed word vectors, equal only if their array is the same object.

    JAX does not treat this as an array, so ``as_model`` does not count it among the parameters.
    """

    def __init__(self, array: Float[np.ndarray, "V D"]) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vectors) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)

    def __getitem__(self, words: Integer[Array, "L B"]) -> Float[Array, "L B D"]:
        return jnp.asarray(self.array, jnp.float32)[words]


class RNNLayer(eqx.Module):
    """A recurrent layer h' = tanh(W x + U h + b), from h = 0 (TensorFlow's BasicRNNCell).

    Its weight is [W, U].
    """

    weight: Float[Array, "h i_plus_h"]
    bias: Float[Array, "h"]

    def __init__(self, inputs: int, hidden: int, key: Array) -> None:
        self.weight = glorot(key, (hidden, inputs + hidden))
        self.bias = jnp.zeros(hidden, jnp.float32)

    def __call__(self, x: Float[Array, "L B i"]) -> Float[Array, "L B h"]:
        gates, recurrent = _gates(self.weight, self.bias, x)

        def step(h: Array, gate: Array) -> tuple[Array, Array]:
            """The next state h of the layer; ``gate`` is W x + b for the word at this time
            step."""
            h = jnp.tanh(gate + h @ recurrent)
            return h, h

        return jax.lax.scan(step, jnp.zeros((x.shape[1], len(recurrent))), gates)[1]


class LSTMLayer(eqx.Module):
    """A long short-term memory layer without peepholes (TensorFlow's BasicLSTMCell).

    The weight [4h, i + h] has the rows of input gate, candidate, forget gate and output gate, in
    this order. 1 is added to the forget gate, so it is open at first (Gers et al. 2000).
    """

    weight: Float[Array, "four_h i_plus_h"]
    bias: Float[Array, "four_h"]

    def __init__(self, inputs: int, hidden: int, key: Array) -> None:
        self.weight = glorot(key, (4 * hidden, inputs + hidden))
        self.bias = jnp.zeros(4 * hidden, jnp.float32)

    def __call__(self, x: Float[Array, "L B i"]) -> Float[Array, "L B h"]:
        gates, recurrent = _gates(self.weight, self.bias, x)

        def step(state: tuple[Array, Array], gate: Array) -> tuple[tuple[Array, Array], Array]:
            """The layer's next cell and state; ``gate`` is W x + b for the word at this time
            step."""
            c, h = state
            enter, candidate, forget, leave = jnp.split(gate + h @ recurrent, 4, axis=-1)
            c = c * jax.nn.sigmoid(forget + 1) + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
            h = jnp.tanh(c) * jax.nn.sigmoid(leave)
            return (c, h), h

        zero = jnp.zeros((x.shape[1], len(recurrent)))
        return jax.lax.scan(step, (zero, zero), gates)[1]


def _gates(
    weight: Float[Array, "g i_plus_h"], bias: Float[Array, "g"], x: Float[Array, "L B i"]
) -> tuple[Float[Array, "L B g"], Float[Array, "h g"]]:
    """For a recurrent layer: W x + b for all time steps, and U transposed, where [W, U] is the
    layer's weight.

    One product for all time steps is many times faster than one product per time step.
    """
    inputs = x.shape[2]
    return x @ weight[:, :inputs].T + bias, weight[:, inputs:].T


class RecurrentNetwork(eqx.Module):
    """Word vectors, recurrent layers, a linear layer (or none) on the last output, and the head."""

    words: Float[Array, "V D"] | Vectors
    layers: list[RNNLayer] | list[LSTMLayer]
    dense: Dense | None
    head: Dense

    def __init__(
        self,
        kind: type[RNNLayer] | type[LSTMLayer],
        words: tuple[int, int] | Vectors,
        widths: tuple[int, ...],
        dense: int,
        classes: int,
        key: Array,
    ) -> None:
        keys = iter(jax.random.split(key, len(widths) + 3))
        if isinstance(words, Vectors):
            self.words = words
            inputs = words.array.shape[1]
        else:
            self.words = glorot(next(keys), words)
            inputs = words[1]
        sizes = zip((inputs, *widths[:-1]), widths, strict=True)
        self.layers = [kind(i, o, next(keys)) for i, o in sizes]  # type: ignore[assignment]
        self.dense = Dense(widths[-1], dense, next(keys)) if dense else None
        self.head = Dense(dense or widths[-1], 1 if classes == 2 else classes, next(keys))

    def __call__(self, x: Integer[Array, "B L"]) -> Float[Array, "B C"]:
        y = self.words[x.T.astype(jnp.int32)]
        for layer in self.layers:
            y = layer(y)
        last = y[-1] if self.dense is None else self.dense(y[-1])
        scores = self.head(last)
        if scores.shape[1] > 1:
            return scores
        # The softmax cross entropy of (0, z) equals the sigmoid cross entropy of the only output z.
        return jnp.pad(scores, ((0, 0), (1, 0)))


_LAYERS = {"rnn": RNNLayer, "lstm": LSTMLayer}


def _of(name: str, data: Text, widths: tuple[int, ...], dense: int, embedding: int | None) -> Model:
    """Check the widths of the layers, and make the recurrent model ``name`` for these data."""
    if min(widths) < 1 or (embedding is not None and embedding < 1):
        raise ModelError(
            f"{name}: hidden and embedding must be at least 1, got {widths[0]} and {embedding}"
        )
    return _recurrent(
        name=name,
        words=_words(name, data, embedding),
        widths=widths,
        dense=dense,
        classes=data.classes,
    )


def _words(name: str, data: Text, embedding: int | None) -> tuple[int, int] | Vectors:
    """The word vectors of the data; without them, the shape of the embedding to train (words,
    width)."""
    check_samples(data)
    x = data.x
    vocabulary = data.vocabulary
    numbers = np.issubdtype(x.dtype, np.integer) and x.ndim == 2 and x.shape[1] > 0
    if vocabulary is None or not numbers:
        actual = f"{x.dtype} of shape {x.shape}"
        if vocabulary is None:
            actual += ", and no vocabulary"
        raise ModelError(
            f"{data.name}: {name} needs text, word numbers [M, L] with a vocabulary; got {actual}"
        )
    if data.vectors is None:
        return len(vocabulary), embedding or _EMBEDDING
    if embedding is not None:
        raise ModelError(
            f"{name}: {data.name} has vectors for its words; leave embedding out, got {embedding}"
        )
    return Vectors(data.vectors)


@lru_cache(maxsize=64)
def _recurrent(
    name: str, words: tuple[int, int] | Vectors, widths: tuple[int, ...], dense: int, classes: int
) -> Model:
    """The recurrent model for options that have been checked. It is cached, so equal options return
    the same object."""

    def make(key: Array) -> RecurrentNetwork:
        return RecurrentNetwork(
            kind=_LAYERS[name],
            words=words,
            widths=widths,
            dense=dense,
            classes=classes,
            key=key,
        )

    sizes = (*widths, dense, classes) if dense else (*widths, classes)
    title = "-".join([name, *map(str, sizes)])
    return as_model(make, name=title, batched=True)
