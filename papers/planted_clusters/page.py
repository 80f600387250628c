"""The page on planted clusters, docs/results-planted.md, and its figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers.planted_clusters.recipes import (
    GLOROT,
    HARDER,
    RECOVERY,
    SWAPPED,
    THRESHOLDS,
    Question,
)
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown, percent

FIGURE = "images/where-clustering-breaks.svg"
AXES = {
    "images": ("Fewer images", "training images per client"),
    "clusters": ("More clusters", "true clusters among 100 clients"),
    "participation": ("Fewer clients a round", "clients in a round, of 100"),
}
NAMES = {"rotation": "rotated images", "label_permutation": "permuted labels"}


def runs_of(results: Results, question: Question) -> list[dict[str, Any]]:
    """The runs of a question, in the order of their seeds."""
    key = [question.panel, question.kind, question.method, question.model]
    value = getattr(question, question.panel, None)
    runs = [m for m in results if [m["panel"], m["kind"], m["method"], m["model"]] == key]
    return sorted((m for m in runs if m.get(question.panel) == value), key=lambda m: m["seed"])


def perfect(results: Results, question: Question) -> list[dict[str, Any]]:
    """The runs of a question that end with exactly the true clusters."""
    return [
        run
        for run in runs_of(results, question)
        if run["ari"][-1] == 1 and run["clusters_found"] == question.clusters
    ]


def _range_text(rounds: Sequence[int]) -> str:
    """The first and the last of sorted rounds; one number where they are equal."""
    if not rounds:
        return ""
    first = rounds[0]
    last = rounds[-1]
    return f"{first}" if first == last else f"{first} - {last}"


def found_table(results: Results) -> str:
    """Seeds that end with exactly the true clusters, and the round from which they have them."""
    lines = []
    for question in (*RECOVERY, *GLOROT, *THRESHOLDS):
        runs = runs_of(results, question)
        found = perfect(results, question)
        when = _range_text(sorted(since(run["ari"]) for run in found))
        name = (
            f"{question.method}, 784-128-10, Glorot weights"
            if question in GLOROT
            else question.method
        )
        lowest = f"{min(r['ari'][-1] for r in runs):.2f}" if runs else ""
        lines.append([name, NAMES[question.kind], f"**{len(found)}** of {len(runs)}", when, lowest])
    return markdown(
        ["method", "kind", "seeds with ARI 1 at the end", "from round", "lowest ARI at the end"],
        lines,
    )


def since(ari: Sequence[float | None]) -> int:
    """The round from which agreement is perfect to the end.

    Args:
        ari: agreement after every round.
    """
    wrong = [r for r, a in enumerate(ari) if a != 1]
    return wrong[-1] + 1 if wrong else 0


def detected_swaps(results: Results) -> str:
    """Recall and precision of the shift test, and recall of migrations."""
    lines = []
    for question in SWAPPED:
        runs = runs_of(results, question)
        shares = [
            percent([r[name] for r in runs if r[name] is not None])
            for name in ("shift_recall", "shift_precision", "migration_recall")
        ]
        agreement = f"{np.mean([r['ari'][-1] for r in runs]):.2f}" if runs else "not run"
        lines.append([question.method, NAMES[question.kind], *shares, agreement])
    head = [
        "method",
        "kind",
        "shift recall (%)",
        "shift precision (%)",
        "migration recall (%)",
        "ARI, last round",
    ]
    return markdown(head, lines)


def draw(results: Results, docs: Path) -> None:
    """Agreement at the end, a panel for each setting that makes the task harder, a line per method,
    all seeds as dots."""
    import matplotlib
    from matplotlib.figure import Figure

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        for panel, axes in zip(AXES, figure.subplots(1, 3, sharey=True), strict=True):
            _panel(results, panel, axes)
        write(figure, docs / FIGURE)


def _panel(results: Results, panel: str, axes: Any) -> None:
    from fedkin.reporting.method_styles import method_styles
    from fedkin.reporting.style import prepare

    heading, label = AXES[panel]
    prepare(axes, heading, "agreement with the true clusters (ARI); dots: seeds")
    questions = [q for q in HARDER if q.panel == panel]
    methods = list(dict.fromkeys(q.method for q in HARDER))
    styles = method_styles(methods)
    for method in methods:
        colour, dash = styles[method].line
        points = [
            (getattr(q, panel), [r["ari"][-1] for r in runs_of(results, q)])
            for q in questions
            if q.method == method
        ]
        points = [(at, [a for a in ari if a is not None]) for at, ari in points]
        points = [(at, ari) for at, ari in points if ari]
        if points:
            axes.plot(
                [at for at, _ in points],
                [np.mean(a) for _, a in points],
                color=colour,
                ls=dash,
                label=method,
            )
            for at, ari in points:
                axes.plot([at] * len(ari), ari, ".", color=colour, ms=4, alpha=0.6)
    axes.set_xlabel(label)
    axes.set_ylim(-0.05, 1.05)
    if panel == "images" and axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center right", frameon=False, fontsize=8.5)
