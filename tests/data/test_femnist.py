from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import femnist
from fedkin.data.partition_options import POOLED, PartitionOptions


@pytest.fixture
def little_femnist(places: Path) -> Path:
    """A pool of 10 x 1,000 letters, and two files of three writers each; the last writer has one
    training sample."""
    rng = np.random.default_rng(0)
    folder = places / "FEMNIST"
    folder.mkdir()
    pixels = rng.integers(0, 256, (10_000, 784)).astype(np.uint8)
    np.savez(
        folder / "femnist_aj_pool.npz", x=pixels, y=np.repeat(np.arange(10), 1000).astype(np.uint8)
    )
    for number in (0, 1):
        owner = np.array([0] * 10 + [1] * 10 + [2]).astype(np.int16)
        split = (np.arange(21) % 10 == 9).astype(np.uint8)
        names = np.array([f"w{number}{i}" for i in range(3)])
        y = rng.integers(0, 62, 21).astype(np.uint8)
        file = folder / f"femnist_{number}.npz"
        np.savez(
            file, x=pixels[:21] // (number + 1), y=y, client_id=owner, split=split, writers=names
        )
    return folder


def test_letters(little_femnist: Path) -> None:
    data = femnist(clients=20)
    assert (
        data.clients == 20
        and data.classes == 10
        and data.x.dtype == np.float32
        and data.x.max() == 1
    )
    rows = np.concatenate([data.train.rows, data.test.rows])
    assert len(np.unique(rows)) == len(rows)
    for u in range(20):
        assert set(data.y[data.train[u]]) <= {(u + j) % 10 for j in range(5)}


@pytest.mark.parametrize("partition", POOLED)
def test_letters_by_any_partition(partition: str, little_femnist: Path) -> None:
    data = femnist(partition=partition, clients=20, seed=3)
    labels = np.repeat(np.arange(10), 1000)
    expected, true_clusters = PartitionOptions(partition, 20).partition_labels(labels, 200, 3)
    for u in range(20):
        assert sorted([*data.train[u], *data.test[u]]) == sorted(expected[u])
    assert (data.true_clusters is None) == (true_clusters is None)
    assert data.name == "femnist" and data.classes == 10


def test_options_of_a_partition_of_letters(little_femnist: Path) -> None:
    one = femnist(partition="shards", classes_per_client=1, clients=10, train_fraction=1)
    assert (one.label_counts() > 0).sum(axis=1).tolist() == [1] * 10
    with pytest.raises(ConfigError, match=r"alpha = 0.1 applies to partition = 'dirichlet'"):
        femnist(alpha=0.1)
    with pytest.raises(ConfigError, match=r"alpha = 0.1 does not apply to partition 'iid'"):
        femnist(partition="iid", alpha=0.1)
    with pytest.raises(ConfigError, match="shared_images does not apply to femnist with partition"):
        femnist(partition="iid", shared_images=True)
    with pytest.raises(ConfigError, match="shuffled does not apply to femnist with partition"):
        femnist(partition="iid", shuffled=False)
    with pytest.raises(ConfigError, match="partition does not apply to femnist with writer"):
        femnist(partition="iid", writer=True)


@pytest.mark.parametrize("shared", [False, True])
def test_the_images_of_a_class_are_shuffled_before_clients_take_them(
    little_femnist: Path, shared: bool
) -> None:
    """In the pool's order, clients take the first images of a class; shuffled, as many, but from
    the whole class."""
    places = {}
    for shuffled in (False, True):
        data = femnist(clients=20, shared_images=shared, shuffled=shuffled)
        taken = np.unique(np.concatenate([data.train.rows, data.test.rows]))
        assert (data.y[taken] == taken // 1000).all()
        places[shuffled] = [taken[data.y[taken] == c] % 1000 for c in range(10)]
    for first, drawn in zip(places[False], places[True], strict=True):
        assert first.tolist() == list(range(len(first)))
        assert len(drawn) == len(first) and drawn.tolist() != first.tolist()
        error = 1000 / np.sqrt(12 * len(drawn))
        assert abs(drawn.mean() - 499.5) < 5 * error


def test_the_shuffle_is_drawn_from_the_seed_and_moves_no_other_draw(little_femnist: Path) -> None:
    """With one seed, clients have as many images of each class in any order."""
    one, again, other = (femnist(clients=20, seed=seed) for seed in (3, 3, 4))
    assert one.train.rows.tolist() == again.train.rows.tolist()
    mine, theirs = (np.concatenate([data.train.rows, data.test.rows]) for data in (one, other))
    for c in range(10):  # in one order for all seeds, the fewer would be among the more
        first, second = (set(rows[rows // 1000 == c].tolist()) for rows in (mine, theirs))
        assert first - second and second - first
    in_order = femnist(clients=20, shuffled=False, seed=3)
    assert one.train.sizes.tolist() == in_order.train.sizes.tolist()
    assert one.label_counts().tolist() == in_order.label_counts().tolist()


def test_shared_images_train_one_and_test_another(little_femnist: Path) -> None:
    data = femnist(clients=20, shared_images=True)
    assert set(data.train.rows) & set(data.test.rows)
    for u in range(20):
        assert not set(data.train[u]) & set(data.test[u])  # within a client, they do not
    assert data.train.sizes.tolist() == femnist(clients=20).train.sizes.tolist()


def test_width_of_the_output(little_femnist: Path) -> None:
    data = femnist(clients=20, classes=26)
    assert data.classes == 26 and data.y.max() == 9 and data.label_counts().shape == (20, 26)
    with pytest.raises(ConfigError, match="at least 10"):
        femnist(classes=9)


def test_by_writer(little_femnist: Path) -> None:
    data = femnist(writer=True)
    assert data.client_names == ("w00", "w01", "w02", "w10", "w11", "w12") and data.classes == 62
    assert data.train.sizes.tolist() == [9, 9, 1] * 2 and data.test.sizes.tolist() == [1, 1, 0] * 2
    assert data.test[4].tolist() == [21 + 19]
    four = femnist(writer=True, clients=4)
    assert four.client_names == ("w00", "w01", "w02", "w10")
    for u in range(4):
        np.testing.assert_array_equal(four.x[four.train[u]], data.x[data.train[u]])
    assert len(femnist(writer=True, clients=3).y) == 21
    with pytest.raises(ConfigError, match="from 1 to 6"):
        femnist(writer=True, clients=7)


@pytest.mark.parametrize(
    "extra",
    [
        {"classes": 62},
        {"classes_per_client": 5},
        {"shared_images": True},
        {"shuffled": False},
        {"train_fraction": 0.9},
    ],
)
def test_options_that_mean_nothing_by_writer(extra: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match=f"^{next(iter(extra))} does not apply to femnist with writer"
    ):
        femnist(writer=True, **extra)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"client_id": np.full(21, 3)}, "labels|client"),
        ({"split": np.full(21, 2)}, r"femnist_0\.npz"),
        ({"y": np.full(21, 62)}, "row 0 has 62"),
        ({"x": np.zeros((20, 784), np.uint8)}, "21 labels, but 20 entries in x"),
        ({"x": np.zeros((21, 784))}, "expected x uint8"),
    ],
)
def test_damaged_files_are_refused(
    little_femnist: Path, change: dict[str, np.ndarray], message: str
) -> None:
    path = little_femnist / "femnist_0.npz"
    with np.load(path) as file:
        arrays = dict(file) | change
    np.savez(path, **arrays)  # type: ignore[arg-type]
    (little_femnist / "femnist_1.npz").unlink()
    with pytest.raises(DataError, match=message):
        femnist(writer=True)


def test_missing_files_say_where_to_look(places: Path) -> None:
    for writer in (False, True):
        with pytest.raises(DataError, match=r"not found in .*FEMNIST.*FEDKIN_DATA"):
            femnist(writer=writer)


def test_real_letters(real: Path) -> None:
    for shared in (False, True):
        data = femnist(shared_images=shared)
        assert data.clients == 200 and ((data.label_counts() > 0).sum(axis=1) == 5).all()
    overlap = np.isin(data.test.rows, data.train.rows).mean()
    # The published federation tests mostly on images that some client trains on.
    assert overlap > 0.5


def test_real_writers(real: Path) -> None:
    data = femnist(writer=True, clients=30)
    assert data.clients == 30 and data.classes == 62 and data.test.sizes.min() >= 1
