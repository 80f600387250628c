"""Converts the labels of new samples to the class numbers with which a run was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError, unknown
from fedkin.data.labels import LABELS, NUMBERS, label_array, named_booleans


def numbers_are_classes(columns: Mapping[str, str] | None) -> bool:
    """Whether the labels in the run's data were numbers. Then a number in new data may be a class
    number, even if the classes have names (which were given separately).

    Args:
        columns: ``FederatedData.columns`` of the run's data.
    """
    return (columns or {}).get(LABELS) == NUMBERS


def encoded_labels(
    y: Any,
    label_names: Any,
    classes: int,
    by_number: bool,
    rows: Int[np.ndarray, "s"] | None = None,
) -> Int[np.ndarray, "s"]:
    """Labels as class numbers.

    Args:
        y: the labels: names if the classes have names, otherwise numbers (2.0 is allowed). Booleans
            have the names False and True. If all names are numbers, such as 3 and 5, a number
            counts as a name, not as an index.
        label_names: names of the classes 0, 1, ..; None if labels are numbers.
        classes: C, the number of classes.
        by_number: whether a number may be a class number although the classes have names.
        rows: row of each label in its file, for messages; None if every row has a label, so that
            label i is in row i.

    Raises:
        DataError: no class of the run has a label's name or number (the message names the row), or
            labels are booleans and the names are not False and True.
    """
    names = [] if label_names is None else [str(name) for name in label_names]
    labels = label_array(y, "labels")
    rows = np.arange(len(labels)) if rows is None else rows
    if labels.dtype.kind == "b":
        labels = named_booleans(labels, names, "labels") if names else labels.astype(np.int64)
    # Labels read from a file may be floats, such as 2.0.
    labels = _whole(labels)
    if names and labels.dtype.kind != "U" and (not by_number or _are_names(names)):
        labels = _number_names(labels, names, rows)
    if labels.dtype.kind == "U" and names:
        return _positions(labels, names, rows)
    return _class_numbers(labels, names, classes, rows)


def _whole(labels: Shaped[np.ndarray, "s"]) -> Shaped[np.ndarray, "s"]:
    """Convert labels to integers if they are floats with integer values."""
    if labels.dtype.kind != "f" or not np.isfinite(labels).all():
        return labels
    return labels.astype(np.int64) if (labels == np.floor(labels)).all() else labels


def _are_names(names: Sequence[str]) -> bool:
    """Whether numbers in new data are class names: all names are numbers, but not simply 0, 1, 2,
    ..."""
    numerals = all(name.removeprefix("-").isdecimal() for name in names)
    return numerals and list(names) != [str(number) for number in range(len(names))]


def _number_names(
    labels: Shaped[np.ndarray, "s"], names: Sequence[str], rows: Int[np.ndarray, "s"]
) -> Shaped[np.ndarray, "s"]:
    """Convert number labels to class names. 0 and 1 mean False and True if these are the names.

    Raises: DataError: a number is not a class name, so its class is unknown.
    """
    texts = np.array([str(label) for label in labels.tolist()], str)
    if set(names) == {"False", "True"} and set(texts.tolist()) <= {"0", "1"}:
        return np.where(texts == "1", "True", "False")
    wrong = ~np.isin(texts, names)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DataError(
            f"the label {texts[first]} in row {rows[first]} is a number, but the run's "
            f"labels are {', '.join(names)}; use these labels"
        )
    return texts


def _positions(
    labels: Shaped[np.ndarray, "s"], names: Sequence[str], rows: Int[np.ndarray, "s"]
) -> Int[np.ndarray, "s"]:
    """The class number of each name. Raises DataError for a name that no class of the run has."""
    numbers = {name: number for number, name in enumerate(names)}
    unseen = ~np.isin(labels, names)
    if unseen.any():
        first = int(np.argmax(unseen))
        message = unknown("label", str(labels[first]), names)
        raise DataError(
            f"labels: row {rows[first]}: {message}; the run was trained without this label"
        )
    return np.array([numbers[label] for label in labels.tolist()], np.int64)


def _class_numbers(
    labels: Shaped[np.ndarray, "s"], names: Sequence[str], classes: int, rows: Int[np.ndarray, "s"]
) -> Int[np.ndarray, "s"]:
    """Check that labels are valid class numbers. Raises DataError otherwise."""
    known = f", or one of {', '.join(names)}" if names else ""
    expected = f"labels must be integers 0..{classes - 1}{known}, as in the run"
    if labels.dtype.kind not in "iu":
        raise DataError(f"{expected}; got {labels.dtype}")
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DataError(f"{expected}; got {labels[first]} in row {rows[first]}")
    return labels.astype(np.int64)
