"""Entries of a round's record that only scores of numbers have."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool

from fedkin.core.records import Record
from fedkin.core.strict_json import finite_or_none
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.evaluate import Scores


def number_record(
    task_type: TaskType, scores: Scores, ranked: Bool[np.ndarray, "n"], *, whole: bool
) -> Record:
    """The score in which every client has the same weight, the number of clients with too few
    samples to be ranked, and intervals.

    Args:
        task_type: the labels' type.
        scores: sums over the samples of each evaluated client.
        ranked: whether each of these clients has enough samples to be ranked.
        whole: whether all clients were evaluated. Of a sample of clients, there are no intervals.
    """
    names = task_type.names
    examples = scores.examples
    known = examples > 0
    per_client = math.nan
    if known.any():
        of_clients = task_type.named(scores.sums[known])
        per_client = float(task_type.per_client(of_clients, examples[known])[names.score])
    record: Record = {
        names.per_client: finite_or_none(per_client),
        "unranked": int((known & ~ranked).sum()),
    }
    if whole:
        together = task_type.named(scores.sums.sum(axis=0))
        for name, ends in task_type.intervals(together, examples.sum()).items():
            record[f"{name}_interval"] = [finite_or_none(end) for end in ends]
    return record
