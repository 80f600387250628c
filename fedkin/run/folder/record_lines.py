"""Reading and writing of records (e.g. the metrics of one round) as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from fedkin.core.records import Record
from fedkin.core.storage import complete_lines


def records_up_to(path: Path, last: int) -> list[Record]:
    """The records of the rounds up to ``last``. A damaged line and all lines after it are ignored.

    Args:
        path: a file with a record on each line, such as metrics.jsonl.
        last: number of the last round to read.
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
    """Records as the text of a file, one line of JSON for each record."""
    return "".join(f"{line_of(record)}\n" for record in records)


def line_of(record: Record) -> str:
    """A record as one line of JSON, without the line break."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False)
