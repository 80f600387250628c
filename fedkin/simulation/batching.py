"""Which samples a client takes in which step. Drawn on the host, per client, so that every trainer can use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.randomness import Stream
from fedkin.core.world import LocalTraining


@dataclass(frozen=True)
class Batches:
    """The mini-batches of one client in order; only the first ``valid`` entries of a row count."""

    rows: Int[np.ndarray, "steps B"]  # positions in the client's own samples
    valid: Int[np.ndarray, "steps"]
    per_epoch: int  # steps in one pass over the data


def for_work(samples: int, work: LocalTraining, num_steps: int, client: int, stream: Stream, widest: int) -> Batches:
    """The batches of one client's local work: ``num_steps`` is epochs, or steps. ``client`` is its number in the stream.

    "All at once" asks for no more room than ``widest``, which is at least the number of samples.
    """
    rng = stream.child("batches").client(client)
    if work.steps is not None:
        return by_steps(samples, work.batch_size, num_steps, rng)
    return by_epochs(samples, min(work.batch_size, widest), num_steps, rng)


def by_epochs(samples: int, batch: int, epochs: int, rng: np.random.Generator) -> Batches:
    """A fresh permutation in every epoch, cut into batches; the last, short one is kept."""
    per_epoch = -(-samples // batch)
    order = rng.permuted(np.tile(np.arange(samples), (epochs, 1)), axis=1)
    padded = np.zeros((epochs, per_epoch * batch), np.int64)
    padded[:, :samples] = order
    sizes = np.full(per_epoch, batch)
    sizes[-1] = samples - (per_epoch - 1) * batch
    return Batches(padded.reshape(-1, batch), np.tile(sizes, epochs), per_epoch)


def by_steps(samples: int, batch: int, steps: int, rng: np.random.Generator) -> Batches:
    """A number of batches, as FlexCFL counts its pre-training: the last batch of an epoch is filled up with the first
    samples of the next permutation, which then starts again from its beginning."""
    per_epoch = -(-samples // batch)
    epochs = -(-steps // per_epoch)
    order = rng.permuted(np.tile(np.arange(samples), (epochs + 1, 1)), axis=1)
    borrowed = min((per_epoch * batch) % samples, per_epoch * batch - samples)
    padded = np.zeros((epochs, per_epoch * batch), np.int64)
    padded[:, :samples] = order[:-1]
    padded[:, samples : samples + borrowed] = order[1:, :borrowed]
    sizes = np.full(per_epoch, batch)
    sizes[-1] = samples + borrowed - (per_epoch - 1) * batch
    return Batches(padded.reshape(-1, batch)[:steps], np.tile(sizes, epochs)[:steps], per_epoch)


def in_order(samples: int, batch: int) -> Batches:
    """One pass without shuffling, for full gradients."""
    per_epoch = -(-samples // batch)
    rows = np.arange(per_epoch * batch).reshape(per_epoch, batch)
    valid = np.minimum(batch, samples - batch * np.arange(per_epoch))
    return Batches(np.where(rows < samples, rows, 0), valid, per_epoch)


def bucket(size: int) -> int:
    """The next of four sizes per power of two: few compiled shapes, at most a quarter of padding."""
    step = max(1, 2 ** (max(size, 1).bit_length() - 3))
    return -(-max(size, 1) // step) * step
