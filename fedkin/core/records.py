"""What is measured in a round, as it stands in metrics.jsonl."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # plain JSON values by name; None where a value is not known
