from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import transforms
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.transforms import ImageTransform, augmented, resize, standardise

ALL = ("flip", "rotation", "noise")
SHAPES = ((6, 6), (5, 8), (6, 7, 3))


def federation(shape: tuple[int, ...] = (6, 6), high: float = 1.0) -> FederatedData:
    """Three clients of random images, one of them without a test image. Image 7 trains two, image
    11 belongs to no client."""
    x = np.random.default_rng(0).uniform(0, high, (12, *shape)).astype(np.float32)
    train = Ragged.of([np.array([0, 7, 2]), np.array([9, 7]), np.array([4])])
    test = Ragged.of([np.array([1, 3]), np.array([8]), np.array([], np.int64)])
    return FederatedData(
        name="toy",
        x=x,
        y=np.arange(12) % 4,
        classes=4,
        train=train,
        test=test,
        true_clusters=np.array([0, 0, 1]),
    )


def copies(data: FederatedData, original: FederatedData, client: int, number: int) -> np.ndarray:
    """The copies of a client's training images that belong to one word, by the order in which words
    were given."""
    s = original.train.sizes[client]
    return data.x[data.train[client][s * (1 + number) : s * (2 + number)]]


# -- size
# --------------------------------------------------------------------------------------------------


def test_resized_by_hand() -> None:
    """Half-pixel centres: of two pixels 0 and 100, four have their centres at -0.25, 0.25, 0.75 and
    1.25."""
    row = np.array([[[0, 100]]], np.uint8)
    np.testing.assert_array_equal(resize(row, 4), np.tile([0, 25, 75, 100], (1, 4, 1)))
    np.testing.assert_array_equal(resize(row.transpose(0, 2, 1), 4)[0, :, 0], [0, 25, 75, 100])
    four = np.array([[[0, 40], [80, 200]]], np.uint8)
    np.testing.assert_array_equal(resize(four, 1), [[[80]]])  # the mean of all


@pytest.mark.parametrize("shape", [(28, 28), (32, 32, 3), (5, 9)])
@pytest.mark.parametrize("size", [1, 7, 28, 32, 40])
def test_resized_is_linear_interpolation(shape: tuple[int, ...], size: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    came = resize(pixels, size)
    centres = np.meshgrid(
        *[(np.arange(size) + 0.5) * side / size - 0.5 for side in shape[:2]], indexing="ij"
    )
    assert came.dtype == np.float32 and came.shape == (3, size, size, *shape[2:])
    for image, small in zip(
        pixels.reshape(3, *shape[:2], -1), came.reshape(3, size, size, -1), strict=True
    ):
        for channel in range(image.shape[-1]):
            expected = ndimage.map_coordinates(
                image[..., channel].astype(float), centres, order=1, mode="nearest"
            )
            np.testing.assert_allclose(small[..., channel], expected, atol=1e-3)


def test_resized_to_the_same_size_or_none_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms, "CHUNK", 4)  # the last portion is not full
    pixels = np.random.default_rng(0).integers(0, 256, (11, 9, 9), dtype=np.uint8)
    for size in (9, None):
        np.testing.assert_array_equal(resize(pixels, size), pixels.astype(np.float32))
    np.testing.assert_array_equal(resize(pixels, 12)[10], resize(pixels[10:], 12)[0])


# -- scale
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("portion", [7, 1000])
def test_standardised_by_pixel_or_by_channel(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms, "CHUNK", portion)
    pixels = np.random.default_rng(0).integers(0, 256, (50, 4, 5, 3)).astype(np.float32)
    pixels[:, 0, 0, 0] = 17  # a pixel that never changes has deviation 0
    for rows, by_channel, axes in ((50, False, (0,)), (30, False, (0,)), (30, True, (0, 1, 2))):
        x = pixels.copy()
        head = pixels[:rows].astype(np.float64)
        standardise(x, rows, by_channel)
        np.testing.assert_allclose(
            x, (pixels - head.mean(axis=axes)) / (head.std(axis=axes) + 0.001), rtol=1e-5, atol=1e-5
        )


# -- augment
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_training_image_has_its_copies_and_no_test_image_has_any(
    shape: tuple[int, ...],
) -> None:
    """The authors augment before they split; here no copy may leak into another part or to another
    client."""
    data = federation(shape)
    more = augmented(data, ALL)
    np.testing.assert_array_equal(more.x[:12], data.x)
    np.testing.assert_array_equal(more.y[:12], data.y)
    assert np.array_equal(more.test.rows, data.test.rows) and np.array_equal(
        more.test.offsets, data.test.offsets
    )
    assert more.test.rows.max() < 12 and more.true_clusters is data.true_clusters
    assert len(more.x) == len(more.y) == 12 + 3 * 6 and more.x.dtype == np.float32
    # Every copy has one owner.
    assert sorted(more.train.rows[more.train.rows >= 12]) == list(range(12, 30))
    for client in range(3):
        rows = more.train[client]
        own = data.train[client]
        assert len(rows) == 4 * len(own) and np.array_equal(rows[: len(own)], own)
        np.testing.assert_array_equal(more.y[rows], np.tile(data.y[own], 4))
        # Of these and no others.
        np.testing.assert_array_equal(copies(more, data, client, 0), data.x[own][:, ::-1])


def rotated(image: np.ndarray, low: float) -> np.ndarray:
    """By 300 degrees counter-clockwise: each pixel is interpolated between four."""
    H, W = image.shape
    cos = math.cos(5 * math.pi / 3)
    sin = math.sin(5 * math.pi / 3)
    result = np.full((H, W), low)
    for i in range(H):
        for j in range(W):
            up = (H - 1) / 2 - i
            right = j - (W - 1) / 2
            y = (H - 1) / 2 - (cos * up - sin * right)
            x = (W - 1) / 2 + (cos * right + sin * up)
            if 0 <= y <= H - 1 and 0 <= x <= W - 1:
                a = min(int(y), H - 2)
                b = min(int(x), W - 2)
                s = y - a
                t = x - b
                above, below = ((1 - t) * image[r, b] + t * image[r, b + 1] for r in (a, a + 1))
                result[i, j] = (1 - s) * above + s * below
    return result


@pytest.mark.parametrize(("shape", "low"), [(SHAPES[0], 0.0), (SHAPES[1], -0.5), (SHAPES[2], 0.0)])
def test_rotation_by_hand(shape: tuple[int, ...], low: float) -> None:
    data = federation(shape)
    came = copies(augmented(data, ("rotation",), low=low), data, 0, 0)
    for image, original in zip(came, data.x[data.train[0]], strict=True):
        for channel in np.ndindex(shape[2:]):
            np.testing.assert_allclose(
                image[..., *channel], rotated(original[..., *channel], low), atol=1e-5
            )


def test_rotation_is_counter_clockwise() -> None:
    """By 300 degrees, a point at twelve o'clock comes to two o'clock."""
    data = federation((21, 21))
    data.x[:] = 0
    data.x[:, 1:3, 9:12] = 1
    image = copies(augmented(data, ("rotation",)), data, 0, 0)[0]
    i, j = (np.average(grid, weights=image) for grid in np.indices((21, 21)))
    assert math.degrees(math.atan2(10 - i, j - 10)) == pytest.approx(30, abs=2)


def test_noise_is_gaussian_and_stays_in_the_range() -> None:
    for low, high in ((0, 255), (-1.0, 1.0)):
        data = federation((60, 60))
        data.x[:] = (low + high) / 2
        data.x[:, :30] = high
        grey = copies(augmented(data, ("noise",), low=low, high=high), data, 0, 0)
        noise = (grey[:, 30:] - (low + high) / 2) / (high - low)
        assert abs(noise.mean()) < 0.005 and noise.std() == pytest.approx(0.1, rel=0.03)
        assert np.mean(np.abs(noise) < 0.1) == pytest.approx(0.6827, abs=0.02)
        assert grey.max() == high and np.mean(grey[:, :30] == high) == pytest.approx(0.5, abs=0.02)


def test_noise_repeats_itself_and_depends_on_seed_and_client_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = federation()
    once = augmented(data, ("noise",), seed=3)
    monkeypatch.setattr(transforms, "CHUNK", 2)
    np.testing.assert_array_equal(augmented(data, ("flip", "noise"), seed=3).x[18:], once.x[12:])
    assert not np.array_equal(augmented(data, ("noise",), seed=4).x[12:], once.x[12:])
    fewer = data.with_rows(
        data.train.select(np.array([2, 1])), data.test.select(np.array([2, 1])), np.array([1, 0])
    )
    np.testing.assert_array_equal(
        copies(augmented(fewer, ("noise",), seed=3), fewer, 1, 0), copies(once, data, 1, 0)
    )
    both = [copies(once, data, client, 0)[1] - data.x[7] for client in (0, 1)]  # image 7 is theirs
    assert not np.array_equal(*both)


@given(
    words=st.permutations(ALL).flatmap(lambda all: st.integers(0, 3).map(lambda n: tuple(all[:n])))
)
def test_words_come_in_the_order_given(words: tuple[str, ...]) -> None:
    data = federation()
    came = augmented(data, words)
    before = data.x.copy()
    for number, word in enumerate(words):
        alone = augmented(data, (word,))
        for client in range(3):
            np.testing.assert_array_equal(
                copies(came, data, client, number), copies(alone, data, client, 0)
            )
    assert came.train.sizes.tolist() == [(1 + len(words)) * s for s in (3, 2, 1)]
    np.testing.assert_array_equal(data.x, before)


# -- the odd and the impossible
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (("flop",), {}, "unknown augmentation 'flop'; did you mean 'flip'"),
        (("flip", "flip"), {}, "augment names an augmentation twice: flip, flip"),
        ("flip", {}, "augment must be a list of flip, rotation, noise, got 'flip'"),
        (("noise",), {"low": 1, "high": 1}, "low < high; got 1 and 1"),
        (("noise",), {"low": 0, "high": np.inf}, "low < high; got 0 and inf"),
        (("noise",), {"low": np.nan}, "low < high"),
        (("noise",), {"seed": -1}, "seed"),
    ],
)
def test_impossible_augmentations(
    words: Sequence[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        augmented(federation(), words, **options)


def test_augment_needs_images_in_their_range() -> None:
    data = federation()
    flat = data.with_rows(data.train, data.test, x=data.x.reshape(12, -1))
    with pytest.raises(
        ConfigError, match=r"toy: augment needs images .* got .*\(12, 36\).*mnist: size=28"
    ):
        augmented(flat, ("flip",))
    with pytest.raises(DataError, match=r"outside of 0.0 \.\. 1.0; give low and high"):
        augmented(federation(high=255.0), ("noise",))
    bytes_ = data.with_rows(data.train, data.test, x=np.zeros((12, 6, 6), np.uint8))
    with pytest.raises(DataError, match="toy: augment needs pixels in float32, got uint8"):
        augmented(bytes_, ("flip",))
    assert augmented(flat, ()) is flat  # nothing to do


@pytest.mark.parametrize(
    ("transform", "flat", "message"),
    [
        (ImageTransform(size=0), None, "size must be from 1 to 256 pixels, got 0"),
        (ImageTransform(size=257), None, "size must be from 1 to 256 pixels, got 257"),
        (ImageTransform(scale="units"), None, "unknown scale 'units'; did you mean 'unit'"),
        (ImageTransform(augment=("flop",)), None, "did you mean 'flip'"),
        (
            ImageTransform(augment=("flip",)),
            28,
            "augment needs images, but without size they are flat; set size=28",
        ),
    ],
)
def test_impossible_transforms(transform: ImageTransform, flat: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        transform.check(flat)


def test_possible_transforms() -> None:
    ImageTransform().check(28)
    ImageTransform(256, "bytes", ALL).check(28)
    ImageTransform(augment=ALL).check()


def test_without_these_tests_checks_too(plainly: Callable[[Sequence[str]], list[str]]) -> None:
    """A user has no checked annotations."""
    assert plainly(
        ['digits(augment=["flip"])', 'digits(augment="flip", size=8)', "digits(size=8.5)"]
    ) == [
        "ConfigError: augment must be a tuple of text (with one entry: (entry,)), got ['flip']",
        "ConfigError: augment must be a tuple of text (with one entry: (entry,)), got 'flip'",
        "ConfigError: size must be an integer, got 8.5",
    ]
