from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedkin.core.errors import ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.scenarios.planted_clusters import CLUSTER_DIFFERENCES, planted

PIXELS, LABELS = load_digits(return_X_y=True)
ORIGINAL = {
    image.tobytes(): label
    for image, label in zip((PIXELS / 16).astype(np.float32), LABELS, strict=True)
}


def little(kind: str, clusters: int, **options: Any) -> FederatedData:
    sizes: dict[str, Any] = {"clients": 20, "samples": 30, "test_samples": 5}
    return planted("digits", kind, clusters=clusters, **(sizes | options))


def rows_of(data: FederatedData, client: int) -> np.ndarray:
    return np.concatenate([data.train[client], data.test[client]])


@pytest.mark.parametrize("kind", CLUSTER_DIFFERENCES)
@given(clusters=st.integers(1, 6), clients=st.integers(6, 23), seed=st.integers(0, 99))
def test_sizes_and_truth(kind: str, clusters: int, clients: int, seed: int) -> None:
    clusters = min(clusters, 5) if kind == "label_swap" else clusters  # of ten classes
    data = little(kind, clusters, clients=clients, samples=7, test_samples=2, seed=seed)
    assert data.clients == clients and data.classes == 10
    assert (data.train.sizes == 7).all() and (data.test.sizes == 2).all()
    assert data.true_clusters is not None
    sizes = np.bincount(data.true_clusters)
    assert len(sizes) == clusters and sizes.max() - sizes.min() <= 1
    assert sorted(np.concatenate([data.train.rows, data.test.rows])) == list(range(9 * clients))


@pytest.mark.parametrize("clusters", [1, 2, 3, 4])
def test_rotation_turned_back_is_the_original(clusters: int) -> None:
    data = little("rotation", clusters)
    assert data.true_clusters is not None and data.x.dtype == np.float32
    quarters = {1: 0, 2: 2, 3: 1, 4: 1}[clusters]
    seen = set()
    for client, cluster in enumerate(data.true_clusters):
        for row in rows_of(data, client):
            upright = np.rot90(data.x[row].reshape(8, 8), -quarters * cluster).tobytes()
            assert ORIGINAL[upright] == data.y[row]
            seen.add(upright)
    assert len(seen) == len(data.y)  # no image twice


@pytest.mark.parametrize(
    ("clusters", "pairs"), [(2, [(0, 1), (6, 7)]), (4, [(0, 1), (2, 3), (4, 5), (6, 7)])], ids=str
)
def test_two_classes_have_each_others_names(clusters: int, pairs: list[tuple[int, int]]) -> None:
    data = little("label_swap", clusters)
    assert data.true_clusters is not None
    for client, cluster in enumerate(data.true_clusters):
        first, second = pairs[cluster]
        for row in rows_of(data, client):
            name = ORIGINAL[data.x[row].tobytes()]
            assert data.y[row] == {first: second, second: first}.get(name, name)


def test_more_swaps_than_pairs_of_classes_are_refused() -> None:
    with pytest.raises(
        ConfigError, match="6 clusters cannot swap two classes each, since digits has only 10"
    ):
        little("label_swap", 6)


def test_odd_angles_are_turned_softly() -> None:
    data = little("rotation", 5)
    upright = little("rotation", 1)
    assert data.x.min() >= 0 and data.x.max() <= 1 and data.true_clusters is not None
    for client, cluster in enumerate(data.true_clusters):
        untouched = [data.x[row].tobytes() in ORIGINAL for row in rows_of(data, client)]
        assert all(untouched) if cluster == 0 else not any(untouched)
    assert abs(data.x.mean() - upright.x.mean()) < 0.05  # the ink stays on the image


def test_label_permutation_renames_by_cluster() -> None:
    data = little("label_permutation", 4)
    assert data.true_clusters is not None
    label_permutations = np.full((4, 10), -1)
    for client, cluster in enumerate(data.true_clusters):
        for row in rows_of(data, client):
            label = ORIGINAL[data.x[row].tobytes()]
            # The same name throughout the cluster.
            assert label_permutations[cluster, label] in (
                -1,
                data.y[row],
            )
            label_permutations[cluster, label] = data.y[row]
    assert label_permutations[0].tolist() == list(range(10))
    assert all(sorted(permutation) == list(range(10)) for permutation in label_permutations)
    assert len({tuple(permutation) for permutation in label_permutations}) == 4


def test_disjoint_labels_share_no_class() -> None:
    data = little("disjoint_labels", 4)
    assert data.true_clusters is not None
    own: list[set[int]] = [set() for _ in range(4)]
    for client, cluster in enumerate(data.true_clusters):
        own[cluster] |= set(data.y[rows_of(data, client)].tolist())
    assert set.union(*own) == set(range(10)) and sum(map(len, own)) == 10


@pytest.mark.parametrize("kind", CLUSTER_DIFFERENCES)
def test_seeds(kind: str) -> None:
    one, same, other = (little(kind, 3, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.x, same.x) and np.array_equal(one.y, same.y)
    assert (
        one.true_clusters is not None
        and same.true_clusters is not None
        and np.array_equal(one.true_clusters, same.true_clusters)
    )
    assert not np.array_equal(one.x, other.x)


def test_no_test_data_is_ordinary() -> None:
    assert little("rotation", 2, test_samples=0).test.sizes.sum() == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"base": "digit"}, ConfigError, "did you mean 'digits'"),
        ({"kind": "rotations"}, ConfigError, "did you mean 'rotation'"),
        ({"clusters": 0}, ConfigError, "clusters must be at least 1"),
        ({"samples": 0}, ConfigError, "samples must be at least 1"),
        ({"test_samples": -1}, ConfigError, "test_samples"),
        ({"clients": 10**10}, ConfigError, "clients must be at most 10,000,000"),
        (
            {"samples": 10**7, "clients": 10**7},
            DataError,
            "lower clients, samples",
        ),  # before memory is asked for
        ({"test_samples": 10**10}, DataError, "lower clients, samples or test_samples"),
        (
            {"clusters": 5, "clients": 4},
            ConfigError,
            "5 clusters need at least as many clients, got 4",
        ),
        (
            {"kind": "disjoint_labels", "clusters": 11},
            ConfigError,
            "11 clusters cannot have disjoint labels",
        ),
        ({"clients": 100}, DataError, r"digits has \d+ images for cluster 0.*lower clients"),
    ],
)
def test_impossible_options(options: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"base": "digits"} | options
    with pytest.raises(error, match=message):
        planted(**given)


def test_real_mnist(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKIN_DATA", str(shared_data))
    data = planted()
    assert (
        data.clients == 100
        and data.x.shape == (8000, 784)
        and data.x.max() == 1
        and data.name == "mnist rotation"
    )
