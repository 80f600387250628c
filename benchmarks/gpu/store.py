"""The stored results: numbers, or the reason why there are none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Results = dict[str, Any]  # "machine", and "measured": numbers by part and name
FAULT = "fault"  # the key of the reason, in place of numbers


def load(path: Path) -> Results:
    """The stored results; empty ones if there is no file."""
    if not path.exists():
        return {"machine": {}, "measured": {}}
    return json.loads(path.read_text())


def save(path: Path, results: Results) -> None:
    """Write all results, so that a process that is ended leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_suffix(".part")
    passing.write_text(json.dumps(results, indent=1) + "\n")
    os.replace(passing, path)


def numbers(results: Results, part: str, name: str) -> dict[str, Any] | None:
    """The measured numbers; None if there are none, or if the measurement failed."""
    found = results["measured"].get(part, {}).get(name)
    return None if found is None or FAULT in found else found


def reason(results: Results, part: str, name: str) -> str:
    """Why there are no numbers: ``not measured``, or the fault."""
    found = results["measured"].get(part, {}).get(name, {})
    fault = found.get(FAULT)
    return f"not measured: {fault}" if fault else "not measured"
