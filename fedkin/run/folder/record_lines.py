"""Records as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from fedkin.core.records import Record
from fedkin.core.storage import complete_lines


def records_up_to(path: Path, last: int) -> list[Record]:
    """The records of the rounds up to ``last``. Everything from a damaged line on is ignored.

    Args:
        path: file of records.
        last: the last round.
    """
    records = []
    for line in complete_lines(path):
        try:
            record = json.loads(line)
            if record["round"] > last:
                break
        except (ValueError, KeyError, TypeError):
            break
        records.append(record)
    return records


def lines_of(records: Iterable[Record]) -> str:
    """The content of a file of records."""
    return "".join(f"{line_of(record)}\n" for record in records)


def line_of(record: Record) -> str:
    """A record as one line, without its end."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False)
