"""Clients that train on wrong labels."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData


def flip_labels(data: FederatedData, clients: Bool[np.ndarray, "N"]) -> FederatedData:
    """The data with labels y -> classes - 1 - y in the training samples of some clients; test samples keep theirs.

    Args:
        data: of the federation.
        clients: whose labels are flipped.

    Raises:
        DataError: a sample of theirs is another client's, too, or data that are read from files.
    """
    if data.packed is not None:
        raise DataError("labels of data in packed files cannot be flipped; load the data into memory")
    rows = [data.train[c] for c in range(data.clients)]
    flipped = np.concatenate([rows[c] for c in np.flatnonzero(clients)] or [np.zeros(0, np.int64)])
    others = np.concatenate([rows[c] for c in np.flatnonzero(~clients)] or [np.zeros(0, np.int64)])
    kept = [data.test.rows, *([] if data.validation is None else [data.validation.rows])]
    if np.isin(flipped, np.concatenate([others, *kept])).any():
        raise DataError("labels cannot be flipped: attackers have samples that others train on or are tested on")
    labels = data.y.copy()
    labels[flipped] = data.classes - 1 - labels[flipped]
    return dataclasses.replace(data, y=labels)
