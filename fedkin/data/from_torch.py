"""PyTorch datasets and DataLoaders as federated data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Shaped

from fedkin.core.errors import ConfigError, DataError, MissingExtra
from fedkin.data.client_ids import client_ids
from fedkin.data.federated import FederatedData
from fedkin.data.from_arrays import from_arrays
from fedkin.data.partition_options import checked
from fedkin.data.pil_images import is_image, pixels_of_all
from fedkin.data.user_arrays import user_array


class _Read(NamedTuple):
    """All samples of one dataset, as arrays."""

    x: Shaped[np.ndarray, "m ..."]
    y: list[Any]


@checked
def from_torch(
    source: Any,
    *,
    clients: Any = None,
    partition: str | None = None,
    num_clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    min_samples: int | None = None,
    test: Any = 0.2,
    seed: int = 0,
    name: str = "torch",
    label_names: Sequence[str] | None = None,
    classes: int | None = None,
    integers: bool = False,
) -> FederatedData:
    """A federation from PyTorch datasets or DataLoaders: one for each client, or one for all.

    A dataset gives pairs (x, y). They are read once, from index 0 on, so random transforms are
    drawn once. The dataset of a DataLoader is read in the same way: shuffling and a dropped last
    batch have no effect.

    Args:
        source: a list (or dictionary by name) of datasets or DataLoaders, one for each client, or a
            single one.
        clients: for a single dataset: the client of each sample [M]. Give either this or a
            partition.
        partition, num_clients, classes_per_client, alpha, min_samples: how to divide a single
            dataset, as in ``from_arrays``.
        test: each client's share of test samples, or as many datasets or DataLoaders as in
            ``source``, whose samples test the same clients.
        seed: seed of partition and split.
        name: name of the data set.
        label_names: names of the classes 0, 1, ..; None if labels are numbers.
        classes: number of classes C; None for the number of names, or the largest label + 1.
        integers: whether to keep x as integers, such as the word indices of a text. Otherwise x
            become float32, and uint8 is scaled to 0 .. 1.

    Returns:
        The federation.

    Raises:
        DataError: samples are not pairs or have different shapes, a client has no samples, a
            dataset has no length, or a DataLoader has a ``collate_fn``, or a sampler that draws a
            subset or repeats samples.
        ConfigError: options contradict each other.
        MissingExtra: PyTorch is not installed.
    """
    import_torch()
    if isinstance(source, (list, tuple, dict)):
        dividing = {
            "partition": partition,
            "num_clients": num_clients,
            "classes_per_client": classes_per_client,
            "alpha": alpha,
            "min_samples": min_samples,
            "clients": clients,
        }
        for option, value in dividing.items():
            if value is not None:
                raise ConfigError(
                    f"{option} does not apply to a list with a dataset for each client; leave it "
                    "out"
                )
        samples, clients, test = _read_all(source, test, name)
    else:
        samples = _read(source, name)
        test = _share(test)
    return from_arrays(
        samples.x,
        samples.y,
        clients=clients,
        partition=partition,
        num_clients=num_clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        min_samples=min_samples,
        test=test,
        seed=seed,
        name=name,
        label_names=label_names,
        classes=classes,
        integers=integers,
    )


def _read_all(source: Any, test: Any, name: str) -> tuple[_Read, np.ndarray, Any]:
    """The samples of the clients' datasets, the client of each sample, and ``test``.

    ``test`` is returned unchanged if it is a share; datasets of test samples become the split of
    each sample (0 for training, 1 for test).
    """
    samples, owners = _join(_by_client(source), name)
    _check_all_have_samples(_by_client(source), owners, name)
    if not isinstance(test, (list, tuple, dict)):
        return samples, owners, test
    if _by_client(test).keys() != _by_client(source).keys():
        raise ConfigError(
            f"test has {len(test)} datasets, expected one for each of the {len(source)} clients"
        )
    test_samples, test_owners = _join(_by_client(test), f"{name}, test")
    joined = _stack([samples, test_samples], [name, f"{name}, test"])
    split = np.repeat([0, 1], [len(samples.y), len(test_samples.y)])
    return joined, np.concatenate([owners, test_owners]), split


def _by_client(source: Any) -> dict[Any, Any]:
    """The clients' datasets by name. Clients of a list are numbered."""
    return source if isinstance(source, dict) else dict(enumerate(source))


def _share(test: Any) -> Any:
    """``test`` for a single dataset: a share, or an array with the split of each sample."""
    if hasattr(test, "__getitem__") and not hasattr(test, "dtype"):
        raise ConfigError(
            "test of a single dataset must be a share, or an array with the split of each sample, "
            f"got {type(test).__name__}"
        )
    return test


def _join(sources: dict[Any, Any], place: str) -> tuple[_Read, np.ndarray]:
    """The samples of all clients, one client after another, and the client of each sample."""
    if not sources:
        raise DataError(f"{place}: expected a dataset for each client, got none")
    parts = {key: _read(source, f"{place}: client {key}") for key, source in sources.items()}
    keys = client_ids(list(parts), place, "the clients of its datasets")
    owners = np.repeat(keys, [len(part.y) for part in parts.values()])
    return _stack(list(parts.values()), [f"{place}: client {key}" for key in parts]), owners


def _check_all_have_samples(sources: dict[Any, Any], owners: np.ndarray, place: str) -> None:
    """Raise DataError for a client without samples, since the next client would get the number of
    the empty one."""
    empty = sorted({str(key) for key in sources} - {str(owner) for owner in owners})
    if empty:
        raise DataError(
            f"{place}: client {empty[0]} has no samples ({len(empty)} such clients); leave its "
            "dataset out"
        )


def _stack(parts: list[_Read], places: list[str]) -> _Read:
    """The samples of all datasets, concatenated. Raises DataError if shapes or types differ."""
    filled = [(part, place) for part, place in zip(parts, places, strict=True) if len(part.y)]
    if not filled:
        return _Read(np.zeros((0, 1)), [])
    first, first_place = filled[0]
    for part, place in filled:
        same_shape = part.x.shape[1:] == first.x.shape[1:]
        if not same_shape or part.x.dtype != first.x.dtype:
            raise DataError(
                f"{place} has samples of shape {part.x.shape[1:]} and type {part.x.dtype}, but "
                f"{first_place} has {first.x.shape[1:]} and {first.x.dtype}; make them equal"
            )
    x = np.concatenate([part.x for part, _ in filled])
    y = [label for part, _ in filled for label in part.y]
    return _Read(x, y)


def _read(source: Any, place: str) -> _Read:
    """The samples of a dataset or DataLoader, in the order of the dataset."""
    from torch.utils.data import TensorDataset

    dataset = _dataset(source, place)
    try:
        count = len(dataset)
    except TypeError:
        raise DataError(
            f"{place}: a {type(dataset).__name__} has no length; collect its samples in arrays, "
            "and give these to fk.data.from_arrays"
        ) from None
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        x, y = (_array(tensor, place) for tensor in dataset.tensors)
        return _Read(x, y.reshape(len(y), -1).tolist() if y.ndim > 1 else y.tolist())
    pairs = [dataset[i] for i in range(count)]
    for i, pair in enumerate(pairs):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise DataError(
                f"{place}: expected samples (x, y), got a {type(pair).__name__} for sample {i}"
            )
    if pairs and all(is_image(image) for image, _ in pairs):
        x = pixels_of_all([image for image, _ in pairs], place)
        return _Read(x, [_label(y) for _, y in pairs])
    arrays = [_array(x, f"{place}, sample {row}") for row, (x, _) in enumerate(pairs)]
    for row, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"{place}: sample {row} has shape {array.shape}, but sample 0 has "
                f"{arrays[0].shape}; resize or pad them to one shape"
            )
    x = np.stack(arrays) if arrays else np.zeros((0, 1))
    return _Read(x, [_label(y) for _, y in pairs])


def _dataset(source: Any, place: str) -> Any:
    """The dataset of a DataLoader; a dataset is returned unchanged.

    Raises:
        DataError: ``source`` is neither a dataset nor a DataLoader; or it is a DataLoader that can
            repeat samples or leave some out, or one with a collate function of the user.
    """
    from torch.utils.data import (
        BatchSampler,
        DataLoader,
        RandomSampler,
        SequentialSampler,
        default_collate,
        default_convert,
    )

    if not isinstance(source, DataLoader):
        if not hasattr(source, "__getitem__") and not hasattr(source, "__iter__"):
            raise DataError(
                f"{place}: expected a dataset or DataLoader of PyTorch, got {type(source).__name__}"
            )
        return source
    sampler: Any = source.sampler
    batches = source.batch_sampler
    if batches is not None and type(batches) is not BatchSampler:
        # The user's batch sampler draws the samples, and ``source.sampler`` is ignored.
        sampler = batches
    every_sample = type(sampler) in (SequentialSampler, RandomSampler)
    every_sample = every_sample and len(sampler) == len(cast(Any, source.dataset))
    if not every_sample or getattr(source.sampler, "replacement", False):
        raise DataError(
            f"{place}: its DataLoader draws with a {type(sampler).__name__}, which can repeat "
            "samples or leave some out; give the samples that you need: "
            "torch.utils.data.Subset(dataset, indices)"
        )
    if source.collate_fn not in (default_collate, default_convert):
        raise DataError(
            f"{place}: its DataLoader has its own collate_fn, which would be ignored; put it in "
            "the dataset"
        )
    return source.dataset


def _array(value: Any, place: str) -> np.ndarray:
    """A sample's features as an array, from a tensor, an image or a number."""
    return user_array(value, place, "x")


def _label(value: Any) -> Any:
    """A sample's label as a plain Python value."""
    if np.ma.is_masked(value):
        # None is refused later, when labels are checked with their rows.
        return None
    array = value.detach().cpu() if hasattr(value, "detach") else np.asarray(value)
    return array.item() if math.prod(array.shape) == 1 else value


def import_torch() -> None:
    """Import PyTorch. Raises MissingExtra if it is not installed."""
    try:
        import torch as torch
    except ImportError as error:
        raise MissingExtra(
            "PyTorch datasets need PyTorch, which is not installed: pip install 'fedkin[torch]' "
            f"({error})"
        ) from error
