"""The batches of a call as flat, padded arrays of few shapes, for compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt32

from fedkin.core.train_call import GradientTerms, MixedModel
from fedkin.data.federated import Ragged
from fedkin.simulation.batching import Batches, rounded_up


@dataclass(frozen=True)
class ProgramRows:
    """Rows of a compiled program with their batches, before padding. A row is a client with a
    model, or with a group of G models that train on the same batches.

    Attributes:
        clients: client of each row.
        model_index: model of each row; for groups [n G].
        batches: batches of each row.
        words: random key data of each row.
        positive: class of each detector; None for other models.
        rates: learning rate of each step of each row; None: the call's.
        class_weights: class weights in each row's loss; None: all 1.
        weights: sample weights in each step of each row, [S B] or for groups [S G B]; None: all 1.
        terms: gradient terms of the rows, as in ``TrainCall``.
        mixed: second models of the rows, as in ``TrainCall``.
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
        """Some of the rows."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return ProgramRows(**{name: _selected(value, rows) for name, value in values.items()})


def _selected(values: Any, rows: Int[np.ndarray, "r"]) -> Any:
    """The entries of some rows of an array, a list, or a value with a ``select``."""
    if values is None:
        return None
    if hasattr(values, "select"):
        return values.select(rows)
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]


class PlannedSteps(NamedTuple):
    """The steps of all rows, concatenated; padded steps belong to no row.

    Arrays are NumPy's outside a program and JAX's inside.
    """

    batches: Any  # rows of the plan's samples, [S B]
    valid: Any  # [S]
    rates: Any  # learning rate of each step [S]; None: the call's
    weights: Any  # sample weights of each step [S B], for groups [S G B]; None: all 1


class PlannedRows(NamedTuple):
    """The rows; padded ones have no steps.

    Arrays are NumPy's outside a program and JAX's inside, where a row has no row axis.
    """

    model_index: Any  # model of each row [n]; for groups [n G], G models of one client
    positive: Any  # class of each detector, same shape
    first: Any  # first step of each row [n]
    num_steps: Any  # [n]
    per_epoch: Any  # [n]
    words: Any  # random key data of each row [n 2]
    class_weights: Any  # of each row's loss [n C]; None: all 1
    terms: GradientTerms | None  # of each row's gradients
    mixed: MixedModel | None  # of each row


class BatchPlan(NamedTuple):
    """Input of a training program."""

    # Samples of the call's clients; None: the device has the samples of all clients.
    x: Shaped[np.ndarray, "R ..."] | None
    y: Int[np.ndarray, "R"]
    steps: PlannedSteps
    rows: PlannedRows


def plan(
    x: Shaped[np.ndarray, "M ..."] | None,
    y: Int[np.ndarray, "M"],
    owned: Ragged,
    rows: ProgramRows,
    gather: bool = True,
) -> BatchPlan:
    """Concatenate the batches of all rows and gather the samples that they use.

    Args:
        x: samples of the data set; None if the devices have the samples of the call.
        y: their labels.
        owned: training samples of each client.
        rows: rows of the program.
        gather: whether to gather. If not, batches index the data set.
    """
    unique, slot = np.unique(rows.clients, return_inverse=True)
    samples = [owned[int(client)] for client in unique]
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
    return BatchPlan(
        x=x[used] if gather and x is not None else None,
        y=y[used].astype(np.int32),
        steps=steps,
        rows=_planned_rows(rows),
    )


def _planned_rows(rows: ProgramRows) -> PlannedRows:
    """The rows, with the number types of the programs."""
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
    return values.astype(np.float32, copy=False)


def _end_to_end(
    parts: Sequence[Float[np.ndarray, "_ ..."]] | None,
) -> Float[np.ndarray, "S ..."] | None:
    """Values of each row's steps, concatenated; None if there are none."""
    return None if parts is None else np.concatenate(parts).astype(np.float32)


def stack_plans(plans: Sequence[BatchPlan]) -> BatchPlan:
    """Stack the plans of several devices; every array gets a leading device axis.

    Sizes are rounded, so that calls of similar size share a compiled program: the samples to a
    power of two, the rows to those of all devices together, and the steps to fit both.
    """
    samples = power_of_two(max(len(plan.y) for plan in plans))
    rows = rounded_up(sum(len(plan.rows.model_index) for plan in plans))
    steps = _padded_steps(plans, samples, rows)
    return BatchPlan(
        x=_stacked([plan.x for plan in plans], samples),
        y=_stacked([plan.y for plan in plans], samples),
        steps=_stacked([plan.steps for plan in plans], steps),
        rows=_stacked([plan.rows for plan in plans], rows),
    )


def _stacked(parts: Sequence[Any], size: int) -> Any:
    """Arrays of all devices, or named tuples of such arrays, padded with zeros; None if a device
    has none."""
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], tuple):
        return type(parts[0])(*(_stacked(field, size) for field in zip(*parts, strict=True)))
    stacked = np.zeros((len(parts), size, *parts[0].shape[1:]), parts[0].dtype)
    # Samples are large, so they are copied once, without a second copy for stacking.
    for row, part in zip(stacked, parts, strict=True):
        row[: len(part)] = part
    return stacked


def _padded_steps(plans: Sequence[BatchPlan], samples: int, rows: int) -> int:
    """Padded number of steps. If all rows train for the same number of epochs, it is the largest
    number that these rows and samples can need, so that many calls have one size."""
    needed = max(len(plan.steps.valid) for plan in plans)
    epochs = [-(-plan.rows.num_steps // plan.rows.per_epoch) for plan in plans]
    passes = set(np.concatenate(epochs).tolist())
    usual = passes.pop() * (samples // plans[0].steps.batches.shape[1] + rows)
    return power_of_two(needed) if passes or usual < needed else usual


def power_of_two(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()
