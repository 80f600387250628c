"""The entries of secret sums in a run's summary."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.core.records import Record
from fedkin.options.journal import Journal


def secret_record(journal: Journal, clear: Sequence[str]) -> Record:
    """The entries of secret sums in a run's summary.

    ``sums`` counts the sums, ``answered`` the updates in them, and ``lost`` the sums that are
    missing. ``clipped`` counts updates with numbers above the limit, ``unusable`` updates without
    finite numbers; a private run counts neither. ``clear`` lists the tasks with replies in the
    clear.

    Args:
        journal: the run's journal.
        clear: tasks with replies that clients sent in the clear.
    """
    entries = [entry for entry in journal.entries if "sums" in entry]
    # A repeated call counts once.
    calls = {(entry["round"], entry["call"]): entry for entry in entries}.values()
    counts = {
        name: sum(entry[name] for entry in calls)
        for name in ("sums", "answered", "clipped", "unusable")
    }
    lost = sum(len(entry["lost"]) for entry in calls)
    return {"secret": {**counts, "lost": lost, "clear": list(clear)}}
