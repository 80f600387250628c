"""The complete rounds of a run, and the best of them.

A round is complete if it was evaluated, every reachable client had a cluster, and every client with
a cluster was evaluated. The score is the first measure of the task type (of classes: the accuracy),
on validation samples if the data have a validation split, otherwise on test samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.core.records import Record
from fedkin.measures.lookup import score_in


def complete_rounds(records: Sequence[Record]) -> list[Record]:
    """The records of the complete rounds."""
    return [record for record in records if is_complete(record)]


def is_complete(record: Record) -> bool:
    """Whether a round was evaluated, every reachable client had a cluster, and every client with a
    cluster was evaluated."""
    return record[score_in(record).name] is not None and not record["partial"]


def best_record(records: Sequence[Record]) -> Record | None:
    """The record of the complete round with the best score (the first of ties). None if no round is
    complete."""
    complete = complete_rounds(records)
    if not complete:
        return None
    score = score_in(complete[0])
    return max(complete, key=lambda record: score.sign * record[score.name])


def first_to_reach(
    records: Sequence[Record], target: float | int | None, first: int = 0
) -> Record | None:
    """The record of the first complete round whose score is at least as good as ``target``; None if
    there is none.

    Args:
        records: records of the run.
        target: the score to reach; None is never reached.
        first: the first round that counts. Round 0 is before all training.
    """
    if target is None:
        return None
    for record in complete_rounds(records):
        if record["round"] >= first and reaches(record, target):
            return record
    return None


def reaches(record: Record, target: float | int) -> bool:
    """Whether the score of a round is at least as good as the target."""
    score = score_in(record)
    return not score.better(target, record[score.name])
