"""Text about partial rounds, in which some clients had no cluster yet or were not evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.core.records import Record

CAUSE = "some clients have no cluster yet, or are away"


def scored_text(record: Mapping[str, Any]) -> str:
    """Text such as ``scored 2 of 4 clients`` if some clients with a cluster were not evaluated;
    otherwise empty.

    Args:
        record: record of the round, or a summary.
    """
    return (
        f"scored {record['scored']:,} of {record['scored_of']:,} clients"
        if record.get("scored_of")
        else ""
    )


def partial_text(record: Mapping[str, Any]) -> str:
    """The note that tables show next to the accuracy of a partial round; empty for a complete one.

    Args:
        record: record of the round.
    """
    if not record.get("partial"):
        return ""
    return scored_text(record) or "partial"


def away_rounds(records: Sequence[Record]) -> int:
    """Number of rounds in which clients with a cluster were not evaluated.

    Args:
        records: records of a run.
    """
    return sum(bool(record.get("scored_of")) for record in records)


def away_text(summary: Mapping[str, Any]) -> str:
    """Text with the number of rounds in which some clients with a cluster were not evaluated, since
    they were unreachable or did not reply; empty if there are no such rounds.

    Args:
        summary: summary of a run.
    """
    rounds = summary.get("rounds_with_clients_away")
    if not rounds:
        return ""
    last = scored_text(summary)
    return (
        f"{rounds:,} round{'s' * (rounds > 1)} with clients "
        f"away{f' (the last one {last})' if last else ''}; best and run.until ignore them"
    )
