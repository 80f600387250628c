"""Clients that train on poisoned samples: on wrong labels, or on images with a trigger (a
backdoor)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.swaps import ShiftedRound

# pixels of the trigger's side, and the label that it stands for
PATCH = 3
TARGET = 0


def flip_labels(data: FederatedData, clients: Bool[np.ndarray, "N"]) -> FederatedData:
    """The data with labels y -> classes - 1 - y in the training samples of some clients; test
    samples keep theirs.

    Args:
        data: of the federation.
        clients: whose labels are flipped.

    Raises:
        DataError: a sample of theirs is another client's, too, or data that are read from files.
    """
    flipped = np.concatenate(
        _own_training_rows(data, clients, "labels cannot be flipped") or [np.zeros(0, np.int64)]
    )
    labels = data.y.copy()
    labels[flipped] = data.classes - 1 - labels[flipped]
    return dataclasses.replace(data, y=labels)


def add_backdoor(data: FederatedData, clients: Bool[np.ndarray, "N"]) -> FederatedData:
    """The data with a trigger, a patch of the brightest pixels in a corner, and the label 0 in
    every second training sample of some clients.

    Args:
        data: of images, flat or [H, W] or [H, W, channels].
        clients: whose samples have it.

    Raises:
        DataError: no images; a sample of theirs is another client's, too, or data that are read
            from files.
    """
    rows = _own_training_rows(data, clients, "samples cannot have a trigger")
    marked = np.concatenate([own[::2] for own in rows] or [np.zeros(0, np.int64)])
    x = with_trigger(data.x, marked)
    labels = data.y.copy()
    labels[marked] = TARGET
    return dataclasses.replace(data, x=x, y=labels)


def triggered_test(data: FederatedData) -> FederatedData:
    """The data with the trigger in all test samples of other classes than 0, which are called 0:
    the accuracy on these is the share of them in which the backdoor works. Samples of class 0 are
    left out.

    Args:
        data: of images, before any is poisoned.
    """
    kept = [rows[data.y[rows] != TARGET] for rows in (data.test[c] for c in range(data.clients))]
    test = Ragged.of(kept)
    labels = data.y.copy()
    labels[test.rows] = TARGET
    return dataclasses.replace(data, x=with_trigger(data.x, test.rows), y=labels, test=test)


def with_trigger(x: np.ndarray, rows: Int[np.ndarray, "r"]) -> np.ndarray:
    """The samples, some of them with the trigger. Raises DataError where they are no images."""
    shape = x.shape[1:]
    side = isqrt(x.shape[1]) if x.ndim == 2 else 0
    if x.dtype.kind != "f" or not (
        x.ndim in (3, 4) or (x.ndim == 2 and side * side == x.shape[1] >= PATCH**2)
    ):
        raise DataError(
            "a trigger needs images, flat and square or [H, W] or [H, W, channels]; got "
            f"{list(shape)}"
        )
    changed = x.copy()
    images = changed.reshape(len(x), side, side) if x.ndim == 2 else changed
    images[rows, -PATCH:, -PATCH:] = x.max()
    return changed


POISONS: dict[str, Callable[[FederatedData, Bool[np.ndarray, "N"]], FederatedData]] = {
    "label_flip": flip_labels,
    "backdoor": add_backdoor,
    "backdoor_replacement": add_backdoor,
}


@dataclass(frozen=True)
class LaterPoisoning:
    """Samples that are poisoned from a round on. Clients that attack say nothing of it: none counts
    as shifted.

    Attributes:
        poison: a name of ``POISONS``.
        clients: that attack.
        start: the round, from 1 up.
    """

    poison: str
    clients: tuple[int, ...]
    start: int

    def step(
        self,
        original: FederatedData,
        current: FederatedData,
        round: int,
        reachable: Int[np.ndarray, "c"],
        stream: Stream,
    ) -> ShiftedRound:
        """The data of a round, as of ``Shift.step``."""
        none = np.zeros(original.clients, bool)
        if round != self.start:
            return current, none
        attacks = none.copy()
        attacks[list(self.clients)] = True
        return POISONS[self.poison](original, attacks), none


def _own_training_rows(
    data: FederatedData, clients: Bool[np.ndarray, "N"], refusal: str
) -> list[Int[np.ndarray, "_"]]:
    """The rows that each of some clients trains on. Raises DataError where changing them changes
    others' samples."""
    if data.packed is not None:
        raise DataError(f"{refusal}: the data are in packed files; load them into memory")
    rows = [data.train[c] for c in np.flatnonzero(clients).tolist()]
    others = [data.train[c] for c in np.flatnonzero(~clients).tolist()]
    kept = [data.test.rows, *([] if data.validation is None else [data.validation.rows])]
    none = [np.zeros(0, np.int64)]
    if np.isin(np.concatenate(rows or none), np.concatenate([*(others or none), *kept])).any():
        raise DataError(f"{refusal}: attackers have samples that others train on or are tested on")
    return rows
