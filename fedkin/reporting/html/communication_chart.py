"""The report's communication chart: bytes by operation."""

from __future__ import annotations

from fedkin.reporting.html.json_values import Json
from fedkin.run.results import Run

_NOT_COUNTED = {"scoring.": "not counted", "servers.": "between servers"}  # prefixes of operations


def communication(run: Run) -> list[Json]:
    """Bytes of each operation so far, the method's own first; ``kind`` says what of others is not counted as its."""
    by_operation = run.records[-1].get("bytes_by_operation") or {}
    rows = [_row(operation, int(down), int(up)) for operation, (down, up) in by_operation.items()]
    return sorted(rows, key=lambda row: (row["kind"] != "", -row["download"] - row["upload"]))


def _row(operation: str, download: int, upload: int) -> Json:
    prefix, kind = next(((p, k) for p, k in _NOT_COUNTED.items() if operation.startswith(p)), ("", ""))
    return {"operation": operation.removeprefix(prefix), "kind": kind, "download": download, "upload": upload}
