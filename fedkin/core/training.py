"""The settings of local training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError


@dataclass(frozen=True)
class LocalTraining:
    """Settings of local training. A field that may be an array holds one entry per row of the call."""

    epochs: int | Int[np.ndarray, "n"] = 1
    batch_size: int = 10
    lr: float = 0.01
    optimizer: str = "sgd"  # or "adam"
    momentum: float = 0.0  # of sgd
    mu: float = 0.0  # proximal term, mu/2 |w - w_start|^2
    steps: int | None = None  # mini-batches, in place of epochs
    partial: bool = False  # a client that runs out of time sends the steps it has done; else nothing
    positive: Int[np.ndarray, "n"] | None = None  # the class that a detector learns to separate from all others

    @property
    def count(self) -> int:
        """Epochs (or steps) of the first row."""
        return int(np.asarray(self.epochs if self.steps is None else self.steps).flat[0])

    def select(self, rows: Int[np.ndarray, "r"]) -> LocalTraining:
        """The settings of some rows."""
        own = {name: getattr(self, name) for name in ("epochs", "positive")}
        return replace(self, **{name: v[rows] for name, v in own.items() if isinstance(v, np.ndarray)})

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "steps"):
            value = getattr(self, name)
            if not (name == "steps" and value is None) and not _is_count(value):
                raise ConfigError(f"{name} must be an integer of at least 1, got {value}")
        if self.positive is not None and self.positive.size and not _is_count(self.positive + 1):
            raise ConfigError(f"positive must hold classes from 0 up, got {self.positive}")
        for name, low, high in (("lr", 0, np.inf), ("mu", 0, np.inf), ("momentum", 0, 1)):
            value = getattr(self, name)
            if (
                not isinstance(value, (int, float, np.number))
                or not low <= value < high
                or (name == "lr" and not value)
            ):
                kind = "positive number" if name == "lr" else "number from 0 up" if name == "mu" else "number in [0, 1)"
                raise ConfigError(f"{name} must be a {kind}, got {value!r}")
        if self.optimizer not in ("sgd", "adam"):
            raise ConfigError(f"optimizer must be 'sgd' or 'adam', got {self.optimizer!r}")
        if self.optimizer == "adam" and self.momentum:
            raise ConfigError(f"momentum = {self.momentum} does not apply to adam, which has its own; leave it out")


def _is_count(value: object) -> bool:
    """Whether a value is an integer of at least 1, or an array of them."""
    array = np.asarray(value)
    return bool(np.issubdtype(array.dtype, np.integer) and array.size and array.min() >= 1)


def SGD(epochs: int = 1, batch_size: int = 10, lr: float = 0.01, momentum: float = 0.0) -> LocalTraining:  # noqa: N802
    """Local training by mini-batch stochastic gradient descent.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
        momentum: in [0, 1).
    """
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, momentum=momentum)


def Adam(epochs: int = 1, batch_size: int = 32, lr: float = 1e-3) -> LocalTraining:  # noqa: N802
    """Local training by Adam (Kingma & Ba 2015), whose moments start at zero in every call.

    Args:
        epochs: passes over a client's training samples.
        batch_size: samples of a mini-batch.
        lr: learning rate.
    """
    return LocalTraining(epochs=epochs, batch_size=batch_size, lr=lr, optimizer="adam")
