"""Sentences about runs of a comparison that stopped early, or have not finished."""

from __future__ import annotations

from fedkin.analysis.compare.comparison import Comparison


def unfinished_note(comparison: Comparison) -> str:
    """A sentence with the number of runs that are not finished.

    Args:
        comparison: the comparison.
    """
    total = len(comparison.settings) * len(comparison.methods) * len(comparison.seeds)
    return f"Not finished: {len(comparison.missing)} of {total} runs."


def early_stops(comparison: Comparison) -> list[str]:
    """A sentence that says in which rounds the runs of each method stopped early, such as by
    run.patience. Empty if all runs had all rounds.

    Args:
        comparison: the comparison.
    """
    rounds: dict[str, list[int]] = {}
    planned: set[int] = set()
    for (_, method, _), run in comparison.finished.items():
        if stopped := run.final.get("stopped"):
            rounds.setdefault(method, []).append(stopped["round"])
            planned.add(stopped["of"])
    texts = []
    for method in comparison.methods:
        if not (ends := rounds.get(method)):
            continue
        text = f"{method} after round {min(ends)}"
        if max(ends) > min(ends):
            text = f"{method} after rounds {min(ends)} to {max(ends)}"
        count = sum(name == method for _, name, _ in comparison.finished)
        texts.append(text if len(ends) == count else f"{text} ({len(ends)} of {count} runs)")
    if not texts:
        return []
    of = " or ".join(map(str, sorted(planned)))
    return [f"Stopped early, of {of} rounds: {', '.join(texts)}."]
