"""FedEM's synthetic federation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.data import synthetic_mixture
from fedkin.data.synthetic_mixture import generate


def test_the_authors_seed_gives_their_sizes() -> None:
    sizes = generate(
        clients=300,
        components=3,
        features=2,
        concentration=0.4,
        test_samples=1,
        random=np.random.RandomState(12345),
    ).sizes
    assert sizes.sum() == 67_758 and 50 <= sizes.min() and sizes.max() == 1000


def test_labels_are_those_of_the_samples_component() -> None:
    made = generate(
        clients=30,
        components=3,
        features=20,
        concentration=0.4,
        test_samples=50,
        random=np.random.RandomState(1),
    )
    score = np.einsum("jd,jd->j", made.x, made.models[made.component])
    # Noise of 0.1.
    assert ((score > 0) == made.y)[np.abs(score) > 0.6].all() and ((score > 0) != made.y).any()
    assert np.abs(made.x).max() <= 1 and np.abs(made.models).max() <= 1


def test_components_of_a_client_have_its_shares_and_are_shuffled() -> None:
    made = generate(
        clients=20,
        components=3,
        features=2,
        concentration=0.4,
        test_samples=3000,
        random=np.random.RandomState(1),
    )
    start = 0
    for client, size in enumerate(made.sizes):
        test = made.component[start + size : start + size + 3000]
        np.testing.assert_allclose(
            np.bincount(test, minlength=3) / 3000, made.shares[client], atol=0.04
        )
        half = np.bincount(test[:1500], minlength=3) / 1500
        np.testing.assert_allclose(half, made.shares[client], atol=0.06)
        start += size + 3000


def test_a_client_is_in_the_cluster_of_its_largest_share_and_a_seed_gives_the_same() -> None:
    data, same, other = (
        synthetic_mixture(seed=seed, clients=8, features=5, test_samples=10) for seed in (3, 3, 4)
    )
    made = generate(
        clients=8,
        components=3,
        features=5,
        concentration=0.4,
        test_samples=10,
        random=np.random.RandomState(3),
    )
    np.testing.assert_array_equal(data.true_clusters, made.shares.argmax(axis=1))
    np.testing.assert_array_equal(data.train.sizes, made.sizes)
    assert (data.test.sizes == 10).all() and len(
        np.intersect1d(data.train.rows, data.test.rows)
    ) == 0
    assert data.x.tobytes() == same.x.tobytes() != other.x.tobytes()


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": 0},
        {"components": 0},
        {"features": 0},
        {"concentration": 0.0},
        {"test_samples": 0},
        {"seed": -1},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        synthetic_mixture(**wrong)
