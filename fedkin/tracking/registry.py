"""Registry of the trackers that can be given by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkin.core.errors import ConfigError, unknown
from fedkin.tracking.mlflow import MLflow
from fedkin.tracking.prometheus import Prometheus
from fedkin.tracking.tensorboard import TensorBoard
from fedkin.tracking.tracker import Tracker
from fedkin.tracking.wandb import WandB

TRACKERS: dict[str, type] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "prometheus": Prometheus,
}


def make_trackers(track: Any, folder: Path | None) -> list[Tracker]:
    """Make trackers from names or objects: ``track`` is the user's value, ``folder`` the run's
    folder.

    Raises:
        ConfigError: a name is unknown, a tracker is given twice, an object is not a tracker, or a
            tracker needs a run folder and there is none.
        MissingExtra: a library is not installed.
    """
    if isinstance(track, str) or not isinstance(track, Sequence):
        raise ConfigError(f"track must be a list of trackers or of their names, got {track!r}")
    trackers: list[Tracker] = []
    for entry in track:
        if isinstance(entry, str) and entry not in TRACKERS:
            raise ConfigError(unknown("tracker", entry, TRACKERS))
        tracker = TRACKERS[entry]() if isinstance(entry, str) else entry
        if isinstance(tracker, type) or not isinstance(tracker, Tracker):
            raise ConfigError(
                f"a tracker must be callable and have the methods begin and end; got {entry!r}"
            )
        kind = type(tracker).__name__
        if kind in [type(other).__name__ for other in trackers]:
            raise ConfigError(f"the tracker {kind} is given twice; remove one")
        if folder is None and _needs_folder(tracker):
            raise ConfigError(
                f"track: {kind} writes its files into the run's folder; pass out=, the folder of "
                "the run"
            )
        trackers.append(tracker)
    return trackers


def _needs_folder(tracker: Tracker) -> bool:
    """Whether a tracker writes its files into the run's folder. Trackers of users do not."""
    known = isinstance(tracker, tuple(TRACKERS.values()))
    return bool(getattr(tracker, "needs_folder", known))
