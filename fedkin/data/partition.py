"""Who gets which samples: pure functions from labels to one list of rows per client.

The published recipes draw from NumPy's legacy generator, so they take a ``RandomState`` and repeat the published
numbers; the others take a Stream. N clients, M samples, C classes; labels are 0 .. C-1.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import Ragged

PATIENCE = 200  # draws of a Dirichlet partition before it is called impossible


class _Cursors:
    """The rows of every class in file order, handed out from front to back."""

    def __init__(self, labels: Int[np.ndarray, "M"]) -> None:
        self.rows = [np.flatnonzero(labels == c) for c in range(int(labels.max()) + 1)]
        self.sizes = np.array([len(rows) for rows in self.rows])
        self.at = np.zeros(len(self.rows), np.int64)

    def take(self, c: int, count: int) -> Int[np.ndarray, "_"]:
        """The next rows of class c, fewer where it runs out."""
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
    """Few classes per client, sizes by a power law: FedProx's MNIST (Li et al. 2020), for any N, C and k.

    Client u has the classes u, u+1, .. (mod C): ``minimum`` samples of each, then a lognormal(0, 2) share of what is
    left of the class (none, where it would run out). A class too small for the minimum gives what it has. No sample
    is given twice. Raises DataError where a client would get nothing.
    """
    _check(len(labels), clients, classes_per_client, int(labels.max(initial=-1)) + 1)
    cursors = _Cursors(labels)
    C, k = len(cursors.rows), classes_per_client
    own = [[cursors.take((u + j) % C, minimum) for j in range(k)] for u in range(clients)]
    share = random.lognormal(0, 2.0, (C, -(-clients // C), k))
    share *= ((cursors.sizes - cursors.at) / share.sum(axis=(1, 2)))[:, None, None]
    for u in range(clients):
        for j in range(k):
            c, count = (u + j) % C, int(share[(u + j) % C, u // C, j])
            if cursors.at[c] + count < cursors.sizes[c]:
                own[u].append(cursors.take(c, count))
    return _owned(own, "power_law")


def femnist(
    labels: Int[np.ndarray, "M"],
    clients: int,
    classes_per_client: int,
    random: np.random.RandomState,
    shared_images: bool = False,
) -> Ragged:
    """FedProx's FEMNIST (Li et al. 2020): client u has classes u, u+1, .. (mod C) in equal parts, lognormal(4, 1) + 5
    samples in all.

    The authors' code resets its cursor at every draw, so that every client gets the *first* images of a class, and an
    image trains one client and tests another. Sound by default: no image is given twice, a class that runs out gives
    what it has. ``shared_images`` is the recipe as published. Raises DataError where a client would get nothing.
    """
    _check(len(labels), clients, classes_per_client, int(labels.max(initial=-1)) + 1)
    cursors = _Cursors(labels)
    counts = femnist_counts(clients, classes_per_client, random)
    own: list[list[np.ndarray]] = []
    for u, count in enumerate(counts):
        if shared_images:
            cursors.at[:] = 0
        own.append([cursors.take((u + j) % len(cursors.rows), int(count)) for j in range(classes_per_client)])
    return _owned(own, "femnist")


def femnist_counts(clients: int, classes_per_client: int, random: np.random.RandomState) -> Int[np.ndarray, "N"]:
    """Images per class that each client asks for in :func:`femnist`."""
    sizes = random.lognormal(4, 1, clients) + 5
    return np.maximum(2, (sizes / classes_per_client).astype(np.int64))


def ditto(
    train_labels: Int[np.ndarray, "M"],
    test_labels: Int[np.ndarray, "m"],
    clients: int,
    classes_per_client: int,
    random: np.random.RandomState,
) -> tuple[Ragged, Ragged]:
    """Ditto's FashionMNIST (Li et al. 2021): train and test rows of every client, in class order.

    Sizes are lognormal(3, 1) + 10 scaled to M in all, shared among the client's classes by lognormal(1, 1); a
    test part is a sixth of its train part. A cursor that would overrun its class starts again, so that a few images
    have two owners. The published set is ``RandomState(233)`` with 500 clients of 5 classes.
    """
    C = max(int(train_labels.max(initial=-1)), int(test_labels.max(initial=-1))) + 1
    _check(len(train_labels), clients, classes_per_client, C)
    cursors = _Cursors(train_labels), _Cursors(test_labels)
    sizes = random.lognormal(3, 1, clients) + 10
    sizes *= len(train_labels) / sizes.sum()
    own: tuple[list[list[np.ndarray]], ...] = ([], [])
    for u in range(clients):
        share = random.lognormal(1, 1, classes_per_client)
        share *= sizes[u] / share.sum()
        for side, divisor in enumerate((1, 6)):
            counts = (share / divisor).astype(np.int64) + 1
            own[side].append([_again(cursors[side], (u + j) % C, int(n)) for j, n in enumerate(counts)])
    return _owned(own[0], "ditto"), _owned(own[1], "ditto")


def _again(cursors: _Cursors, c: int, count: int) -> Int[np.ndarray, "_"]:
    if cursors.at[c] + count > cursors.sizes[c]:
        cursors.at[c] = 0
    return cursors.take(c, count)


def dirichlet(
    labels: Int[np.ndarray, "M"], clients: int, alpha: float | int, random: np.random.RandomState, minimum: int = 10
) -> Ragged:
    """Class shares by Dirichlet(alpha) as in NIID-Bench (Li et al. 2022), every sample given once.

    Clients that have M/N samples get no more of the classes to come, and the whole is drawn again until every client
    has ``minimum``. Raises DataError where that cannot be, or does not come about.
    """
    _check(len(labels), clients)
    _check_alpha(alpha)
    if minimum * clients > len(labels):
        raise DataError(f"dirichlet: {clients} clients of at least {minimum} samples need more than {len(labels)}")
    for _ in range(PATIENCE):
        own = _dirichlet_once(labels, clients, alpha, random)
        if min(map(len, own)) >= minimum:
            return _owned([[random.permutation(rows)] for rows in own], "dirichlet")
    raise DataError(
        f"dirichlet: alpha {alpha} leaves some of {clients} clients with under {minimum} samples in {PATIENCE} draws; "
        "take a larger alpha or fewer clients"
    )


def _dirichlet_once(labels: np.ndarray, clients: int, alpha: float, random: np.random.RandomState) -> list[np.ndarray]:
    own = [np.zeros(0, np.int64) for _ in range(clients)]
    for c in range(int(labels.max()) + 1):
        rows = random.permutation(np.flatnonzero(labels == c))
        room = np.array([len(mine) < len(labels) / clients for mine in own])
        share = random.dirichlet(np.repeat(alpha, clients)) * room
        if not share.sum() > 0:  # a tiny alpha gave everything to clients that are full
            share = room.astype(float)
        cuts = (np.cumsum(share / share.sum()) * len(rows)).astype(np.int64)[:-1]
        own = [np.concatenate(pair) for pair in zip(own, np.split(rows, cuts), strict=True)]
    return own


def dirichlet_plain(
    labels: Int[np.ndarray, "M"], clients: int, alpha: float | int, random: np.random.RandomState
) -> Ragged:
    """Class shares by Dirichlet(alpha) without any limit on sizes, as in Sattler et al.'s code: every sample is given
    once, in a random order. No named set has it, since a client may end with a sample or two: it is for federations
    made by hand that must be theirs, number for number. Raises DataError where a client gets nothing."""
    _check(len(labels), clients)
    _check_alpha(alpha)
    order = random.permutation(len(labels))
    C = int(labels.max()) + 1
    shares: Float[np.ndarray, "C N"] = random.dirichlet(np.repeat(alpha, clients), C)
    parts = []
    for c in range(C):
        rows = order[labels[order] == c]
        parts.append(np.split(rows, (np.cumsum(shares[c])[:-1] * len(rows)).astype(np.int64)))
    return _owned([[part[u] for part in parts] for u in range(clients)], "dirichlet_plain")


def shards(labels: Int[np.ndarray, "M"], clients: int, shards_per_client: int, stream: Stream) -> Ragged:
    """Samples sorted by class, cut into equal shards, dealt at random (McMahan et al. 2017), every one given once."""
    _check(len(labels), clients)
    if not 1 <= shards_per_client * clients <= len(labels):
        raise ConfigError(f"shards: {clients} x {shards_per_client} shards cannot be cut from {len(labels)} samples")
    cut = np.array_split(np.argsort(labels, kind="stable"), clients * shards_per_client)
    deal = stream.rng().permutation(len(cut)).reshape(clients, shards_per_client)
    return _owned([[cut[shard] for shard in mine] for mine in deal], "shards")


def blocks(
    labels: Int[np.ndarray, "M"], clients: int, classes_per_client: int, stream: Stream
) -> tuple[Ragged, Int[np.ndarray, "N"]]:
    """Blocks of k consecutive classes, each divided evenly among the clients of its own, as in the experiments with
    hierarchical clusters and ATHENA-FL; also the block of every client, its true cluster.

    Of C / k blocks client u has number u * (C / k) // N: with 10 clients of 2 classes, the first two have classes 0
    and 1. Each class is cut into equal slices (give or take one) in a random order, every sample given once. The
    authors' script mislabels a sixth of its images, pairing training images with test labels; here labels are right.

    Raises ConfigError where k does not divide C, or where a block would have no client.
    """
    C = int(labels.max(initial=-1)) + 1
    _check(len(labels), clients)
    divisors = [k for k in range(1, C + 1) if C % k == 0]
    if classes_per_client not in divisors:
        known = ", ".join(map(str, divisors))
        raise ConfigError(f"blocks: classes_per_client must divide the {C} classes ({known}), got {classes_per_client}")
    B = C // classes_per_client
    if clients < B:
        raise ConfigError(
            f"blocks: {B} blocks of {classes_per_client} classes need at least {B} clients; got {clients}"
        )
    block, rng = np.arange(clients) * B // clients, stream.rng()
    own: list[list[np.ndarray]] = [[] for _ in range(clients)]
    for c in range(C):
        members = np.flatnonzero(block == c // classes_per_client)
        slices = np.array_split(rng.permutation(np.flatnonzero(labels == c)), len(members))
        for u, rows in zip(members, slices, strict=True):
            own[u].append(rows)
    return _owned(own, "blocks"), block


def iid(samples: int, clients: int, stream: Stream) -> Ragged:
    """All samples dealt evenly at random, every one once."""
    _check(samples, clients)
    return Ragged.of(np.array_split(stream.rng().permutation(samples), clients))


def by_writer(writers: Shaped[np.ndarray, "M"]) -> Ragged:
    """One client per distinct writer, in ascending order of writer; every sample given once."""
    _, owner, sizes = np.unique(writers, return_inverse=True, return_counts=True)
    return Ragged.of(np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1]))


def split(owned: Ragged, stream: Stream, train_fraction: float | int = 0.9) -> tuple[Ragged, Ragged]:
    """Every client's rows shuffled, int(train_fraction * n) of them to train (at least one), the rest to test."""
    if not 0 < train_fraction <= 1:
        raise ConfigError(f"train_fraction must be in (0, 1], got {train_fraction}")
    train, test = [], []
    for client in range(len(owned)):
        rows = stream.client(client).permutation(owned[client])
        cut = max(1, int(train_fraction * len(rows)))
        train.append(rows[:cut])
        test.append(rows[cut:])
    return Ragged.of(train), Ragged.of(test)


def dealt_again(owned: Ragged, stream: Stream) -> Ragged:
    """What all clients own, dealt evenly at random; a row that several of them own is dealt once."""
    return Ragged.of(np.array_split(stream.rng().permutation(np.unique(owned.rows)), len(owned)))


def shuffled(owned: Ragged, stream: Stream) -> Ragged:
    """Each client's rows in a random order."""
    return split(owned, stream, 1.0)[0]


def _owned(parts: list[list[np.ndarray]], recipe: str) -> Ragged:
    """From the pieces of every client; a client with none is refused."""
    owned = Ragged.of([np.concatenate(mine) for mine in parts])
    empty = np.flatnonzero(owned.sizes == 0)
    if len(empty):
        raise DataError(f"{recipe}: nothing is left for client {empty[0]} ({len(empty)} such); ask for fewer clients")
    return owned


def _check(samples: int, clients: int, classes_per_client: int = 1, classes: int = 1) -> None:
    if not 1 <= clients <= samples:
        raise ConfigError(f"clients must be from 1 to the number of samples, {samples}; got {clients}")
    if not 1 <= classes_per_client <= classes:
        raise ConfigError(f"classes_per_client must be from 1 to {classes}, got {classes_per_client}")


def _check_alpha(alpha: float) -> None:
    if not (np.isfinite(alpha) and alpha > 0):
        raise ConfigError(f"alpha must be a positive number, got {alpha}")
