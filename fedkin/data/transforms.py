"""Transforms of images: size, scale of pixels, and augmentation of training images by flips,
rotations and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int, UInt8

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged

SCALES = ("standard", "unit", "bytes")
# Largest side of an image, since all images of a set are in memory.
LARGEST = 256
# The rotation of an augmentation in degrees: 5 pi / 3, counter-clockwise.
DEGREES = 300.0
# Standard deviation of the noise, as a part of the range of pixels.
NOISE = 0.1
# Number of images that are processed at a time.
CHUNK = 1000

Pixels = Float[np.ndarray, "M H W *c"]
# A function of images, a random generator, and the values of black and white.
Augmentation = Callable[[Pixels, np.random.Generator, float, float], Pixels]


def _flip(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    """The images of training samples, mirrored top to bottom."""
    return x[:, ::-1]


def _rotation(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    """The images, rotated counter-clockwise; empty corners are black."""
    # This import is slow, so it happens only when it is needed.
    from scipy import ndimage

    rotated = ndimage.rotate(x, DEGREES, axes=(1, 2), reshape=False, order=1, cval=low)
    # Interpolation may round to values beyond the range.
    return np.clip(rotated, low, high)


def _noise(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    """The images with Gaussian noise, clipped to the range of pixels."""
    noise = rng.standard_normal(x.shape, dtype=np.float32)
    noise *= np.float32(NOISE * (high - low))
    return np.clip(x + noise, low, high)


AUGMENTATIONS: dict[str, Augmentation] = {"flip": _flip, "rotation": _rotation, "noise": _noise}


@dataclass(frozen=True)
class ImageTransform:
    """Size, scale and augmentation of the images of a named set.

    Attributes:
        size: side of an image in pixels; None for the published size.
        scale: one of ``SCALES``.
        augment: names of augmentations.
    """

    size: int | None = None
    scale: str = "standard"
    augment: tuple[str, ...] = ()

    def check(self, flat: int | None = None) -> None:
        """Raise ConfigError for invalid options.

        Args:
            flat: side of the published images in pixels, if they are flat vectors unless a size is
                given; None for images that are never flat.
        """
        if self.size is not None and not 1 <= self.size <= LARGEST:
            raise ConfigError(f"size must be from 1 to {LARGEST} pixels, got {self.size}")
        if self.scale not in SCALES:
            raise ConfigError(unknown("scale", self.scale, SCALES))
        _check_names(self.augment)
        if self.augment and self.size is None and flat is not None:
            raise ConfigError(
                f"augment needs images, but without size they are flat; set size={flat}, or another"
            )


def resize(
    pixels: UInt8[np.ndarray, "M H W *c"], size: int | None
) -> Float32[np.ndarray, "M h w *c"]:
    """Images of ``size`` x ``size`` pixels, in float32, unscaled; None keeps their size.

    This is the bilinear resize of TensorFlow (``tf.image.resize`` without antialiasing): linear
    between the two nearest pixels along each axis, with half-pixel centres and repeated edges.
    """
    if size is None:
        return pixels.astype(np.float32)
    result = np.empty((len(pixels), size, size, *pixels.shape[3:]), np.float32)
    for start in range(0, len(pixels), CHUNK):
        tall = _along(pixels[start : start + CHUNK].astype(np.float32), size, 1)
        result[start : start + CHUNK] = _along(tall, size, 2)
    return result


def _along(x: Float32[np.ndarray, "..."], size: int, axis: int) -> Float32[np.ndarray, "..."]:
    """Resize images along one axis by linear interpolation.

    It adds two terms per pixel, since the last bits of a matrix product would depend on the
    machine.
    """
    last = x.shape[axis] - 1
    position = np.clip((np.arange(size) + 0.5) * (last + 1) / size - 0.5, 0, last)
    before = np.floor(position).astype(np.int64)
    after = np.minimum(before + 1, last)
    trailing_axes = [1] * (x.ndim - axis - 1)
    share = (position - before).astype(np.float32).reshape(-1, *trailing_axes)
    return np.take(x, before, axis) * (1 - share) + np.take(x, after, axis) * share


def standardise(x: Float32[np.ndarray, "M ..."], rows: int, by_channel: bool) -> None:
    """Subtract means and divide by standard deviations + 0.001, in place.

    The generators of FedProx and Ditto scale images in this way.

    Args:
        x: images on the 0 .. 255 scale.
        rows: number of leading images from which the moments are computed.
        by_channel: whether to compute moments per channel (the last axis) instead of per pixel.
    """
    total = np.zeros(x.shape[1:])
    squares = np.zeros(x.shape[1:])
    for start in range(0, rows, CHUNK):
        # Sums of whole numbers are exact in float64.
        part = x[start : min(start + CHUNK, rows)].astype(np.float64)
        total += part.sum(axis=0)
        squares += (part**2).sum(axis=0)
    count = rows
    if by_channel:
        channels = x.shape[-1]
        count *= total.size // channels
        total = total.reshape(-1, channels).sum(axis=0)
        squares = squares.reshape(-1, channels).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    x -= mean.astype(np.float32)
    x /= (deviation + 0.001).astype(np.float32)


def augmented(
    data: FederatedData,
    augmentations: Sequence[str],
    *,
    seed: int = 0,
    low: float | int = 0.0,
    high: float | int = 1.0,
) -> FederatedData:
    """The same federation, with a copy of every training image for each augmentation.

    ``flip`` mirrors an image top to bottom, ``rotation`` rotates it by 300 degrees
    counter-clockwise (5 pi / 3; bilinear, corners black), ``noise`` adds Gaussian noise, clipped to
    the range. All three give ATHENA-FL's four-fold training data. No paper states the strength of
    the noise: its standard deviation here is a tenth of ``high - low``.

    Each client's training images are followed by their copies, one augmentation after another. Test
    samples do not change. (The authors augment before they split, so copies of one image are for
    training and for testing.) A client's noise depends only on the seed, its number and its images.

    Args:
        data: ``x`` must be images [M, H, W] or [M, H, W, c] within low .. high; augment before
            standardising.
        augmentations: names among ``flip``, ``rotation`` and ``noise``, none twice.
        seed: seed of the noise.
        low: value of black.
        high: value of white.

    Raises:
        ConfigError: an augmentation is unknown or repeated, features are not images, or low is not
            below high.
        DataError: pixels are integers, or outside of low .. high.
    """
    _check_names(augmentations)
    if not augmentations:
        return data
    _check_pixels(data, low, high)
    M = len(data.x)
    S = len(data.train.rows)
    x = np.empty((M + len(augmentations) * S, *data.x.shape[1:]), data.x.dtype)
    x[:M] = data.x
    for number, name in enumerate(augmentations):
        stream = Stream(seed, purpose=f"data/augment/{name}")
        _copy(
            data=data,
            augment=AUGMENTATIONS[name],
            to=x[M + number * S :],
            stream=stream,
            low=float(low),
            high=float(high),
        )
    copied_labels = [data.y[data.train.rows]] * len(augmentations)
    y = np.concatenate([data.y, *copied_labels])
    train = _with_copies(data.train, M, len(augmentations))
    unit = None
    if data.unit is not None:
        copied_units = [data.unit[data.train.rows]] * len(augmentations)
        unit = np.concatenate([data.unit, *copied_units])
    return data.with_rows(train, data.test, x=x, y=y, unit=unit)


def _copy(
    data: FederatedData, augment: Augmentation, to: Pixels, stream: Stream, low: float, high: float
) -> None:
    """Augment the training images of all clients and write them to the array ``to``, in the order
    of the clients' rows."""
    for client in range(data.clients):
        rng = stream.client(client)
        offset = data.train.offsets[client]
        rows = data.train[client]
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            begin = offset + start
            to[begin : begin + len(part)] = augment(data.x[part], rng, low, high)


def _with_copies(train: Ragged, first: int, copies: int) -> Ragged:
    """The index in which each client has the rows of its training images, followed by the rows of
    their augmented copies. The copies of all clients begin at row ``first`` of the images."""
    S = len(train.rows)
    lists: list[Int[np.ndarray, "s"]] = []
    for start, end in zip(train.offsets, train.offsets[1:], strict=False):
        copied = [np.arange(start, end) + first + number * S for number in range(copies)]
        lists.append(np.concatenate([train.rows[start:end], *copied]))
    return Ragged.of(lists)


def _check_names(names: Sequence[str]) -> None:
    """Raise ConfigError for unknown or repeated augmentations."""
    if isinstance(names, str):
        raise ConfigError(f"augment must be a list of {', '.join(AUGMENTATIONS)}, got {names!r}")
    for name in names:
        if name not in AUGMENTATIONS:
            raise ConfigError(unknown("augmentation", str(name), AUGMENTATIONS))
    if len(set(names)) < len(names):
        raise ConfigError(f"augment names an augmentation twice: {', '.join(names)}")


def _check_pixels(data: FederatedData, low: float | int, high: float | int) -> None:
    """Raise an error unless the features are images of floats in the range low .. high."""
    if data.x.ndim not in (3, 4):
        raise ConfigError(
            f"{data.name}: augment needs images [M, H, W] or [M, H, W, c], got features of shape "
            f"{data.x.shape}; give the data as images, which the named image sets are if their "
            "option size is set (mnist: size=28)"
        )
    if not -np.inf < low < high < np.inf:
        raise ConfigError(
            f"low and high must be the values of black and of white, low < high; got {low} and "
            f"{high}"
        )
    if data.x.dtype.kind != "f":
        raise DataError(
            f"{data.name}: augment needs pixels in float32, got {data.x.dtype}; convert them first"
        )
    if len(data.x) and not low <= data.x.min() <= data.x.max() <= high:
        raise DataError(
            f"{data.name}: pixels lie in {data.x.min():g} .. {data.x.max():g}, outside of {low} "
            f".. {high}; give low and high (and augment before standardising)"
        )
