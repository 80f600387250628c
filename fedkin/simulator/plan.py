"""The work of a call as flat arrays of few shapes: what the compiled programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped, UInt32

from fedkin.data.federated import Ragged
from fedkin.simulator.batching import Batches, bucket


class Plan(NamedTuple):
    """Rows of a training call; padded rows have no steps, padded steps belong to no row."""

    x: Shaped[np.ndarray, "R ..."]  # the samples of these clients only
    y: Int[np.ndarray, "R"]
    batches: Int[np.ndarray, "S B"]  # rows of x
    valid: Int[np.ndarray, "S"]
    which: Int[np.ndarray, "n"]  # model of each row
    first: Int[np.ndarray, "n"]  # its first step
    steps: Int[np.ndarray, "n"]
    per_epoch: Int[np.ndarray, "n"]
    words: UInt32[np.ndarray, "n 2"]  # randomness of the device


def plan(
    x: Shaped[np.ndarray, "M ..."],
    y: Int[np.ndarray, "M"],
    owned: Ragged,
    clients: Int[np.ndarray, "r"],
    which: Int[np.ndarray, "r"],
    batches: Sequence[Batches],
    words: UInt32[np.ndarray, "r 2"],
    at_most: int,
) -> Plan:
    """Lay the batches of all rows end to end and gather the samples they use.

    Sizes are rounded so that calls of about the same work share a compiled program: the samples to a power of two, the
    rows to ``at_most`` (those of the whole call, of which this device has a share), and the steps to fit both.
    """
    unique, slot = np.unique(clients, return_inverse=True)
    mine = [owned[int(c)] for c in unique]
    base = np.concatenate([[0], np.cumsum([len(rows) for rows in mine])])
    samples = _power_of_two(int(base[-1]))
    width = batches[0].rows.shape[1]
    steps = np.array([len(b.rows) for b in batches])
    first = np.concatenate([[0], np.cumsum(steps)])
    n, total = bucket(at_most), _room(batches, int(first[-1]), samples // width, bucket(at_most), len(unique))

    grid, valid = np.zeros((total, width), np.int32), np.zeros(total, np.int32)
    for b, at, where in zip(batches, first, slot, strict=False):
        grid[at : at + len(b.rows)] = b.rows + base[where]
        valid[at : at + len(b.rows)] = b.valid
    taken, labels = np.zeros((samples, *x.shape[1:]), x.dtype), np.zeros(samples, np.int32)
    rows = np.concatenate(mine)
    np.take(x, rows, axis=0, out=taken[: len(rows)])
    labels[: len(rows)] = y[rows]
    per_epoch = [b.per_epoch for b in batches]
    return Plan(
        taken, labels, grid, valid, _pad(which, n), _pad(first[:-1], n), _pad(steps, n), _pad(per_epoch, n),
        np.concatenate([words, np.zeros((n - len(words), 2), np.uint32)]),
    )  # fmt: skip


def _room(batches: Sequence[Batches], steps: int, full: int, n: int, clients: int) -> int:
    """Steps to make room for: all that n clients can need in as many passes over as many samples, which is one size for
    many calls; a power of two where passes differ or a client stands in several rows."""
    passes = {-(-len(b.rows) // b.per_epoch) for b in batches}
    if len(passes) == 1 and clients == len(batches):
        return passes.pop() * (full + n)
    return _power_of_two(steps)


def _pad(values: Sequence[int] | np.ndarray, size: int) -> Int[np.ndarray, "n"]:
    out = np.zeros(size, np.int32)
    out[: len(values)] = values
    return out


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
