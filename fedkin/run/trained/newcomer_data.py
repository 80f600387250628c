"""Samples of clients that a run has not seen, as data that the run's model can train on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.export.known_labels import encoded_labels, numbers_are_classes
from fedkin.export.predictor import as_samples


def newcomer_samples(
    like: Any, x: Any, y: Any
) -> tuple[Shaped[np.ndarray, "s ..."], Int[np.ndarray, "s"]]:
    """A newcomer's samples and labels, as the run's data hold them.

    Args:
        like: the run's samples.
        x: the newcomer's [s ...].
        y: their labels [s]: names where those of the run were names, else numbers; None where the
            method reads none: zeros.

    Raises:
        DataError: none, or samples or labels that do not fit.
    """
    samples = as_samples(x, like)
    labels = np.zeros(len(samples), np.int64) if y is None else _newcomer_labels(like, y)
    if not len(samples) or len(labels) != len(samples):
        raise DataError(
            f"a newcomer needs a label for each sample, at least one; got {len(samples)} and "
            f"{len(labels)}"
        )
    return samples, labels


def _newcomer_labels(like: Any, y: Any) -> Int[np.ndarray, "s"]:
    """A newcomer's labels as numbers. Raises DataError for labels that the run has not seen, and
    for numbers where the run's own were names."""
    # The columns are None where the data were made with numbers, as the named sets are. They are
    # absent on a server, which does not know what the labels of the sites were.
    columns = getattr(like, "columns", {})
    by_number = columns is None or numbers_are_classes(columns)
    return encoded_labels(y, getattr(like, "label_names", None), int(like.classes), by_number)


def newcomer_data(
    like: Any,
    x: Shaped[np.ndarray, "s ..."],
    y: Int[np.ndarray, "s"],
    clients: Sequence[np.ndarray],
) -> FederatedData:
    """Data of some clients among these samples.

    Args:
        like: the run's samples.
        x: samples.
        y: their labels.
        clients: the rows of each [r], for training and test alike.
    """
    rows = Ragged.of(clients)
    text: dict[str, Any] = {name: getattr(like, name, None) for name in ("vocabulary", "vectors")}
    return FederatedData(
        like.name, x, y=y, classes=int(like.classes), train=rows, test=rows, **text
    )
