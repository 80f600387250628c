"""A client's data out of PyTorch's data sets: accepted data, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    random_split,
)

from fedkin.core.errors import DataError
from fedkin.simulation.torch.client_loaders import client_data


def samples(count: int = 10) -> TensorDataset:
    return TensorDataset(torch.arange(2.0 * count).reshape(count, 2), torch.arange(count) % 3)


class Pairs(Dataset[Any]):
    def __init__(self, pairs: list[Any]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, i: int) -> Any:
        return self.pairs[i]


def test_data_sets_and_loaders_of_them_give_the_same() -> None:
    whole = samples(6)
    rest = samples(4)
    for wrap in (lambda data: data, lambda data: DataLoader(data, batch_size=3, shuffle=True)):
        data = client_data(wrap(whole), wrap(rest), 3)
        np.testing.assert_array_equal(
            data.x[data.train[0]], np.arange(12, dtype=np.float32).reshape(6, 2)
        )
        assert (data.train.sizes.tolist(), data.test.sizes.tolist(), data.classes) == ([6], [4], 3)


def test_a_split_stays_split() -> None:
    train, test = random_split(samples(10), [8, 2])
    data = client_data(train, test, 3)
    assert (data.train.sizes.tolist(), data.test.sizes.tolist()) == ([8], [2])
    assert not {*map(tuple, data.x[data.train[0]])} & {*map(tuple, data.x[data.test[0]])}
    own = client_data(Subset(samples(10), [1, 3]), Subset(samples(10), []), 3)
    np.testing.assert_array_equal(own.x[own.train[0]], [[2, 3], [6, 7]])


def test_a_sampler_that_leaves_samples_out_is_refused() -> None:
    loader = DataLoader(samples(), sampler=SubsetRandomSampler([0, 1]))
    with pytest.raises(
        DataError, match=r"train: the loader's SubsetRandomSampler would be ignored.*Subset"
    ):
        client_data(loader, samples(), 3)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (TensorDataset(torch.zeros(2, 1), torch.tensor([0.7, 1.0])), "whole numbers"),
        (TensorDataset(torch.zeros(2, 1), torch.zeros(2, 1, dtype=torch.int64)), "whole numbers"),
        (Pairs([(torch.zeros(2), 0.5)]), "label 0.5"),
        (Pairs([(torch.zeros(2), 0), (torch.zeros(3), 1)]), "one shape"),
        (Pairs([3]), "pairs"),
        (iter([]), "map-style data set"),
    ],
)
def test_objects_that_are_no_data_set_of_pairs_are_refused(data: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        client_data(data, samples(), 3)
