"""Rounds with the settings of FLUTE's table (arXiv 2203.13789, README of microsoft/msrflute):
cohorts of 10, batches of 20, one local epoch of SGD at 0.1, on random images of the same shapes;
and its networks, with axes as fedkin has them.

FLUTE prints 8 min 22 s for 1,500 rounds of FEMNIST and 1 h 42 min 1 s for 4,000 of Fed-CIFAR-100,
on its machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import fedkin as fk
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models.cnn import ImageShape
from fedkin.models.layers import Conv, Dense, dropout, max_pool
from fedkin.models.model import Model, as_model
from fedkin.models.norm import GroupNorm

COHORT = 10
BATCH = 20
LR = 0.1
FIRST = 3  # earlier rounds compile programs, and choose the number of clients per batch


class FluteCNN(eqx.Module):
    """conv 3x3x32, conv 3x3x64, pool, dropout, dense 128, dropout, dense (Reddi et al. 2021, Table
    4)."""

    convs: list[Conv]
    hidden: Dense
    head: Dense

    def __init__(self, classes: int, key: Array) -> None:
        keys = jax.random.split(key, 4)
        self.convs = [Conv(1, 32, 3, keys[0], same=False), Conv(32, 64, 3, keys[1], same=False)]
        self.hidden = Dense(12 * 12 * 64, 128, keys[2])
        self.head = Dense(128, classes, keys[3])

    def __call__(self, x: Float[Array, "B ..."], key: Array | None) -> Float[Array, "B C"]:
        keys = (None, None) if key is None else jax.random.split(key)
        x = x.reshape(len(x), 28, 28, 1)
        for conv in self.convs:
            x = jax.nn.relu(conv(x))
        x = dropout(max_pool(x).reshape(len(x), -1), 0.25, keys[0])
        return self.head(dropout(jax.nn.relu(self.hidden(x)), 0.5, keys[1]))


class Block(eqx.Module):
    """Two convolutions 3x3 and a shortcut, which is a convolution 1x1 if channels or size
    change."""

    conv1: Conv
    norm1: GroupNorm
    conv2: Conv
    norm2: GroupNorm
    shortcut: tuple[Conv, GroupNorm] | None

    def __init__(self, inputs: int, outputs: int, stride: int, keys: Iterator[Array]) -> None:
        self.conv1 = Conv(
            inputs=inputs,
            outputs=outputs,
            size=3,
            key=next(keys),
            stride=stride,
            same=False,
            bias=False,
        )
        self.conv2 = Conv(outputs, outputs, 3, next(keys), same=False, bias=False)
        self.norm1 = GroupNorm(outputs)
        self.norm2 = GroupNorm(outputs)
        self.shortcut = None
        if stride > 1 or inputs != outputs:
            projection = Conv(
                inputs=inputs,
                outputs=outputs,
                size=1,
                key=next(keys),
                stride=stride,
                same=False,
                bias=False,
            )
            self.shortcut = (projection, GroupNorm(outputs))

    def __call__(self, x: Float[Array, "B H W i"]) -> Float[Array, "B h w o"]:
        y = jax.nn.relu(self.norm1(self.conv1(_padded(x, 1)), None)[0])
        y = self.norm2(self.conv2(_padded(y, 1)), None)[0]
        return jax.nn.relu(
            y + (x if self.shortcut is None else self.shortcut[1](self.shortcut[0](x), None)[0])
        )


class ResNet18(eqx.Module):
    """ResNet-18 (He et al. 2016) with group normalisation, padded and strided as in PyTorch; or its
    first stages."""

    conv: Conv
    norm: GroupNorm
    blocks: list[Block]
    head: Dense
    image: ImageShape = eqx.field(static=True)

    def __init__(
        self, image: ImageShape, classes: int, key: Array, width: int = 64, stages: int = 4
    ) -> None:
        keys = iter(jax.random.split(key, 32))
        self.image = image
        self.norm = GroupNorm(width)
        self.conv = Conv(
            inputs=image.channels,
            outputs=width,
            size=7,
            key=next(keys),
            stride=2,
            same=False,
            bias=False,
        )
        self.blocks = []
        inputs = width
        for stage in range(stages):
            outputs = width * 2**stage
            stride = 1 if stage == 0 else 2
            self.blocks += [Block(inputs, outputs, stride, keys), Block(outputs, outputs, 1, keys)]
            inputs = outputs
        self.head = Dense(inputs, classes, next(keys))

    def __call__(self, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = self.conv(_padded(x.reshape(len(x), *self.image), 3))
        x = jax.nn.relu(self.norm(x, None)[0])
        window = (1, 3, 3, 1)
        padding = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, (1, 2, 2, 1), padding)
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))


def _padded(x: Float[Array, "B H W c"], by: int) -> Float[Array, "B h w c"]:
    """Images with zeros around them."""
    return jnp.pad(x, ((0, 0), (by, by), (by, by), (0, 0)))


@dataclass(frozen=True)
class Setting:
    """A line of FLUTE's table.

    Attributes:
        image: shape of the samples.
        classes: C.
        samples: of a client, in the mean.
        spread: sigma of their log-normal distribution; 0 where all clients have the same number.
        model: made for the data.
        aim: seconds of a round.
        printed: by FLUTE.
    """

    image: ImageShape
    classes: int
    samples: int
    spread: float
    model: Callable[[FederatedData], Model]
    aim: float
    printed: float


def resnet18(data: FederatedData, width: int = 64, stages: int = 4) -> Model:
    """ResNet-18 for colour images.

    Args:
        data: of the clients.
        width: channels of the first blocks.
        stages: number of stages, of the four.
    """
    image = ImageShape(*data.x.shape[1:])
    return as_model(
        lambda key: ResNet18(
            image=image, classes=data.classes, key=key, width=width, stages=stages
        ),
        name="resnet18",
        batched=True,
    )


def _flute_cnn(data: FederatedData) -> Model:
    return as_model(lambda key: FluteCNN(data.classes, key), name="cnn-flute", batched=True)


_GREY = ImageShape(28, 28, 1)
_COLOURS = ImageShape(32, 32, 3)
_FEMNIST = (_GREY, 62, 198, 0.4)
SETTINGS = {
    "CNN of FlexCFL's authors, FEMNIST": Setting(
        *_FEMNIST, lambda data: fk.models.cnn(data, "femnist"), 0.04, 0.33
    ),
    "CNN of FLUTE, FEMNIST": Setting(*_FEMNIST, _flute_cnn, 0.04, 0.33),
    "ResNet-18, CIFAR-100": Setting(
        image=_COLOURS, classes=100, samples=100, spread=0.0, model=resnet18, aim=0.4, printed=1.53
    ),
}


def images(setting: Setting, clients: int) -> FederatedData:
    """Random images; the time of a round does not depend on them.

    Args:
        setting: shapes and sizes.
        clients: N.
    """
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(0, setting.spread, clients)
    rows = Ragged.consecutive(
        np.maximum(1, np.round(sizes * setting.samples / sizes.mean())).astype(np.int64)
    )
    x = rng.random((int(rows.sizes.sum()), *setting.image), np.float32)
    return FederatedData(
        name="images",
        x=x,
        y=rng.integers(0, setting.classes, len(x)),
        classes=setting.classes,
        train=rows,
        test=rows,
    )


def round_seconds(setting: Setting, rounds: int = 30, clients: int = 200) -> float:
    """The median seconds of a round of a run, without scoring.

    Args:
        setting: data and model.
        rounds: of the run.
        clients: N; only the cohort computes.
    """
    data = images(setting, clients)
    stamps: list[float] = []
    fk.simulate(
        fk.FedAvg(),
        data,
        setting.model(data),
        rounds=rounds,
        cohort=COHORT,
        local=fk.SGD(epochs=1, batch_size=BATCH, lr=LR),
        scoring=fk.Scoring(evaluate_every=0),
        callbacks=[fk.Progress(False), lambda _: stamps.append(time.perf_counter())],
    )
    seconds = [later - earlier for earlier, later in zip(stamps, stamps[1:], strict=False)]
    return statistics.median(seconds[FIRST:-1])
