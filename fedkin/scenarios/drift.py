"""Clients whose labels get other names, or whose images get turned, in the middle of a run.

There are ``kinds`` variants of the data; variant 0 is the data as given. Every client starts with a variant (equally
many clients with each, at random) and may move to another one, by a pattern:

* ``sudden``: in round ``at``;
* ``gradual``: in a round of its own from ``at`` to ``at + length - 1``, each as likely;
* ``recurring``: in round ``at``, and every ``length`` rounds back or forth.

So a client's variant follows from the seed and the round alone. The true cluster is the variant; where the data have
true clusters already, it is their pair, as truth x kinds + variant. (So do not turn images of clusters that were
planted by turning: 90 and 180 degrees are 180 and 90.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped

from fedkin.core.errors import DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios import validation
from fedkin.scenarios.variants import label_permutations, rotated


@dataclass(frozen=True)
class Drift:
    """Which variant whose data have, and when; what a variant is, Relabel and Rotate say.

    The samples are copied once, one row for each that a client owns: a sample with two owners may come to have two
    variants. That takes the memory of the data again.
    """

    kinds: int = 4
    pattern: Literal["sudden", "gradual", "recurring"] = "sudden"
    fraction: float = 0.5  # probability that a client moves at all
    at: int = 50  # round
    length: int = 50  # rounds

    def __post_init__(self) -> None:
        validation.at_least(2, "kinds", self.kinds)
        validation.one_of("pattern", self.pattern, ("sudden", "gradual", "recurring"))
        validation.fraction("fraction", self.fraction)
        for name in ("at", "length"):
            validation.at_least(1, name, getattr(self, name))

    def variants(self, clients: int, round: int, stream: Stream) -> Int[np.ndarray, "N"]:
        """The variant of each client in a round; the stream may be that of any round."""
        rng = stream.at(0).child("drift").rng()
        origin = rng.permutation(np.arange(clients) % self.kinds)
        target = (origin + rng.integers(1, self.kinds, clients)) % self.kinds
        moves, moment = rng.random((2, clients))
        since = np.full(clients, round - self.at)
        if self.pattern == "gradual":
            since -= np.floor(moment * self.length).astype(np.int64)
        away = since >= 0
        if self.pattern == "recurring":
            away &= since // self.length % 2 == 0
        return np.where(away & (moves < self.fraction), target, origin)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> tuple[FederatedData, Bool[np.ndarray, "N"]]:
        now = self.variants(original.clients, round, stream)
        if not round:  # everybody's first variant: nobody has moved yet
            nobody = np.zeros(len(now), bool)
            return self._given(_with_own_rows(original), original, now != 0, now, stream), nobody
        moved = now != self.variants(original.clients, round - 1, stream)
        return (self._given(current, original, moved, now, stream) if moved.any() else current), moved

    def _given(
        self,
        data: FederatedData,
        original: FederatedData,
        clients: Bool[np.ndarray, "N"],
        variant: Int[np.ndarray, "N"],
        stream: Stream,
    ) -> FederatedData:
        """The data after some clients have got their variant; ``data`` have a row of its own for every sample."""
        source = np.concatenate([original.train.rows, original.test.rows])
        owner = np.concatenate([original.train.owners(), original.test.owners()])
        mine = np.flatnonzero(clients[owner])
        part, values = self._samples(original, source[mine], variant[owner[mine]], stream.at(0))
        samples = getattr(data, part).copy()
        samples[mine] = values
        true_clusters = variant if original.true_clusters is None else original.true_clusters * self.kinds + variant
        return data.with_rows(data.train, data.test, true_clusters, **{part: samples})

    def _samples(
        self, data: FederatedData, rows: Int[np.ndarray, "m"], variant: Int[np.ndarray, "m"], stream: Stream
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        """These samples in these variants: their x or their y."""
        raise NotImplementedError


@dataclass(frozen=True)
class Relabel(Drift):
    """Each variant calls the classes by names of its own, permuted at random (concept shift)."""

    def _samples(
        self, data: FederatedData, rows: Int[np.ndarray, "m"], variant: Int[np.ndarray, "m"], stream: Stream
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        return "y", label_permutations(data.classes, self.kinds, stream)[variant, data.y[rows]]


@dataclass(frozen=True)
class Rotate(Drift):
    """Variant v sees its images turned by v x 360 / kinds degrees (90 v where there are 3 kinds, as planted ones).

    Images are square: [M, H, H], [M, H, H, channels], or flat [M, H x H]. The first step raises DataError for others.
    """

    def _samples(
        self, data: FederatedData, rows: Int[np.ndarray, "m"], variant: Int[np.ndarray, "m"], stream: Stream
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        shape = _image_shape(data)
        images = data.x[rows].reshape(len(rows), *shape)
        pixels = (float(data.x.min()), float(data.x.max()))
        return "x", rotated(images, variant, self.kinds, pixels).reshape(len(rows), *data.x.shape[1:])


def _with_own_rows(data: FederatedData) -> FederatedData:
    """The same data, every sample copied for every client that owns it: first the training samples, then the others."""
    source = np.concatenate([data.train.rows, data.test.rows])
    train, test = np.split(np.arange(len(source)), [len(data.train.rows)])
    train, test = Ragged(train, data.train.offsets), Ragged(test, data.test.offsets)
    return data.with_rows(train, test, x=data.x[source], y=data.y[source])


def _image_shape(data: FederatedData) -> tuple[int, ...]:
    """Height and width (and channels) of the images, which must be square."""
    shape = data.x.shape[1:]
    side = math.isqrt(shape[0]) if shape else 0
    if len(shape) == 1 and side * side == shape[0]:
        shape = (side, side)
    if data.x.dtype.kind != "f" or len(shape) not in (2, 3) or shape[:2] != 2 * shape[:1]:
        raise DataError(
            f"{data.name}: only square images of real numbers can be turned, such as [M, 784] or [M, 32, 32, 3]; "
            f"got {data.x.dtype} of shape {data.x.shape}; take relabel instead of rotate"
        )
    return shape
