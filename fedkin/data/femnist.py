"""FEMNIST: handwritten characters from NIST SD19, in two federations: by class, or by writer (LEAF,
Caldas et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data import fedprox_partitions, partition
from fedkin.data.about import AboutData, named
from fedkin.data.download import Source, fetch
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.files import check_labels, read_npz
from fedkin.data.partition_options import POOLED, PartitionOptions, checked, legacy_random

_HELP = (
    "No published file has this form: help(fedkin.data.femnist) describes the layout; set "
    "FEDKIN_DATA to the folder that has FEMNIST/ in it"
)
LETTERS = Source(
    "femnist", {"femnist_aj_pool.npz": None}, folders=("FEMNIST", "femnist"), help=_HELP
)
WRITERS = Source(
    "femnist by writer", {"femnist_0.npz": None}, folders=("FEMNIST", "femnist"), help=_HELP
)


@named(
    AboutData(
        clients=200,
        samples="35,792",
        content="handwritten letters a-j 28x28, also 62 classes by writer",
        source=LETTERS,
    )
)
@checked
def femnist(
    *,
    clients: int | None = None,
    classes_per_client: int | None = None,
    classes: int | None = None,
    shared_images: bool = False,
    shuffled: bool = True,
    writer: bool = False,
    train_fraction: float | int | None = None,
    partition: str | None = None,
    alpha: float | int | None = None,
    seed: int = 0,
) -> FederatedData:
    """FEMNIST, 784 flat pixels scaled to 0 .. 1 (1 = white paper, as in LEAF).

    By default, the images are the lower-case letters a .. j, and 200 clients have 5 classes each,
    as in FedSim's text. The file of FedGroup and FlexCFL has 3 classes per client
    (``classes_per_client=3``), and clients share images (``shared_images=True``).

    FedProx's authors shuffle the files of a class before clients take its first images. Here the
    images of each class are shuffled as well, because the file of letters
    (``femnist_aj_pool.npz``) is sorted by writer: otherwise the first images of a class would come
    from few writers and be too similar. It is unknown which NIST images the authors had for a
    class, in which order, and how they made the thumbnails.

    Files, in the folder FEMNIST: ``femnist_aj_pool.npz`` with x uint8 [M, 784], y 0 .. 9;
    ``femnist_0.npz``, ``_1`` .. with x, y 0 .. 61, client_id (index into writers), split (0 train,
    1 test), writers (names).

    Args:
        clients: number of clients N; None for 200, or for all writers. With ``writer``, the first N
            writers.
        classes_per_client: number of classes per client k; None for 5.
        classes: number of classes, and so of outputs of the model; None for 10 as in FlexCFL (26 in
            FedGroup and FedSim). Labels are always 0 .. 9.
        shared_images: whether to use the published partition, in which clients share images, and
            train on each other's test images.
        shuffled: whether the images of each class are in an order drawn from the seed; otherwise in
            the order of the file.
        writer: whether each writer is a client, with all 62 classes and the split of the files.
        train_fraction: each client's share of training samples; None for 0.9.
        partition: partition of all letters, instead of FedProx's: ``dirichlet``, ``shards``,
            ``power_law``, ``blocks`` or ``iid``, as in :mod:`fedkin.data.image_sets`. Then
            classes_per_client is 2 by default.
        alpha: concentration of the partition ``dirichlet``; None for 0.5.
        seed: seed of order, partition and split.
    """
    # Options of FedProx's partition; None if they have their defaults.
    of_fedprox = {
        "shared_images": shared_images or None,
        "shuffled": None if shuffled else False,
    }
    if writer:
        of_letters = {
            "classes_per_client": classes_per_client,
            "classes": classes,
            "train_fraction": train_fraction,
            "partition": partition,
            "alpha": alpha,
        }
        _refuse("writer", of_letters | of_fedprox)
        return _by_writer(clients)
    outputs = 10 if classes is None else classes
    fraction = 0.9 if train_fraction is None else train_fraction
    if partition is not None:
        _refuse("partition", of_fedprox)
        options = PartitionOptions(partition, clients, classes_per_client, alpha)
        options.check(POOLED)
        return _letters_divided(options, outputs, fraction, seed)
    if alpha is not None:
        raise ConfigError(
            f"alpha = {alpha} applies to partition = 'dirichlet' only; set that too, or leave "
            "alpha out"
        )
    return _letters(
        clients=200 if clients is None else clients,
        classes_per_client=5 if classes_per_client is None else classes_per_client,
        classes=outputs,
        shared_images=shared_images,
        shuffled=shuffled,
        train_fraction=fraction,
        seed=seed,
    )


def _refuse(form: str, options: Mapping[str, object]) -> None:
    """Raise ConfigError for options that have no effect on this form of the data, instead of
    ignoring them silently."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(
                f"{name} does not apply to femnist with {form}; leave out either {name} or {form}"
            )


def _letters_divided(
    options: PartitionOptions, classes: int, train_fraction: float | int, seed: int
) -> FederatedData:
    """The letters of FEMNIST, divided over clients by one of the partitions that all image sets
    have."""
    x, y = _pool(classes)
    owned, true_clusters = options.partition_labels(y, 200, seed)
    train, test = partition.split_train_test(
        owned, Stream(seed, purpose="data/split"), train_fraction
    )
    return FederatedData(
        name="femnist",
        x=x,
        y=y,
        classes=classes,
        train=train,
        test=test,
        true_clusters=true_clusters,
    )


def _letters(
    clients: int,
    classes_per_client: int,
    classes: int,
    shared_images: bool,
    shuffled: bool,
    train_fraction: float | int,
    seed: int,
) -> FederatedData:
    """The letters of FEMNIST, divided over clients by FedProx's partition."""
    x, y = _pool(classes)
    order = np.arange(len(y))
    if shuffled:
        order = Stream(seed, purpose="data/shuffle").rng().permutation(len(y))
    owned = fedprox_partitions.femnist(
        labels=y[order],
        clients=clients,
        classes_per_client=classes_per_client,
        random=legacy_random(seed),
        shared_images=shared_images,
    )
    # From positions in the shuffled order back to rows of x.
    owned = Ragged(order[owned.rows], owned.offsets)
    train, test = partition.split_train_test(
        owned, Stream(seed, purpose="data/split"), train_fraction
    )
    return FederatedData(name="femnist", x=x, y=y, classes=classes, train=train, test=test)


def _pool(classes: int) -> tuple[Float32[np.ndarray, "M 784"], Int[np.ndarray, "M"]]:
    """All letters and their labels; ``classes`` is the number of classes that the model will
    have."""
    if classes < 10:
        raise ConfigError(
            "classes is the number of outputs of the model, at least 10 for the letters a to j; "
            f"got {classes}"
        )
    path = fetch(LETTERS) / "femnist_aj_pool.npz"
    arrays = read_npz(path, ("x", "y"))
    y = check_labels(arrays["y"], 10, path)
    return _unit(arrays["x"], len(y), path), y


def _by_writer(clients: int | None) -> FederatedData:
    """A federation of writers, in the order of the files. Only the needed files are read."""
    if clients is not None and clients < 1:
        raise ConfigError(f"clients must be at least 1, got {clients}")
    folder = fetch(WRITERS)
    paths = sorted(folder.glob("femnist_[0-9]*.npz"), key=lambda path: int(path.stem.split("_")[1]))
    x = []
    y = []
    train = []
    test = []
    names = []
    start = 0
    for path in paths:
        arrays = _one_file(path)
        # How many writers of this file are wanted; they are numbered from 0 in each file.
        keep = len(arrays["writers"])
        if clients is not None:
            keep = min(keep, clients - len(names))
        selected = np.flatnonzero(arrays["client_id"] < keep)
        owner = arrays["client_id"][selected]
        tested = arrays["split"][selected] == 1
        for writer in range(keep):
            of_writer = owner == writer
            train.append(np.flatnonzero(~tested & of_writer) + start)
            test.append(np.flatnonzero(tested & of_writer) + start)
        x.append(arrays["x"][selected])
        y.append(arrays["y"][selected])
        names += arrays["writers"][:keep].tolist()
        start += len(selected)
        if len(names) == clients:
            break
    if clients is not None and len(names) < clients:
        raise ConfigError(
            f"clients must be from 1 to {len(names)}, the number of writers in {folder}; got "
            f"{clients}"
        )
    return FederatedData(
        name="femnist by writer",
        x=_unit(np.concatenate(x), start, folder),
        y=np.concatenate(y),
        classes=62,
        train=Ragged.of(train),
        test=Ragged.of(test),
        client_names=tuple(names),
    )


def _one_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of one file of writers, after checks. x is checked later, when all files have been
    read."""
    arrays = read_npz(path, ("x", "y", "client_id", "split", "writers"))
    M = len(arrays["y"])
    for name in ("x", "client_id", "split"):
        if len(arrays[name]) != M:
            raise DataError(
                f"{path}: there are {M} labels, but {len(arrays[name])} entries in {name}"
            )
    arrays["y"] = check_labels(arrays["y"], 62, path)
    arrays["client_id"] = check_labels(arrays["client_id"], len(arrays["writers"]), path)
    arrays["split"] = check_labels(arrays["split"], 2, path)
    return arrays


def _unit(x: Shaped[np.ndarray, "..."], samples: int, path: Path) -> Float32[np.ndarray, "M 784"]:
    """Pixels of one byte as float32, scaled to 0 .. 1."""
    if x.dtype != np.uint8 or x.shape != (samples, 784):
        raise DataError(
            f"{path}: expected x uint8 of shape ({samples}, 784), got {x.dtype} of shape {x.shape}"
        )
    return x.astype(np.float32) / np.float32(255)
