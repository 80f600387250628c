"""The input of a training program: the batches of all rows as flat arrays.

A row is a client with the model, or the group of models, that it trains. Arrays are padded to few
different sizes, so that few programs are compiled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt32

from fedkin.core.train_call import GradientTerms, MixedModel
from fedkin.data.federated import Ragged
from fedkin.simulation.batching import Batches, rounded_up
from fedkin.simulation.jax.host_arrays import aligned_zeros, take_into

_ROOM = 1.5  # padded number of samples of a device, in means of its clients
_MOST_PADDING = 4  # padded number of samples of a device, at most, per sample


@dataclass(frozen=True)
class ProgramRows:
    """Rows of a compiled training program with their batches, before padding.

    A row is a client with one model, or with a group of G models that train on the same batches.

    Attributes:
        clients: client of each row.
        model_index: model of each row [n]; for groups [n G].
        batches: batches of each row.
        words: random key data of each row.
        positive: class that each detector recognises; None for other models.
        rates: learning rate of each step of each row; None for one rate in all steps.
        class_weights: class weights in each row's loss; None if all are 1.
        weights: sample weights in each step of each row, [S B], or [S G B] for groups; None if all
            are 1.
        terms: gradient terms of the rows, as in ``TrainCall``.
        mixed: personal models of the rows, as in ``TrainCall``.
    """

    clients: Int[np.ndarray, "n"]
    model_index: Int[np.ndarray, "n ..."]
    batches: Sequence[Batches]
    words: UInt32[np.ndarray, "n 2"]
    positive: Int[np.ndarray, "n ..."] | None = None
    rates: Sequence[Float[np.ndarray, "_"]] | None = None
    class_weights: Float[np.ndarray, "n C"] | None = None
    weights: Sequence[Float[np.ndarray, "_ ..."]] | None = None
    terms: GradientTerms | None = None
    mixed: MixedModel | None = None

    def select(self, rows: Int[np.ndarray, "r"]) -> ProgramRows:
        """The rows (clients with their models) with these indices."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ProgramRows(**{name: _selected(value, rows) for name, value in values.items()})


def _selected(values: Any, rows: Int[np.ndarray, "r"]) -> Any:
    """The entries of some rows (clients with their models) in an array, in a list, or in a value
    with a ``select`` method."""
    if values is None:
        return None
    if hasattr(values, "select"):
        return values.select(rows)
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


class PlannedSteps(NamedTuple):
    """The training steps of all rows (clients with their models), one row after another. Padded
    steps belong to no row.

    Outside a compiled program the arrays are NumPy arrays, inside they are JAX arrays.
    """

    batches: Any  # sample indices of each step's batch [S B]
    valid: Any  # number of samples in each batch [S]
    rates: Any  # learning rate of each step [S]; None for the call's
    weights: Any  # sample weights of each step [S B], for groups [S G B]; None if all are 1


class PlannedRows(NamedTuple):
    """What a training program needs to know about each row (a client with its model). Padded rows
    have no steps.

    Outside a compiled program the fields are NumPy arrays, with an entry for each row. The program
    maps over the rows: inside it, the fields are JAX arrays of a single row, without the axis n.
    """

    model_index: Any  # model of each row [n]; for groups [n G], G models of one client
    positive: Any  # class of each detector, with the shape of ``model_index``
    first: Any  # index of each row's first step [n]
    num_steps: Any  # number of steps of each row [n]
    per_epoch: Any  # steps in one epoch of each row [n]
    words: Any  # random key data of each row [n 2]
    class_weights: Any  # class weights of each row's loss [n C]; None if all are 1
    terms: GradientTerms | None  # additional gradient terms of each row
    mixed: MixedModel | None  # personal model of each row


class DevicePlan(NamedTuple):
    """What one device computes in a training call, before padding."""

    used: Int[np.ndarray, "R"]  # positions in the data set of the samples of the device's clients
    y: Shaped[np.ndarray, "R ..."]
    steps: PlannedSteps
    rows: PlannedRows


class BatchPlan(NamedTuple):
    """Input of a training program: samples, training steps, and rows (clients with their
    models)."""

    # Samples of the call's clients; None if the device holds the samples of all clients.
    x: Shaped[np.ndarray, "R ..."] | None
    y: Shaped[np.ndarray, "R ..."]
    steps: PlannedSteps
    rows: PlannedRows


def plan(
    y: Shaped[np.ndarray, "M ..."],
    owned: Ragged,
    rows: ProgramRows,
    gather: bool = True,
) -> DevicePlan:
    """Concatenate the batches of all rows (clients with their models) of a device, and find the
    samples of these clients.

    Args:
        y: labels of the data set.
        owned: indices of each client's training samples.
        rows: the rows with their batches.
        gather: whether the samples will be gathered. If not, batches hold positions in the data
            set.
    """
    unique, slot = np.unique(rows.clients, return_inverse=True)
    samples = [owned[int(client)] for client in unique]
    # Gathered samples are stored client after client; `base` is where each client begins.
    base = np.concatenate([[0], np.cumsum([len(positions) for positions in samples])])
    used = np.concatenate(samples)
    taken = [
        batches.rows + base[client] if gather else samples[client][batches.rows]
        for batches, client in zip(rows.batches, slot, strict=True)
    ]
    steps = PlannedSteps(
        batches=np.concatenate(taken).astype(np.int32),
        valid=np.concatenate([batches.valid for batches in rows.batches]).astype(np.int32),
        rates=_end_to_end(rows.rates),
        weights=_end_to_end(rows.weights),
    )
    return DevicePlan(used=used, y=label_array(y[used]), steps=steps, rows=_planned_rows(rows))


def label_array(y: np.ndarray) -> np.ndarray:
    """Labels in the type that programs expect: classes as int32, numbers as float32."""
    return y.astype(np.float32 if y.dtype.kind == "f" else np.int32)


def _planned_rows(rows: ProgramRows) -> PlannedRows:
    """What a training program needs to know about each row (a client with its model), as arrays of
    the types that the program expects."""
    # Programs get an array here even without detectors; then they do not read it.
    positive = np.zeros_like(rows.model_index) if rows.positive is None else rows.positive
    num_steps = np.array([len(batches.rows) for batches in rows.batches])
    return PlannedRows(
        model_index=rows.model_index.astype(np.int32),
        positive=positive.astype(np.int32),
        first=(np.cumsum(num_steps) - num_steps).astype(np.int32),
        num_steps=num_steps.astype(np.int32),
        per_epoch=np.array([batches.per_epoch for batches in rows.batches], np.int32),
        words=rows.words,
        class_weights=rows.class_weights,
        terms=None if rows.terms is None else rows.terms.map(_float32),
        mixed=None if rows.mixed is None else MixedModel(*map(_float32, rows.mixed)),
    )


def _float32(values: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
    """An array as float32; it is copied only if its type differs."""
    return values.astype(np.float32, copy=False)


def _end_to_end(
    parts: Sequence[Float[np.ndarray, "_ ..."]] | None,
) -> Float[np.ndarray, "S ..."] | None:
    """Concatenate one array per row (a client with its model), which holds a value for each
    training step; None without values."""
    return None if parts is None else np.concatenate(parts).astype(np.float32)


def stack_plans(
    plans: Sequence[DevicePlan], x: Shaped[np.ndarray, "M ..."] | None, mean_size: float
) -> BatchPlan:
    """Stack the plans of several devices (samples, steps and rows): every array gets a leading
    device axis.

    All devices get the same padded sizes. These are rounded up, so that training calls of similar
    size share a compiled program. The number of rows (clients with their models) is the rounded
    total of all devices, which is enough however the rows are distributed. For the numbers of
    samples and steps see ``_padded_samples`` and ``_padded_steps``.

    Args:
        plans: the plan of each device.
        x: samples of the data set, from which the samples of the call are gathered; None if the
            devices already hold them.
        mean_size: mean number of samples of a client of the data set.
    """
    samples = _padded_samples(plans, mean_size)
    rows = rounded_up(sum(len(plan.rows.model_index) for plan in plans))
    steps = _padded_steps(plans, samples, rows)
    return BatchPlan(
        x=None if x is None else _gathered(x, [plan.used for plan in plans], samples),
        y=_stacked([plan.y for plan in plans], samples),
        steps=_stacked([plan.steps for plan in plans], steps),
        rows=_stacked([plan.rows for plan in plans], rows),
    )


def _gathered(
    x: Shaped[np.ndarray, "M ..."], used: Sequence[Int[np.ndarray, "_"]], size: int
) -> Shaped[np.ndarray, "D R ..."]:
    """The samples of all devices, padded with zeros to one size and stacked."""
    stacked = aligned_zeros((len(used), size, *x.shape[1:]), x.dtype)
    # Samples are large, so they are copied once: from the data set to where the program reads them.
    for row, positions in zip(stacked, used, strict=True):
        take_into(row[: len(positions)], x, positions)
    return stacked


def _stacked(parts: Sequence[Any], size: int) -> Any:
    """Arrays of all devices, padded with zeros to one size and stacked; None if a device has none.

    Named tuples of arrays are stacked field by field.
    """
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], tuple):
        return type(parts[0])(*(_stacked(field, size) for field in zip(*parts, strict=True)))
    stacked = aligned_zeros((len(parts), size, *parts[0].shape[1:]), parts[0].dtype)
    for row, part in zip(stacked, parts, strict=True):
        row[: len(part)] = part
    return stacked


def _padded_samples(plans: Sequence[DevicePlan], mean_size: float) -> int:
    """Number of samples of a device, with padding: a power of two.

    Usually it follows from the number of rows (clients with their models) alone, with room for
    clients that are larger than the mean. So calls with equally many clients share a compiled
    program, whichever clients are drawn. If that is too little or far too much, the needed number
    is rounded up.
    """
    needed = max(len(plan.y) for plan in plans)
    rows = sum(len(plan.rows.model_index) for plan in plans)
    usual = power_of_two(math.ceil(_ROOM * mean_size * rows / len(plans)))
    return usual if needed <= usual <= _MOST_PADDING * needed else power_of_two(needed)


def _padded_steps(plans: Sequence[DevicePlan], samples: int, rows: int) -> int:
    """Number of training steps of a device, with padding.

    If all rows (clients with their models) train for the same number of epochs, it is an upper
    bound: E epochs of ``rows`` rows with ``samples`` samples together take at most E (samples / B +
    rows) steps with batches of B samples. The bound depends only on padded sizes, so training calls
    of similar size share it, and with it a compiled program. If rows differ in their epochs, or
    several rows use the same samples so that the bound is too small, the needed number of steps is
    rounded up to a power of two.
    """
    needed = max(len(plan.steps.valid) for plan in plans)
    epochs = [-(-plan.rows.num_steps // plan.rows.per_epoch) for plan in plans]
    passes = set(np.concatenate(epochs).tolist())
    # If an entry is left after this, rows train for different numbers of epochs.
    usual = passes.pop() * (samples // plans[0].steps.batches.shape[1] + rows)
    return power_of_two(needed) if passes or usual < needed else usual


def power_of_two(size: int) -> int:
    """The smallest power of two that is at least ``size``."""
    return 1 << max(size - 1, 0).bit_length()
