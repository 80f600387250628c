"""PIL images as arrays of pixels, with colours instead of palette indices, and all on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

from fedkin.core.errors import DataError

# The value of white in 16 bits.
_WHITE_16 = 65535
# Modes that are converted before pixels are read. Three numbers mean different colours in different
# colour spaces, so all images get the same colour space.
_CONVERTED = {
    "1": "L",
    "PA": "RGBA",
    "La": "LA",
    "RGBa": "RGBA",
    "RGBX": "RGB",
    "CMYK": "RGB",
    "YCbCr": "RGB",
    "HSV": "RGB",
}
# Modes of 8 bits, which are not converted.
_BYTES = ("L", "LA", "RGB", "RGBA")


def is_image(value: Any) -> bool:
    """Whether a value is a PIL image. PIL is not imported for this."""
    has_methods = hasattr(value, "getbands") and hasattr(value, "convert")
    return has_methods and isinstance(getattr(value, "mode", None), str)


def pixels(image: Any, place: str) -> Shaped[np.ndarray, "H W ..."]:
    """The pixels of an image: uint8 (scaled to 0 .. 1 later), or float32 in 0 .. 1.

    Palette images become RGB, or RGBA if they have transparency. CMYK, YCbCr and HSV become RGB.
    Black and white becomes grey. 16 bits are divided by 65535. Alpha channels are kept. An EXIF
    orientation is not applied.

    Args:
        image: a PIL image.
        place: beginning of error messages.

    Raises:
        DataError: the image has a mode without a known scale.
    """
    mode = image.mode
    if mode == "P":
        mode = "RGBA" if "transparency" in image.info else "RGB"
    mode = _CONVERTED.get(mode, mode)
    if mode in _BYTES:
        if mode != image.mode:
            image = image.convert(mode)
        return np.array(image)
    values = np.array(image)
    if mode.startswith("I"):
        return _sixteen_bits(values, mode, place)
    if mode == "F" and 0 <= values.min() and values.max() <= 1:
        return values.astype(np.float32)
    scale = f", with values {values.min():g} to {values.max():g}" if mode == "F" else ""
    raise DataError(
        f"{place}: an image of mode {image.mode!r}{scale} has no known scale; convert it, "
        "image.convert('RGB'), or give arrays of numbers in 0 .. 1 to fk.data.from_arrays"
    )


def _sixteen_bits(
    values: Shaped[np.ndarray, "H W"], mode: str, place: str
) -> Float32[np.ndarray, "H W"]:
    """Scale pixels of 16 bits to 0 .. 1. PIL may store them as integers of 32 bits."""
    if values.min() < 0 or values.max() > _WHITE_16:
        raise DataError(
            f"{place}: an image of mode {mode!r} has values {values.min()} to {values.max()}, but "
            f"16 bits are 0 to {_WHITE_16}; give arrays of numbers in 0 .. 1 to "
            "fk.data.from_arrays"
        )
    return (values / np.float32(_WHITE_16)).astype(np.float32)


def pixels_of_all(
    images: Sequence[Any], place: str, start: int = 0
) -> Shaped[np.ndarray, "M H W ..."]:
    """The pixels of images of one size: uint8 if all have 8 bits, otherwise float32 in 0 .. 1.

    Args:
        images: PIL images.
        place: beginning of error messages.
        start: row of the first image.

    Raises:
        DataError: the errors of ``pixels``, or images differ in size or number of channels.
    """
    arrays = [pixels(image, f"{place}, row {start + row}") for row, image in enumerate(images)]
    check_alike(arrays, [image.mode for image in images], place, start)
    if len({array.dtype for array in arrays}) > 1:
        arrays = [as_unit(array) for array in arrays]
    return np.stack(arrays)


def check_alike(
    arrays: Sequence[np.ndarray], modes: Sequence[str], place: str, start: int = 0
) -> None:
    """Raise DataError for images with different sizes or numbers of channels.

    Args:
        arrays: pixels of each image.
        modes: mode of each image.
        place: beginning of error messages.
        start: row of the first image.
    """
    for row, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"{place}: the image in row {start + row} has shape {array.shape} (mode "
                f"{modes[row]}), but the one in row {start} has {arrays[0].shape} (mode "
                f"{modes[0]}); resize them to one size, or convert all of them to one mode: "
                "image.convert('RGB')"
            )


def as_unit(array: Shaped[np.ndarray, "..."]) -> Float32[np.ndarray, "..."]:
    """Pixels scaled to 0 .. 1."""
    return array / np.float32(255) if array.dtype == np.uint8 else array
