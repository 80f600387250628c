"""Flipped labels: whose, of which samples, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.label_flip import flip_labels


def data(train: list[list[int]], test: list[list[int]]) -> FederatedData:
    x, y = np.zeros((6, 2), np.float32), np.array([0, 1, 2, 3, 3, 0])
    return FederatedData(
        "six", x, y, 4, Ragged.of([np.array(r) for r in train]), Ragged.of([np.array(r) for r in test])
    )


def test_training_labels_of_attackers_only() -> None:
    flipped = flip_labels(data([[0, 1], [2, 3]], [[4], [5]]), np.array([False, True]))
    assert flipped.y.tolist() == [0, 1, 1, 0, 3, 0]


@pytest.mark.parametrize(("train", "test"), [([[0, 1], [1, 2]], [[4], [5]]), ([[0, 1], [2]], [[2], [5]])])
def test_samples_of_others_are_not_touched(train: list[list[int]], test: list[list[int]]) -> None:
    with pytest.raises(DataError, match="samples that others train on or are tested on"):
        flip_labels(data(train, test), np.array([False, True]))
