"""How images look: their size, the scale of their pixels, and copies of training images turned, mirrored or noisy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int, UInt8

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged

SCALES = ("standard", "unit", "bytes")
LARGEST = 256  # side of an image: more is a slip, and all images of a set lie in memory
DEGREES = 300.0  # 5 pi / 3, counter-clockwise
NOISE = 0.1  # deviation, as a part of the range of pixels
PORTION = 1000  # images that are worked on at a time

Pixels = Float[np.ndarray, "M H W *c"]
Change = Callable[[Pixels, np.random.Generator, float, float], Pixels]  # images, randomness, black, white


def _flip(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    return x[:, ::-1]


def _rotation(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    from scipy import ndimage  # slow to import, so only when asked for

    rotated = ndimage.rotate(x, DEGREES, axes=(1, 2), reshape=False, order=1, cval=low)
    return np.clip(rotated, low, high)  # rounding may lead a little beyond


def _noise(x: Pixels, rng: np.random.Generator, low: float, high: float) -> Pixels:
    noise = rng.standard_normal(x.shape, dtype=np.float32)
    noise *= np.float32(NOISE * (high - low))
    return np.clip(x + noise, low, high)


CHANGES: dict[str, Change] = {"flip": _flip, "rotation": _rotation, "noise": _noise}


@dataclass(frozen=True)
class ImageTransform:
    """How the images of a named set shall look; ``size=None`` leaves them as they are published."""

    size: int | None = None
    scale: str = "standard"
    augment: tuple[str, ...] = ()

    def check(self, flat: int | None = None) -> None:
        """Refuse (ConfigError) what cannot be; ``flat`` is the side of images that are flat where no size is given."""
        if self.size is not None and not 1 <= self.size <= LARGEST:
            raise ConfigError(f"size must be from 1 to {LARGEST} pixels, got {self.size}")
        if self.scale not in SCALES:
            raise ConfigError(unknown("scale", self.scale, SCALES))
        _check_words(self.augment)
        if self.augment and self.size is None and flat is not None:
            raise ConfigError(f"augment needs images, and without size they are flat; say size={flat}, or another")


def resized(pixels: UInt8[np.ndarray, "M H W *c"], size: int | None) -> Float32[np.ndarray, "M h w *c"]:
    """Images of ``size`` x ``size`` pixels, in float32 on the scale they have; None keeps their size.

    Linear between the two nearest pixels along either axis, with half-pixel centres and edges repeated: the bilinear
    resize of TensorFlow (``tf.image.resize``, without antialiasing).
    """
    if size is None:
        return pixels.astype(np.float32)
    result = np.empty((len(pixels), size, size, *pixels.shape[3:]), np.float32)
    for start in range(0, len(pixels), PORTION):
        tall = _along(pixels[start : start + PORTION].astype(np.float32), size, 1)
        result[start : start + PORTION] = _along(tall, size, 2)
    return result


def _along(x: Float32[np.ndarray, "..."], size: int, axis: int) -> Float32[np.ndarray, "..."]:
    """Sums of two numbers and no matrix product, whose last bit would depend on the machine."""
    last = x.shape[axis] - 1
    place = np.clip((np.arange(size) + 0.5) * (last + 1) / size - 0.5, 0, last)
    before = np.floor(place).astype(np.int64)
    share = (place - before).astype(np.float32).reshape(-1, *[1] * (x.ndim - axis - 1))
    return np.take(x, before, axis) * (1 - share) + np.take(x, np.minimum(before + 1, last), axis) * share


def standardise(x: Float32[np.ndarray, "M ..."], rows: int, by_channel: bool) -> None:
    """In place: each pixel (or channel, the last axis) minus its mean, over its deviation + 0.001, both of the first
    ``rows`` images on the 0 .. 255 scale, as in FedProx's and Ditto's generators."""
    total, squares = np.zeros(x.shape[1:]), np.zeros(x.shape[1:])
    for start in range(0, rows, PORTION):
        part = x[start : min(start + PORTION, rows)].astype(np.float64)  # of whole numbers, the sums are exact
        total += part.sum(axis=0)
        squares += (part**2).sum(axis=0)
    count = rows
    if by_channel:
        count *= total.size // x.shape[-1]
        total, squares = (sums.reshape(-1, x.shape[-1]).sum(axis=0) for sums in (total, squares))
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    x -= mean.astype(np.float32)
    x /= (deviation + 0.001).astype(np.float32)


def augmented(
    data: FederatedData,
    words: Sequence[str],
    *,
    seed: int = 0,
    low: float | int = 0.0,
    high: float | int = 1.0,
) -> FederatedData:
    """The same federation with one more copy of every training image for each of ``words``.

    ``flip`` turns it upside down, ``rotation`` turns it by 300 degrees counter-clockwise (5 pi / 3; bilinear, black
    where it opens), ``noise`` adds Gaussian noise, cut to the range. All three give ATHENA-FL's four-fold training
    data. No paper says how strong the noise is: its deviation here is a tenth of ``high - low``, the values of white
    and black. Copies stay in their client's training part, behind its own images, one word after another, and the test
    parts are left alone. (The authors augment before they split, so that copies of one image train and test.)

    ``data.x`` must be images [M, H, W] or [M, H, W, c] within low .. high; augment before standardising. A client's
    noise depends on the seed, its number and its images alone.

    Raises ConfigError: an unknown word, or one given twice; features that are no images; low, high that are no range.
    DataError: pixels that are integers or outside of low .. high.
    """
    _check_words(words)
    if not words:
        return data
    _check_pixels(data, low, high)
    M, S = len(data.x), len(data.train.rows)
    x = np.empty((M + len(words) * S, *data.x.shape[1:]), data.x.dtype)
    x[:M] = data.x
    for number, word in enumerate(words):
        stream = Stream(seed, purpose=f"data/augment/{word}")
        _copy(data, CHANGES[word], x[M + number * S :], stream, float(low), float(high))
    y = np.concatenate([data.y, *[data.y[data.train.rows]] * len(words)])
    return data.rearranged(_with_copies(data.train, M, len(words)), data.test, x=x, y=y)


def _copy(data: FederatedData, change: Change, to: Pixels, stream: Stream, low: float, high: float) -> None:
    """The changed training images of all clients, in the order in which they own them."""
    for client in range(data.clients):
        rng, offset, rows = stream.client(client), data.train.offsets[client], data.train[client]
        for start in range(0, len(rows), PORTION):
            part = rows[start : start + PORTION]
            to[offset + start : offset + start + len(part)] = change(data.x[part], rng, low, high)


def _with_copies(train: Ragged, first: int, copies: int) -> Ragged:
    """Each client's rows and those of its copies, which begin at row ``first``."""
    S = len(train.rows)
    mine: list[Int[np.ndarray, "s"]] = []
    for start, end in zip(train.offsets, train.offsets[1:], strict=False):
        copied = [np.arange(start, end) + first + number * S for number in range(copies)]
        mine.append(np.concatenate([train.rows[start:end], *copied]))
    return Ragged.of(mine)


def _check_words(words: Sequence[str]) -> None:
    if isinstance(words, str):
        raise ConfigError(f"augment must be a list of {', '.join(CHANGES)}, got {words!r}")
    for word in words:
        if word not in CHANGES:
            raise ConfigError(unknown("augmentation", str(word), CHANGES))
    if len(set(words)) < len(words):
        raise ConfigError(f"augment names a word twice: {', '.join(words)}")


def _check_pixels(data: FederatedData, low: float | int, high: float | int) -> None:
    if data.x.ndim not in (3, 4):
        raise ConfigError(
            f"{data.name}: augment needs images [M, H, W] or [M, H, W, c], got features of shape {data.x.shape}; "
            "the named image sets have a size option (mnist: size=28)"
        )
    if not -np.inf < low < high < np.inf:
        raise ConfigError(f"low and high must be the values of black and of white, low < high; got {low} and {high}")
    if data.x.dtype.kind != "f":
        raise DataError(f"{data.name}: augment needs pixels in float32, got {data.x.dtype}; convert them first")
    if len(data.x) and not low <= data.x.min() <= data.x.max() <= high:
        raise DataError(
            f"{data.name}: pixels lie in {data.x.min():g} .. {data.x.max():g}, outside of {low} .. {high}; "
            "give low and high (and augment before standardising)"
        )
