"""Server optimisers: FedAvgM, FedAdam, FedYogi and FedAdagrad in front of any method that averages, cluster by cluster.

S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, H. B. McMahan: Adaptive Federated
Optimization. ICLR 2021, arXiv 2003.00295 (Algorithm 2). FedAvgM: T.-M. H. Hsu, H. Qi, M. Brown: Measuring the Effects
of Non-Identical Data Distribution for Federated Visual Classification. 2019, arXiv 1909.06335.

The pseudo-gradient D of a cluster is its model after the method's round minus the model before, so that all that the
method does counts: weights of the mean, and what sharing between clusters (``eta_g``) adds. Then, with x the model
before,

    FedAvgM     m = beta m + D                                               x + lr m
    FedAdam     m = beta1 m + (1 - beta1) D    v = beta2 v + (1 - beta2) D^2     x + lr m / (sqrt v + tau)
    FedYogi     as FedAdam, but                v = v - (1 - beta2) D^2 sign(v - D^2)
    FedAdagrad  as FedAdam, but                v = v + D^2

m starts at 0 and v at tau^2; there is no bias correction, as in the paper (Flower's FedAdam has one, and v from 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from fedkin.core.errors import MethodError
from fedkin.core.plain import plain_options
from fedkin.core.validation import check_not_negative, check_positive

Vectors = Float[np.ndarray, "k P"]  # of k clusters


class Step(NamedTuple):
    """What an optimiser makes of pseudo-gradients: what is added to the models, and the new moments."""

    change: Vectors
    momentum: Vectors
    square: Vectors


@runtime_checkable
class ServerOptimizer(Protocol):
    """A rule that turns pseudo-gradients into steps."""

    @property
    def start(self) -> float:
        """First value of the second moment."""
        ...

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        """One step of some clusters.

        Args:
            delta: pseudo-gradients.
            momentum, square: first and second moments.
        """
        ...


@plain_options
@dataclass(frozen=True)
class FedAvgM:
    """Server momentum."""

    lr: float = 1.0  # of the server
    beta: float = 0.9  # momentum

    def __post_init__(self) -> None:
        check_positive("lr", self.lr)
        _check_decay("beta", self.beta)

    @property
    def start(self) -> float:
        return 0.0

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum = self.beta * momentum + delta
        return Step(self.lr * momentum, momentum, square)


@plain_options
@dataclass(frozen=True)
class FedAdam:
    """Adam on the server."""

    lr: float = 0.1  # eta
    beta1: float = 0.9  # of the mean of updates
    beta2: float = 0.99  # of the mean of their squares
    tau: float = 1e-3  # degree of adaptivity

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            check_positive(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            _check_decay(name, getattr(self, name))

    @property
    def start(self) -> float:
        return self.tau**2

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum = self.beta1 * momentum + (1 - self.beta1) * delta
        square = self._accumulate(square, delta**2)
        return Step(self.lr * momentum / (np.sqrt(square) + self.tau), momentum, square)

    def _accumulate(self, square: Vectors, new: Vectors) -> Vectors:
        return self.beta2 * square + (1 - self.beta2) * new


@plain_options
@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Yogi on the server: the second moment changes by no more than the new square."""

    def _accumulate(self, square: Vectors, new: Vectors) -> Vectors:
        return square - (1 - self.beta2) * new * np.sign(square - new)


@plain_options
@dataclass(frozen=True)
class FedAdagrad:
    """Adagrad on the server: the second moment is the sum of all squares."""

    lr: float = 0.1  # eta
    beta1: float = 0.0  # of the mean of updates
    tau: float = 1e-3  # degree of adaptivity

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            check_positive(name, getattr(self, name))
        _check_decay("beta1", self.beta1)

    @property
    def start(self) -> float:
        return self.tau**2

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum, square = self.beta1 * momentum + (1 - self.beta1) * delta, square + delta**2
        return Step(self.lr * momentum / (np.sqrt(square) + self.tau), momentum, square)


SERVER_OPTIMIZERS: dict[str, type] = {
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}


def _check_decay(name: str, value: object) -> None:
    """Refuse what is no number in [0, 1)."""
    check_not_negative(name, value)
    if not value < 1:  # type: ignore[operator]
        raise MethodError(f"{name} must be a number in [0, 1), got {value!r}")
