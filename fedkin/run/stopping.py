"""Early stopping of a run. Only complete rounds count (``measures.complete_rounds``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from fedkin.core.records import Record
from fedkin.measures.complete_rounds import best_record, is_complete, reaches
from fedkin.measures.lookup import score_in
from fedkin.options.with_options import ActiveOptions

UNUSABLE = 3  # consecutive rounds without a usable reply after which a run ends
_NO_REPLY = "no client's reply was usable"
_BY_CALLBACK = "a callback returned STOP"
STOP = "stop"
"""Return value of a callback that ends the run after the round."""


def stop_by_score(plan: Plan, records: Sequence[Record]) -> Record | None:
    """The early stop (``stop_record``) of a run after the newest of the given records, because of
    its scores; None if the run continues.

    A run stops after the first complete round (from round 1 on) that reaches the score
    ``plan.until``. It also stops after the first complete round that is ``plan.patience`` or more
    rounds later than the best round so far.
    """
    last = records[-1]
    best = best_record(records)
    if best is None or not is_complete(last) or not 0 < last["round"] < plan.rounds:
        return None
    score = last[score_in(last).name]
    waited = last["round"] - best["round"]
    if plan.until is not None and reaches(last, plan.until):
        return stop_record(
            plan, last["round"], f"the score {score:.4f} reaches run.until = {plan.until}"
        )
    if plan.patience is not None and waited >= plan.patience:
        reason = (
            f"run.patience = {plan.patience}, and no score is better than the score of round "
            f"{best['round']}"
        )
        return stop_record(plan, last["round"], reason)
    return None


def rounds_without_reply(records: Sequence[Record]) -> int:
    """Number of rounds at the end of a run without any usable reply.

    A round counts if clients replied, but no reply was usable: all had impossible values, values
    that are not finite, or a much too large norm. Replies that never came are drop-outs, which are
    not a failure of the run.

    Args:
        records: records of the run.
    """
    # Without a usable reply, the mean training loss of a round is None.
    excluded = [one["nonfinite"] + one.get("outliers", 0) for one in records]
    unusable = [
        one["round"] > 0 and one.get("train_loss", 0) is None and count > 0
        for one, count in zip(records, excluded, strict=True)
    ]
    # Count the rounds after the last one that does not count.
    return len(unusable) - max((i + 1 for i, each in enumerate(unusable) if not each), default=0)


def stop_without_replies(plan: Plan, records: Sequence[Record]) -> Record | None:
    """The early stop of a run after ``UNUSABLE`` rounds without a usable reply; None if the run
    continues.

    Args:
        plan: the run's plan, with the number of rounds.
        records: records up to the current round.
    """
    round = records[-1]["round"]
    count = rounds_without_reply(records)
    if count < UNUSABLE or round >= plan.rounds:
        return None
    return stop_record(plan, round, failure(records))


def failure(records: Sequence[Record]) -> str:
    """The reason why a finished run has failed: no reply was usable in its last ``UNUSABLE``
    rounds, or in all rounds. Empty if it has not failed.

    Args:
        records: records of the run.
    """
    lost = rounds_without_reply(records)
    if lost < min(UNUSABLE, max(len(records) - 1, 1)):
        return ""
    return f"{_NO_REPLY} in the last {'round' if lost == 1 else f'{lost} rounds'}"


def stop_record(plan: Plan, round: int, reason: str) -> Record:
    """The entry for an early stop in summary and checkpoint: its round, the planned rounds, the
    reason.

    Args:
        plan: the run's plan, with the number of rounds.
        round: the round after which the run stops.
        reason: the reason, as text.
    """
    return {"round": round, "of": plan.rounds, "reason": reason}


def asks_to_stop(reply: Any) -> bool:
    """Whether a callback returned ``STOP``. Its return value may be anything, such as an array."""
    return isinstance(reply, str) and reply == STOP


def stop_by_reply(plan: Plan, round: int, reply: Any, private: bool = False) -> Record | None:
    """The early stop of a run because a callback returned ``STOP``. None for any other return
    value, and after the last round.

    Args:
        plan: the run's plan, with the number of rounds.
        round: the current round.
        reply: the callback's return value.
        private: whether the run has client-level differential privacy. A stop that depends on
            clients' scores would violate it.

    Raises:
        ConfigError: the callback stops a private run.
    """
    if not asks_to_stop(reply) or round >= plan.rounds:
        return None
    if private:
        raise ConfigError(
            "privacy: a callback returned STOP, which would reveal clients' scores, since noise "
            "does not cover them; set run.rounds instead"
        )
    return stop_record(plan, round, _BY_CALLBACK)


def stop_by_options(plan: Plan, round: int, options: ActiveOptions) -> Record | None:
    """The early stop of a run because an option allows no further round (e.g. because its privacy
    budget is exhausted). None if all options allow another round.

    Args:
        plan: the run's plan, with the number of rounds.
        round: the current round.
        options: the run's options.
    """
    if round >= plan.rounds:
        return None
    reason = options.exhausted()
    return stop_record(plan, round, reason) if reason else None


def stop_after_round(
    plan: Plan, records: Sequence[Record], options: ActiveOptions
) -> Record | None:
    """The early stop of a run after the newest of the given records, for any reason (scores,
    unusable replies or options); None if the run continues.

    Unusable replies do not stop a private run, since its length must not depend on replies.

    Args:
        plan: the run's plan, with ``rounds``, ``until`` and ``patience``.
        records: records up to the current round.
        options: the run's options.
    """
    by_replies = None if options.hides_replies else stop_without_replies(plan, records)
    return (
        stop_by_score(plan, records)
        or by_replies
        or stop_by_options(plan, records[-1]["round"], options)
    )


def stop_of_resumed(plan: Plan, records: Sequence[Record], stopped: Record | None) -> Record | None:
    """The early stop of a resumed run, if it has already stopped; None if the run continues.

    The scores are checked against the current ``patience`` and ``until``, as in a new run. A run
    that was stopped by a callback or by unusable replies continues if its number of rounds was
    increased.

    Args:
        plan: plan of the resumed run.
        records: records up to the run's newest checkpoint.
        stopped: the early stop in that checkpoint; None if there was none.
    """
    by_score = stop_by_score(plan, records)
    if by_score or stopped is None:
        return by_score
    # A stop by an option (e.g. a spent privacy budget) is left out here, because the caller asks
    # the options again (``stop_by_options``).
    lasting = stopped["reason"].startswith((_BY_CALLBACK, _NO_REPLY))
    return stopped if stopped["of"] == plan.rounds and lasting else None
