"""The entries of secret sums in a run's summary."""

from __future__ import annotations

from collections.abc import Sequence

from fedkin.core.records import Record
from fedkin.options.journal import Journal


def secret_record(journal: Journal, clear: Sequence[str]) -> Record:
    """What a run's summary says about its secret sums.

    ``sums`` counts the sums, ``answered`` the updates in them, and ``lost`` the sums that could not
    be computed. ``clipped`` counts updates with numbers above the limit, ``unusable`` updates with
    numbers that are not finite; a private run counts neither. ``clear`` lists the tasks whose
    replies the server saw unmasked.

    Args:
        journal: the run's journal.
        clear: tasks whose replies clients sent without masks ("in the clear").
    """
    entries = [entry for entry in journal.entries if "sums" in entry]
    # A round that was repeated after a restart counts once, with its last entries.
    calls = {(entry["round"], entry["call"]): entry for entry in entries}.values()
    counts = {
        name: sum(entry[name] for entry in calls)
        for name in ("sums", "answered", "clipped", "unusable")
    }
    lost = sum(len(entry["lost"]) for entry in calls)
    return {"secret": {**counts, "lost": lost, "clear": list(clear)}}
