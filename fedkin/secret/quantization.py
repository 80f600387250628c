"""Clients' vectors as integers, so that their sums are exact. Arithmetic is modulo 2^32; a negative
number x is stored as 2^32 - |x|.

    q = floor(x L / R + u),   |x| <= R,   u uniform on [0, 1)
    L = 2^(b - 1) - 1,   n 2^b <= 2^32

The integer q stands for the number x. The rounding is unbiased: the mean of q is x L / R. Numbers
are clipped to the range from -R to R. Each number has b bits, so that the sum of n clients still
fits into 32 bits. Four integers with counts follow each vector, in the same sum. Shapes: n clients,
p numbers of a vector, V = p + 4, K models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt32

from fedkin.core.randomness import uniform_of
from fedkin.security.secret_keys import add_mask, new_seed

# Integers after a vector: weight, clients, clients that were clipped, clients that sent nothing.
EXTRA = 4
_BLOCK = 2**16  # number of values that are rounded at a time


@dataclass(frozen=True)
class NoiseShare:
    """A client's share of the noise in a private sum. All clients of the sum add a share.

    Attributes:
        clip: clipping norm C.
        deviation: standard deviation of the share, in every number of a vector.
        seeded: whether the noise comes from the client's random stream, for tests only.
    """

    clip: float
    deviation: float
    seeded: bool = False

    def clipped(self, update: Float[np.ndarray, "p"]) -> Float[np.ndarray, "p"]:
        """An update clipped to norm C. An update that is not finite counts as zero."""
        update = update.astype(np.float64)
        norm = float(np.linalg.norm(update))
        if not 0 < norm < np.inf:
            return np.zeros(len(update))
        return update * min(1.0, self.clip / norm)

    def noise(self, count: int, rng: np.random.Generator) -> Float[np.ndarray, "p"]:
        """The client's share of the noise, for ``count`` numbers. The noise comes from a random key
        that is used once and not stored, so it cannot be computed again. (``seeded`` noise comes
        from ``rng``.)"""
        from scipy.special import ndtri

        if self.seeded:
            return self.deviation * rng.normal(size=count)
        # A mask added to zeros is a stream of random bits; two words of 32 bits make one number.
        words = np.zeros(2 * count, np.uint32)
        add_mask(words, new_seed())
        return self.deviation * ndtri(uniform_of(words.view(np.uint64)))


@dataclass(frozen=True)
class IntegerGrid:
    """The integers in which a sum is computed: how numbers are converted to integers and back.

    Attributes:
        clients: largest number of clients n in the sum.
        limit: R, the largest absolute value of a number. A client clips larger numbers, and the sum
            counts these clients.
        cap: largest number of samples that counts for a client; its weight is min(its samples,
            cap) / cap.
    """

    clients: int
    limit: float
    cap: int

    @property
    def bits(self) -> int:
        """b, the number of bits for each number of a client: as many as possible, so that a sum
        over n clients still fits into 32 bits."""
        return 32 - max(1, int(self.clients - 1).bit_length())

    @property
    def scale(self) -> float:
        """The factor L / R that turns a number of an update into an integer: R, the largest allowed
        number, becomes L, the largest integer of b bits (with sign)."""
        return (2 ** (self.bits - 1) - 1) / self.limit

    @property
    def resolution(self) -> float:
        """The step R / L between two neighbouring numbers that integers can represent. Numbers of
        an update are rounded to its multiples."""
        return 1 / self.scale

    def fits(self) -> bool:
        """Whether the integers suffice: the sum of all clients' weights fits into 32 bits, and each
        client has more than 8 bits for a number."""
        return self.clients * self.cap < 2**31 and self.bits > 8

    def quantized(
        self, update: Float[np.ndarray, "p"], examples: int, rng: np.random.Generator
    ) -> UInt32[np.ndarray, "V"]:
        """A client's weighted vector as integers, followed by four counts (``EXTRA``).

        If the vector is not finite, or the client has no samples, only the last integer is nonzero.

        Args:
            update: the client's update.
            examples: number of its training samples.
            rng: random generator of the rounding.
        """
        vector = np.zeros(len(update) + EXTRA, np.uint32)
        weight = min(int(examples), self.cap)
        if weight < 1 or not np.isfinite(update).all():
            vector[-1] = 1
            return vector
        self._round(update, weight / self.cap, vector, rng)
        was_clipped = bool(np.abs(update).max(initial=0) > self.limit)
        vector[-EXTRA:] = weight, 1, was_clipped, 0
        return vector

    def noisy(
        self,
        update: Float[np.ndarray, "p"] | None,
        examples: int,
        share: NoiseShare,
        rng: np.random.Generator,
        numbers: int = 0,
    ) -> UInt32[np.ndarray, "V"]:
        """A client's clipped vector with its share of noise, as integers. The four counts after it
        are zero, since no noise would protect them.

        Args:
            update: the client's update; None if it has not trained the model, and sends only noise.
            examples: number of its training samples.
            share: its share of the noise.
            rng: random generator of the rounding, and of seeded noise.
            numbers: number of values p, used without an update.
        """
        if update is None:
            noisy = share.noise(numbers, rng)
        else:
            weight = min(int(examples), self.cap) / self.cap
            clipped = share.clipped(update) * weight
            noisy = clipped + share.noise(len(update), rng)
        vector = np.zeros(len(noisy) + EXTRA, np.uint32)
        # Weight 1: the update was weighted above, before the noise, which must not be scaled.
        self._round(noisy, 1.0, vector, rng)
        return vector

    def _round(
        self,
        numbers: Float[np.ndarray, "p"],
        weight: float,
        vector: UInt32[np.ndarray, "V"],
        rng: np.random.Generator,
    ) -> None:
        """Convert numbers to integers by unbiased rounding, and write these to the first places of
        a client's vector. This is done block by block to save memory."""
        for start in range(0, len(numbers), _BLOCK):
            part = numbers[start : start + _BLOCK].astype(np.float64)
            scaled = np.clip(part, -self.limit, self.limit) * (self.scale * weight)
            rounded = np.floor(scaled + rng.random(len(part)))
            # By way of int64, negative integers become 2^32 - |x|, as the sums need them.
            vector[start : start + len(part)] = rounded.astype(np.int64).astype(np.uint32)

    def sums(self, total: UInt32[np.ndarray, "K V"]) -> ModelSums:
        """Convert each model's sum of clients' integer vectors back to a mean update and counts."""
        # As signed integers, 2^32 - |x| is -|x| again.
        signed = total.view(np.int32)
        weight, clients, clipped, unusable = total[:, -EXTRA:].T.astype(np.int64)
        # Each update was multiplied by min(samples, cap) / cap, and ``weight`` sums min(samples,
        # cap).
        mean = signed[:, :-EXTRA] / self.scale * self.cap / np.maximum(weight, 1)[:, None]
        return ModelSums(
            mean=mean,
            weight=weight,
            clients=clients,
            clipped=clipped,
            unusable=unusable,
        )


class ModelSums(NamedTuple):
    """The result of the sums: for each model, the mean update of its clients, and counts of its
    samples and clients."""

    mean: Float[np.ndarray, "K p"]  # weighted by samples; zeros without clients
    weight: np.ndarray  # [K] number of samples, up to the cap for each client
    clients: np.ndarray  # [K] number of clients that have added a vector
    clipped: np.ndarray  # [K] number of clients with a number above the limit
    unusable: np.ndarray  # [K] number of clients whose vector was not finite, or had no samples
