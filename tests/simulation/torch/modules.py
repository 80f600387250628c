"""PyTorch modules of every kind that is compiled by JAX; all take [B 64] numbers or [B 7] words and
give 3 scores."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

IMAGE = nn.Unflatten(1, (1, 8, 8))


class Recurrent(nn.Module):
    """Two layers of an LSTM over words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.cells = nn.LSTM(8, 16, 2, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(self.embed(x))[0][:, -1])


class Attention(nn.Module):
    """One layer of it, with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.heads = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(len(x), 8, 8)
        y = self.norm(x)
        return self.head((x + self.heads(y, y, y, need_weights=False)[0]).mean(1))


class Residual(nn.Module):
    """A block with a stride, and a shortcut of 1 x 1."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = norm(8)
        self.down = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.short = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(IMAGE(x))).relu()
        return self.head((self.down(x) + self.short(x)).relu().mean((2, 3)))


class TwiceTheSame(nn.Module):
    """Tied weights, a normalisation at two places, and a write in place."""

    def __init__(self) -> None:
        super().__init__()
        # A last batch may have two samples: where they are nearly equal, a small eps makes the
        # gradient explode.
        self.one = nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64, eps=0.1)
        self.other = nn.Linear(64, 64)
        self.other.weight = self.one.weight
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.one(x)).relu_()
        x = self.norm(self.other(x))
        x[:, 0] = 1.0
        return self.head(x)


class Frozen(nn.Module):
    """A layer that is not trained, and a buffer of integers."""

    order: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 16).requires_grad_(False)
        self.head = nn.Linear(16, 3)
        self.register_buffer("order", torch.arange(63, -1, -1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.first(x[:, self.order]).tanh())


def cnn() -> nn.Module:
    """Two convolutions, one pooled."""
    return nn.Sequential(
        IMAGE,
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 3),
    )


def other_layers() -> nn.Module:
    """Convolutions of other kinds, means and other rectifiers."""
    return nn.Sequential(
        IMAGE,
        nn.Conv2d(1, 4, 3),
        nn.Conv2d(4, 4, 3, groups=4, padding=1),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.PReLU(),
        nn.InstanceNorm2d(4, affine=True),
        nn.Flatten(),
        nn.Linear(36, 3),
    )


MODULES: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(64, 3),
    "dropout": lambda: nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3)
    ),
    "cnn": cnn,
    "other layers": other_layers,
    "group norm": lambda: Residual(lambda channels: nn.GroupNorm(4, channels)),
    "batch norm": lambda: Residual(nn.BatchNorm2d),
    "attention": Attention,
    "recurrent": Recurrent,
    "twice the same": TwiceTheSame,
    "frozen": Frozen,
}


class OwnMean(nn.Module):
    """Mixes the samples of a batch by itself, in training."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x - x.mean(0) if self.training else x)


class OwnDropout(nn.Module):
    """Draws random numbers without a layer for it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(x, 0.5, self.training))


class Branch(nn.Module):
    """Its control flow depends on the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x if x.sum() > 0 else -x)


class NoLowering(nn.Module):
    """Has an operator that torchax has not."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.adaptive_max_pool2d(IMAGE(x), 4).flatten(1))


class CountsSamples(nn.Module):
    """Multiplies by a number of its samples that Python is to know."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * int((x[:, 0] > 0).sum())


class Hooked(nn.Module):
    """Hooks that compute: on a layer's output and on a parameter's gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)
        self.head.register_forward_hook(
            lambda layer, inputs, output: 2 * output  # type: ignore[operator]
        )
        self.head.weight.register_hook(lambda gradient: gradient / 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class BackwardHook(nn.Module):
    """A hook on a layer's backward pass, which JAX does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.head = nn.Linear(16, 3)
        self.head.register_full_backward_hook(lambda layer, inputs, outputs: (inputs[0] * 2,))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.first(x))


class OwnState(nn.Module):
    """A running mean in a buffer."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.head(x)
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * scores.detach().mean(0))
        return scores - self.mean
