"""MobileNet and MobileNetV2 of keras.applications (alpha 1, no pretrained weights), ATHENA-FL's
baselines.

Equal shapes and options return the same ``Model`` object, so a second run reuses its compiled
programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fedkin.core.errors import ModelError
from fedkin.core.plain import plain_arguments
from fedkin.models.cnn import ImageShape, at_least, image_of
from fedkin.models.layers import Conv, Dense, Depthwise, dropout
from fedkin.models.model import Model, Samples, Tree, as_model
from fedkin.models.norm import BatchNorm, GroupNorm

NormName = Literal["batch", "group"]
Norm = BatchNorm | GroupNorm

# Channels and stride of each block.
_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)
# Expansion, channels, number of blocks, and stride of the first of them.
_BLOCKS_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


@plain_arguments
def mobilenet(data: Samples, norm: NormName = "batch", dropout: float = 0.001) -> Model:
    """MobileNet (Howard et al. 2017, arXiv 1704.04861): 3,239,114 parameters for 32 x 32 x 3 images
    and 10 classes.

    Args:
        data: images.
        norm: ``batch``, whose running means and variances (21,888 of the parameters) are sent and
            averaged like weights; or ``group``, groups of 8 channels without running statistics.
        dropout: share of the 1,024 features that is set to zero before the head in training (0.001
            in Keras; 0.1 for MNIST in ATHENA-FL's code, and for CIFAR-10 0.3 in one published
            version of it and 0.01 in another).

    Raises:
        ModelError: samples other than images of at least 32 x 32, an unknown norm, or a dropout
            outside [0, 1).
    """
    return _named("mobilenet", data, norm, dropout)


@plain_arguments
def mobilenet_v2(data: Samples, norm: NormName = "batch", dropout: float = 0.0) -> Model:
    """MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381): 2,270,794 parameters, 2,236,682 of them
    trained.

    Keras has no dropout in this network. In each training step, the statistics of the batch enter
    the running statistics with weight 0.001 (MobileNet: 0.01).

    Args:
        data, norm, dropout: as for ``mobilenet``.

    Raises:
        ModelError: as for ``mobilenet``.
    """
    return _named("mobilenet_v2", data, norm, dropout)


class Unit(eqx.Module):
    """A convolution, normalisation and, unless it is linear, rectified units clipped at 6."""

    conv: Conv | Depthwise
    norm: Norm
    linear: bool = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "B H W i"], mask: Float[Array, "B"] | None
    ) -> tuple[Array, Unit]:
        y, norm = self.norm(self.conv(x), mask)
        if not self.linear:
            y = jnp.clip(y, 0, 6)
        return y, replace(self, norm=norm)


class Chain(eqx.Module):
    """Units (convolution, normalisation, rectifier), one after another. If ``residual`` is set, the
    input is added to the output."""

    units: list[Unit]
    residual: bool = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "B H W i"], mask: Float[Array, "B"] | None
    ) -> tuple[Array, Chain]:
        y = x
        units = []
        for unit in self.units:
            y, updated = unit(y, mask)
            units.append(updated)
        if self.residual:
            y = x + y
        return y, replace(self, units=units)


class MobileNet(eqx.Module):
    """Chains of convolution units, mean over the pixels, dropout, dense layer."""

    chains: list[Chain]
    head: Dense
    image: ImageShape = eqx.field(static=True)
    rate: float | int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "B ..."], key: Array | None) -> Float[Array, "B C"]:
        return self.run(x, None, key)[0]

    def run(
        self, x: Float[Array, "B ..."], mask: Float[Array, "B"] | None, key: Array | None
    ) -> tuple[Float[Array, "B C"], MobileNet]:
        """Scores, and this network with updated running statistics.

        Args:
            x: images.
            mask: 1 for samples that count, 0 for padding; None for inference.
            key: for dropout; None for inference.
        """
        y = x.reshape(len(x), *self.image)
        chains = []
        for chain in self.chains:
            y, updated = chain(y, mask)
            chains.append(updated)
        features = jnp.mean(y, axis=(1, 2))
        scores = self.head(dropout(features, self.rate, key))
        return scores, replace(self, chains=chains)


def _v1(
    image: ImageShape, classes: int, make_norm: Callable[[int], Norm], rate: float | int, key: Array
) -> MobileNet:
    """MobileNet with initial weights."""
    keys = iter(jax.random.split(key, 2 * len(_BLOCKS) + 2))
    channels = 32
    first = Conv(image.channels, channels, 3, next(keys), stride=2, bias=False)
    units = [_unit(first, make_norm(channels))]
    for outputs, stride in _BLOCKS:
        depthwise = Depthwise(channels, next(keys), stride, same=stride == 1)
        units.append(_unit(depthwise, make_norm(channels)))
        pointwise = Conv(channels, outputs, 1, next(keys), bias=False)
        units.append(_unit(pointwise, make_norm(outputs)))
        channels = outputs
    head = Dense(channels, classes, next(keys))
    return MobileNet(chains=[Chain(units, residual=False)], head=head, image=image, rate=rate)


def _v2(
    image: ImageShape, classes: int, make_norm: Callable[[int], Norm], rate: float | int, key: Array
) -> MobileNet:
    """MobileNetV2 with initial weights."""
    keys = iter(jax.random.split(key, 64))
    channels = 32
    first = Conv(image.channels, channels, 3, next(keys), stride=2, bias=False)
    chains = [Chain([_unit(first, make_norm(channels))], residual=False)]
    for expansion, outputs, count, stride in _BLOCKS_V2:
        for block in range(count):
            residual = _inverted(
                inputs=channels,
                outputs=outputs,
                expansion=expansion,
                stride=stride if block == 0 else 1,
                make_norm=make_norm,
                keys=keys,
            )
            chains.append(residual)
            channels = outputs
    last = Conv(channels, 1280, 1, next(keys), bias=False)
    chains.append(Chain([_unit(last, make_norm(1280))], residual=False))
    head = Dense(1280, classes, next(keys))
    return MobileNet(chains=chains, head=head, image=image, rate=rate)


def _inverted(
    inputs: int,
    outputs: int,
    expansion: int,
    stride: int,
    make_norm: Callable[[int], Norm],
    keys: Iterator[Array],
) -> Chain:
    """An inverted residual block: expand the channels, filter each one, then project to fewer
    channels without rectifying."""
    wide = inputs * expansion
    units = []
    if expansion > 1:
        expand = Conv(inputs, wide, 1, next(keys), bias=False)
        units.append(_unit(expand, make_norm(wide)))
    units.append(_unit(Depthwise(wide, next(keys), stride), make_norm(wide)))
    project = Conv(wide, outputs, 1, next(keys), bias=False)
    units.append(_unit(project, make_norm(outputs), linear=True))
    # The input can only be added to an output of the same shape.
    return Chain(units, residual=stride == 1 and inputs == outputs)


def _unit(conv: Conv | Depthwise, norm: Norm, linear: bool = False) -> Unit:
    """A unit of a convolution and its normalisation; ``linear`` leaves out the rectified units
    after them."""
    return Unit(conv, norm, linear)


# Each network, and the momentum of its statistics.
_NETWORKS = {
    "mobilenet": (_v1, 0.99),
    "mobilenet_v2": (_v2, 0.999),
}


def _named(name: str, data: Samples, norm: str, rate: float | int) -> Model:
    """Check the options of ``mobilenet`` and ``mobilenet_v2``, and make the model."""
    if norm not in ("batch", "group"):
        raise ModelError(f"{name}: norm must be batch or group, got {norm!r}")
    if not 0 <= rate < 1:
        raise ModelError(f"{name}: dropout must be at least 0 and below 1, got {rate}")
    return _mobilenet(
        name=name,
        image=at_least(32, image_of(data), data.name),
        classes=data.classes,
        norm=norm,
        rate=float(rate),
    )


@lru_cache(maxsize=64)
def _mobilenet(name: str, image: ImageShape, classes: int, norm: str, rate: float | int) -> Model:
    """The MobileNet for options that have been checked. It is cached, so equal options return the
    same object."""
    network, momentum = _NETWORKS[name]
    make_norm = partial(BatchNorm, momentum=momentum) if norm == "batch" else GroupNorm

    def make(key: Array) -> MobileNet:
        return network(image=image, classes=classes, make_norm=make_norm, rate=rate, key=key)

    model = as_model(make, name=f"{name}-{norm}", batched=True)
    return _with_statistics(model) if norm == "batch" else model


def _with_statistics(model: Model) -> Model:
    """The same model, but training also updates the running means and variances (``Model.fit``),
    and the spec marks the normalisation layers."""

    def fit(network: Tree, x: Array, mask: Array, key: Array | None) -> tuple[Array, Tree]:
        return network.run(x, mask, key)

    slices = model.spec.slices
    statistics = tuple(name.endswith((".mean", ".variance")) for name in slices)
    batch_norm = tuple(part for name, part in slices.items() if ".norm." in name)
    spec = replace(model.spec, batch_norm=batch_norm)
    return replace(model, spec=spec, fit=fit, statistics=statistics)
