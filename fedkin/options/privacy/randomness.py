"""Random numbers for noise and cohorts. They come from the operating system, so no seed reproduces
them; only in tests they come from a seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from fedkin.core.randomness import uniform_of


@runtime_checkable
class Randomness(Protocol):
    """The source of the random numbers for noise and cohorts of a private run."""

    def uniform(self, count: int) -> Float[np.ndarray, "c"]:
        """Uniform random numbers above 0 and below 1."""
        ...

    def normal(self, *shape: int) -> Float[np.ndarray, "..."]:
        """Standard normal random numbers."""
        ...


@dataclass(frozen=True)
class SystemRandomness:
    """The operating system's randomness. The run's seed reveals none of it."""

    def uniform(self, count: int) -> Float[np.ndarray, "c"]:
        return uniform_of(np.frombuffer(secrets.token_bytes(8 * count), np.uint64))

    def normal(self, *shape: int) -> Float[np.ndarray, "..."]:
        from scipy.special import ndtri

        return ndtri(self.uniform(int(np.prod(shape)))).reshape(shape)


@dataclass(frozen=True)
class SeededRandomness:
    """Randomness from a seed and a round, for tests only: the seed reveals the noise, so nothing is
    private."""

    rng: np.random.Generator

    def uniform(self, count: int) -> Float[np.ndarray, "c"]:
        return self.rng.random(count)

    def normal(self, *shape: int) -> Float[np.ndarray, "..."]:
        return self.rng.standard_normal(shape)
