"""What happens to a federation: who takes part, whose data move, and which clients are kin."""

from __future__ import annotations


def __getattr__(name: str) -> object:
    """``SHIFTS``, loaded when first used: it needs the data, which who takes part does not."""
    if name == "SHIFTS":
        from fedkin.scenarios.shift import SHIFTS

        return SHIFTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
