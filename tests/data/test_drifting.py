"""Streams: their labels by hand, the authors' matrix, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import DATASETS, StreamData
from fedkin.data.drifting import CHANGES_A


def made(name: str, **options: Any) -> StreamData:
    return cast(StreamData, DATASETS[name](**options))


def concept_of_samples(data: StreamData) -> np.ndarray:
    """The concept of every row, through the index of steps."""
    assert data.concepts is not None
    concept = np.full(len(data.y), -1)
    for step, own in zip(data.concepts, data.steps, strict=True):
        concept[own.rows] = step[own.owners()]
    return concept


def test_labels() -> None:
    sine, circle, sea = (
        made(name) if name != "sea" else made(name, noise=0) for name in ("sine", "circle", "sea")
    )
    below = sine.x[:, 1] <= np.sin(sine.x[:, 0])
    concept = concept_of_samples(sine)
    assert np.array_equal(sine.y, np.where(concept == 0, below, ~below)) and set(concept) == {0, 1}
    rounds = [(0.2, 0.5, 0.15), (0.6, 0.5, 0.25)]
    outside = [np.hypot(circle.x[:, 0] - a, circle.x[:, 1] - b) > r for a, b, r in rounds]
    assert np.array_equal(circle.y, np.where(concept_of_samples(circle) == 0, *outside))
    total = sea.x[:, 1].astype(float) + sea.x[:, 2]
    assert np.array_equal(sea.y, total > np.array([8, 9])[concept_of_samples(sea)])
    assert sea.x.max() > 9 and sine.x.max() <= 1


def test_ten_percent_of_seas_labels_are_inverted() -> None:
    plain = made("sea", noise=0, samples=500)
    noisy = made("sea", samples=500)
    assert np.array_equal(plain.x, noisy.x) and 0.09 < (plain.y != noisy.y).mean() < 0.11


def test_all_four_concepts_of_sea() -> None:
    data = made("sea", clients=4, changes=("0123", "0123"), noise=0, samples=400)
    total = data.x[:, 1].astype(float) + data.x[:, 2]
    assert np.array_equal(data.y, total > np.array([8, 9, 7, 9])[concept_of_samples(data)])


def test_matrix_a() -> None:
    data = made("sine", clients=12)
    assert data.concepts is not None and data.concepts.shape == (11, 12)
    assert ["".join(map(str, row[:10])) for row in data.concepts] == list(CHANGES_A)
    assert np.array_equal(data.concepts[:, 10:], data.concepts[:, :2])  # repeated
    tested = data.concepts[:-1, :10] != data.concepts[1:, :10]
    assert tested.sum() == 16  # client-steps on which every method must fail


def test_train_and_test_are_the_first_two_steps() -> None:
    data = made("circle", clients=3, samples=7, changes=("001", "010"))
    assert data.train.sizes.tolist() == data.test.sizes.tolist() == [7, 7, 7]
    assert np.array_equal(data.train.rows, data.steps[0].rows) and np.array_equal(
        data.test.rows, data.steps[1].rows
    )
    assert data.true_clusters is not None and data.true_clusters.tolist() == [0, 0, 1]
    everything = np.concatenate([own.rows for own in data.steps])
    assert sorted(everything) == list(range(len(data.y)))
    assert np.array_equal(data.x, made("circle", clients=3, samples=7, changes=("001", "010")).x)
    assert not np.array_equal(
        data.x, made("circle", clients=3, samples=7, changes=("001", "010"), seed=1).x
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "clients"),
        ({"samples": 0}, "samples"),
        ({"changes": ("00",)}, "at least two steps"),
        ({"changes": ("00", "0")}, "for every client"),
        ({"changes": ("00", "02")}, "a digit from 0 to 1"),
        ({"changes": ("", "")}, "for every client"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made("sine", **options)


def test_impossible_noise_and_steps() -> None:
    with pytest.raises(ConfigError, match="noise must be a fraction"):
        made("sea", noise=1.0)
    with pytest.raises(DataError, match="a stream needs at least two steps"):
        replace(made("sine"), steps=(), concepts=None)
