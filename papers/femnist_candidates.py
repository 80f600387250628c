"""Candidates for the FEMNIST file that FedProx's authors published: which of NIST's images a class
had, and how clients share them, is not known. None of them is an option of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.errors import ConfigError, unknown
from fedkin.core.randomness import Stream
from fedkin.data import femnist, partition
from fedkin.data.download import fetch
from fedkin.data.federated import FederatedData, Ragged
from fedkin.data.fedprox_partitions import femnist_counts
from fedkin.data.femnist import LETTERS
from fedkin.data.files import read_npz
from fedkin.data.partition_options import checked, legacy_random, positive

CLIENTS = 200
CLASSES = 10
CLASSES_PER_CLIENT = 5
TRAINING_WRITERS = 2100  # f0000 .. f2099 wrote NIST's folders hsf_0 to hsf_3
CURSORS = ("first", "wraps", "own")


@checked
def femnist_candidate(
    *,
    cursor: str = "first",
    images: int | None = None,
    step: int = 1,
    training_writers: bool = False,
    classes: int = 26,
    seed: int = 0,
) -> FederatedData:
    """200 clients of five letters each; sizes, shuffle and split are those of ``femnist`` from the
    same seed.

    Args:
        cursor: start of a client's images of a class. ``"first"``: the first image, for every
            client. ``"wraps"``: after the images of the previous client, and from the first image
            again after the last. ``"own"``: after the images of the previous client, until none
            remain.
        images: images of a class, the first of the shuffled pool; None for all.
        step: 1 for the classes u, u + 1, .. of client u, -1 for u, u - 1, .. (mod 10).
        training_writers: only images by the writers of hsf_0 to hsf_3.
        classes: width of the output.
        seed: of shuffle, sizes and split.

    Raises:
        ConfigError: invalid options.
    """
    if cursor not in CURSORS:
        raise ConfigError(unknown("cursor", cursor, CURSORS))
    if step not in (1, -1):
        raise ConfigError(f"step must be 1 or -1, got {step}")
    if images is not None:
        positive("images", images)
    data = femnist(classes=classes, seed=seed)
    order = Stream(seed, purpose="data/shuffle").rng().permutation(len(data.y))
    order = order[_by_training_writer()[order]] if training_writers else order
    pools = [order[data.y[order] == c][:images] for c in range(CLASSES)]
    counts = femnist_counts(CLIENTS, CLASSES_PER_CLIENT, legacy_random(seed))
    owned = deal(pools, counts, CLASSES_PER_CLIENT, cursor=cursor, step=step)
    train, test = partition.split_train_test(owned, Stream(seed, purpose="data/split"), 0.9)
    return replace(data, name="femnist candidate", train=train, test=test)


CANDIDATES: dict[str, Callable[..., FederatedData]] = {"femnist candidate": femnist_candidate}


def deal(
    pools: Sequence[Int[np.ndarray, "_"]],
    counts: Int[np.ndarray, "N"],
    classes_per_client: int,
    *,
    cursor: str = "first",
    step: int = 1,
) -> Ragged:
    """The rows of every client: the given number of each of its classes, from the cursor of the
    class on.

    Args:
        pools: rows of each class.
        counts: images per class of each client; at most the pool, so that no client has an image
            twice.
        classes_per_client: k.
        cursor, step: as for :func:`femnist_candidate`.
    """
    at = np.zeros(len(pools), np.int64)
    rows_of_client: list[list[np.ndarray]] = [[] for _ in counts]
    for u, count in enumerate(counts):
        for c in ((u + step * j) % len(pools) for j in range(classes_per_client)):
            places = at[c] + np.arange(min(count, len(pools[c])))
            places = places[places < len(pools[c])] if cursor == "own" else places % len(pools[c])
            rows_of_client[u].append(pools[c][places])
            at[c] += len(places) if cursor != "first" else 0
    return partition.clients_of_parts(rows_of_client, "femnist candidate")


def _by_training_writer() -> Bool[np.ndarray, "M"]:
    """Of every image of the pool, whether a writer of hsf_0 to hsf_3 wrote it."""
    arrays = read_npz(fetch(LETTERS) / "femnist_aj_pool.npz", ("client_id", "writers"))
    numbers = np.array([int(name[1:5]) for name in arrays["writers"].tolist()])  # of f1234_05: 1234
    return (numbers < TRAINING_WRITERS)[arrays["client_id"]]
