"""Converts the user's NumPy, PyTorch, JAX, pandas or PIL values to NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError
from fedkin.data.pil_images import is_image, pixels, pixels_of_all

# Types that NumPy lacks. float32 holds their numbers exactly.
_SHORT_FLOATS = ("bfloat16", "float8")


def user_array(values: Any, place: Path | str, name: str) -> Shaped[np.ndarray, "..."]:
    """Values as a NumPy array. bfloat16 becomes float32, and images become pixels.

    Args:
        values: an array, a tensor, a table, images, or lists of numbers.
        place: beginning of error messages.
        name: name of the values in error messages.

    Raises:
        DataError: entries are masked, a matrix is sparse, or entries have different shapes.
    """
    if is_image(values):
        return pixels(values, f"{place}: {name}")
    if hasattr(values, "detach"):
        return _of_tensor(values, place, name)
    _refuse_sparse(values, place, name)
    if isinstance(values, (list, tuple)) and len(values):
        return _of_list(values, place, name)
    array = np.asarray(unmasked(values, place, name))
    if array.dtype == object and hasattr(values, "to_numpy"):
        return _of_table(values, array)
    return _known_type(array)


def unmasked(values: Any, place: Path | str, name: str) -> Any:
    """The values of a masked array, if no entry is masked; anything else unchanged.

    Args:
        values: a masked array or any other value.
        place: beginning of error messages.
        name: name of the values in error messages.

    Raises:
        DataError: an entry is masked; the message names the first one.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked = np.ma.getmaskarray(values)
    if masked.dtype.names is None and masked.any():
        position = np.argwhere(masked)[0].tolist()
        places = [f"{axis} {at}" for axis, at in zip(("row", "column"), position, strict=False)]
        where = f" in {', '.join(places)}" if places else ""
        raise DataError(
            f"{place}: {name} is masked{where} ({masked.sum()} such entries), so its value is "
            f"unknown; leave these rows out, or fill them in: {name}.filled(value)"
        )
    return values.data


def _of_tensor(tensor: Any, place: Path | str, name: str) -> Shaped[np.ndarray, "..."]:
    """A PyTorch tensor, on any device, as a NumPy array."""
    if str(tensor.layout) != "torch.strided":
        raise DataError(f"{place}: {name} is a sparse tensor; make it dense: {name}.to_dense()")
    tensor = tensor.detach().cpu()
    short = any(kind in str(tensor.dtype) for kind in _SHORT_FLOATS)
    return (tensor.float() if short else tensor).numpy()


def _refuse_sparse(values: Any, place: Path | str, name: str) -> None:
    """Raise DataError for a sparse matrix, since a dense one may not fit into memory."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        shape = " x ".join(map(str, values.shape))
        raise DataError(
            f"{place}: {name} is a sparse matrix ({type(values).__name__}, {shape}); make it "
            f"dense: {name}.toarray()"
        )


def _of_list(values: Any, place: Path | str, name: str) -> Shaped[np.ndarray, "..."]:
    """A list with an entry for each sample (an image, tensor, masked array or number), as an
    array."""
    if all(map(is_image, values)):
        return pixels_of_all(values, f"{place}: {name}")
    if hasattr(values[0], "detach"):
        rows = [_of_tensor(row, place, name) for row in values]
        return _stacked(np.stack, rows, place, name)
    masked = [row for row, value in enumerate(values) if np.ma.is_masked(value)]
    if masked:
        raise DataError(
            f"{place}: {name} is masked in row {masked[0]} ({len(masked)} such rows), so its "
            "value is unknown; leave these rows out, or fill them in: row.filled(value)"
        )
    return _known_type(_stacked(np.asarray, values, place, name))


def _stacked(
    stack: Callable[[Any], np.ndarray], rows: Any, place: Path | str, name: str
) -> Shaped[np.ndarray, "..."]:
    """The rows as one array.

    Args:
        stack: the function of NumPy that makes the array.
        rows: an entry for each sample.
        place: beginning of error messages.
        name: name of the values in error messages.

    Raises:
        DataError: rows have different shapes.
    """
    try:
        return stack(rows)
    except ValueError as error:
        # NumPy raises this error for lists of different lengths.
        raise DataError(
            f"{place}: {name} holds samples of different shapes; resize or pad them to one shape "
            f"({error})"
        ) from error


def _of_table(table: Any, array: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """Numbers of pandas' types as NumPy's, with NaN for missing values of a DataFrame.

    Args:
        table: a DataFrame or a Series.
        array: the same values as objects, which are returned if they are not numbers.
    """
    if hasattr(table, "columns"):
        is_numeric = all(getattr(kind, "kind", "O") in "biuf" for kind in table.dtypes)
        return table.to_numpy(dtype=np.float64, na_value=np.nan) if is_numeric else array
    kind = getattr(table.dtype, "numpy_dtype", None)
    if kind is None or table.isna().any():
        return array
    return table.to_numpy(dtype=kind)


def _known_type(array: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "..."]:
    """An array whose float type NumPy lacks (such as bfloat16), converted to float32."""
    return array.astype(np.float32) if array.dtype.name.startswith(_SHORT_FLOATS) else array


def missing_rows(values: Shaped[np.ndarray, "M"]) -> Int[np.ndarray, "m"]:
    """The rows (samples) whose value is missing: None, NaN, NaT, ``pd.NA``, masked entries, and
    blank text.

    Args:
        values: labels, or the client of each sample.
    """
    if values.dtype.kind not in "fOMmUS":
        # Values of other types cannot be missing.
        return np.zeros(0, np.int64)
    if values.dtype.kind in "US":
        return np.flatnonzero(np.char.strip(values) == values.dtype.type())
    import pandas as pd

    missing = np.asarray(pd.isna(values), bool)
    if values.dtype == object:
        missing = missing | np.array([_is_blank(value) for value in values], bool)
    return np.flatnonzero(missing)


def _is_blank(value: Any) -> bool:
    """Whether a value is masked, or text without any character but spaces."""
    is_text = isinstance(value, (str, bytes))
    return value is np.ma.masked or (is_text and not value.strip())


def decoded(
    values: Shaped[np.ndarray, "M"], place: Path | str, name: str
) -> Shaped[np.ndarray, "M"]:
    """Bytes as the text that they encode.

    Args:
        values: an array of bytes, or of objects that are bytes.
        place: file or name with which error messages begin.
        name: name of the values in error messages.

    Raises:
        DataError: bytes are not UTF-8; the message names the row.
    """
    text = []
    for row, entry in enumerate(values.tolist()):
        try:
            text.append(entry.decode())
        except UnicodeDecodeError:
            raise DataError(
                f"{place}: {name} in row {row} is {entry!r}, bytes that are not UTF-8; decode them "
                "with their encoding, such as name.decode('latin-1')"
            ) from None
    return np.array(text)
