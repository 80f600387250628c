"""Concept drift during a run: labels of clients are permuted, or their images rotated.

There are ``kinds`` variants of the data; variant 0 is the data as given. Every client starts with a
variant (equally many clients with each, at random), and may change to another one by a pattern:

* ``sudden``: in round ``at``;
* ``gradual``: in a round drawn uniformly for each client from ``at`` to ``at + length - 1``;
* ``recurring``: in round ``at``, and then back and forth between the two variants every ``length``
  rounds.

A client's variant depends only on the seed and the round. Its variant becomes its true cluster. If
the data already have true clusters, the new one is true cluster x kinds + variant, so that clients
share a cluster only if they agree in both. (Do not rotate images of clusters that were planted by
rotation: 90 + 180 degrees and 180 + 90 degrees are the same images.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, Shaped

from fedkin.core.errors import DataError
from fedkin.core.plain import plain_options
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.scenarios import validation
from fedkin.scenarios.own_rows import parts_of, with_own_rows
from fedkin.scenarios.variants import label_permutations, rotate_images


@plain_options
@dataclass(frozen=True)
class Drift:
    """Base class of drifts: the variant of each client's data in each round.

    The subclasses ``Relabel`` and ``Rotate`` define what a variant does to the samples.

    At the start, all samples are copied, with a separate copy for each owner, because a sample with
    two owners may get two variants. That doubles the memory of the data.

    All draws are from ``Stream(seed, 0, "scenario").child("drift")``, with the run's seed: the
    first variants, the clients that change, and when they change.

    Attributes:
        kinds: number of variants, at least 2.
        pattern: when a client changes: ``sudden``, ``gradual`` or ``recurring``.
        fraction: probability that a client changes at all. Each client is drawn independently: with
            20 clients and 0.5, about ten change.
        at: round of the (first) change.
        length: number of rounds over which ``gradual`` changes are spread, and between two changes
            of ``recurring``; ``sudden`` does not use it.
    """

    kinds: int = 4
    pattern: Literal["sudden", "gradual", "recurring"] = "sudden"
    fraction: float = 0.5
    at: int = 50
    length: int = 50

    def __post_init__(self) -> None:
        validation.at_least(2, "kinds", self.kinds)
        validation.one_of("pattern", self.pattern, ("sudden", "gradual", "recurring"))
        validation.fraction("fraction", self.fraction)
        for name in ("at", "length"):
            validation.at_least(1, name, getattr(self, name))

    def variants(self, clients: int, round: int, stream: Stream) -> Int[np.ndarray, "N"]:
        """The variant of each client in a round. ``stream`` may belong to any round, since all
        draws come from round 0."""
        rng = stream.at(0).child("drift").rng()
        origin = rng.permutation(np.arange(clients) % self.kinds)
        # Adding 1 .. kinds - 1 always gives another variant than the first one.
        target = (origin + rng.integers(1, self.kinds, clients)) % self.kinds
        changes, moment = rng.random((2, clients))
        # Rounds since a client's first change; negative before it.
        since = np.full(clients, round - self.at)
        if self.pattern == "gradual":
            since -= np.floor(moment * self.length).astype(np.int64)
        away = since >= 0
        if self.pattern == "recurring":
            away &= since // self.length % 2 == 0
        return np.where(away & (changes < self.fraction), target, origin)

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> tuple[FederatedData, Bool[np.ndarray, "N"]]:
        """The data of a round, as in ``Shift.step``: only the samples of clients whose variant
        changes are computed again."""
        variant = self.variants(original.clients, round, stream)
        if not round:
            # A client's first variant is not a shift.
            shifted = np.zeros(len(variant), bool)
            changing = variant != 0
            current = with_own_rows(original)
        else:
            shifted = variant != self.variants(original.clients, round - 1, stream)
            changing = shifted
            if not shifted.any():
                return current, shifted
        data = self._changed(
            data=current, original=original, clients=changing, variant=variant, stream=stream
        )
        return data, shifted

    def _changed(
        self,
        *,
        data: FederatedData,
        original: FederatedData,
        clients: Bool[np.ndarray, "N"],
        variant: Int[np.ndarray, "N"],
        stream: Stream,
    ) -> FederatedData:
        """The data in which the samples of these clients are replaced by their variants. Each row
        (sample) of ``data`` must have one owner, so that no other client is affected."""
        parts = parts_of(original)
        source = np.concatenate([part.rows for part in parts.values()])
        owner = np.concatenate([part.owners() for part in parts.values()])
        rows = np.flatnonzero(clients[owner])
        # Always computed from the original samples, so variants do not add up over the rounds.
        part, values = self._samples(original, source[rows], variant[owner[rows]], stream.at(0))
        samples = getattr(data, part).copy()
        samples[rows] = values
        true_clusters = variant
        if original.true_clusters is not None:
            true_clusters = original.true_clusters * self.kinds + variant
        return data.with_rows(
            data.train,
            data.test,
            true_clusters=true_clusters,
            x=samples if part == "x" else None,
            y=samples if part == "y" else None,
        )

    def _samples(
        self,
        data: FederatedData,
        rows: Int[np.ndarray, "m"],
        variant: Int[np.ndarray, "m"],
        stream: Stream,
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        """Compute the variants of the samples at these rows of the data. Returns the name of the
        array that changes ("x" or "y"), and the new values of these samples in it."""
        raise NotImplementedError


@plain_options
@dataclass(frozen=True)
class Relabel(Drift):
    """Each variant permutes the labels at random (concept shift); variant 0 keeps the true labels.

    The options are the same as for ``Drift``: ``kinds``, ``pattern``, ``fraction``, ``at`` and
    ``length``. The permutations are drawn from ``Stream(seed, 0, "scenario").child("labels")``.

    Examples:
        >>> import fedkin as fk
        >>> fk.Relabel(kinds=2, at=10)
        Relabel(kinds=2, pattern='sudden', fraction=0.5, at=10, length=50)
    """

    def _samples(
        self,
        data: FederatedData,
        rows: Int[np.ndarray, "m"],
        variant: Int[np.ndarray, "m"],
        stream: Stream,
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        """Returns "y", and the labels of the samples at these rows, permuted by their variants.
        Raises ConfigError unless labels are classes."""
        validation.refuse_other_labels(data, "the shift relabel")
        permutations = label_permutations(data.classes, self.kinds, stream)
        return "y", permutations[variant, data.y[rows]]


@plain_options
@dataclass(frozen=True)
class Rotate(Drift):
    """Variant v rotates images by v x 360 / kinds degrees (90 v for 3 kinds, so that no
    interpolation is needed).

    Images must be square: [M, H, H], [M, H, H, channels], or flat [M, H x H]. Other samples raise
    DataError when they are first rotated. The options are the same as for ``Drift``: ``kinds``,
    ``pattern``, ``fraction``, ``at`` and ``length``.

    Examples:
        >>> import fedkin as fk
        >>> fk.Rotate(kinds=2, pattern="recurring")
        Rotate(kinds=2, pattern='recurring', fraction=0.5, at=50, length=50)
    """

    def _samples(
        self,
        data: FederatedData,
        rows: Int[np.ndarray, "m"],
        variant: Int[np.ndarray, "m"],
        stream: Stream,
    ) -> tuple[Literal["x", "y"], Shaped[np.ndarray, "m ..."]]:
        """Returns "x", and the images at these rows, each rotated by its variant's angle."""
        shape = _image_shape(data)
        images = data.x[rows].reshape(len(rows), *shape)
        pixels = (float(data.x.min()), float(data.x.max()))
        rotated = rotate_images(images, variant, self.kinds, pixels)
        return "x", rotated.reshape(len(rows), *data.x.shape[1:])


def _image_shape(data: FederatedData) -> tuple[int, ...]:
    """Height and width (and channels) of the images. Raises DataError if they are not square."""
    shape = data.x.shape[1:]
    side = math.isqrt(shape[0]) if shape else 0
    if len(shape) == 1 and side * side == shape[0]:
        shape = (side, side)
    if data.x.dtype.kind != "f" or len(shape) not in (2, 3) or shape[:2] != 2 * shape[:1]:
        raise DataError(
            f"{data.name}: only square images of real numbers can be rotated, such as [M, 784] or "
            f"[M, 32, 32, 3]; got {data.x.dtype} of shape {data.x.shape}; use relabel instead of "
            "rotate"
        )
    return shape
