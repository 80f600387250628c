"""Federations with known true clusters, which differ by rotated images, permuted or swapped labels,
or classes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, DataError, unknown
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.image_files import IMAGES, Images, cifar10_images
from fedkin.data.partition_options import checked, positive
from fedkin.scenarios.variants import label_permutations, label_swaps, rotate_images

CLUSTER_DIFFERENCES = ("rotation", "label_permutation", "label_swap", "disjoint_labels")


@checked
def planted(
    base: str = "mnist",
    kind: str = "rotation",
    *,
    clusters: int = 4,
    clients: int = 100,
    samples: int = 60,
    test_samples: int = 20,
    batches: int | None = None,
    seed: int = 0,
) -> FederatedData:
    """A federation of K known clusters (``true_clusters``), with sizes that differ by at most one.

    No image is used twice. Pixels are scaled to 0 .. 1, and flat (cifar10: [32, 32, 3]). Depending
    on ``kind``, cluster k has

    * ``rotation``: images rotated by k * 360 / K degrees (90 k for K = 3, so that up to 4 clusters
      need no interpolation), as in IFCA's experiments (Ghosh et al. 2020);
    * ``label_permutation``: labels permuted at random (cluster 0: the true labels), as in Sattler
      et al. 2020;
    * ``label_swap``: two labels swapped, 2 k and 2 k + 1 (for K = 2, cluster 1 swaps 6 and 7), as
      in re-implementations of PANM (Li & Wu 2022);
    * ``disjoint_labels``: C / K classes that no other cluster has.

    Args:
        base: the image set: digits, mnist, fashion_mnist or cifar10.
        kind: difference between the clusters.
        clusters: number of clusters K.
        clients: number of clients N.
        samples: number of training images of each client, drawn at random.
        test_samples: number of test images of each client.
        batches: number of cifar10's training batch files to use, of five; None for all.
        seed: seed of the draws of images, clusters and permutations.

    Raises:
        ConfigError: the options are invalid.
        DataError: the base has too few images.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.planted("digits", clusters=2, clients=6, samples=20, test_samples=5)
        >>> data.true_clusters.tolist()
        [1, 0, 1, 0, 0, 1]
    """
    _check(
        base=base,
        kind=kind,
        clusters=clusters,
        clients=clients,
        samples=samples,
        test_samples=test_samples,
    )
    images = IMAGES[base]() if batches is None else _cifar10_batches(base, batches)
    if kind == "disjoint_labels" and clusters > images.classes:
        raise ConfigError(
            f"{clusters} clusters cannot have disjoint labels, since {base} has only "
            f"{images.classes} classes"
        )
    if kind == "label_swap" and 2 * clusters > images.classes:
        raise ConfigError(
            f"{clusters} clusters cannot swap two classes each, since {base} has only "
            f"{images.classes} classes"
        )
    stream = Stream(seed, purpose=f"planted/{base}/{kind}")
    true_clusters = stream.child("truth").rng().permutation(np.arange(clients) % clusters)
    pools = _pools(images, kind, clusters, stream)
    image_rows = _draw(pools, true_clusters, samples + test_samples, base)
    x = images.unit(image_rows.ravel())
    y = images.y[image_rows.ravel()]

    # An image's cluster decides how it is changed.
    cluster = np.repeat(true_clusters, samples + test_samples)
    if kind == "rotation":
        x = rotate_images(x, cluster, clusters)
    if kind == "label_permutation":
        y = label_permutations(images.classes, clusters, stream)[cluster, y]
    if kind == "label_swap":
        y = label_swaps(images.classes, clusters)[cluster, y]
    if x.ndim < 4:
        x = x.reshape(len(x), -1)

    rows = np.arange(image_rows.size).reshape(image_rows.shape)
    return FederatedData(
        name=f"{base} {kind}",
        x=x,
        y=y,
        classes=images.classes,
        train=Ragged.of(list(rows[:, :samples])),
        test=Ragged.of(list(rows[:, samples:])),
        true_clusters=true_clusters,
    )


def _check(
    base: str, kind: str, clusters: int, clients: int, samples: int, test_samples: int
) -> None:
    """Raise ConfigError for invalid options of ``planted``."""
    if base not in IMAGES:
        raise ConfigError(unknown("base", base, IMAGES))
    if kind not in CLUSTER_DIFFERENCES:
        raise ConfigError(unknown("kind", kind, CLUSTER_DIFFERENCES))
    for name, count in (("clusters", clusters), ("clients", clients), ("samples", samples)):
        positive(name, count)
    if test_samples < 0:
        raise ConfigError(f"test_samples must be zero or more, got {test_samples}")
    if clusters > clients:
        raise ConfigError(f"{clusters} clusters need at least as many clients, got {clients}")


def _cifar10_batches(base: str, batches: int) -> Images:
    """CIFAR-10 with only the first ``batches`` of its five training files. Raises ConfigError if
    ``base`` is another image set."""
    if base != "cifar10":
        raise ConfigError(f"batches is an option of cifar10: {base} has no batch files")
    return cifar10_images(batches)


def _pools(images: Images, kind: str, clusters: int, stream: Stream) -> list[Int[np.ndarray, "_"]]:
    """The images (pool) from which each cluster draws, in random order. No image is in two
    pools."""
    order = stream.child("images").rng().permutation(len(images.y))
    if kind != "disjoint_labels":
        return np.array_split(order, clusters)
    classes = np.array_split(np.arange(images.classes), clusters)
    return [order[np.isin(images.y[order], of_cluster)] for of_cluster in classes]


def _draw(
    pools: list[Int[np.ndarray, "_"]], true_clusters: Int[np.ndarray, "N"], each: int, base: str
) -> Int[np.ndarray, "N s"]:
    """Draw ``each`` images for every client, from the pool of images of its cluster."""
    owners = [np.flatnonzero(true_clusters == cluster) for cluster in range(len(pools))]
    for cluster, (members, pool) in enumerate(zip(owners, pools, strict=True)):
        if len(members) * each > len(pool):
            raise DataError(
                f"{base} has {len(pool)} images for cluster {cluster}, but its {len(members)} "
                f"clients need {len(members) * each}, {each} for each client; lower clients, "
                "samples or test_samples"
            )
    # All pools are large enough, so the array below cannot exceed their size.
    rows = np.zeros((len(true_clusters), each), np.int64)
    for members, pool in zip(owners, pools, strict=True):
        rows[members] = pool[: len(members) * each].reshape(len(members), each)
    return rows
