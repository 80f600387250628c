"""Poisoned samples: their clients, their rows, their first round, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.scenarios.poisoning import LaterPoisoning, add_backdoor, flip_labels, triggered_test
from tests.scenarios.other_labels import other_labels


def data(train: list[list[int]], test: list[list[int]]) -> FederatedData:
    x = np.zeros((6, 2), np.float32)
    y = np.array([0, 1, 2, 3, 3, 0])
    return FederatedData(
        name="six",
        x=x,
        y=y,
        classes=4,
        train=Ragged.of([np.array(r) for r in train]),
        test=Ragged.of([np.array(r) for r in test]),
    )


def test_training_labels_of_attackers_only() -> None:
    flipped = flip_labels(data([[0, 1], [2, 3]], [[4], [5]]), np.array([False, True]))
    assert flipped.y.tolist() == [0, 1, 1, 0, 3, 0]


@pytest.mark.parametrize("task", ["regression", "survival"])
def test_labels_that_are_no_classes_are_not_poisoned(task: str) -> None:
    numbers = other_labels(task)
    attackers = np.array([False, True])
    for poison in (flip_labels, add_backdoor):
        with pytest.raises(ConfigError, match=f"changes labels that are classes.*{task}"):
            poison(numbers, attackers)
    with pytest.raises(ConfigError, match=f"the attack label_flip changes labels.*{task}"):
        fk.Byzantine("label_flip").simulated(numbers, None)


@pytest.mark.parametrize(
    ("train", "test"), [([[0, 1], [1, 2]], [[4], [5]]), ([[0, 1], [2]], [[2], [5]])]
)
def test_samples_of_others_are_not_touched(train: list[list[int]], test: list[list[int]]) -> None:
    with pytest.raises(DataError, match=r"the attackers' samples are also test .* other clients"):
        flip_labels(data(train, test), np.array([False, True]))


def images() -> FederatedData:
    """Two clients with four images of 4 x 4 to train on, and two to test."""
    x = np.zeros((12, 16), np.float32)
    y = np.tile([0, 1, 2], 4)
    x[0, 0] = 0.8  # the brightest pixel
    train = [np.arange(4), np.arange(4, 8)]
    test = [np.array([8, 9]), np.array([10, 11])]
    return FederatedData(
        name="images", x=x, y=y, classes=3, train=Ragged.of(train), test=Ragged.of(test)
    )


def test_every_second_sample_of_attackers_has_the_trigger_and_the_label_0() -> None:
    plain = images()
    poisoned = add_backdoor(plain, np.array([False, True]))
    changed = np.flatnonzero((poisoned.x != plain.x).any(axis=1))
    assert changed.tolist() == [4, 6] and poisoned.y[[4, 6]].tolist() == [0, 0]
    picture = poisoned.x[4].reshape(4, 4)
    np.testing.assert_allclose(picture[1:, 1:], 0.8, rtol=1e-6)
    assert not picture[0].any() and not picture[:, 0].any()
    others = np.delete(np.arange(12), [4, 6])
    np.testing.assert_array_equal(poisoned.y[others], plain.y[others])


def test_a_backdoor_is_measured_on_samples_of_other_classes() -> None:
    plain = images()
    test = triggered_test(plain)
    assert plain.y[8:].tolist() == [2, 0, 1, 2]
    assert [test.test[c].tolist() for c in (0, 1)] == [[8], [10, 11]] and not test.y[
        [8, 10, 11]
    ].any()
    assert (test.x[[8, 10, 11]].reshape(3, 4, 4)[:, -1, -1] > 0).all() and not test.x[9].any()
    with pytest.raises(DataError, match="a trigger needs images"):
        add_backdoor(data([[0, 1], [2, 3]], [[4], [5]]), np.array([False, True]))


def test_later_poison_comes_in_its_round_and_stays() -> None:
    plain = images()
    shift = LaterPoisoning("label_flip", (1,), 2)
    current = plain
    labels = []
    for round in range(4):
        current, shifted = shift.step(
            original=plain,
            current=current,
            round=round,
            reachable=np.arange(2),
            stream=Stream(0, round),
        )
        labels.append(current.y[4:8].tolist())
        assert not shifted.any()
    assert labels == [[1, 2, 0, 1], [1, 2, 0, 1], [1, 0, 2, 1], [1, 0, 2, 1]]
