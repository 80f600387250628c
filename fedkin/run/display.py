"""How a run shows itself: three lines of text, and a small table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkin.config.registry import method_title
from fedkin.core.display import count, html_table

COLUMNS = ("final accuracy", "best accuracy", "bottom 10%", "clusters")


def text(summary: Mapping[str, Any], against: Sequence[Mapping[str, Any]]) -> str:
    """A run in three lines: what ran, how accurate it is, and its clusters.

    Args:
        summary: ``Run.summary``.
        against: those of the methods beside it.
    """
    chosen = " (chosen on validation samples)" * ("validation_accuracy" in summary)
    best = f"{_percent(summary['best_accuracy'])} in round {summary['best_round']}{chosen}"
    scores = [f"accuracy {_percent(summary['final_accuracy'])}"]
    scores += [f"best {best}"] if summary["best_accuracy"] is not None else []
    scores += [f"bottom 10% of clients {_percent(summary['bottom_decile'])}"]
    beside = "".join(
        f"; {method_title(other['method'])} beside it: {_percent(other['final_accuracy'])}" for other in against
    )
    return (
        f"Run of {_title(summary)}: {count(summary['rounds'], 'round')}, seed {summary['seed']}\n"
        f"  {', '.join(scores)}\n  {_clusters(summary)}{beside}"
    )


def html(summaries: Sequence[Mapping[str, Any]]) -> str:
    """A table with a row per method: the main one, and those beside it."""
    rows = {
        method_title(one["method"]): (
            _percent(one["final_accuracy"]),
            _percent(one["best_accuracy"]),
            _percent(one["bottom_decile"]),
            _clusters(one),
        )
        for one in summaries
    }
    first = summaries[0]
    return html_table(f"{_title(first)}: {count(first['rounds'], 'round')}, seed {first['seed']}", rows, COLUMNS)


def _title(summary: Mapping[str, Any]) -> str:
    return f"{method_title(summary['method'])} on {summary['data']} with {summary['model']}"


def _clusters(summary: Mapping[str, Any]) -> str:
    sizes = summary["cluster_sizes"] or []
    shown = f" of {', '.join(map(str, sizes))} clients" if 0 < len(sizes) <= 8 else ""
    return f"{count(summary['clusters'], 'cluster')}{shown}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
