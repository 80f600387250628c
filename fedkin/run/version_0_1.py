"""Run folders of version 0.1, where some names were other ones. They are read (``report``, ``Run.load``); to resume one
is refused, because its clustering was measured under the old names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from fedkin.core.records import Record

CHECKPOINT_LAYOUT = "2"
MIGRATIONS = "moves.jsonl"
CLIENT_COLUMNS = {"truth": "true_cluster"}
_RECORD_KEYS = {
    "worst_decile": "bottom_decile",
    "bytes_by_verb": "bytes_by_operation",
    "accuracy_as_sent": "accuracy_before_training",
    "noticed": "shifts_detected",
    "moved": "data_shifts",
    "moved_warm": "data_shifts_assigned",
    "moved_fresh": "data_shifts_new",
    "noticed_moved": "shifts_detected_true",
    "notice_delay_sum": "detection_delay_sum",
    "right": "matched_share",
    "astray": "mismatched",
    "migrations_right": "migrations_correct",
    "events": "true_cluster_changes",
    "answered": "changes_recovered",
    "answer_delay_sum": "recovery_delay_sum",
    "newcomers_settled": "newcomers_matched",
    "set_aside": "excluded",
    "broken": "nonfinite",
}
_MEMORY = {
    "watch_assignment": "cluster_metrics_assignment",
    "watch_truth": "cluster_metrics_true_clusters",
    "watch_move_since": "cluster_metrics_shift_since",
    "watch_event_since": "cluster_metrics_change_since",
    "watch_newcomer_since": "cluster_metrics_newcomer_since",
}
V = TypeVar("V")


def translate_record(record: Record) -> Record:
    """A line of metrics.jsonl with its present keys; one of this version stays as it is."""
    return _renamed(record, _RECORD_KEYS) if isinstance(record, dict) else record


def translate_memory(memory: Mapping[str, V]) -> dict[str, V]:
    """The memory of a checkpoint with its present names."""
    return _renamed(memory, _MEMORY)


def migrations_file(folder: Path, name: str) -> Path:
    """The file of migrations, called ``name`` today."""
    return folder / (MIGRATIONS if (folder / MIGRATIONS).exists() and not (folder / name).exists() else name)


def resume_refusal(folder: Path) -> str:
    """Why a folder of version 0.1 is not resumed, and what to do."""
    return (
        f"{folder} holds a run of fedkin 0.1, whose records have other names: it can be read (fedkin report, Run.load) "
        "and not resumed; finish it with fedkin 0.1, or start it anew in another folder"
    )


def _renamed(entries: Mapping[str, V], names: Mapping[str, str]) -> dict[str, V]:
    return {names.get(name, name): value for name, value in entries.items()}
