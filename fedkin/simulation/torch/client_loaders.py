"""The data of one client from PyTorch data sets and loaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset

from fedkin.core.errors import DataError
from fedkin.data.federated import FederatedData, Ragged


def client_data(train: Any, test: Any, classes: int, name: str = "loaders") -> FederatedData:
    """The data of one client, as a federation with only this client.

    Args:
        train: map-style data set of pairs (x, y), or a loader of such a data set. x is a tensor or
            an array of one shape for all samples, y is an integer. Only a loader's data set is
            read: the federation decides on batches and their order.
        test: the same for the test samples; may be empty.
        classes: number of classes C, including classes without a sample at this client.
        name: name of the data in messages.

    Raises:
        DataError: the source is not such a data set, its samples differ in shape, or there is no
            training sample.
    """
    x, y = _read(train, f"{name}: train")
    test_x, test_y = _read(test, f"{name}: test")
    if len(test_y) and test_x.shape[1:] != x.shape[1:]:
        raise DataError(
            f"{name}: training samples have shape {x.shape[1:]} but test samples have shape "
            f"{test_x.shape[1:]}; give both the same shape"
        )
    # Training samples come first, then test samples.
    train_rows, test_rows = np.split(np.arange(len(y) + len(test_y)), [len(y)])
    return FederatedData(
        name=name,
        x=np.concatenate([x, test_x]) if len(test_y) else x,
        y=np.concatenate([y, test_y]),
        classes=classes,
        train=Ragged.of([train_rows]),
        test=Ragged.of([test_rows]),
    )


def _read(source: Any, place: str) -> tuple[np.ndarray, np.ndarray]:
    """All samples and labels of a data set or loader, as arrays."""
    data = _of_loader(source, place) if isinstance(source, DataLoader) else source
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        x, y = (tensor.detach().cpu().numpy() for tensor in data.tensors)
        if y.ndim != 1 or y.dtype.kind not in "iu":
            raise DataError(
                f"{place}: expected labels in a tensor [n] of whole numbers, got {y.dtype} "
                f"{list(y.shape)}"
            )
        return _numbers(x), y.astype(np.int64)
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise DataError(
            f"{place}: expected a map-style data set (with __len__ and __getitem__), or a loader "
            "of such a data set"
        )
    try:
        pairs = [data[i] for i in range(len(data))]
        # A data set without samples has no shape that could be read.
        x = np.zeros((0, 1), np.float32)
        if pairs:
            x = np.stack([torch.as_tensor(x).detach().cpu().numpy() for x, _ in pairs])
        y = np.array([_label(y) for _, y in pairs], np.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"{place}: expected pairs (x, y) with x of one shape and y a whole number: {reason}"
        ) from error
    return _numbers(x), y


def _label(y: Any) -> int:
    """The label as an integer. Raises ValueError if it is not a whole number."""
    if float(y) != int(y):
        raise ValueError(f"label {y} is not a whole number")
    return int(y)


def _of_loader(loader: DataLoader[Any], place: str) -> Any:
    """The data set of a loader. Raises DataError if the loader's sampler selects samples."""
    if not isinstance(loader.sampler, (SequentialSampler, RandomSampler)):
        raise DataError(
            f"{place}: the loader's {type(loader.sampler).__name__} would be ignored and its whole "
            "data set used; give a data set of only the samples that you need "
            "(torch.utils.data.Subset)"
        )
    return loader.dataset


def _numbers(x: np.ndarray) -> np.ndarray:
    """An array of numbers as float32 or int64, the types of federated data."""
    return x.astype(np.float32) if x.dtype.kind == "f" else x.astype(np.int64)
