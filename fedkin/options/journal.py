"""The journal of a private run, a file with one line for each noisy sum that leaves the run.

The line is written before the sum is used. So the sum still counts towards epsilon if the process
is killed and restarted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkin.core.errors import CheckpointError
from fedkin.core.storage import append_line, complete_lines, drop_torn_line, force_to_disk

SECRET_SUMS = "secret.jsonl"


@dataclass
class Journal:
    """The releases (noisy sums) of a run, kept in a file if the run has a folder.

    If a process is killed while it writes, the incomplete last line is removed: its sums were not
    released. If a process is killed after it has written the whole line, but before its checkpoint,
    the round is repeated with other noise, and both releases count.

    Raises:
        CheckpointError: a complete line cannot be read, so its release and the epsilon are unknown.
    """

    path: Path | None = None
    entries: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.path is not None:
            drop_torn_line(self.path)
            self.entries = [
                _entry(self.path, *line) for line in enumerate(complete_lines(self.path), 1)
            ]

    def add(self, **entry: Any) -> None:
        """Add an entry (a line, such as one about a noisy sum) to the journal, and wait until it is
        on the disk. Raises StorageError if that fails."""
        self.entries.append(entry)
        if self.path is not None:
            append_line(self.path, json.dumps(entry))
            force_to_disk(self.path)

    @property
    def rounds(self) -> int:
        """Number of noisy sums that rounds have released."""
        return sum("clip" in entry for entry in self.entries)

    @property
    def start_sums(self) -> int:
        """How many noisy sums over all clients were released before the first round."""
        return sum("start" in entry for entry in self.entries)

    @property
    def score_sums(self) -> int:
        """Number of noisy sums of all clients' accuracies that were released."""
        return sum("mean_accuracy" in entry for entry in self.entries)

    def mean_accuracy(self, round: int) -> float | None:
        """The noisy mean accuracy of clients after a round; None if none was released."""
        means = [
            entry["mean_accuracy"]
            for entry in self.entries
            if entry["round"] == round and "mean_accuracy" in entry
        ]
        return means[-1] if means else None

    @property
    def uncharged(self) -> list[str]:
        """The tasks whose replies clients sent without noise, in the order of first use."""
        tasks = [entry["uncharged"] for entry in self.entries if "uncharged" in entry]
        return list(dict.fromkeys(tasks))

    def next_clip(self, before: int) -> float | None:
        """The clipping norm for a round, as set by the last earlier round in the journal; None if
        no earlier round has set one.

        Args:
            before: the round that needs the clipping norm.
        """
        clips = [
            entry["next_clip"]
            for entry in self.entries
            if entry.get("next_clip") and entry["round"] < before
        ]
        return clips[-1] if clips else None


def _entry(path: Path, number: int, line: str) -> dict[str, Any]:
    """Parse a line of a run's journal. Raises CheckpointError if the line is damaged.

    Args:
        path: path of the journal, for the message.
        number: number of the line, for the message.
        line: the line.
    """
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict) or not isinstance(entry.get("round"), int):
            raise ValueError("it names no round")
        is_noisy_sum = entry.keys() & {"clip", "start", "mean_accuracy"}
        if is_noisy_sum and not isinstance(entry.get("noise_multiplier"), int | float):
            raise ValueError("it has no noise_multiplier")
    except ValueError as error:
        raise CheckpointError(
            f"{path}, line {number} is damaged ({error}), so it is unknown what the run has "
            "released: restore the file from a copy, or begin a new run in another folder; the "
            "releases of this run still count, in addition to the new run's"
        ) from error
    return entry
