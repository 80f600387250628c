"""The best round of a run, and when a run stops before its last one.

Only complete rounds count: scored ones in which every reachable client had a cluster and no client
that has one was away. The score is accuracy on validation samples where the data have such a split,
else on test samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.records import Record
from fedkin.measures.table import SCORE
from fedkin.options.with_options import ActiveOptions

UNUSABLE = 3  # rounds in a row without a usable reply, after which a run ends
_NO_REPLY = "no client's reply was usable"
_BY_CALLBACK = "a callback returned STOP"
STOP = "stop"
"""What a callback returns to end a run after a round."""


def complete_rounds(records: Sequence[Record]) -> list[Record]:
    """The records of the complete rounds."""
    return [record for record in records if is_complete(record)]


def is_complete(record: Record) -> bool:
    """Whether a round was scored, every reachable client had a cluster, and every client that has
    one was scored."""
    return record[SCORE.column] is not None and not record["partial"]


def best_record(records: Sequence[Record]) -> Record | None:
    """The record of the complete round with the best score, the first of equals; None where no
    round is complete."""
    return max(
        complete_rounds(records), key=lambda record: SCORE.sign * record[SCORE.column], default=None
    )


def first_to_reach(records: Sequence[Record], target: float | int | None) -> Record | None:
    """The record of the first complete round whose score reaches a target; None where none does.

    Args:
        records: of the run.
        target: a score; None is never reached.
    """
    if target is None:
        return None
    return next(
        (record for record in complete_rounds(records) if reaches(record[SCORE.column], target)),
        None,
    )


def reaches(score: float | int, target: float | int) -> bool:
    """Whether a score is as good as a target, or better."""
    return not SCORE.better(target, score)


def stop_by_score(plan: Plan, records: Sequence[Record]) -> Record | None:
    """Why a run stops after the last of its records, by its scores; None where it goes on.

    It stops at the first complete round from 1 on whose score reaches ``plan.until``, and at the
    first that comes ``plan.patience`` rounds or more after the best one.
    """
    last = records[-1]
    best = best_record(records)
    if best is None or not is_complete(last) or not 0 < last["round"] < plan.rounds:
        return None
    score = last[SCORE.column]
    waited = last["round"] - best["round"]
    if plan.until is not None and reaches(score, plan.until):
        return stop_record(
            plan, last["round"], f"the score {score:.4f} reaches run.until = {plan.until}"
        )
    if plan.patience is not None and waited >= plan.patience:
        reason = (
            f"run.patience = {plan.patience}, and no score is better than that of round "
            f"{best['round']}"
        )
        return stop_record(plan, last["round"], reason)
    return None


def rounds_without_reply(records: Sequence[Record]) -> int:
    """So many rounds at the end of a run had replies that were not finite or not possible, and no
    usable one. Replies that never came are drop-outs, and no failure of the run.

    Args:
        records: of the run.
    """
    excluded = [one["nonfinite"] + one.get("outliers", 0) for one in records]
    unusable = [
        one["round"] > 0 and one.get("train_loss", 0) is None and count > 0
        for one, count in zip(records, excluded, strict=True)
    ]
    return len(unusable) - max((i + 1 for i, each in enumerate(unusable) if not each), default=0)


def stop_without_replies(plan: Plan, records: Sequence[Record]) -> Record | None:
    """That a run stops as nobody's reply was usable for some rounds; None where it goes on.

    Args:
        plan: of the run.
        records: up to the present round.
    """
    round = records[-1]["round"]
    count = rounds_without_reply(records)
    if count < UNUSABLE or round >= plan.rounds:
        return None
    return stop_record(plan, round, failure(records))


def failure(records: Sequence[Record]) -> str:
    """Why a finished run has failed: in its last rounds, ``UNUSABLE`` or all that it has, nobody's
    reply was usable; empty of a run that has not.

    Args:
        records: of the run.
    """
    count = rounds_without_reply(records)
    return (
        f"{_NO_REPLY} in the last {count} rounds"
        if count >= min(UNUSABLE, max(len(records) - 1, 1))
        else ""
    )


def stop_record(plan: Plan, round: int, reason: str) -> Record:
    """That a run stopped, as its summary and its checkpoint have it: after which round, of how
    many, and why.

    Args:
        plan: of the run.
        round: after which it stopped.
        reason: in words.
    """
    return {"round": round, "of": plan.rounds, "reason": reason}


def stop_by_reply(plan: Plan, round: int, reply: Any, private: bool = False) -> Record | None:
    """That a run stops because a callback returned ``STOP`` before the last round; None of any
    other reply.

    Args:
        plan: of the run.
        round: the present one.
        reply: of the callback.
        private: whether the run has client-level differential privacy, which no stop by scores of
            clients may undo.

    Raises:
        ConfigError: a private run is to stop.
    """
    if not (isinstance(reply, str) and reply == STOP and round < plan.rounds):
        return None
    if private:
        raise ConfigError(
            "privacy: a callback returned STOP. Scores of clients are not covered by noise, and "
            "the last round would show them: set run.rounds"
        )
    return stop_record(plan, round, _BY_CALLBACK)


def stop_by_options(plan: Plan, round: int, options: ActiveOptions) -> Record | None:
    """That a run stops before its last round because an option allows no further one; None where
    all do.

    Args:
        plan: of the run.
        round: the present one.
        options: of the run.
    """
    if round >= plan.rounds:
        return None
    reason = options.exhausted()
    return stop_record(plan, round, reason) if reason else None


def stop_after_round(
    plan: Plan, records: Sequence[Record], options: ActiveOptions
) -> Record | None:
    """Why a run stops after the last of its records, whatever the reason; None where it goes on.
    One with client-level differential privacy has a last round that does not depend on replies.

    Args:
        plan: of the run.
        records: up to the present round.
        options: of the run.
    """
    by_replies = None if options.hides_replies else stop_without_replies(plan, records)
    return (
        stop_by_score(plan, records)
        or by_replies
        or stop_by_options(plan, records[-1]["round"], options)
    )


def stop_of_resumed(plan: Plan, records: Sequence[Record], stopped: Record | None) -> Record | None:
    """Whether a run that is resumed has stopped already.

    Its scores decide by the present ``patience`` and ``until``, as they would in a new run. One
    that a callback or the lack of usable replies has stopped goes on where it has more rounds now
    than it had then.

    Args:
        plan: of the run as it is resumed.
        records: up to its newest checkpoint.
        stopped: what that checkpoint says.
    """
    by_score = stop_by_score(plan, records)
    if by_score or stopped is None:
        return by_score
    lasting = stopped["reason"].startswith((_BY_CALLBACK, _NO_REPLY))
    return stopped if stopped["of"] == plan.rounds and lasting else None
