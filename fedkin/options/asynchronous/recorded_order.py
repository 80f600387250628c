"""The order in which replies arrived in a run, as its records hold it, for a replay of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedkin.core.errors import ConfigError
from fedkin.core.storage import complete_lines


class Arrival(NamedTuple):
    """A reply that arrived: its client, the version of the model that was sent to the client, and a
    digest of the update."""

    client: int
    version: int
    digest: str


class RecordedRound(NamedTuple):
    """What one step of a run recorded: the clients that were asked, the replies in the order of
    their arrival, and the simulated seconds since the start (None in a deployment)."""

    asked: tuple[int, ...]
    arrivals: tuple[Arrival, ...]
    seconds: float | None


def record_of(step: RecordedRound) -> dict[str, Any]:
    """The entries of a step in the record of its round.

    Args:
        step: the step.
    """
    return {
        "simulated_seconds": step.seconds,
        "asked": list(step.asked),
        "arrivals": [list(arrival) for arrival in step.arrivals],
    }


def read_order(path: Path) -> dict[int, RecordedRound]:
    """Read the steps of a run from its ``metrics.jsonl``.

    Args:
        path: the file, or the run's folder.

    Returns:
        The recorded steps by round.

    Raises:
        ConfigError: there is no such file, or a line has no arrivals.
    """
    file = path / "metrics.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(
            f"asynchronous.replay: there is no file {file}; name the folder of a run with buffered "
            "clusters, or its metrics.jsonl"
        )
    rounds: dict[int, RecordedRound] = {}
    for number, line in enumerate(complete_lines(file), 1):
        try:
            record = json.loads(line)
            rounds[int(record["round"])] = _recorded(record)
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"asynchronous.replay: line {number} of {file} has no order of arrivals "
                f"({type(error).__name__}: {error}); name a run with buffered clusters"
            ) from error
    return rounds


def _recorded(record: Mapping[str, Any]) -> RecordedRound:
    """The step in a record. Raises ValueError, TypeError or KeyError if the record has none."""
    arrivals: Sequence[Any] = record["arrivals"]
    seconds = record["simulated_seconds"]
    return RecordedRound(
        asked=tuple(int(client) for client in record["asked"]),
        arrivals=tuple(
            Arrival(int(client), int(version), str(digest)) for client, version, digest in arrivals
        ),
        seconds=None if seconds is None else float(seconds),
    )
