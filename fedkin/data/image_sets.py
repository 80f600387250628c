"""The named image sets, partitioned over clients: digits, mnist, fashion_mnist, cifar10.

Options of every set:

* ``partition``: how samples are divided over clients; see the table below.
* ``clients``: number of clients N.
* ``train_fraction``: each client's share of training samples.
* ``samples``: size of a random subset of the images; None for all. Not for digits.
* ``tested``: ``"own"``: each client's own test samples; or ``"iid"``: the test samples of all
  clients, redistributed evenly at random, so that every client is tested on all classes
  (ATHENA-FL). Training samples are the same.
* ``size``: resize images to size x size pixels (bilinear) and keep them as images [M, size, size],
  even in sets that are flat by default; None for the published size.
* ``scale``: ``"standard"`` (described for each set), ``"unit"`` (0 .. 1) or ``"bytes"`` (0 .. 255).
  digits are always 0 .. 1.
* ``augment``: entries of ``("flip", "rotation", "noise")``. Each entry adds a copy of every
  training image, see :func:`fedkin.data.transforms.augmented`.
* ``seed``: seed of all draws.

None stands for the default of the set or of the partition. An option that does not apply to the
partition, or a value of another type, is refused with ConfigError. Images are resized, then
augmented, then scaled with the moments of the images without their augmented copies.

=============  ==========================  =======================================================
partition      options (default)           samples of a client
=============  ==========================  =======================================================
``power_law``  ``classes_per_client`` (2)  few classes, sizes by a power law (FedProx)
``dirichlet``  ``alpha`` (0.5)             class shares by Dirichlet, at least 10 (NIID-Bench)
``shards``     ``classes_per_client`` (2)  equal shards of the sorted samples (McMahan et al.)
``iid``                                    an even share at random
``blocks``     ``classes_per_client`` (2)  clients form blocks, the true clusters; the clients of a
                                           block share its few classes evenly (ATHENA-FL)
``writer``                                 the samples of a writer (mnist only)
``ditto``      ``classes_per_client`` (5)  Ditto's federation (fashion_mnist only)
=============  ==========================  =======================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data import image_files as published
from fedkin.data.about import AboutData, named
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.fedprox_partitions import ditto
from fedkin.data.partition import shuffle_rows, split_train_test
from fedkin.data.partition_options import (
    POOLED,
    Owned,
    PartitionOptions,
    by_writer,
    checked,
    legacy_random,
)
from fedkin.data.transforms import ImageTransform, augmented, resize, standardise

# The authors' seed.
DITTO_SEED = 233


@named(
    AboutData(
        clients=60,
        samples="1,797",
        content="handwritten digits 8x8, comes with scikit-learn",
        without_files="embedded",
    )
)
@checked
def digits(
    *,
    partition: str = "power_law",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    tested: str = "own",
    size: int | None = None,
    augment: tuple[str, ...] = (),
    train_fraction: float | int = 0.8,
    seed: int = 0,
) -> FederatedData:
    """scikit-learn's handwritten digits, which need no download: 1,797 images, 64 flat pixels
    scaled to 0 .. 1.

    Args:
        partition, clients, classes_per_client, alpha, tested, size, augment, train_fraction, seed:
            shared options, described in the module; clients is 60 by default.
    """
    options = PartitionOptions(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        tested=tested,
    )
    options.check(POOLED)
    transform = ImageTransform(size, "unit", augment)
    transform.check(flat=8)
    images = published.digits_images()
    return _federation(
        images=images,
        options=options,
        transform=transform,
        owned=options.partition_labels(images.y, 60, seed),
        seed=seed,
        train_fraction=train_fraction,
    )


@named(
    AboutData(
        clients=1000,
        samples="70,000",
        content="handwritten digits 28x28",
        source=published.MNIST,
    )
)
@checked
def mnist(
    *,
    partition: str = "power_law",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    samples: int | None = None,
    tested: str = "own",
    size: int | None = None,
    scale: str = "standard",
    augment: tuple[str, ...] = (),
    train_fraction: float | int = 0.9,
    seed: int = 0,
) -> FederatedData:
    """MNIST, all 70,000 images pooled, as 784 flat pixels. Each pixel is standardised over all
    images.

    1,000 clients of 2 classes by default, as in FedGroup, FlexCFL and FedSim.
    ``partition="writer"`` has one client per writer by QMNIST's labels: 539 writers of training
    images and 297 writers of test images.

    Args:
        partition, clients, classes_per_client, alpha, samples, tested, size, scale, augment,
            train_fraction, seed: shared options, described in the module; clients is 1,000 (or all
            writers) by default.
    """
    options = PartitionOptions(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        tested=tested,
        samples=samples,
    )
    options.check((*POOLED, "writer"))
    transform = ImageTransform(size, scale, augment)
    transform.check(flat=28)
    images = published.mnist_images().sample(samples, seed)
    owned: Owned
    if partition == "writer":
        writers = published.mnist_writers(images)
        owned = (by_writer(writers, clients), None)
    else:
        owned = options.partition_labels(images.y, 1000, seed)
    # Standardise pixels with the moments of all images, as if all were training images.
    pooled = replace(images, train=len(images.y))
    return _federation(
        images=pooled,
        options=options,
        transform=transform,
        owned=owned,
        seed=seed,
        train_fraction=train_fraction,
    )


@named(
    AboutData(
        clients=500,
        samples="70,000",
        content="clothing 28x28, Ditto's federation",
        source=published.FASHION_MNIST,
    )
)
@checked
def fashion_mnist(
    *,
    partition: str = "ditto",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    samples: int | None = None,
    tested: str = "own",
    size: int | None = None,
    scale: str = "standard",
    augment: tuple[str, ...] = (),
    train_fraction: float | int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Fashion-MNIST, 784 flat pixels. Each pixel is standardised over the official training
    images.

    The default is Ditto's federation, as FlexCFL uses it: 500 clients of 5 classes, 61,251 training
    and 11,254 test samples. They are cut from the official training and test images, so
    ``train_fraction`` does not apply. Sizes and classes are the published ones, and the seed only
    shuffles. The other partitions pool the 70,000 images and split them 90/10, 500 clients by
    default.

    Args:
        partition, clients, classes_per_client, alpha, samples, tested, size, scale, augment,
            train_fraction, seed: shared options, described in the module; clients is 500 by
            default, and train_fraction is 0.9 by default.
    """
    options = PartitionOptions(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        tested=tested,
        samples=samples,
    )
    options.check((*POOLED, "ditto"))
    if partition == "ditto" and train_fraction is not None:
        raise ConfigError(
            "train_fraction does not apply to partition 'ditto', which has its own test part; "
            "leave it out"
        )
    transform = ImageTransform(size, scale, augment)
    transform.check(flat=28)
    images = published.fashion_mnist_images().sample(samples, seed)
    if partition == "ditto":
        train, test = _ditto(images, 500 if clients is None else clients, classes_per_client, seed)
        return _transformed(
            images=images,
            transform=transform,
            train=train,
            test=options.test_parts(test, seed),
            true_clusters=None,
            seed=seed,
        )
    fraction = 0.9 if train_fraction is None else train_fraction
    return _federation(
        images=images,
        options=options,
        transform=transform,
        owned=options.partition_labels(images.y, 500, seed),
        seed=seed,
        train_fraction=fraction,
    )


@named(
    AboutData(
        clients=100,
        samples="60,000",
        content="colour photographs 32x32",
        source=published.CIFAR10,
    )
)
@checked
def cifar10(
    *,
    partition: str = "dirichlet",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    samples: int | None = None,
    tested: str = "own",
    size: int | None = None,
    scale: str = "standard",
    augment: tuple[str, ...] = (),
    train_fraction: float | int = 0.9,
    batches: int = 5,
    seed: int = 0,
) -> FederatedData:
    """CIFAR-10 from the official binary version, all images pooled, with shape [32, 32, 3]. Each
    channel is standardised over the official training images.

    100 clients by default; ``clients=10, train_fraction=0.7`` is ATHENA-FL's Dirichlet split.

    Args:
        partition, clients, classes_per_client, alpha, samples, tested, size, scale, augment,
            train_fraction, seed: shared options, described in the module; clients is 100 by
            default.
        batches: number of training batch files to use, of five.
    """
    options = PartitionOptions(
        partition=partition,
        clients=clients,
        classes_per_client=classes_per_client,
        alpha=alpha,
        tested=tested,
        samples=samples,
    )
    options.check(POOLED)
    transform = ImageTransform(size, scale, augment)
    transform.check()
    images = published.cifar10_images(batches).sample(samples, seed)
    return _federation(
        images=images,
        options=options,
        transform=transform,
        owned=options.partition_labels(images.y, 100, seed),
        seed=seed,
        train_fraction=train_fraction,
    )


def _ditto(
    images: published.Images, clients: int, classes_per_client: int | None, seed: int
) -> tuple[Ragged, Ragged]:
    """The rows of the training and test images of each client in Ditto's federation."""
    k = 5 if classes_per_client is None else classes_per_client
    train, test = ditto(
        train_labels=images.y[: images.train],
        test_labels=images.y[images.train :],
        clients=clients,
        classes_per_client=k,
        random=legacy_random(DITTO_SEED),
    )
    shuffled = shuffle_rows(train, Stream(seed, purpose="data/ditto"))
    # Rows of test images come after the rows of all training images.
    return shuffled, Ragged(test.rows + images.train, test.offsets)


def _federation(
    images: published.Images,
    options: PartitionOptions,
    transform: ImageTransform,
    owned: Owned,
    seed: int,
    train_fraction: float | int,
) -> FederatedData:
    """Make a federation from a partition: split the samples of each client, and transform the
    images."""
    rows, true_clusters = owned
    train, test = split_train_test(rows, Stream(seed, purpose="data/split"), train_fraction)
    return _transformed(
        images=images,
        transform=transform,
        train=train,
        test=options.test_parts(test, seed),
        true_clusters=true_clusters,
        seed=seed,
    )


def _transformed(
    images: published.Images,
    transform: ImageTransform,
    train: Ragged,
    test: Ragged,
    true_clusters: Int[np.ndarray, "N"] | None,
    seed: int,
) -> FederatedData:
    """The federation of an image set, with its images resized, augmented and scaled."""
    data = FederatedData(
        name=images.name,
        x=resize(images.pixels, transform.size),
        y=images.y,
        classes=images.classes,
        train=train,
        test=test,
        true_clusters=true_clusters,
    )
    data = augmented(data, transform.augment, seed=seed, high=images.white)
    x = data.x
    in_colour = x.ndim == 4
    if transform.scale == "unit":
        x /= np.float32(images.white)
    if transform.scale == "standard":
        standardise(x, images.train, by_channel=in_colour)
    if transform.size is None and not in_colour:
        x = x.reshape(len(x), -1)
    return data.with_rows(data.train, data.test, x=x)
