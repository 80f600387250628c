"""The batches of a call as flat, padded arrays of few shapes: the input of the compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt32

from fedkin.data.federated import Ragged
from fedkin.simulation.batching import Batches, rounded_up


class Plan(NamedTuple):
    """Input of a training call; padded rows have no steps, padded steps belong to no row."""

    x: Shaped[np.ndarray, "R ..."] | None  # samples of the clients in the call; None: of all, on the device
    y: Int[np.ndarray, "R"]
    batches: Int[np.ndarray, "S B"]  # rows of x
    valid: Int[np.ndarray, "S"]
    model_index: Int[np.ndarray, "n ..."]  # model of each row; of groups [n G], G of one client
    positive: Int[np.ndarray, "n ..."]  # class of each detector
    first: Int[np.ndarray, "n"]  # first step of each row
    steps: Int[np.ndarray, "n"]
    per_epoch: Int[np.ndarray, "n"]
    words: UInt32[np.ndarray, "n 2"]  # random key data of each row
    rates: Float[np.ndarray, "S"] | None = None  # learning rate of each step; None: that of the call
    class_weights: Float[np.ndarray, "n C"] | None = None  # of each row's loss; None: all 1
    correction: Float[np.ndarray, "n P"] | None = None  # terms of each row's gradients, as in GradientTerms
    anchor: Float[np.ndarray, "n P"] | None = None
    strength: Float[np.ndarray, "n"] | None = None
    weights: Float[np.ndarray, "S ..."] | None = None  # of the samples of each step [S B], of groups [S G B]; None: 1
    own: Float[np.ndarray, "n P"] | None = None  # a model of each row beside, and its share in the mix
    share: Float[np.ndarray, "n"] | None = None


def plan(
    x: Shaped[np.ndarray, "M ..."] | None,
    y: Int[np.ndarray, "M"],
    owned: Ragged,
    clients: Int[np.ndarray, "n"],
    model_index: Int[np.ndarray, "n ..."],
    batches: Sequence[Batches],
    words: UInt32[np.ndarray, "n 2"],
    positive: Int[np.ndarray, "n ..."] | None = None,
    gather: bool = True,
) -> Plan:
    """Concatenate the batches of all rows and gather the samples they use.

    Args:
        x, y: samples and labels of the data set; x None where the devices have the samples of the call.
        owned: training rows of each client.
        clients, batches: client and batches of each row.
        model_index: model of each row; of groups [n G], G of one client.
        words: random key data of each row.
        positive: class of each detector; None where models are no detectors.
        gather: whether to; else batches are rows of the data set.
    """
    unique, slot = np.unique(clients, return_inverse=True)
    samples = [owned[int(c)] for c in unique]
    base = np.concatenate([[0], np.cumsum([len(rows) for rows in samples])])
    steps = np.array([len(b.rows) for b in batches])
    rows = np.concatenate(samples)
    taken = [b.rows + base[s] if gather else samples[s][b.rows] for b, s in zip(batches, slot, strict=True)]
    return Plan(
        x=x[rows] if gather and x is not None else None,
        y=y[rows].astype(np.int32),
        batches=np.concatenate(taken).astype(np.int32),
        valid=np.concatenate([b.valid for b in batches]).astype(np.int32),
        model_index=model_index.astype(np.int32),
        positive=np.zeros(model_index.shape, np.int32) if positive is None else positive.astype(np.int32),
        first=(np.cumsum(steps) - steps).astype(np.int32),
        steps=steps.astype(np.int32),
        per_epoch=np.array([b.per_epoch for b in batches], np.int32),
        words=words,
    )


def stack_plans(plans: Sequence[Plan]) -> Plan:
    """The plans of several devices as one, every array with a leading device axis.

    Sizes are rounded, so that calls of about the same size share a compiled program: the samples to a power of two, the
    rows to those of all devices together, and the steps to fit both.
    """
    samples = power_of_two(max(len(p.y) for p in plans))
    rows = rounded_up(sum(len(p.model_index) for p in plans))
    steps = _padded_steps(plans, samples, rows)
    own = (rows,) * 4  # of each row, if at all
    sizes = (samples, samples, steps, steps, *(rows,) * 6, steps, *own, steps, rows, rows)  # in the order of Plan
    return Plan(*(_stacked(arrays, n) for n, *arrays in zip(sizes, *plans, strict=True)))


def _stacked(arrays: Sequence[np.ndarray | None], size: int) -> Any:
    """Arrays of all devices, padded with zeros; None where no device has one."""
    given = [a for a in arrays if a is not None]
    if len(given) < len(arrays):
        return None
    out = np.zeros((len(given), size, *given[0].shape[1:]), given[0].dtype)
    for own, a in zip(out, given, strict=True):  # samples are large: one copy, and no second one to stack them
        own[: len(a)] = a
    return out


def _padded_steps(plans: Sequence[Plan], samples: int, rows: int) -> int:
    """Padded number of steps. Where all rows train for the same number of epochs, it is the most that these numbers of
    rows and samples can need, so that many calls have one size."""
    needed = max(len(p.valid) for p in plans)
    passes = set(np.concatenate([-(-p.steps // p.per_epoch) for p in plans]).tolist())
    usual = passes.pop() * (samples // plans[0].batches.shape[1] + rows)
    return power_of_two(needed) if passes or usual < needed else usual


def power_of_two(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()
