"""The type of a round's measurements, as stored in metrics.jsonl."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # plain JSON values by name; None for an unknown value
