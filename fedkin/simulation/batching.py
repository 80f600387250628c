"""Mini-batches of local training, drawn on the host for each client.

Every trainer uses these batches, so JAX and PyTorch train on the same samples in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining


@dataclass(frozen=True)
class Batches:
    """The mini-batches of one client in order: a row of sample positions for each step.

    In row i, the first ``valid[i]`` positions are the batch of step i. The other positions of the
    row are padding.
    """

    rows: Int[np.ndarray, "steps B"]  # positions in the client's samples
    valid: Int[np.ndarray, "steps"]  # number of samples in each batch
    per_epoch: int  # steps in one pass over the data


def local_batches(
    samples: int, work: LocalTraining, num_steps: int, client: int, stream: Stream, largest: int
) -> Batches:
    """The batches of one client's local training, shuffled by the client's random numbers.

    Args:
        samples: number of the client's training samples.
        work: batch size, and whether epochs or steps are counted.
        num_steps: the client's number of steps if ``work.steps`` is set, otherwise its number of
            epochs.
        client: the client's id in the random streams.
        stream: random stream of this training (``TrainCall.stream``).
        largest: upper bound of the batch size, at least ``samples``; used only if epochs are
            counted. A larger batch would only hold more padding. All clients that one compiled
            program trains get the same bound, so that their batches have the same width.
    """
    rng = stream.child("batches").client(client)
    if work.steps is not None:
        return step_batches(samples, work.batch_size, num_steps, rng)
    return epoch_batches(samples, min(work.batch_size, largest), num_steps, rng)


def epoch_batches(samples: int, batch: int, epochs: int, rng: np.random.Generator) -> Batches:
    """Batches of several epochs: each epoch is a new permutation; a short last batch is kept.

    Args:
        samples, batch: number of samples, and batch size.
        epochs: passes over the samples.
        rng: draws the permutations.
    """
    per_epoch = -(-samples // batch)
    order = rng.permuted(np.tile(np.arange(samples), (epochs, 1)), axis=1)
    padded = np.zeros((epochs, per_epoch * batch), np.int64)
    padded[:, :samples] = order
    sizes = np.full(per_epoch, batch)
    sizes[-1] = samples - (per_epoch - 1) * batch
    return Batches(padded.reshape(-1, batch), np.tile(sizes, epochs), per_epoch)


def step_batches(samples: int, batch: int, steps: int, rng: np.random.Generator) -> Batches:
    """A fixed number of batches of equal size, as in FlexCFL's pre-training.

    The last batch of an epoch is filled up with the first samples of the next permutation. The next
    epoch still uses its whole permutation.

    Args:
        samples, batch: number of samples, and batch size.
        steps: number of batches.
        rng: draws the permutations.
    """
    per_epoch = -(-samples // batch)
    epochs = -(-steps // per_epoch)
    order = rng.permuted(np.tile(np.arange(samples), (epochs + 1, 1)), axis=1)
    # Free places in the last batch of an epoch. They are not all used if the batch size is twice
    # the number of samples or more.
    borrowed = min((per_epoch * batch) % samples, per_epoch * batch - samples)
    padded = np.zeros((epochs, per_epoch * batch), np.int64)
    padded[:, :samples] = order[:-1]
    padded[:, samples : samples + borrowed] = order[1:, :borrowed]
    sizes = np.full(per_epoch, batch)
    sizes[-1] = samples + borrowed - (per_epoch - 1) * batch
    return Batches(padded.reshape(-1, batch)[:steps], np.tile(sizes, epochs)[:steps], per_epoch)


def sequential_batches(samples: int, batch: int) -> Batches:
    """One pass over the samples in their order, without shuffling, for full gradients."""
    per_epoch = -(-samples // batch)
    rows = np.arange(per_epoch * batch).reshape(per_epoch, batch)
    valid = np.minimum(batch, samples - batch * np.arange(per_epoch))
    return Batches(np.where(rows < samples, rows, 0), valid, per_epoch)


def rounded_up(size: int) -> int:
    """Round the length of an array up to 1, 2, ..., 8, 10, 12, 14, 16, 20, ...: there are four
    allowed lengths from each power of two to the next.

    Arrays of similar length can then use the same compiled program. The padding adds less than a
    quarter to an array.
    """
    step = max(1, 2 ** (max(size, 1).bit_length() - 3))
    return -(-max(size, 1) // step) * step
