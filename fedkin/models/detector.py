"""ATHENA-FL's detector: a small convolutional network that separates one class from all others."""

from __future__ import annotations

from functools import lru_cache, partial

import equinox as eqx
import jax
from jaxtyping import Array, Float

from fedkin.models.cnn import ImageShape, at_least, image_of
from fedkin.models.layers import Conv, Dense
from fedkin.models.model import Model, Samples, as_model

_CHANNELS = (16, 32, 64, 64, 64)


def detector(data: Samples) -> Model:
    """A convolutional network with one score, which detects one class.

    It has five convolutions with pooling, and a dense layer of 512 (32 x 32 x 3: 131,233
    parameters).

    The score is positive if the network detects its class; a sigmoid turns it into a probability.
    One detector is trained for each class (de Souza et al., ATHENA-FL, CoUrb 2023).

    Args:
        data: images of at least 32 x 32, since five poolings leave nothing of smaller images.

    Raises:
        ModelError: the samples are not images of at least 32 x 32.
    """
    return _detector(at_least(32, image_of(data), data.name))


class Detector(eqx.Module):
    """Five times (conv 3x3, pool) with 16, 32, 64, 64 and 64 channels, dense 512, one score."""

    convs: list[Conv]
    hidden: Dense
    head: Dense
    image: ImageShape = eqx.field(static=True)

    def __init__(self, image: ImageShape, key: Array) -> None:
        self.image = image
        height, width, channels = image
        keys = iter(jax.random.split(key, len(_CHANNELS) + 2))
        self.convs = []
        for outputs in _CHANNELS:
            self.convs.append(Conv(channels, outputs, 3, next(keys)))
            channels = outputs
        # Five poolings divide each side by 32.
        features = (height // 32) * (width // 32) * channels
        self.hidden = Dense(features, 512, next(keys))
        self.head = Dense(512, 1, next(keys))

    def __call__(self, x: Float[Array, "B ..."]) -> Float[Array, "B 1"]:
        x = x.reshape(len(x), *self.image)
        for conv in self.convs:
            x = conv.pooled(x)
        return self.head(jax.nn.relu(self.hidden(x.reshape(len(x), -1))))


@lru_cache(maxsize=64)
def _detector(image: ImageShape) -> Model:
    """The detector for images of this shape. It is cached, so equal shapes return the same
    object."""
    return as_model(partial(Detector, image), name="detector", batched=True, detects=True)
