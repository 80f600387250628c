"""Data poisoning: clients train on wrong labels, or on images with a backdoor trigger."""

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
from fedkin.scenarios.validation import refuse_other_labels

# Side of the trigger, a square patch, in pixels.
PATCH = 3
# Label that the trigger should cause.
TARGET = 0


def flip_labels(data: FederatedData, clients: Bool[np.ndarray, "N"]) -> FederatedData:
    """The data with labels y changed to classes - 1 - y in these clients' training samples.

    Labels of test samples do not change.

    Args:
        data: data of the federation.
        clients: clients with flipped labels.

    Raises:
        ConfigError: labels are no classes.
        DataError: the samples also belong to other clients, which would be poisoned too; or the
            data are packed, so their files would have to change.
    """
    refuse_other_labels(data, "a label flip")
    rows = _own_training_rows(data, clients, "labels cannot be flipped")
    flipped = _concatenated(rows)
    labels = data.y.copy()
    labels[flipped] = data.classes - 1 - labels[flipped]
    return dataclasses.replace(data, y=labels)


def add_backdoor(data: FederatedData, clients: Bool[np.ndarray, "N"]) -> FederatedData:
    """The data with a backdoor in every second training sample of these clients.

    A sample with a backdoor has a trigger, a patch of the brightest pixels in a corner, and label
    0.

    Args:
        data: images, flat or [H, W] or [H, W, channels].
        clients: clients with backdoored samples.

    Raises:
        ConfigError: labels are no classes.
        DataError: the samples are not images, or also belong to other clients, or the data are
            packed.
    """
    refuse_other_labels(data, "a backdoor")
    rows = _own_training_rows(data, clients, "samples cannot have a trigger")
    marked = _concatenated([rows_of_client[::2] for rows_of_client in rows])
    x = with_trigger(data.x, marked)
    labels = data.y.copy()
    labels[marked] = TARGET
    return dataclasses.replace(data, x=x, y=labels)


def triggered_test(data: FederatedData) -> FederatedData:
    """Test data that measure a backdoor: all test samples of classes other than 0, with the trigger
    and with label 0.

    The accuracy on these data is the share of samples in which the backdoor works. Test samples of
    class 0 are left out.

    Args:
        data: images, as they are before any poisoning.
    """
    kept = []
    for client in range(data.clients):
        rows = data.test[client]
        kept.append(rows[data.y[rows] != TARGET])
    test = Ragged.of(kept)
    labels = data.y.copy()
    labels[test.rows] = TARGET
    return dataclasses.replace(data, x=with_trigger(data.x, test.rows), y=labels, test=test)


def with_trigger(x: np.ndarray, rows: Int[np.ndarray, "r"]) -> np.ndarray:
    """The samples, with the trigger (a patch of the brightest pixels) added to the samples at some
    rows. Raises DataError if the samples are not images."""
    side = isqrt(x.shape[1]) if x.ndim == 2 else 0
    is_flat_square = x.ndim == 2 and side * side == x.shape[1] >= PATCH**2
    if x.dtype.kind != "f" or not (is_flat_square or x.ndim in (3, 4)):
        raise DataError(
            "a trigger needs images, flat and square or [H, W] or [H, W, channels]; got "
            f"{list(x.shape[1:])}"
        )
    changed = x.copy()
    # A view of the copy, so that the trigger also gets into flat images.
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
    """Poisons attackers' samples from a given round on.

    No client counts as shifted, because attackers do not report the change.

    Attributes:
        poison: name of the poisoning in ``POISONS``.
        clients: the attackers.
        start: first round with poisoned samples, at least 1.
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
        """The data of a round, as in ``Shift.step``: unchanged before ``start``, then with poisoned
        samples."""
        shifted = np.zeros(original.clients, bool)
        if round != self.start:
            return current, shifted
        attacks = np.zeros(original.clients, bool)
        attacks[list(self.clients)] = True
        return POISONS[self.poison](original, attacks), shifted


def _own_training_rows(
    data: FederatedData, clients: Bool[np.ndarray, "N"], refusal: str
) -> list[Int[np.ndarray, "_"]]:
    """The rows (in the data's arrays) of each of these clients' training samples, after a check
    that they may be changed.

    Raises:
        DataError: some of the rows are also test or validation samples or belong to other clients,
            or the data are packed. The message begins with ``refusal``.
    """
    if data.packed is not None:
        raise DataError(f"{refusal}, since the data are in packed files; load them into memory")
    rows = [data.train[c] for c in np.flatnonzero(clients).tolist()]
    # Samples that must stay as they are: those of other clients, and all that are for testing.
    unchanged = [data.train[c] for c in np.flatnonzero(~clients).tolist()]
    unchanged.append(data.test.rows)
    if data.validation is not None:
        unchanged.append(data.validation.rows)
    if np.isin(_concatenated(rows), np.concatenate(unchanged)).any():
        raise DataError(
            f"{refusal}, since the attackers' samples are also test or validation samples, or "
            "belong to other clients too; use data in which each sample has one owner and one use"
        )
    return rows


def _concatenated(rows: list[Int[np.ndarray, "_"]]) -> Int[np.ndarray, "_"]:
    """The rows (samples) of all clients, concatenated; empty if there are no clients."""
    return np.concatenate([np.zeros(0, np.int64), *rows])
