"""The partitions of FedProx's and Ditto's data sets, which give clients the same numbers of samples
as the authors' scripts.

For this they draw from NumPy's legacy generator. N clients, M samples, C classes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from fedkin.data.partition import check_counts, clients_of_parts
from fedkin.data.ragged import Ragged


class _Cursors:
    """For every class, the rows of its samples in file order, and how many of these rows have been
    given to clients so far."""

    def __init__(self, labels: Int[np.ndarray, "M"]) -> None:
        self.rows = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
        self.sizes = np.array([len(rows) for rows in self.rows])
        self.at = np.zeros(len(self.rows), np.int64)

    def take(self, c: int, count: int) -> Int[np.ndarray, "_"]:
        """Take the next ``count`` rows (samples) of class c. The result is shorter if the class has
        fewer rows left."""
        rows = self.rows[c][self.at[c] : self.at[c] + count]
        self.at[c] += len(rows)
        return rows


def power_law(
    labels: Int[np.ndarray, "M"],
    clients: int,
    classes_per_client: int,
    random: np.random.RandomState,
    minimum: int = 5,
) -> Ragged:
    """Few classes per client and sizes by a power law, as in FedProx's MNIST (Li et al. 2020).

    Client u has the k classes u, u+1, .. (mod C). It gets ``minimum`` samples of each, then a
    lognormal(0, 2) share of the rest of the class (none if the class would run out). A class
    smaller than the minimum gives all its samples. No sample has two owners.

    Args:
        labels, clients, classes_per_client: class of each sample, N and k.
        random: draws the shares.
        minimum: smallest number of samples that a client has of each of its classes.

    Raises:
        DataError: a client would have no samples.
    """
    check_counts(len(labels), clients, classes_per_client, int(labels.max(initial=-1)) + 1)
    cursors = _Cursors(labels)
    C = len(cursors.rows)
    k = classes_per_client
    parts = [[cursors.take((u + j) % C, minimum) for j in range(k)] for u in range(clients)]

    # The remaining samples of every class are divided by lognormal shares.
    clients_per_class = -(-clients // C)
    shares = random.lognormal(0, 2.0, (C, clients_per_class, k))
    remaining = cursors.sizes - cursors.at
    shares *= (remaining / shares.sum(axis=(1, 2)))[:, None, None]
    for u in range(clients):
        for j in range(k):
            c = (u + j) % C
            count = int(shares[c, u // C, j])
            if cursors.at[c] + count < cursors.sizes[c]:
                parts[u].append(cursors.take(c, count))
    return clients_of_parts(parts, "power_law")


def femnist(
    labels: Int[np.ndarray, "M"],
    clients: int,
    classes_per_client: int,
    random: np.random.RandomState,
    shared_images: bool = False,
) -> Ragged:
    """FedProx's FEMNIST (Li et al. 2020): client u has classes u, u+1, .. (mod C) in equal parts.

    A client has lognormal(4, 1) + 5 samples in total.

    The authors' code starts at the first image of a class for every client. So clients get the
    *same* images, and an image may train one client and test another. Here, by default, no image
    has two owners, and a class that runs out gives all its images.

    Args:
        labels, clients, classes_per_client: class of each sample, N and k.
        random: draws the sizes.
        shared_images: whether clients share images, as in the published partition.

    Raises:
        DataError: a client would have no samples.
    """
    check_counts(len(labels), clients, classes_per_client, int(labels.max(initial=-1)) + 1)
    cursors = _Cursors(labels)
    C = len(cursors.rows)
    counts = femnist_counts(clients, classes_per_client, random)
    parts: list[list[np.ndarray]] = []
    for u, count in enumerate(counts):
        if shared_images:
            # Every client starts again at the first image of each class.
            cursors.at[:] = 0
        classes = [(u + j) % C for j in range(classes_per_client)]
        parts.append([cursors.take(c, int(count)) for c in classes])
    return clients_of_parts(parts, "femnist")


def femnist_counts(
    clients: int, classes_per_client: int, random: np.random.RandomState
) -> Int[np.ndarray, "N"]:
    """Images per class of each client in :func:`femnist`, before a class runs out.

    Args:
        clients, classes_per_client: N and k.
        random: draws the sizes.
    """
    sizes = random.lognormal(4, 1, clients) + 5
    return np.maximum(2, (sizes / classes_per_client).astype(np.int64))


def ditto(
    train_labels: Int[np.ndarray, "M"],
    test_labels: Int[np.ndarray, "m"],
    clients: int,
    classes_per_client: int,
    random: np.random.RandomState,
) -> tuple[Ragged, Ragged]:
    """Ditto's FashionMNIST (Li et al. 2021): rows of the training and test samples of every client,
    in class order.

    Sizes are lognormal(3, 1) + 10, scaled to M in total, and divided among the client's classes by
    lognormal(1, 1). A client has a sixth as many test samples as training samples. If a class has
    fewer rows left than a client needs, these are skipped and its first rows are used again. So a
    few images have two owners, and others may have none. The published set is ``RandomState(233)``
    with 500 clients of 5 classes.

    Args:
        train_labels, test_labels: class of each training sample, and of each test sample.
        clients, classes_per_client: N and k.
        random: draws sizes and shares.
    """
    C = max(int(train_labels.max(initial=-1)), int(test_labels.max(initial=-1))) + 1
    check_counts(len(train_labels), clients, classes_per_client, C)
    train_cursors = _Cursors(train_labels)
    test_cursors = _Cursors(test_labels)
    sizes = random.lognormal(3, 1, clients) + 10
    # Scale the sizes, so that they sum to the number of training samples.
    sizes *= len(train_labels) / sizes.sum()
    train: list[list[np.ndarray]] = []
    test: list[list[np.ndarray]] = []
    for u in range(clients):
        share = random.lognormal(1, 1, classes_per_client)
        share *= sizes[u] / share.sum()
        classes = [(u + j) % C for j in range(classes_per_client)]
        for parts, cursors, divisor in ((train, train_cursors, 1), (test, test_cursors, 6)):
            counts = (share / divisor).astype(np.int64) + 1
            pairs = zip(classes, counts.tolist(), strict=True)
            parts.append([_take_cyclic(cursors, c, count) for c, count in pairs])
    return clients_of_parts(train, "ditto"), clients_of_parts(test, "ditto")


def _take_cyclic(cursors: _Cursors, c: int, count: int) -> Int[np.ndarray, "_"]:
    """Take the next ``count`` rows (samples) of class c. If fewer are left, these are skipped, and
    the rows are taken from the first one on."""
    if cursors.at[c] + count > cursors.sizes[c]:
        cursors.at[c] = 0
    return cursors.take(c, count)
