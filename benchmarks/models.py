"""ATHENA-FL's networks on one core: MobileNetV2 against PyTorch, and ten detectors together against
one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from benchmarks.turns import Times, take_turns
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData, Ragged
from fedkin.models import detector, mobilenet_v2
from fedkin.simulation.engine import SimulatedWorld
from fedkin.tasks.train import train

SAMPLES = 320
BATCH = 32
CLASSES = 10
LR = 0.01
# Sandler et al., Table 2: expansion, channels, blocks, stride of the first (1 where 32 x 32 images
# start)
BLOCKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def one_client() -> FederatedData:
    """Random pixels of CIFAR-10's shape."""
    rng = np.random.default_rng(0)
    x = rng.random((SAMPLES, 32, 32, 3), np.float32)
    rows = Ragged.of([np.arange(SAMPLES)])
    return FederatedData(
        name="pixels",
        x=x,
        y=rng.integers(0, CLASSES, SAMPLES),
        classes=CLASSES,
        train=rows,
        test=rows,
    )


class Residual(nn.Sequential):
    """A block that adds its input to its output."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum."""
        return x + super().forward(x)


def unit(
    inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1, linear: bool = False
) -> list:
    """Convolution, batch normalisation and ReLU6.

    Args:
        inputs: channels.
        outputs: channels.
        size: of the window.
        stride: of the window.
        groups: of channels.
        linear: without ReLU6.
    """
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs, 1e-3, 0.001), *([] if linear else [nn.ReLU6()])]


def torch_network() -> nn.Module:
    """MobileNetV2 in PyTorch."""
    layers = unit(3, 32, 3, 2)
    channels = 32
    for expansion, outputs, count, first in BLOCKS:
        for stride in [first] + [1] * (count - 1):
            wide = channels * expansion
            block = unit(channels, wide) if expansion > 1 else []
            block += unit(inputs=wide, outputs=wide, size=3, stride=stride, groups=wide)
            block += unit(wide, outputs, linear=True)
            residual = stride == 1 and channels == outputs
            layers.append(Residual(*block) if residual else nn.Sequential(*block))
            channels = outputs
    layers += [*unit(320, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, CLASSES)]
    return nn.Sequential(*layers)


def torch_epoch(network: nn.Module, data: FederatedData) -> None:
    """One local epoch of SGD in place, on one thread."""
    torch.set_num_threads(1)
    x = torch.from_numpy(data.x.transpose(0, 3, 1, 2).copy())
    y = torch.from_numpy(data.y)
    optimizer = torch.optim.SGD(network.parameters(), lr=LR)
    for rows in torch.randperm(len(y)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
        optimizer.step()


def mobilenet_epoch(turns: int) -> Times:
    """A local epoch of MobileNetV2 on 320 images, one client."""
    data = one_client()
    network = torch_network()
    world = SimulatedWorld(
        data, mobilenet_v2(data), LocalTraining(epochs=1, batch_size=BATCH, lr=LR)
    )
    start = world.initial(Stream(0))[None]
    first = np.zeros(1, np.int64)
    engines = {
        "fedkin": lambda turn: train(world, start, first, first, stream=Stream(0, turn)),
        "PyTorch loop, 1 thread": lambda _: torch_epoch(network, data),
    }
    return take_turns(engines, turns, 1)


def detectors(turns: int) -> Times:
    """A local epoch of the ten detectors of one client: in one call, and in a call each."""
    data = one_client()
    work = LocalTraining(epochs=1, batch_size=BATCH, lr=1e-3, optimizer="adam")
    classes = np.arange(CLASSES)
    client = np.zeros(CLASSES, np.int64)
    world = SimulatedWorld(data, detector(data), replace(work, positive=classes))
    starts = np.stack([world.initial(Stream(0, c)) for c in range(CLASSES)])

    def some(chosen: np.ndarray, turn: int) -> None:
        for_detector = replace(work, positive=chosen)
        train(world, starts, client[chosen], chosen, work=for_detector, stream=Stream(0, turn))

    engines = {
        "together": lambda turn: some(classes, turn),
        "one by one": lambda turn: [some(classes[c : c + 1], turn) for c in classes],
    }
    return take_turns(engines, turns, 1)


def everything(turns: int) -> dict[str, Times]:
    """Both of the above."""
    return {"mobilenet": mobilenet_epoch(min(turns, 5)), "detectors": detectors(min(turns, 5))}
