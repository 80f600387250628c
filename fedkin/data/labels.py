"""Encodes class labels of any type as integers from 0, and remembers the names of the classes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError, nearest
from fedkin.core.object_repr import listed
from fedkin.core.plain import plain
from fedkin.data.files import check_labels
from fedkin.data.user_arrays import decoded, missing_rows, user_array

_log = logging.getLogger("fedkin")
Names = tuple[str, ...]
# ``FederatedData.columns[LABELS]`` says whether the labels of named classes were text (NAMES) or
# numbers (NUMBERS) in the data.
LABELS = "labels"
NAMES = "names"
NUMBERS = "numbers"
_BOOLEANS = ("False", "True")


class EncodedLabels(NamedTuple):
    """Labels 0 .. classes-1, and the names of the classes if they have names.

    Attributes:
        y: the labels.
        classes: number of classes C.
        names: names of the classes; None if labels were numbers without names.
        given: NAMES if the labels were text or booleans, NUMBERS if they were numbers.
    """

    y: Int[np.ndarray, "M"]
    classes: int
    names: Names | None
    given: str


def encode_labels(
    values: Any, place: Path | str, classes: int | None = None, names: Names | None = None
) -> EncodedLabels:
    """Labels of any type as whole numbers.

    Text is numbered in sorted order, or in the order of ``names``. Booleans count as the text False
    and True. Whole numbers are not changed.

    Args:
        values: M labels: text, booleans, or whole numbers from 0 (1.0 counts as a whole number).
        place: file or name with which error messages begin.
        classes: number of classes C; None for the number of names, or the largest label + 1. It
            must be given if a label exceeds the number of samples.
        names: names of the classes 0, 1, ..; None for the names that occur.

    Raises:
        DataError: labels are missing, of mixed types, not whole, out of range, or not among the
            names; the message names the row. Or labels are booleans, but names are not False and
            True.
    """
    labels = label_array(values, place)
    if labels.dtype.kind == "b":
        names = names or _BOOLEANS
        labels = named_booleans(labels, names, place)
    if labels.dtype.kind == "U":
        if not names:
            names = tuple(str(name) for name in np.unique(labels))
        _check_names(names, classes, place)
        y = _positions(labels, names, place)
        return EncodedLabels(y=y, classes=len(names), names=names, given=NAMES)
    if names is not None:
        _check_names(names, classes, place)
        classes = len(names)
    y = check_labels(labels, classes, place)
    if classes is None:
        classes = _largest(y, place) + 1
    return EncodedLabels(y=y, classes=classes, names=names, given=NUMBERS)


def label_array(values: Any, place: Path | str) -> Shaped[np.ndarray, "M"]:
    """Labels of any type as an array of text, booleans or numbers. Raises DataError for labels of
    mixed types."""
    if hasattr(values, "dtype") or not np.iterable(values):
        return _one_type(user_array(values, place, "y"), place)
    # As objects, since NumPy would convert the 1 in [1, "1"] to text.
    return _one_type(np.array(plain(list(values)), object), place)


def named_booleans(
    labels: Shaped[np.ndarray, "M"], names: Sequence[str], place: Path | str
) -> Shaped[np.ndarray, "M"]:
    """Booleans as text.

    Args:
        labels: the booleans.
        names: names of the classes.
        place: file or name with which error messages begin.

    Raises:
        DataError: the names are not False and True.
    """
    if len(labels) and not set(_BOOLEANS) <= set(names):
        raise DataError(
            f"{place}: labels are booleans, such as {labels[0]} in row 0, but the classes are "
            f"named {listed(names)}, so it is unknown which name means True; write these names in "
            "place of False and True"
        )
    return labels.astype(str)


def _one_type(values: np.ndarray, place: Path | str) -> Shaped[np.ndarray, "M"]:
    """Labels, which may be objects, as an array of text, booleans or numbers."""
    if values.ndim != 1:
        raise DataError(
            f"{place}: labels must be an array [M], one for each sample, got shape {values.shape}"
        )
    if values.dtype.kind == "S":
        values = decoded(values, place, "the label")
    check_present(values, place)
    if values.dtype.kind not in "OU":
        return values
    kinds = np.array([_kind(value) for value in values])
    if len(set(kinds.tolist())) > 1:
        rows = [int(np.argmax(kinds == kind)) for kind in dict.fromkeys(kinds)]
        examples = " and ".join(f"{values[row]!r} in row {row} ({kinds[row]})" for row in rows)
        raise DataError(
            f"{place}: labels must be of one type, got {examples}; make all of them text, or all "
            "numbers"
        )
    types = {"text": str, "a boolean": bool, "a number": np.float64}
    kind = str(kinds[0]) if len(kinds) else "a number"
    if kind not in types:
        raise DataError(
            f"{place}: labels must be text, booleans or whole numbers, got {kind} in row 0"
        )
    return values.astype(types[kind])


def _kind(value: Any) -> str:
    """The type of a label in words, for error messages."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bool, np.bool_)):
        return "a boolean"
    return "a number" if isinstance(value, (int, float, np.number)) else f"a {type(value).__name__}"


def check_present(values: Shaped[np.ndarray, "M"], place: Path | str) -> None:
    """Raise DataError for missing labels, such as None, NaN or blank text.

    Args:
        values: the labels.
        place: beginning of error messages.
    """
    missing = missing_rows(values)
    if len(missing):
        raise DataError(
            f"{place}: the label is missing in row {missing[0]} ({len(missing)} such rows); drop "
            "these rows"
        )


def _check_names(names: Names, classes: int | None, place: Path | str) -> None:
    """Raise DataError if names of classes repeat, or if their number is not ``classes``."""
    if len(set(names)) != len(names):
        raise DataError(f"{place}: the names of the classes must be different, got {listed(names)}")
    if classes is not None and classes != len(names):
        raise DataError(
            f"{place}: classes = {classes}, but there are {len(names)} names of classes "
            f"({listed(names)}); leave classes out, or name all classes with label_names"
        )


def _positions(
    labels: Shaped[np.ndarray, "M"], names: Names, place: Path | str
) -> Int[np.ndarray, "M"]:
    """The number of each label: the position of the label among the names of classes."""
    known = np.array(names)
    order = np.argsort(known)
    place_in_order = np.searchsorted(known, labels, sorter=order).clip(max=len(names) - 1)
    index = order[place_in_order]
    wrong = known[index] != labels
    if wrong.any():
        row = int(np.argmax(wrong))
        near = nearest(str(labels[row]), names)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise DataError(
            f"{place}: row {row} has the label {str(labels[row])!r}, expected "
            f"{', '.join(names)}{hint}"
        )
    return index.astype(np.int64)


def _largest(y: Int[np.ndarray, "M"], place: Path | str) -> int:
    """The largest label, if it is plausible.

    Raises:
        DataError: the label exceeds the number of samples, so it is probably wrong.
    """
    largest = int(y.max(initial=0))
    if largest >= max(len(y), 1):
        raise DataError(
            f"{place}: label {largest} in row {int(y.argmax())} is larger than the number of "
            f"samples, {len(y)}; correct it, or set classes={largest + 1}"
        )
    return largest


def warn_of_classes(y: Int[np.ndarray, "M"], names: Names | None, place: Path | str) -> None:
    """Warn if labels are probably wrong: there is only one class, or no class 0.

    Args:
        y: class of each sample.
        names: names of the classes; None if labels are numbers.
        place: file or name with which the warning begins.
    """
    classes = np.unique(y)
    if len(classes) == 1:
        label = int(classes[0]) if names is None else names[classes[0]]
        _log.warning(
            "%s: all labels are %r, so there is only one class and nothing to learn", place, label
        )
    elif names is None and classes[0] > 0:
        _log.warning(
            "%s: labels are %d to %d, so no sample has class 0 (%d of the classes 0 to %d are "
            "empty); number classes from 0, or give labels as text, to have no empty class",
            place,
            classes[0],
            classes[-1],
            classes[-1] + 1 - len(classes),
            classes[-1],
        )
