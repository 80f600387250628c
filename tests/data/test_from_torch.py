from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from fedkin.core.errors import ConfigError, DataError
from fedkin.data import from_torch


class Pairs(Dataset[Any]):
    """A dataset of a user's own."""

    def __init__(self, pairs: list[Any]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> Any:
        return self.pairs[i]


def numbered(first: int, count: int, classes: int = 2) -> TensorDataset:
    """Samples [first, -first], [first + 1, ..] of classes in turn."""
    x = torch.arange(first, first + count, dtype=torch.float32)
    return TensorDataset(torch.stack([x, -x], 1), torch.arange(count) % classes)


THREE = [numbered(0, 10), numbered(100, 5), numbered(200, 5)]


def test_a_dataset_per_client() -> None:
    data = from_torch(THREE, test=0)
    assert data.clients == 3 and data.x.dtype == np.float32 and data.y.dtype == np.int64
    assert [sorted(data.x[data.train[u], 0]) for u in range(3)] == [
        [*range(10)],
        [*range(100, 105)],
        [*range(200, 205)],
    ]
    assert data.y.tolist() == [*[0, 1] * 5, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
    shares = from_torch(THREE, test=0.2)
    assert shares.test.sizes.tolist() == [2, 1, 1]


def test_a_loader_that_shuffles_is_read_in_the_order_of_its_dataset() -> None:
    loaders = [DataLoader(one, batch_size=3, shuffle=True, drop_last=True) for one in THREE]
    first = from_torch(loaders)
    second = from_torch(loaders)
    assert np.array_equal(first.x, from_torch(THREE).x) and np.array_equal(first.x, second.x)
    assert np.array_equal(first.train.rows, second.train.rows)
    assert len(from_torch([DataLoader(THREE[0], batch_size=None)]).x) == 10


def test_test_sets_of_the_same_clients() -> None:
    tests = [numbered(1000, 2), numbered(1100, 0), numbered(1200, 1)]
    data = from_torch(
        THREE, test=[DataLoader(one) for one in tests if len(one)][:1] + [tests[1], tests[2]]
    )
    assert data.train.sizes.tolist() == [10, 5, 5] and data.test.sizes.tolist() == [2, 0, 1]
    assert data.x[data.test[0], 0].tolist() == [1000, 1001] and data.x[
        data.test[2], 0
    ].tolist() == [1200]
    with pytest.raises(
        ConfigError, match="test has 2 datasets, expected one for each of the 3 clients"
    ):
        from_torch(THREE, test=tests[:2])


def test_clients_with_names() -> None:
    data = from_torch(
        {"south": THREE[0], "north": THREE[1]},
        test={"north": numbered(7, 1), "south": numbered(8, 1)},
    )
    assert data.client_names == ("north", "south")
    assert data.x[data.train[0], 0].min() == 100 and data.x[data.test[0], 0].tolist() == [7]


def test_one_dataset_divided() -> None:
    whole = ConcatDataset(THREE)
    data = from_torch(whole, partition="iid", num_clients=4, seed=1)
    assert data.clients == 4 and len(data.x) == 20
    owned = from_torch(DataLoader(whole, shuffle=True), clients=np.repeat([1, 0], 10), test=0)
    assert sorted(owned.x[owned.train[1], 0]) == list(range(10))
    named = from_torch(whole, clients=np.repeat([1, 0], 10), test=np.arange(20) % 5 == 0)
    assert named.test.rows.tolist() == [10, 15, 0, 5]


def test_samples_of_a_users_own_dataset() -> None:
    pixels = np.full((4, 4), 51, np.uint8)
    pairs = Pairs(
        [(pixels, torch.tensor(1)), (pixels, 0), (torch.from_numpy(pixels), torch.tensor([1]))]
    )
    data = from_torch([pairs], test=0)
    assert (
        data.x.shape == (3, 4, 4)
        and (data.x == np.float32(0.2)).all()
        and data.y.tolist() == [1, 0, 1]
    )
    texts = from_torch([Pairs([([1.0], "b"), ([2.0], "a")])], test=0)
    assert texts.label_names == ("a", "b") and texts.y.tolist() == [1, 0]
    words = from_torch([Pairs([(torch.tensor([3, 1]), 0)])], integers=True)
    assert words.x.dtype == np.int64
    needs_gradient = TensorDataset(torch.zeros(2, 1, requires_grad=True), torch.tensor([0.0, 1.0]))
    assert from_torch([needs_gradient]).y.tolist() == [0, 1]


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "expected a dataset for each client, got none"),
        (
            [THREE[0], numbered(0, 0), THREE[1]],
            r"client 1 has no samples \(1 such clients\); leave its dataset out",
        ),
        ([THREE[0], numbered(0, 3).tensors[0]], "client 1: expected samples"),
        ([Pairs([(1, 2, 3)])], r"client 0: expected samples \(x, y\), got a tuple for sample 0"),
        (
            [Pairs([(np.zeros(2), 0), (np.zeros(3), 0)])],
            r"client 0: sample 1 has shape \(3,\), but sample 0 has \(2,\); resize",
        ),
        (
            [THREE[0], Pairs([(np.zeros(3, np.float32), 0)])],
            r"client 1 has samples of shape \(3,\) .*client 0 has \(2,\)",
        ),
        (
            [THREE[0], Pairs([(np.zeros(2, np.uint8), 0)])],
            "client 1 has samples .* type uint8, .* float32",
        ),
        ([Endless()], "client 0: a Endless has no length; collect its samples"),
        ([3], "client 0: expected a dataset or DataLoader of PyTorch, got int"),
        (
            [DataLoader(THREE[0], sampler=SubsetRandomSampler([1, 2]))],
            "draws with a SubsetRandomSampler.*Subset",
        ),
        (
            [DataLoader(THREE[0], sampler=WeightedRandomSampler([1.0] * 10, 10))],
            "draws with a WeightedRandomSampler",
        ),
        (
            [DataLoader(THREE[0], sampler=RandomSampler(THREE[0], replacement=True))],
            "draws with a RandomSampler",
        ),
        (
            [DataLoader(THREE[0], sampler=RandomSampler(THREE[0], num_samples=3))],
            "draws with a RandomSampler",
        ),
        (
            [DataLoader(THREE[0], batch_sampler=[[0, 1]])],  # type: ignore[arg-type]
            "draws with a list",
        ),
        ([DataLoader(THREE[0], collate_fn=list)], "its own collate_fn"),
        ([Subset(THREE[0], [])], "client 0 has no samples"),
        ([Pairs([([1.0], 0), ([1.0], "a")])], "labels must be of one type"),
    ],
)
def test_refused_sources(source: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=f"^mine.*{message}"):
        from_torch(source, name="mine")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (
            THREE,
            {"partition": "iid", "num_clients": 2},
            "partition does not apply to a list with a dataset for each client",
        ),
        (THREE, {"clients": [0] * 20}, "clients does not apply"),
        (THREE[0], {}, "the client of each sample"),
        (
            THREE[0],
            {"partition": "iid", "num_clients": 2, "test": THREE[1]},
            "test of a single dataset must be a share",
        ),
    ],
)
def test_options_that_cannot_be(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_torch(source, **options)
