"""What a round that is partial says in words: some client had no cluster yet, or some were away and
were not scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.core.records import Record

CAUSE = "some clients have no cluster yet, or are away"


def scored_text(record: Mapping[str, Any]) -> str:
    """``scored 2 of 4 clients`` of a round in which clients that have a cluster were not scored;
    empty of any other.

    Args:
        record: of the round, or a summary.
    """
    return (
        f"scored {record['scored']:,} of {record['scored_of']:,} clients"
        if record.get("scored_of")
        else ""
    )


def partial_text(record: Mapping[str, Any]) -> str:
    """How the accuracy of a round is marked where the round is partial; empty where it is complete.

    Args:
        record: of the round.
    """
    if not record.get("partial"):
        return ""
    return scored_text(record) or "partial"


def away_rounds(records: Sequence[Record]) -> int:
    """In how many rounds clients that have a cluster were not scored.

    Args:
        records: of a run.
    """
    return sum(bool(record.get("scored_of")) for record in records)


def away_text(summary: Mapping[str, Any]) -> str:
    """In how many rounds clients were away, as a sentence of a summary; empty where there was none.

    Args:
        summary: of a run.
    """
    rounds = summary.get("rounds_with_clients_away")
    if not rounds:
        return ""
    last = scored_text(summary)
    return (
        f"{rounds:,} round{'s' * (rounds > 1)} with clients "
        f"away{f' (the last one {last})' if last else ''}; best and run.until leave them out"
    )
