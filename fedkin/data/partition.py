"""Partitions of samples over clients: pure functions from labels to one list of rows per client.

Published partitions draw from NumPy's legacy generator, so they take a ``RandomState`` and repeat
the published numbers; the others take a Stream. N clients, M samples, C classes; labels are 0 ..
C-1.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import Ragged

MAX_DRAWS = 200  # draws of a Dirichlet partition before giving up


def dirichlet(
    labels: Int[np.ndarray, "M"],
    clients: int,
    alpha: float | int,
    random: np.random.RandomState,
    minimum: int = 10,
) -> Ragged:
    """Class shares by Dirichlet(alpha) as in NIID-Bench (Li et al. 2022), every sample with one
    owner.

    Clients that have M/N samples get none of the remaining classes, and the whole is drawn again
    until every client has ``minimum``.

    Args:
        labels, clients: class of each sample, and N.
        alpha: concentration; smaller is more non-IID.
        random: draws shares and orders.
        minimum: samples that every client has at least.

    Raises:
        DataError: the minimum is impossible, or not reached in 200 draws.
    """
    check_counts(len(labels), clients)
    _check_alpha(alpha)
    if minimum * clients > len(labels):
        raise DataError(
            f"dirichlet: {clients} clients of at least {minimum} samples need more than "
            f"{len(labels)}"
        )
    for _ in range(MAX_DRAWS):
        own = _dirichlet_once(labels, clients, alpha, random)
        if min(map(len, own)) >= minimum:
            return clients_of_parts([[random.permutation(rows)] for rows in own], "dirichlet")
    raise DataError(
        f"dirichlet: alpha {alpha} leaves some of {clients} clients with under {minimum} samples "
        f"in {MAX_DRAWS} draws; take a larger alpha or fewer clients; of samples of your own, a "
        "smaller min_samples"
    )


def _dirichlet_once(
    labels: np.ndarray, clients: int, alpha: float, random: np.random.RandomState
) -> list[np.ndarray]:
    own = [np.zeros(0, np.int64) for _ in range(clients)]
    for c in range(int(labels.max()) + 1):
        rows = random.permutation(np.flatnonzero(labels == c))
        room = np.array([len(rows) < len(labels) / clients for rows in own])
        share = random.dirichlet(np.repeat(alpha, clients)) * room
        if not share.sum() > 0:  # a tiny alpha gave all to clients that are full
            share = room.astype(float)
        cuts = (np.cumsum(share / share.sum()) * len(rows)).astype(np.int64)[:-1]
        own = [np.concatenate(pair) for pair in zip(own, np.split(rows, cuts), strict=True)]
    return own


def dirichlet_plain(
    labels: Int[np.ndarray, "M"], clients: int, alpha: float | int, random: np.random.RandomState
) -> Ragged:
    """Class shares by Dirichlet(alpha) without any limit on sizes, as in Sattler et al.'s code:
    every sample has one owner, in a random order. No named set offers it, since clients may have
    one or two samples; it reproduces their federations exactly.

    Args:
        labels, clients: class of each sample, and N.
        alpha: concentration; smaller is more non-IID.
        random: draws shares and orders.

    Raises:
        DataError: a client would have no samples.
    """
    check_counts(len(labels), clients)
    _check_alpha(alpha)
    order = random.permutation(len(labels))
    C = int(labels.max()) + 1
    shares: Float[np.ndarray, "C N"] = random.dirichlet(np.repeat(alpha, clients), C)
    parts = []
    for c in range(C):
        rows = order[labels[order] == c]
        parts.append(np.split(rows, (np.cumsum(shares[c])[:-1] * len(rows)).astype(np.int64)))
    return clients_of_parts(
        [[part[u] for part in parts] for u in range(clients)], "dirichlet_plain"
    )


def shards(
    labels: Int[np.ndarray, "M"], clients: int, shards_per_client: int, stream: Stream
) -> Ragged:
    """Samples sorted by class and cut into equal shards, assigned at random (McMahan et al. 2017),
    each to one client.

    Args:
        labels, clients: class of each sample, and N.
        shards_per_client: as many times N shards are cut.
        stream: assigns them.
    """
    check_counts(len(labels), clients)
    if not 1 <= shards_per_client * clients <= len(labels):
        raise ConfigError(
            f"shards: {clients} x {shards_per_client} shards cannot be cut from {len(labels)} "
            "samples"
        )
    cut = np.array_split(np.argsort(labels, kind="stable"), clients * shards_per_client)
    shards_of_clients = stream.rng().permutation(len(cut)).reshape(clients, shards_per_client)
    return clients_of_parts(
        [[cut[shard] for shard in client] for client in shards_of_clients], "shards"
    )


def blocks(
    labels: Int[np.ndarray, "M"], clients: int, classes_per_client: int, stream: Stream
) -> tuple[Ragged, Int[np.ndarray, "N"]]:
    """Blocks of k consecutive classes, each divided evenly among the clients of the block, as in
    the experiments with hierarchical clusters and ATHENA-FL; also the block of every client, its
    true cluster.

    Of C / k blocks client u has number u * (C / k) // N: with 10 clients of 2 classes, the first
    two have classes 0 and 1. Each class is cut into equal slices (give or take one) in a random
    order, every sample with one owner. The authors' script mislabels a sixth of its images, pairing
    training images with test labels; here labels are correct.

    Args:
        labels, clients, classes_per_client: class of each sample, N, and k, a divisor of C.
        stream: orders the samples of each class.

    Raises:
        ConfigError: k does not divide C, or a block would have no client.
    """
    C = int(labels.max(initial=-1)) + 1
    check_counts(len(labels), clients)
    divisors = [k for k in range(1, C + 1) if C % k == 0]
    if classes_per_client not in divisors:
        known = ", ".join(map(str, divisors))
        raise ConfigError(
            f"blocks: classes_per_client must divide the {C} classes ({known}), got "
            f"{classes_per_client}"
        )
    B = C // classes_per_client
    if clients < B:
        raise ConfigError(
            f"blocks: {B} blocks of {classes_per_client} classes need at least {B} clients; got "
            f"{clients}"
        )
    block = np.arange(clients) * B // clients
    rng = stream.rng()
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for c in range(C):
        members = np.flatnonzero(block == c // classes_per_client)
        slices = np.array_split(rng.permutation(np.flatnonzero(labels == c)), len(members))
        for u, rows in zip(members, slices, strict=True):
            own[u].append(rows)
    return clients_of_parts(own, "blocks"), block


def iid(samples: int, clients: int, stream: Stream) -> Ragged:
    """All samples divided evenly at random, each to one client.

    Args:
        samples: M.
        clients: N.
        stream: orders the samples.
    """
    check_counts(samples, clients)
    return Ragged.of(np.array_split(stream.rng().permutation(samples), clients))


def by_writer(writers: Shaped[np.ndarray, "M"]) -> Ragged:
    """One client per distinct writer, in ascending order of writer."""
    _, owner, sizes = np.unique(writers, return_inverse=True, return_counts=True)
    return Ragged.of(np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1]))


def split_train_test(
    owned: Ragged, stream: Stream | None, train_fraction: float | int = 0.9
) -> tuple[Ragged, Ragged]:
    """Training and test rows of every client: shuffled, int(train_fraction * n) of them (at least
    one) to train.

    Args:
        owned: rows of each client.
        stream: shuffles, with a stream of its own for each client; None where rows keep their
            order.
        train_fraction: in (0, 1].
    """
    if not 0 < train_fraction <= 1:
        raise ConfigError(f"train_fraction must be in (0, 1], got {train_fraction}")
    sizes = owned.sizes
    train_sizes = np.minimum(sizes, np.maximum(1, (train_fraction * sizes).astype(np.int64)))
    train = Ragged.empty(train_sizes)
    test = Ragged.empty(sizes - train_sizes)
    if stream is None:
        place = np.arange(len(owned.rows)) - np.repeat(owned.offsets[:-1], sizes)
        first = place < np.repeat(train_sizes, sizes)
        train.rows[:] = owned.rows[first]
        test.rows[:] = owned.rows[~first]
        return train, test
    for client in range(len(owned)):
        rows = stream.client(client).permutation(owned[client])
        train[client][:], test[client][:] = np.split(rows, [train_sizes[client]])
    return train, test


def redistribute(owned: Ragged, stream: Stream) -> Ragged:
    """The rows of all clients, divided evenly at random; a row with several owners occurs once."""
    return Ragged.of(np.array_split(stream.rng().permutation(np.unique(owned.rows)), len(owned)))


def shuffle_rows(owned: Ragged, stream: Stream) -> Ragged:
    """Each client's rows in a random order."""
    return split_train_test(owned, stream, 1.0)[0]


def clients_of_parts(parts: list[list[np.ndarray]], partition: str) -> Ragged:
    """The parts of every client, joined; raises DataError for a client without samples."""
    owned = Ragged.of([np.concatenate(client) for client in parts])
    empty = np.flatnonzero(owned.sizes == 0)
    if len(empty):
        raise DataError(
            f"{partition}: nothing is left for client {empty[0]} ({len(empty)} such); use fewer "
            "clients"
        )
    return owned


def check_counts(samples: int, clients: int, classes_per_client: int = 1, classes: int = 1) -> None:
    """Refuse (ConfigError) numbers of clients or classes that are not possible.

    Args:
        samples: M.
        clients: N, at most M.
        classes_per_client: k, at most C.
        classes: C.
    """
    if not 1 <= clients <= samples:
        raise ConfigError(
            f"clients must be from 1 to the number of samples, {samples}; got {clients}"
        )
    if not 1 <= classes_per_client <= classes:
        raise ConfigError(
            f"classes_per_client must be from 1 to {classes}, got {classes_per_client}"
        )


def _check_alpha(alpha: float) -> None:
    if not (np.isfinite(alpha) and alpha > 0):
        raise ConfigError(f"alpha must be a positive number, got {alpha}")
