"""The choice of a model for each client in words, for Python, the command and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.measures.do_no_harm import GATE
from fedkin.measures.number_texts import NO_NUMBER

FILE = "serving.json"  # in the folder of a run
TITLE = "What serves each client"
HEADS = ("client", "cluster", "served by", "gain", "held out", "own test says worse")


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """The choice in a few sentences.

    Args:
        summary: ``ServedModels.summary``, or the content of the file.
    """
    served = [f"{count} by {name}" for name, count in summary["served_by"].items() if count]
    gain = gain_text(summary["gain"])
    if summary["gain_low"] is not None:
        gain += f" [{gain_text(summary['gain_low'])}, {gain_text(summary['gain_high'])}]"
    best = summary["best_alternative"]
    if summary["gate_open"]:
        rule = (
            f"It is at least {GATE:.0%}, so all clients get {best}, except {summary['vetoed']} "
            "whose own held-out samples say no."
        )
    else:
        rule = (
            f"It is less than {GATE:.0%}, so a client gets a mixture only if its own test says "
            "that it is better."
        )
    return [
        f"{summary['clients']} clients served: {', '.join(served)}.",
        f"Gain of {best} over own models on held-out samples: {gain}. {rule}",
        f"Own tests that say worse: {summary['worse_by_own_test']} clients; by chance about "
        f"{summary['expected_by_chance']:.1f}.",
    ]


def cells(row: Mapping[str, Any]) -> list[str]:
    """A client's row of the table with ``HEADS``.

    Args:
        row: a row of the table in the file (``ServedClient``).
    """
    return [
        str(row["name"]),
        NO_NUMBER if row["cluster"] < 0 else str(row["cluster"]),
        str(row["served_by"]),
        gain_text(row["gain"]),
        str(row["held_out"]),
        "yes" if row["worse"] else "",
    ]


def gain_text(gain: float | None) -> str:
    """A gain in percent; a dash for None."""
    return NO_NUMBER if gain is None else f"{gain:+.1%}"
