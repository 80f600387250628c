"""Images of PIL: colours and not palette numbers, on one scale."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.pil_images import pixels, pixels_of_all

RED_AND_BLUE = np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8)  # one row of two pixels
COLOURS = Image.fromarray(RED_AND_BLUE)
Y = [0, 1, 0, 1]
CLIENTS = [0, 0, 1, 1]


def palette(transparent: bool = False) -> Image.Image:
    """Red and blue by numbers of a palette."""
    image = COLOURS.quantize(2)
    if transparent:
        image.info["transparency"] = 0
    return image


def test_a_palette_gives_colours() -> None:
    assert np.array_equal(pixels(palette(), "place"), RED_AND_BLUE)
    assert np.asarray(palette()).max() <= 1  # numbers of colours, which were read before


def test_a_palette_with_transparency_keeps_its_alpha() -> None:
    read = pixels(palette(transparent=True), "place")
    assert read.shape == (1, 2, 4)
    assert sorted(read[0, :, 3].tolist()) == [0, 255]


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV", "RGBX"])
def test_other_colour_spaces_become_rgb(mode: str) -> None:
    read = pixels(COLOURS.convert(mode), "place").astype(int)
    assert read.shape == (1, 2, 3)
    assert np.abs(read - RED_AND_BLUE).max() <= 2  # rounding of the conversion


@pytest.mark.parametrize(
    ("mode", "shape"), [("L", (1, 2)), ("LA", (1, 2, 2)), ("RGB", (1, 2, 3)), ("RGBA", (1, 2, 4))]
)
def test_modes_of_eight_bits_are_kept(mode: str, shape: tuple[int, ...]) -> None:
    image = COLOURS.convert(mode)
    read = pixels(image, "place")
    assert read.dtype == np.uint8 and read.shape == shape
    assert np.array_equal(read, np.asarray(image))


def test_black_and_white_is_zero_and_one() -> None:
    image = Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1")
    assert fk.data.from_arrays([image] * 4, Y, clients=CLIENTS, test=0).x[0].tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", [np.uint16, np.int32])
def test_sixteen_bits_are_divided_by_their_largest(kind: Any) -> None:
    image = Image.fromarray(np.array([[0, 65535, 257]], kind))
    read = pixels(image, "place")
    assert read.dtype == np.float32
    assert read.ravel().tolist() == pytest.approx([0, 1, 1 / 255])


@pytest.mark.parametrize(
    "values", [np.array([[-1, 5]], np.int32), np.array([[0, 70000]], np.int32)]
)
def test_integers_beyond_sixteen_bits_are_refused(values: np.ndarray) -> None:
    with pytest.raises(
        DataError, match=r"place: an image of mode 'I' has values .* 16 bits are 0 to 65535"
    ):
        pixels(Image.fromarray(values), "place")


def test_floats_must_be_scaled_already() -> None:
    assert pixels(Image.fromarray(np.array([[0.25, 1]], np.float32)), "place").tolist() == [
        [0.25, 1]
    ]
    with pytest.raises(DataError, match="mode 'F', with values 0 to 300 has no known scale"):
        pixels(Image.fromarray(np.array([[0, 300]], np.float32)), "place")


def test_images_of_eight_and_sixteen_bits_share_a_scale() -> None:
    grey = Image.fromarray(np.array([[0, 255]], np.uint8))
    deep = Image.fromarray(np.array([[0, 65535]], np.uint16))
    assert pixels_of_all([grey, deep], "place").tolist() == [[[0, 1]], [[0, 1]]]


def test_mixed_modes_and_sizes_are_refused_with_rows_and_a_cure() -> None:
    with pytest.raises(
        DataError,
        match=r"row 7 has shape \(1, 2\) \(mode L\), .* row 6 has \(1, 2, 3\).*convert\('RGB'\)",
    ):
        pixels_of_all([COLOURS, COLOURS.convert("L")], "place", start=6)
    with pytest.raises(DataError, match=r"row 1 has shape \(3, 3, 3\)"):
        pixels_of_all([COLOURS, COLOURS.resize((3, 3))], "place")


def test_images_in_a_list_are_read_from_arrays_and_to_predict() -> None:
    data = fk.data.from_arrays([palette()] * 4, Y, clients=CLIENTS, test=0)
    assert data.from_uint8
    assert np.array_equal(data.x[0], RED_AND_BLUE / 255)
    run = fk.simulate(
        fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2, callbacks=fk.Progress(False)
    )
    assert np.array_equal(run.predict([palette()]), run.predict(RED_AND_BLUE[None]))


def test_datasets_of_pytorch_and_hugging_face_read_colours() -> None:
    import datasets

    torch_data = fk.data.from_torch([[(palette(), label) for label in Y]], test=0)
    assert np.array_equal(torch_data.x[0], RED_AND_BLUE / 255)
    table = datasets.Dataset.from_dict({"image": [palette()] * 4, "label": Y, "c": CLIENTS})
    data = fk.data.from_hf(table, by="c", test=0)
    assert np.array_equal(data.x[0], RED_AND_BLUE / 255)


def test_sixteen_bits_of_hugging_face_are_scaled() -> None:
    import datasets

    image = Image.fromarray(np.array([[0, 65535]], np.uint16))
    table = datasets.Dataset.from_dict({"image": [image] * 4, "label": Y, "c": CLIENTS})
    assert fk.data.from_hf(table, by="c", test=0).x[0].tolist() == [[0, 1]]


def test_integers_that_stay_below_256_are_sixteen_bits() -> None:
    image = Image.fromarray(np.array([[0, 255]], np.int32))
    assert pixels(image, "place").ravel().tolist() == pytest.approx([0, 255 / 65535])
