"""The work of a call as flat arrays of few shapes: what the compiled programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Shaped, UInt32

from fedkin.data.federated import Ragged
from fedkin.simulation.batching import Batches, bucket


class Plan(NamedTuple):
    """Rows of a training call; padded rows have no steps, padded steps belong to no row."""

    x: Shaped[np.ndarray, "R ..."]  # the samples of these clients only
    y: Int[np.ndarray, "R"]
    batches: Int[np.ndarray, "S B"]  # rows of x
    valid: Int[np.ndarray, "S"]
    model_index: Int[np.ndarray, "n ..."]  # model of each row; of detectors [n G], G of one client
    positive: Int[np.ndarray, "n ..."]  # class that each of them is to find
    first: Int[np.ndarray, "n"]  # its first step
    steps: Int[np.ndarray, "n"]
    per_epoch: Int[np.ndarray, "n"]
    words: UInt32[np.ndarray, "n 2"]  # randomness of the device


def plan(
    x: Shaped[np.ndarray, "M ..."],
    y: Int[np.ndarray, "M"],
    owned: Ragged,
    clients: Int[np.ndarray, "n"],
    model_index: Int[np.ndarray, "n ..."],
    batches: Sequence[Batches],
    words: UInt32[np.ndarray, "n 2"],
    positive: Int[np.ndarray, "n ..."] | None = None,
) -> Plan:
    """Lay the batches of all rows end to end and gather the samples they use."""
    unique, slot = np.unique(clients, return_inverse=True)
    mine = [owned[int(c)] for c in unique]
    base = np.concatenate([[0], np.cumsum([len(rows) for rows in mine])])
    steps = np.array([len(b.rows) for b in batches])
    rows = np.concatenate(mine)
    return Plan(
        x=x[rows],
        y=y[rows].astype(np.int32),
        batches=np.concatenate([b.rows + base[where] for b, where in zip(batches, slot, strict=True)]).astype(np.int32),
        valid=np.concatenate([b.valid for b in batches]).astype(np.int32),
        model_index=model_index.astype(np.int32),
        positive=np.zeros(model_index.shape, np.int32) if positive is None else positive.astype(np.int32),
        first=(np.cumsum(steps) - steps).astype(np.int32),
        steps=steps.astype(np.int32),
        per_epoch=np.array([b.per_epoch for b in batches], np.int32),
        words=words,
    )


def side_by_side(plans: Sequence[Plan]) -> Plan:
    """The plans of several devices as one, every array with a leading device axis.

    Sizes are rounded, so that calls of about the same work share a compiled program: the samples to a power of two, the
    rows to those of all devices (whose shares vary), and the steps to fit both.
    """
    samples = power_of_two(max(len(p.x) for p in plans))
    rows = bucket(sum(len(p.model_index) for p in plans))
    steps = _room(plans, samples, rows)
    sizes = (samples, samples, steps, steps, rows, rows, rows, rows, rows, rows)  # in the order of Plan
    return Plan(*(np.stack([_pad(a, n) for a in arrays]) for n, *arrays in zip(sizes, *plans, strict=True)))


def _room(plans: Sequence[Plan], samples: int, rows: int) -> int:
    """Steps to make room for: where all rows pass over their samples equally often, what so many rows of so many
    samples can need, which is one size for many calls."""
    needed = max(len(p.valid) for p in plans)
    passes = set(np.concatenate([-(-p.steps // p.per_epoch) for p in plans]).tolist())
    usual = passes.pop() * (samples // plans[0].batches.shape[1] + rows)
    return power_of_two(needed) if passes or usual < needed else usual


def _pad(values: Shaped[np.ndarray, "n ..."], size: int) -> Shaped[np.ndarray, "m ..."]:
    out = np.zeros((size, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out


def power_of_two(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()
