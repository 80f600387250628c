"""Similarity of clients' data by the Kolmogorov-Smirnov statistic (FedSim, Fig. 1)."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged

# Three clients with two features. The last two rows are test samples of client 0.
X = np.array([[1, 0], [2, 0], [2, 0], [2, 0], [3, 7], [1, 0], [2, 0], [2, 0], [9, 9], [9, 9]])
TRAIN = Ragged.of([np.arange(3), np.arange(3, 5), np.arange(5, 8)])
TEST = Ragged.of([np.arange(8, 10), np.arange(0), np.arange(0)])


def federation(vocabulary: tuple[str, ...] | None = None) -> FederatedData:
    x = X.astype(np.float32 if vocabulary is None else np.int64)
    return FederatedData(
        name="three",
        x=x,
        y=np.arange(10) % 2,
        classes=2,
        train=TRAIN,
        test=TEST,
        vocabulary=vocabulary,
    )


def test_by_hand() -> None:
    """Clients 0 and 1 have the distance 1/2 in both features. Clients 0 and 2 have the same
    training samples; the test samples of client 0 play no part."""
    half = [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]
    np.testing.assert_array_equal(fk.ks_similarity(federation()), half)


def test_the_mean_over_features_counts() -> None:
    """Distances 1/2 and 0: similarity 3/4, which neither the maximum nor the sum gives."""
    x = X.astype(np.float32)
    x[:, 1] = 4
    data = FederatedData(name="flat", x=x, y=np.arange(10) % 2, classes=2, train=TRAIN, test=TEST)
    assert fk.ks_similarity(data)[0, 1] == 0.75


def test_some_clients_in_the_given_order() -> None:
    every = fk.ks_similarity(federation())
    np.testing.assert_array_equal(
        fk.ks_similarity(federation(), clients=[1, 0]), every[np.ix_([1, 0], [1, 0])]
    )


def test_images_are_compared_pixel_by_pixel() -> None:
    flat = fk.data.digits(clients=4, classes_per_client=2)
    images = FederatedData(
        name="images",
        x=flat.x.reshape(-1, 8, 8),
        y=flat.y,
        classes=10,
        train=flat.train,
        test=flat.test,
    )
    similarity = fk.ks_similarity(images)
    np.testing.assert_array_equal(similarity, fk.ks_similarity(flat))
    assert ((similarity > 0) & (similarity <= 1)).all()


def test_clients_whose_digits_are_turned_alike_are_more_similar() -> None:
    data = fk.planted("digits", "rotation", clusters=2, clients=8)
    similarity = fk.ks_similarity(data)
    assert data.true_clusters is not None
    same = data.true_clusters[:, None] == data.true_clusters
    others = ~np.eye(8, dtype=bool)
    assert similarity[same & others].mean() > similarity[~same].mean()


def test_texts_and_unknown_clients_are_refused() -> None:
    with pytest.raises(DataError, match="three: similarity needs features that are numbers"):
        fk.ks_similarity(federation(vocabulary=tuple("abcdefghij")))
    with pytest.raises(DataError, match="there is no client 3; clients are 0 to 2"):
        fk.ks_similarity(federation(), clients=[0, 3])
