"""What the monitor of clusters has found in a run, from the records of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.core.records import Record
from fedkin.options.monitor.proposals import Act


def monitor_acts(records: Sequence[Record]) -> list[Act] | None:
    """Everything that the monitor has found, in the order of rounds; None if the run has none.

    Args:
        records: the records of all rounds.
    """
    if not records or "monitor_acts" not in records[-1]:
        return None
    return [Act(**act) for record in records for act in record.get("monitor_acts", ())]
