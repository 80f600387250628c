"""Tracker for TensorBoard. It writes event files into the run's folder, for ``tensorboard --logdir
runs``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fedkin.core.errors import StorageError
from fedkin.core.records import Record
from fedkin.measures.lookup import measures_in
from fedkin.measures.run_scores import scores_in
from fedkin.tracking.optional_import import import_library
from fedkin.tracking.tracker import flat_numbers, flat_settings

_COMPARED = ("loss", "ari")  # shown in the table of hyper-parameters after the scores
_PATIENCE = 5.0  # seconds within which the writer's thread must have written a record


class TensorBoard:
    """Writes event files for TensorBoard. Every process writes a separate file; a run's first file
    also has the run's settings."""

    def __init__(self) -> None:
        self._library = import_library("tensorboardX")

    def begin(self, name: str, description: dict[str, Any], folder: Path | None) -> None:
        """Begin or resume the log of a run; the event file is created with the first record."""
        assert folder is not None
        self._folder = folder
        self._settings = flat_settings(description)
        self._own = [measure.column for measure in measures_in(description)]
        self._known = any(folder.glob("events.out.tfevents.*"))
        self._writer: Any = None

    def __call__(self, record: Record) -> None:
        """Write the numbers of a round's record."""
        numbers = flat_numbers(record)
        round = record["round"]
        if self._writer is None:
            suffix = f".{time.time_ns()}"
            # max_queue=0 means an unbounded queue. With a bounded one, calls would block after the
            # writer thread has died of a full disk.
            self._writer = self._library.SummaryWriter(
                str(self._folder), max_queue=0, filename_suffix=suffix
            )
            (self._path,) = self._folder.glob(f"events.out.tfevents.*{suffix}")
            self._size = 0
            # Write the settings with the compared values, once per run.
            if not self._known:
                scores = scores_in(record)
                names = (scores.names.score, scores.names.worst, *_COMPARED, *self._own)
                compared = {name: numbers.pop(name) for name in names if name in numbers}
                self._writer.add_hparams(self._settings, compared, name=".", global_step=round)
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, round)
        self._check_progress()

    def end(self, summary: dict[str, Any] | None) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()

    def _check_progress(self) -> None:
        """Raise StorageError if the event file does not grow. The writer thread dies silently on a
        full disk, so only the file's size shows it."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self._writer.flush()
            size = self._path.stat().st_size
            if size > self._size:
                self._size = size
                return
            time.sleep(0.001)
        raise StorageError(f"cannot write {self._path}; check the free space of the disk")
