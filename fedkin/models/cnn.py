"""Convolutional networks of FlexCFL, FedSim and ATHENA-FL, with the papers' parameter counts.

Equal shapes and options return the same ``Model`` object, so a second run reuses its compiled
programs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from fedkin.core.errors import ModelError
from fedkin.core.plain import plain_arguments
from fedkin.models.layers import Conv, Dense, dropout
from fedkin.models.model import Model, Samples, as_model, check_samples
from fedkin.models.perceptron import features, kernel_penalty


class ImageShape(NamedTuple):
    """The shape of the images that a network takes."""

    height: int
    width: int
    channels: int


@plain_arguments
def cnn(
    data: Samples,
    variant: Literal[
        "mnist", "femnist", "fashion_mnist", "fedsim", "fedsim_as_coded", "athena"
    ] = "mnist",
    dropout: bool = True,
    l2: float = 0.0,
) -> Model:
    """A convolutional network, as in the paper that ``variant`` names.

    Parameters for 28 x 28 x 1 images and 10 classes: 50,186 (mnist), 325,578 (femnist) and
    3,274,634 (fashion_mnist); 6,482,634 (fedsim) and 6,497,162 (fedsim_as_coded).

    fedsim is the network in Table 5 of FedSim's paper. FedSim's code, which produced its curves,
    has larger windows and fewer channels (fedsim_as_coded). athena is the network that ATHENA-FL's
    authors train within hierarchical clusters. They declare a sigmoid as the last layer, together
    with a cross entropy over classes. Keras then ignores the sigmoid and applies the softmax to its
    inputs, and so does this network. (Using the sigmoids, divided by their sum, fails: they
    saturate, and clients with two classes stay at a loss of ln 2.)

    Args:
        data: images; flat square samples are grey images.
        variant: name of the network.
        dropout: whether mnist (0.5) and femnist (0.4) have dropout, as in the authors' code. It has
            no effect on FedSim's networks.
        l2: weight of femnist's squared dense kernels in the loss (0.001 in the authors' code);
            refused for other variants.

    Raises:
        ModelError: the variant is unknown, l2 is given for another variant, or the samples are not
            images of at least 16 x 16 (athena: 28 x 28).
    """
    if variant not in _NETWORKS:
        raise ModelError(f"cnn: variant must be one of {', '.join(_NETWORKS)}, got {variant!r}")
    if l2 and variant != "femnist":
        raise ModelError(
            f"cnn: l2 applies to the femnist variant only, got l2={l2} with variant={variant!r}"
        )
    image = at_least(28 if variant == "athena" else 16, image_of(data), data.name)
    return _cnn(image=image, classes=data.classes, variant=variant, drop=dropout, l2=l2)


class MnistCNN(eqx.Module):
    """The network of variant mnist: conv 3x3x32, pool, conv 3x3x64, pool, dropout, dense."""

    convs: list[Conv]
    head: Dense
    image: ImageShape = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __init__(self, image: ImageShape, classes: int, rate: float, key: Array) -> None:
        self.image = image
        height, width, channels = image
        k1, k2, k3 = jax.random.split(key, 3)
        self.convs = [Conv(channels, 32, 3, k1), Conv(32, 64, 3, k2)]
        self.head = Dense(height // 4 * (width // 4) * 64, classes, k3)
        self.rate = rate

    def __call__(self, x: Float[Array, "B ..."], key: Array | None) -> Float[Array, "B C"]:
        x = x.reshape(len(x), *self.image)
        for conv in self.convs:
            x = conv.pooled(x)
        return self.head(dropout(x.reshape(len(x), -1), self.rate, key))


class DenseCNN(eqx.Module):
    """The network of fashion_mnist and FedSim: conv, pool, conv, pool, a wide dense layer,
    dense."""

    convs: list[Conv]
    hidden: Dense
    head: Dense
    image: ImageShape = eqx.field(static=True)

    def __init__(
        self,
        image: ImageShape,
        classes: int,
        window: int,
        outputs: tuple[int, int],
        hidden: int,
        key: Array,
    ) -> None:
        self.image = image
        height, width, channels = image
        k1, k2, k3, k4 = jax.random.split(key, 4)
        first, second = outputs
        self.convs = [Conv(channels, first, window, k1), Conv(first, second, window, k2)]
        self.hidden = Dense(height // 4 * (width // 4) * second, hidden, k3)
        self.head = Dense(hidden, classes, k4)

    def __call__(self, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), *self.image)
        for conv in self.convs:
            x = conv.pooled(x)
        return self.head(jax.nn.relu(self.hidden(x.reshape(len(x), -1))))


class FemnistCNN(eqx.Module):
    """The network of variant femnist.

    Its layers are: twice (conv 3x3, conv 3x3, conv 5x5 stride 2, dropout) with 32 and 64 channels,
    dense 128, dropout, dense.
    """

    convs: list[Conv]
    hidden: Dense
    head: Dense
    image: ImageShape = eqx.field(static=True)
    rate: float = eqx.field(static=True)

    def __init__(self, image: ImageShape, classes: int, rate: float, key: Array) -> None:
        keys = iter(jax.random.split(key, 8))
        self.image = image
        height, width, channels = image
        self.convs = []
        for outputs in (32, 64):
            self.convs += [
                Conv(channels, outputs, 3, next(keys), same=False),
                Conv(outputs, outputs, 3, next(keys), same=False),
                Conv(outputs, outputs, 5, next(keys), stride=2),
            ]
            height = (height - 3) // 2
            width = (width - 3) // 2
            channels = outputs
        self.hidden = Dense(height * width * channels, 128, next(keys))
        self.head = Dense(128, classes, next(keys))
        self.rate = rate

    def __call__(self, x: Float[Array, "B ..."], key: Array | None) -> Float[Array, "B C"]:
        keys = iter([None] * 3 if key is None else jax.random.split(key, 3))
        x = x.reshape(len(x), *self.image)
        for layer, conv in enumerate(self.convs):
            x = jax.nn.relu(conv(x))
            if layer % 3 == 2:
                x = dropout(x, self.rate, next(keys))
        hidden = jax.nn.relu(self.hidden(x.reshape(len(x), -1)))
        return self.head(dropout(hidden, self.rate, next(keys)))


class AthenaCNN(eqx.Module):
    """The network of variant athena.

    Its layers are: conv 3x3x32, pool, conv 3x3x64 valid, pool, conv 3x3x128 valid, pool, conv
    3x3x128, pool, dense 512, dense.
    """

    convs: list[Conv]
    hidden: Dense
    head: Dense
    image: ImageShape = eqx.field(static=True)

    def __init__(self, image: ImageShape, classes: int, key: Array) -> None:
        self.image = image
        height, width, channels = image
        keys = iter(jax.random.split(key, 6))
        self.convs = []
        for outputs, same in ((32, True), (64, False), (128, False), (128, True)):
            self.convs.append(Conv(channels, outputs, 3, next(keys), same=same))
            # A convolution without padding makes each side two pixels shorter, before pooling.
            lost = 0 if same else 2
            height = (height - lost) // 2
            width = (width - lost) // 2
            channels = outputs
        self.hidden = Dense(height * width * channels, 512, next(keys))
        self.head = Dense(512, classes, next(keys))

    def __call__(self, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), *self.image)
        for conv in self.convs:
            x = conv.pooled(x)
        return self.head(jax.nn.relu(self.hidden(x.reshape(len(x), -1))))


_NETWORKS = {
    "mnist": lambda image, classes, drop, key: MnistCNN(image, classes, 0.5 if drop else 0.0, key),
    "femnist": lambda image, classes, drop, key: FemnistCNN(
        image, classes, 0.4 if drop else 0.0, key
    ),
    "fashion_mnist": lambda image, classes, drop, key: DenseCNN(
        image=image, classes=classes, window=5, outputs=(32, 64), hidden=1024, key=key
    ),
    "fedsim": lambda image, classes, drop, key: DenseCNN(
        image=image, classes=classes, window=3, outputs=(64, 64), hidden=2048, key=key
    ),
    "fedsim_as_coded": lambda image, classes, drop, key: DenseCNN(
        image=image, classes=classes, window=5, outputs=(32, 64), hidden=2048, key=key
    ),
    "athena": lambda image, classes, drop, key: AthenaCNN(image, classes, key),
}


@lru_cache(maxsize=64)
def _cnn(image: ImageShape, classes: int, variant: str, drop: bool, l2: float) -> Model:
    """The convolutional model for options that have been checked. It is cached, so equal options
    return the same object."""
    make = _NETWORKS[variant]
    return as_model(
        lambda key: make(image, classes, drop, key),
        name=f"cnn-{variant}",
        batched=True,
        penalty=kernel_penalty(l2),
    )


def image_of(data: Samples) -> ImageShape:
    """Shape of the images. Flat square samples are grey images. Raises ModelError for other
    samples."""
    check_samples(data)
    shape = tuple(int(n) for n in data.x.shape[1:])
    if len(shape) == 3:
        image = ImageShape(height=shape[0], width=shape[1], channels=shape[2])
    elif len(shape) == 2:
        image = ImageShape(height=shape[0], width=shape[1], channels=1)
    else:
        # Flat samples: a square grey image, which is checked below.
        side = int(np.sqrt(features(data)))
        image = ImageShape(height=side, width=side, channels=1)
    if int(np.prod(image)) != features(data):
        raise ModelError(f"{data.name}: a CNN needs images, got samples of shape {shape}")
    return image


def at_least(side: int, image: ImageShape, name: str) -> ImageShape:
    """Check that images are large enough for the poolings of a network, and return their shape.

    Args:
        side: smallest height and width.
        image: shape of the images.
        name: name of the data, for the message.

    Raises:
        ModelError: the images are smaller.
    """
    if min(image[:2]) < side:
        raise ModelError(
            f"{name}: this network needs images of at least {side} x {side}, got {image[0]} x "
            f"{image[1]}; use mclr or mlp for such small images, or larger "
            f"images{_larger_images(name, side)}"
        )
    return image


def _larger_images(name: str, side: int) -> str:
    """The end of an error message, which suggests data whose images are large enough."""
    if name == "digits":
        larger = ": the data set mnist has 28 x 28"
        return f"{larger}, and 32 x 32 with its option size=32" if side > 28 else larger
    return ": data option size=32 resizes mnist and fashion_mnist" if side == 32 else ""
