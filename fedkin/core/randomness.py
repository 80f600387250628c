"""The source of all random numbers of a run: named, independent streams.

A stream is identified by (seed, round, purpose), not by a position in a sequence. Draws in one
place therefore never change draws in another. A run can be resumed at any round, with clients
trained in any order and on any number of devices, and still draws the same numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, UInt64

from fedkin.core.errors import ConfigError

# Value of a seed in a configuration that stands for the run's seed.
RUN_SEED = "run"


@dataclass(frozen=True)
class Stream:
    """The randomness of one purpose in one communication round of one run.

    Examples:
        >>> import fedkin as fk
        >>> stream = fk.Stream(seed=0).at(3).child("train")
        >>> stream
        Stream(seed=0, round=3, purpose='/train')
        >>> stream.rng().random() == stream.rng().random()
        True
    """

    seed: int
    round: int = 0
    purpose: str = ""

    def __post_init__(self) -> None:
        if self.seed < 0 or self.round < 0:
            raise ConfigError(
                f"seed and round must be integers from 0 up, got {self.seed} and {self.round}"
            )

    def child(self, purpose: str) -> Stream:
        """An independent stream for a part of this purpose. The new stream's purpose is this
        stream's purpose, a slash, and the given name."""
        return replace(self, purpose=f"{self.purpose}/{purpose}")

    def at(self, round: int) -> Stream:
        """The stream of the same purpose in another round."""
        return replace(self, round=round)

    def rng(self) -> np.random.Generator:
        """A random generator for the server. Every call returns a new one, which draws the same
        numbers."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._entropy())))

    def client(self, client: int) -> np.random.Generator:
        """A random generator for one client, independent of those for other clients."""
        return np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([*self._entropy(), 1 + int(client)]))
        )

    def words(self, client: int | None = None) -> np.ndarray:
        """Two uint32 words that seed the random generator of a library such as JAX or PyTorch
        (dropout, initial weights). Each client has different words; ``client=None`` gives words
        that belong to no client."""
        entropy = self._entropy() if client is None else [*self._entropy(), 1 + int(client)]
        return np.random.SeedSequence(entropy).generate_state(2, np.uint32)

    def _entropy(self) -> list[int]:
        """The numbers that identify the stream: seed, round, and a hash of the purpose."""
        name = int.from_bytes(hashlib.sha256(self.purpose.encode()).digest()[:8], "little")
        return [self.seed, self.round, name]


def uniform_of(words: UInt64[np.ndarray, "c"]) -> Float[np.ndarray, "c"]:
    """Uniform numbers strictly between 0 and 1 from random bits. 0 and 1 are excluded because their
    normal quantiles are infinite.

    Args:
        words: 64 random bits for each number. The first 52 are used, since with 53 the largest
            number would be rounded to 1.
    """
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
