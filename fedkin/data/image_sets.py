"""The named image sets, dealt to clients: digits, mnist, fashion_mnist, cifar10.

Options of every set: ``partition`` (below), ``clients``, ``train_fraction`` (each client's own share of training
samples), ``seed``. An option left at None takes the default of the set or of the partition; one that means nothing to
the partition is refused with ConfigError, and so is a value of the wrong type.

``samples`` takes so many of the images only, drawn at random (all where None; not digits).

Who is tested on what: ``tested="own"``, each client on its own test samples, or ``"iid"``, the test parts of all
dealt again evenly at random, so that everyone is tested on all classes (ATHENA-FL). Training parts are the same.

How images look: ``size`` (None) makes them size x size pixels, bilinear, and keeps them images [M, size, size] where
they are flat otherwise; ``scale`` is ``"standard"`` (as each set says), ``"unit"`` (0 .. 1) or ``"bytes"`` (0 .. 255;
digits have theirs always 0 .. 1); ``augment``, out of ``("flip", "rotation", "noise")``, adds a copy for each word to
every training image, see :func:`fedkin.data.transforms.augmented`. Resized comes before augmented, and that before scaled,
by the moments of the images alone.

=============  ============================  =================================================================
partition      options (default)             who gets what
=============  ============================  =================================================================
``power_law``  ``classes_per_client`` (2)    few classes each, sizes by a power law (FedProx)
``dirichlet``  ``alpha`` (0.5)               class shares by Dirichlet, at least 10 samples (NIID-Bench)
``shards``     ``classes_per_client`` (2)    that many equal shards of the sorted samples (McMahan et al.)
``iid``                                      everyone alike
``blocks``     ``classes_per_client`` (2)    even slices of the k classes of its block (ATHENA-FL), the true clusters
``writer``                                   one client per writer, all by default (mnist only)
``ditto``      ``classes_per_client`` (5)    Ditto's federation (fashion_mnist only)
=============  ============================  =================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.data import images as published
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.partition import ditto, shuffled, split
from fedkin.data.partition_options import POOLED, Deal, Owned, by_writer, checked, legacy
from fedkin.data.transforms import ImageTransform, augmented, resized, standardise

DITTO_SEED = 233  # the authors' own


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
    """scikit-learn's handwritten digits, real and always there: 1,797 images, 64 flat pixels scaled to 0 .. 1.

    60 clients by default. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha, tested)
    deal.check(POOLED)
    look = ImageTransform(size, "unit", augment)
    look.check(flat=8)
    images = published.digits_images()
    return _set(images, deal, look, deal.of(images.y, 60, seed), seed, train_fraction)


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
    """MNIST, its 70,000 images pooled, each of 784 pixels standardised over all of them.

    1,000 clients of 2 classes by default, as in FedGroup, FlexCFL and FedSim. ``partition="writer"`` has one client
    per writer by QMNIST's labels, 539 of the training and 297 of the test images. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha, tested, samples)
    deal.check((*POOLED, "writer"))
    look = ImageTransform(size, scale, augment)
    look.check(flat=28)
    images = published.mnist_images().some(samples, seed)
    if partition == "writer":
        owned = by_writer(published.mnist_writers(images), clients), None
    else:
        owned = deal.of(images.y, 1000, seed)
    everything = replace(images, train=len(images.y))  # whose moments standardise
    return _set(everything, deal, look, owned, seed, train_fraction)


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
    """Fashion-MNIST, 784 flat pixels standardised over the training images.

    By default Ditto's federation as FlexCFL uses it: 500 clients of 5 classes, 61,251 training and 11,254 test
    samples, cut from the official training and test images (so ``train_fraction`` means nothing to it); sizes and
    classes are the published ones whatever the seed, which only shuffles. The other partitions pool the 70,000 images
    and split them 90/10, 500 clients by default. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha, tested, samples)
    deal.check((*POOLED, "ditto"))
    if partition == "ditto" and train_fraction is not None:
        raise ConfigError(
            "train_fraction means nothing to partition 'ditto', which has its own test part; leave it out"
        )
    look = ImageTransform(size, scale, augment)
    look.check(flat=28)
    images = published.fashion_mnist_images().some(samples, seed)
    if partition == "ditto":
        train, test = _ditto(images, 500 if clients is None else clients, classes_per_client, seed)
        return _shown(images, look, train, deal.tests(test, seed), None, seed)
    fraction = 0.9 if train_fraction is None else train_fraction
    return _set(images, deal, look, deal.of(images.y, 500, seed), seed, fraction)


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
    """CIFAR-10 from the official binary version, all images pooled, [32, 32, 3], each channel standardised over the
    training images.

    100 clients by default; ``clients=10, train_fraction=0.7`` is ATHENA-FL's Dirichlet split. ``batches``
    uses the first so many of the five training batches. Options: see the module.
    """
    deal = Deal(partition, clients, classes_per_client, alpha, tested, samples)
    deal.check(POOLED)
    look = ImageTransform(size, scale, augment)
    look.check()
    images = published.cifar10_images(batches).some(samples, seed)
    return _set(images, deal, look, deal.of(images.y, 100, seed), seed, train_fraction)


def _ditto(images: published.Images, clients: int, classes_per_client: int | None, seed: int) -> tuple[Ragged, Ragged]:
    k = 5 if classes_per_client is None else classes_per_client
    train, test = ditto(images.y[: images.train], images.y[images.train :], clients, k, legacy(DITTO_SEED))
    return shuffled(train, Stream(seed, purpose="data/ditto")), Ragged(test.rows + images.train, test.offsets)


def _set(
    images: published.Images, deal: Deal, look: ImageTransform, owned: Owned, seed: int, train_fraction: float | int
) -> FederatedData:
    mine, true_clusters = owned
    train, test = split(mine, Stream(seed, purpose="data/split"), train_fraction)
    return _shown(images, look, train, deal.tests(test, seed), true_clusters, seed)


def _shown(
    images: published.Images,
    look: ImageTransform,
    train: Ragged,
    test: Ragged,
    true_clusters: Int[np.ndarray, "N"] | None,
    seed: int,
) -> FederatedData:
    """The federation, its images as the options want them to look."""
    x = resized(images.pixels, look.size)
    data = FederatedData(images.name, x, images.y, images.classes, train, test, true_clusters)
    data = augmented(data, look.augment, seed=seed, high=images.white)
    x, in_colour = data.x, x.ndim == 4
    if look.scale == "unit":
        x /= np.float32(images.white)
    if look.scale == "standard":
        standardise(x, images.train, by_channel=in_colour)
    if look.size is None and not in_colour:
        x = x.reshape(len(x), -1)
    return data.rearranged(data.train, data.test, x=x)
