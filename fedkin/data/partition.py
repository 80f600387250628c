"""Partitions of samples over clients: pure functions from labels to a list of rows (samples) for
each client.

Published partitions use NumPy's legacy generator (``RandomState``) to reproduce the published
numbers. The others take a Stream. N clients, M samples, C classes; labels are 0 .. C-1.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.ragged import Ragged
from fedkin.data.units import units_of

# Number of draws of a Dirichlet partition before an error.
MAX_DRAWS = 200


def dirichlet(
    labels: Int[np.ndarray, "M"],
    clients: int,
    alpha: float | int,
    random: np.random.RandomState,
    minimum: int = 10,
) -> Ragged:
    """Class shares by Dirichlet(alpha), as in NIID-Bench (Li et al. 2022). Every sample has one
    owner.

    Classes are divided one after another. A client that already has its even share of M/N samples
    gets none of the following classes. The partition is drawn again until every client has
    ``minimum`` samples.

    Args:
        labels, clients: class of each sample, and number of clients N.
        alpha: concentration; smaller values are less IID.
        random: draws shares and orders.
        minimum: smallest number of samples per client.

    Raises:
        DataError: there are too few samples for the minimum, or in each of 200 draws some client
            has fewer samples than the minimum.
    """
    check_counts(len(labels), clients)
    _check_alpha(alpha)
    if minimum * clients > len(labels):
        raise DataError(
            f"dirichlet: {clients} clients with at least {minimum} samples each need more than "
            f"{len(labels)} samples; use fewer clients"
        )
    for _ in range(MAX_DRAWS):
        drawn = _dirichlet_once(labels, clients, alpha, random)
        if min(map(len, drawn)) >= minimum:
            parts = [[random.permutation(rows)] for rows in drawn]
            return clients_of_parts(parts, "dirichlet")
    raise DataError(
        f"dirichlet: alpha {alpha} leaves some of {clients} clients with under {minimum} samples "
        f"in {MAX_DRAWS} draws; set a larger alpha or fewer clients, or, for your samples, a "
        "smaller min_samples"
    )


def _dirichlet_once(
    labels: np.ndarray, clients: int, alpha: float, random: np.random.RandomState
) -> list[np.ndarray]:
    """Draw the rows (samples) of each client once; some clients may get too few."""
    drawn = [np.zeros(0, np.int64) for _ in range(clients)]
    for c in range(int(labels.max()) + 1):
        rows = random.permutation(np.flatnonzero(labels == c))
        # Clients that have their even share of samples get none of this class.
        room = np.array([len(rows_of_client) < len(labels) / clients for rows_of_client in drawn])
        share = random.dirichlet(np.repeat(alpha, clients)) * room
        if not share.sum() > 0:
            # A tiny alpha has assigned all shares to clients that are full.
            share = room.astype(float)
        cuts = (np.cumsum(share / share.sum()) * len(rows)).astype(np.int64)[:-1]
        parts = np.split(rows, cuts)
        drawn = [np.concatenate(pair) for pair in zip(drawn, parts, strict=True)]
    return drawn


def dirichlet_plain(
    labels: Int[np.ndarray, "M"], clients: int, alpha: float | int, random: np.random.RandomState
) -> Ragged:
    """Class shares by Dirichlet(alpha) without a limit on sizes, as in Sattler et al.'s code.

    Every sample has one owner, and samples are in a random order. It reproduces the federations of
    that code exactly. No named set offers it, since clients may have only one or two samples.

    Args:
        labels, clients: class of each sample, and number of clients N.
        alpha: concentration; smaller values are less IID.
        random: draws shares and orders.

    Raises:
        DataError: a client would have no samples.
    """
    check_counts(len(labels), clients)
    _check_alpha(alpha)
    order = random.permutation(len(labels))
    C = int(labels.max()) + 1
    shares: Float[np.ndarray, "C N"] = random.dirichlet(np.repeat(alpha, clients), C)
    parts_of_classes = []
    for c in range(C):
        rows = order[labels[order] == c]
        cuts = (np.cumsum(shares[c])[:-1] * len(rows)).astype(np.int64)
        parts_of_classes.append(np.split(rows, cuts))
    parts = [[parts_of_class[u] for parts_of_class in parts_of_classes] for u in range(clients)]
    return clients_of_parts(parts, "dirichlet_plain")


def shards(
    labels: Int[np.ndarray, "M"], clients: int, shards_per_client: int, stream: Stream
) -> Ragged:
    """Samples sorted by class and cut into equal shards, each given to a random client.

    Source: McMahan et al. 2017.

    Args:
        labels, clients: class of each sample, and number of clients N.
        shards_per_client: number of shards of a client.
        stream: assigns the shards.

    Raises:
        ConfigError: there are more shards than samples.
    """
    check_counts(len(labels), clients)
    if not 1 <= shards_per_client * clients <= len(labels):
        raise ConfigError(
            f"shards: {clients} x {shards_per_client} shards cannot be cut from {len(labels)} "
            "samples; use fewer clients or shards"
        )
    cut = np.array_split(np.argsort(labels, kind="stable"), clients * shards_per_client)
    shards_of_clients = stream.rng().permutation(len(cut)).reshape(clients, shards_per_client)
    parts = [[cut[shard] for shard in client] for client in shards_of_clients]
    return clients_of_parts(parts, "shards")


def blocks(
    labels: Int[np.ndarray, "M"], clients: int, classes_per_client: int, stream: Stream
) -> tuple[Ragged, Int[np.ndarray, "N"]]:
    """Blocks of k consecutive classes, each divided evenly among the clients of the block.

    Hierarchical clustering's and ATHENA-FL's experiments use this partition. Client u has block
    u * (C / k) // N of the C / k blocks: with 10 clients of 2 classes, the first two have classes 0
    and 1. Each class is cut into slices of equal size (or one more) in a random order. Every sample
    has one owner. The authors' script pairs some training images with test labels, so a sixth of
    its images has wrong labels; here labels are correct.

    Args:
        labels, clients, classes_per_client: class of each sample, N, and k, which divides C.
        stream: orders the samples of each class.

    Returns:
        The rows (samples) of each client, and the client's block, which is its true cluster.

    Raises:
        ConfigError: k does not divide C, or a block would have no client.
    """
    C = int(labels.max(initial=-1)) + 1
    check_counts(len(labels), clients)
    divisors = [k for k in range(1, C + 1) if C % k == 0]
    if classes_per_client not in divisors:
        allowed = ", ".join(map(str, divisors))
        raise ConfigError(
            f"blocks: classes_per_client must divide the {C} classes ({allowed}), got "
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
    parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for c in range(C):
        members = np.flatnonzero(block == c // classes_per_client)
        slices = np.array_split(rng.permutation(np.flatnonzero(labels == c)), len(members))
        for u, rows in zip(members, slices, strict=True):
            parts[u].append(rows)
    return clients_of_parts(parts, "blocks"), block


def iid(samples: int, clients: int, stream: Stream) -> Ragged:
    """All samples, divided evenly at random. Every sample has one owner.

    Args:
        samples: number of samples M.
        clients: number of clients N.
        stream: orders the samples.
    """
    check_counts(samples, clients)
    return Ragged.of(np.array_split(stream.rng().permutation(samples), clients))


def by_owner(owners: Shaped[np.ndarray, "M"]) -> Ragged:
    """One client for each owner of samples, in ascending order of owners."""
    _, owner, sizes = np.unique(owners, return_inverse=True, return_counts=True)
    rows = np.argsort(owner, kind="stable")
    return Ragged.of(np.split(rows, np.cumsum(sizes)[:-1]))


def split_train_test(
    owned: Ragged, stream: Stream | None, train_fraction: float | int = 0.9
) -> tuple[Ragged, Ragged]:
    """Training and test rows (samples) of every client.

    The n rows of a client are shuffled. The first int(train_fraction * n) of them, and at least
    one, are for training.

    Args:
        owned: rows of each client.
        stream: shuffles the rows of each client with a separate stream; None to keep their order.
        train_fraction: share of training rows, in (0, 1].

    Raises:
        ConfigError: the fraction is outside (0, 1].
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
        train[client][:] = rows[: train_sizes[client]]
        test[client][:] = rows[train_sizes[client] :]
    return train, test


def split_units(
    owned: Ragged, unit: Int[np.ndarray, "M"], stream: Stream, train_fraction: float | int = 0.9
) -> tuple[Ragged, Ragged]:
    """Training and test rows (samples) of every client, without dividing a unit.

    The units of a client are divided as ``split_train_test`` divides rows, so the fraction is one
    of units.

    Args:
        owned: rows of each client.
        unit: the unit of each sample.
        stream: shuffles the units of each client with a separate stream.
        train_fraction: share of training units, in (0, 1].

    Raises:
        ConfigError: the fraction is outside (0, 1].
    """
    found = [units_of(unit, owned[client]) for client in range(len(owned))]
    units = Ragged.consecutive(np.array([one.count for one in found], np.int64))
    trained, _ = split_train_test(units, stream, train_fraction)
    is_trained = np.zeros(len(units.rows), bool)
    is_trained[trained.rows] = True
    train = []
    test = []
    for client, one in enumerate(found):
        first = is_trained[units[client]][one.of_sample]
        train.append(owned[client][first])
        test.append(owned[client][~first])
    return Ragged.of(train), Ragged.of(test)


def redistribute(owned: Ragged, stream: Stream) -> Ragged:
    """The rows (samples) of all clients, divided evenly at random. A row with several owners occurs
    once."""
    rows = stream.rng().permutation(np.unique(owned.rows))
    return Ragged.of(np.array_split(rows, len(owned)))


def shuffle_rows(owned: Ragged, stream: Stream) -> Ragged:
    """Each client's rows (samples) in a random order."""
    return split_train_test(owned, stream, 1.0)[0]


def clients_of_parts(parts: list[list[np.ndarray]], partition: str) -> Ragged:
    """Join the arrays of rows (samples) of each client into one index.

    Args:
        parts: a list of arrays of rows for each client, such as one array per class.
        partition: name of the partition, for error messages.

    Raises:
        DataError: a client has no samples.
    """
    owned = Ragged.of([np.concatenate(client) for client in parts])
    empty = np.flatnonzero(owned.sizes == 0)
    if len(empty):
        raise DataError(
            f"{partition}: no samples are left for client {empty[0]} ({len(empty)} such clients); "
            "use fewer clients"
        )
    return owned


def check_counts(samples: int, clients: int, classes_per_client: int = 1, classes: int = 1) -> None:
    """Raise ConfigError for impossible numbers of clients or classes.

    Args:
        samples: number of samples M.
        clients: number of clients N, at most M.
        classes_per_client: number of classes per client k, at most C.
        classes: number of classes C.
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
    """Raise ConfigError for an alpha that is not a positive number."""
    if not (np.isfinite(alpha) and alpha > 0):
        raise ConfigError(f"alpha must be a positive number, got {alpha}")
