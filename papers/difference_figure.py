"""The figure of all printed accuracies: ours minus printed, with the 95% prediction interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from papers.collective_test import is_outside, testable
from papers.prediction import prediction_interval
from papers.reproduction_marks import ComparedNumber

NAME = "results-differences.svg"
# Labels of columns that do not name a method.
LABELS = {
    "best accuracy (%)": "FedAvg by classes, best",
    "median (%)": "FedAvg by classes, median",
    "over FedAvg": "FedSim over FedAvg",
    "over FedProx": "FedSim over FedProx",
}
MOST = 45  # points; larger differences are drawn at the edge


def draw(numbers: Sequence[ComparedNumber], docs: Path) -> None:
    """Write the figure into ``docs/images``.

    Args:
        numbers: the published numbers and ours; those without an interval are left out.
        docs: folder of the documentation.
    """
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        write(_figure(testable(numbers)), images / NAME)


def _figure(numbers: Sequence[ComparedNumber]) -> Any:
    """One horizontal band a method, one point a number, sorted by the difference."""
    from matplotlib.figure import Figure

    by_method: dict[str, list[ComparedNumber]] = {}
    for number in numbers:
        by_method.setdefault(number.column, []).append(number)
    figure = Figure(figsize=(10.5, 0.7 + 0.085 * len(numbers)), layout="constrained")
    axes = figure.subplots()
    position = 0
    ticks: list[tuple[float, str]] = []
    for index, (method, of_method) in enumerate(by_method.items()):
        ticks.append((position + (len(of_method) - 1) / 2, method))
        for number in sorted(of_method, key=_difference):
            _add(axes, number, position, color=f"C{index % 10}")
            position += 1
        position += 2
    axes.axvline(0, color="0.3", lw=0.8)
    axes.set_yticks([place for place, _ in ticks], [LABELS.get(name, name) for _, name in ticks])
    axes.set_ylim(position, -2)
    axes.set_xlim(-MOST, MOST)
    axes.set_xlabel(
        "ours minus printed, percentage points (bar: 95% of single runs of ours; "
        "filled: the printed number is outside)"
    )
    return figure


def _add(axes: Any, number: ComparedNumber, position: int, color: str) -> None:
    """The interval of one number, and its mean: filled where the printed number is outside."""
    low, high = prediction_interval(number.runs)
    printed = number.printed or 0.0
    ends = [min(max(end - printed, -MOST), MOST) for end in (low, high)]
    axes.plot(ends, [position, position], color=color, lw=1.2, alpha=0.6, solid_capstyle="butt")
    face = color if is_outside(number) else "white"
    axes.plot(
        min(max(_difference(number), -MOST), MOST),
        position,
        marker="o",
        ms=3.4,
        mfc=face,
        mec=color,
        mew=0.9,
    )


def _difference(number: ComparedNumber) -> float:
    return number.exact - (number.printed or 0.0)
