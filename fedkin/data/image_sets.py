"""The named image sets, dealt to clients: digits, mnist, fashion_mnist, cifar10.

Options of every set: ``partition`` (below), ``clients``, ``train_fraction`` (each client's own share of training
samples), ``seed``. An option left at None takes the default of the set or of the partition; one that means nothing to
the partition is refused with ConfigError, and so is a value of the wrong type.

=============  ============================  ========================================================
partition      options (default)             who gets what
=============  ============================  ========================================================
``power_law``  ``classes_per_client`` (2)    few classes each, sizes by a power law (FedProx)
``dirichlet``  ``alpha`` (0.5)               class shares by Dirichlet, at least 10 samples (NIID-Bench)
``shards``     ``classes_per_client`` (2)    that many equal shards of the sorted samples (McMahan et al.)
``iid``                                      everyone alike
``writer``                                   one client per writer, all by default (mnist only)
``ditto``      ``classes_per_client`` (5)    Ditto's federation (fashion_mnist only)
=============  ============================  ========================================================
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Shaped

from fedkin.data import images as published
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.options import POOLED, Deal, by_writer, checked, legacy
from fedkin.data.partition import ditto, shuffled, split
from fedkin.errors import ConfigError
from fedkin.randomness import Stream

DITTO_SEED = 233  # the authors' own


@checked
def digits(
    *,
    partition: str = "power_law",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    train_fraction: float | int = 0.8,
    seed: int = 0,
) -> FederatedData:
    """scikit-learn's handwritten digits, real and always there: 1,797 images, 64 flat pixels scaled to 0 .. 1.

    60 clients by default. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha)
    deal.check(POOLED)
    images = published.digits_images()
    x = images.unit().reshape(len(images.y), -1)
    return _set(images, x, deal.of(images.y, 60, seed), seed, train_fraction)


@checked
def mnist(
    *,
    partition: str = "power_law",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    train_fraction: float | int = 0.9,
    seed: int = 0,
) -> FederatedData:
    """MNIST, its 70,000 images pooled, each of 784 pixels standardised over all of them.

    1,000 clients of 2 classes by default, as in FedGroup, FlexCFL and FedSim. ``partition="writer"`` has one client
    per writer by QMNIST's labels, 539 of the training and 297 of the test images. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha)
    deal.check((*POOLED, "writer"))
    images = published.mnist_images()
    if partition == "writer":
        owned = by_writer(published.mnist_writers(images), clients)
    else:
        owned = deal.of(images.y, 1000, seed)
    return _set(images, images.standardised(), owned, seed, train_fraction)


@checked
def fashion_mnist(
    *,
    partition: str = "ditto",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    train_fraction: float | int | None = None,
    seed: int = 0,
) -> FederatedData:
    """Fashion-MNIST, 784 flat pixels standardised over the training images.

    By default Ditto's federation as FlexCFL uses it: 500 clients of 5 classes, 61,251 training and 11,254 test
    samples, cut from the official training and test images (so ``train_fraction`` means nothing to it); sizes and
    classes are the published ones whatever the seed, which only shuffles. The other partitions pool the 70,000 images
    and split them 90/10, 500 clients by default. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha)
    deal.check((*POOLED, "ditto"))
    if partition == "ditto" and train_fraction is not None:
        raise ConfigError(
            "train_fraction means nothing to partition 'ditto', which has its own test part; leave it out"
        )
    images = published.fashion_mnist_images()
    x = images.standardised(images.train)
    if partition == "ditto":
        train, test = _ditto(images, 500 if clients is None else clients, classes_per_client, seed)
        return FederatedData(images.name, x, images.y, images.classes, train, test)
    return _set(images, x, deal.of(images.y, 500, seed), seed, 0.9 if train_fraction is None else train_fraction)


@checked
def cifar10(
    *,
    partition: str = "dirichlet",
    clients: int | None = None,
    classes_per_client: int | None = None,
    alpha: float | int | None = None,
    train_fraction: float | int = 0.9,
    batches: int = 5,
    seed: int = 0,
) -> FederatedData:
    """CIFAR-10 from the official binary version, all images pooled, [32, 32, 3], each channel standardised over the
    training images.

    100 clients by default; ``clients=10, train_fraction=0.7`` is ATHENA-FL's Dirichlet split. ``batches``
    uses the first so many of the five training batches. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha)
    deal.check(POOLED)
    images = published.cifar10_images(batches)
    return _set(images, _by_channel(images), deal.of(images.y, 100, seed), seed, train_fraction)


def _by_channel(images: published.Images) -> Float32[np.ndarray, "M H W 3"]:
    head = images.pixels[: images.train].reshape(-1, 3)
    counts = np.stack([np.bincount(head[:, c], minlength=256) for c in range(3)])  # moments from 256 numbers each
    mean = counts @ np.arange(256) / len(head)
    deviation = np.sqrt(counts @ np.arange(256) ** 2 / len(head) - mean**2)
    x = images.pixels.astype(np.float32)
    x -= mean.astype(np.float32)
    x /= (deviation + 0.001).astype(np.float32)
    return x


def _ditto(images: published.Images, clients: int, classes_per_client: int | None, seed: int) -> tuple[Ragged, Ragged]:
    k = 5 if classes_per_client is None else classes_per_client
    train, test = ditto(images.y[: images.train], images.y[images.train :], clients, k, legacy(DITTO_SEED))
    return shuffled(train, Stream(seed, purpose="data/ditto")), Ragged(test.rows + images.train, test.offsets)


def _set(
    images: published.Images, x: Shaped[np.ndarray, "M ..."], owned: Ragged, seed: int, train_fraction: float | int
) -> FederatedData:
    train, test = split(owned, Stream(seed, purpose="data/split"), train_fraction)
    return FederatedData(images.name, x, images.y, images.classes, train, test)
