"""Samples that are held out of training, to measure which model serves each client: random folds of
the training samples, or for forecasts the last part of each client's past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import ConfigError, DataError
from fedkin.core.randomness import Stream
from fedkin.data.federated import FederatedData
from fedkin.data.ragged import Ragged
from fedkin.data.units import units_of


class HeldOutPart(NamedTuple):
    """Data without some training samples, and the rows of these for each client."""

    reduced: FederatedData
    rows: Ragged


def number_of_parts(data: FederatedData, folds: int) -> int:
    """How many parts are held out in turn: one for forecasts.

    Args:
        data: the clients' data.
        folds: number of random folds.

    Raises:
        ConfigError: the data are forecasts without validation samples.
        DataError: no client has two training samples, or samples of two units.
    """
    if data.task_type.by_time:
        if data.validation is None or not len(data.validation.rows):
            raise ConfigError(
                f"{data.name}: models of forecasts are compared on the last part of each client's "
                "past, since with random folds they would learn from the future; divide the data "
                "by a further date, such as validation_from = '2018-01' (data.validation_from), "
                "and run the method again"
            )
        return 1
    if data.unit is not None:
        most = max(units_of(data.unit, data.train[client]).count for client in range(data.clients))
        if most < 2:
            raise DataError(
                f"{data.name}: all training samples of every client are of one unit, so none can "
                "be held out; this rule needs clients with two or more units"
            )
    if data.train.sizes.max() < 2:
        raise DataError(
            f"{data.name}: every client has a single training sample, so none can be held out; "
            "this rule needs clients with two or more"
        )
    return folds


def held_out_parts(data: FederatedData, parts: int, seed: int) -> Iterator[HeldOutPart]:
    """The data without each part, with its samples as validation samples. Random folds without
    samples are left out.

    Args:
        data: the clients' data.
        parts: ``number_of_parts``.
        seed: seed of the random folds.
    """
    if data.task_type.by_time:
        assert data.validation is not None
        yield HeldOutPart(data, data.validation)
        return
    fold_of = folds_of(data, parts, seed)
    for fold in range(parts):
        found = without_fold(data, fold_of, fold)
        if len(found.rows.rows):
            yield found


def folds_of(data: FederatedData, folds: int, seed: int) -> list[Int[np.ndarray, "_"]]:
    """The fold of each training sample, for each client, in random order.

    A client with fewer samples than folds has a sample in some folds only. A client with one sample
    has it in no fold (-1), since nothing would be left for its own model. With units, all samples
    of a unit are in one fold, and the same holds for a client with one unit.

    Args:
        data: the clients' data.
        folds: number of folds.
        seed: seed of the random order; each client has a separate random stream.
    """
    stream = Stream(seed, purpose="serving/folds")
    numbers = []
    for client in range(data.clients):
        rows = data.train[client]
        units = None if data.unit is None else units_of(data.unit, rows)
        count = len(rows) if units is None else units.count
        if count < 2:
            numbers.append(np.full(len(rows), -1))
            continue
        drawn = stream.client(client).permutation(np.arange(count) % folds)
        numbers.append(drawn if units is None else drawn[units.of_sample])
    return numbers


def without_fold(
    data: FederatedData, fold_of: Sequence[Int[np.ndarray, "_"]], fold: int
) -> HeldOutPart:
    """The data in which a fold's training samples are validation samples, and the rows of these.

    Args:
        data: the clients' data.
        fold_of: the fold of each training sample, for each client.
        fold: the fold that is held out.
    """
    kept = []
    held_out = []
    for client, numbers in enumerate(fold_of):
        rows = data.train[client]
        kept.append(rows[numbers != fold])
        held_out.append(rows[numbers == fold])
    rows = Ragged.of(held_out)
    return HeldOutPart(data.with_rows(Ragged.of(kept), data.test, validation=rows), rows)
