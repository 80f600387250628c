"""The best round of a run, and when a run stops before its last one.

Only complete rounds count: scored ones in which every reachable client had a cluster. The score is accuracy on
validation samples where the data have such a split, else on test samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkin.config.plan import Plan
from fedkin.core.records import Record

STOP = "stop"
"""What ``on_round`` of ``simulate`` returns to end a run after a round."""


def complete_rounds(records: Sequence[Record]) -> list[Record]:
    """The records of the complete rounds."""
    return [record for record in records if is_complete(record)]


def is_complete(record: Record) -> bool:
    """Whether a round was scored, and every reachable client had a cluster."""
    return record["accuracy"] is not None and not record["partial"]


def best_record(records: Sequence[Record]) -> Record | None:
    """The record of the complete round with the highest score, the first of equals; None where no round is complete."""
    return max(complete_rounds(records), key=lambda record: record["accuracy"], default=None)


def stop_by_score(plan: Plan, records: Sequence[Record]) -> Record | None:
    """Why a run stops after the last of its records, by its scores; None where it goes on.

    It stops at the first complete round from 1 on whose score reaches ``plan.until``, and at the first that comes
    ``plan.patience`` rounds or more after the best one.
    """
    last, best = records[-1], best_record(records)
    if best is None or not is_complete(last) or not 0 < last["round"] < plan.rounds:
        return None
    score, waited = last["accuracy"], last["round"] - best["round"]
    if plan.until is not None and score >= plan.until:
        return stop_record(plan, last["round"], f"the score {score:.4f} reaches run.until = {plan.until}")
    if plan.patience is not None and waited >= plan.patience:
        reason = f"run.patience = {plan.patience}, and no score is better than that of round {best['round']}"
        return stop_record(plan, last["round"], reason)
    return None


def stop_record(plan: Plan, round: int, reason: str) -> Record:
    """That a run stopped, as its summary and its checkpoint have it: after which round, of how many, and why.

    Args:
        plan: of the run.
        round: after which it stopped.
        reason: in words.
    """
    return {"round": round, "of": plan.rounds, "reason": reason}


def stop_by_reply(plan: Plan, round: int, reply: Any) -> Record | None:
    """That a run stops because ``on_round`` returned ``STOP`` before the last round; None of any other reply.

    Args:
        plan: of the run.
        round: the present one.
        reply: what ``on_round`` returned.
    """
    if not (isinstance(reply, str) and reply == STOP and round < plan.rounds):
        return None
    return stop_record(plan, round, "on_round returned STOP")


def stop_of_resumed(plan: Plan, records: Sequence[Record], stopped: Record | None) -> Record | None:
    """Whether a run that is resumed has stopped already.

    Its scores decide by the present ``patience`` and ``until``, as they would in a new run. One that ``on_round`` has
    stopped goes on where it has more rounds now than it had then.

    Args:
        plan: of the run as it is resumed.
        records: up to its newest checkpoint.
        stopped: what that checkpoint says.
    """
    by_score = stop_by_score(plan, records)
    if by_score or stopped is None:
        return by_score
    return stopped if stopped["of"] == plan.rounds and "on_round" in stopped["reason"] else None
