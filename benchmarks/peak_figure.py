"""The figure docs/images/benchmark-peak.svg: shares of the machine's speed, from the tables of
docs/benchmarks.md.

    python -m benchmarks.peak_figure
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from benchmarks.report import OF_NETWORKS, OF_ROOFLINES
from benchmarks.tables import rows_in
from fedkin.reporting.style import COLOURS, STYLE, new_figure, prepare, write

PAGE = Path("docs/benchmarks.md")
IMAGE = Path("docs/images/benchmark-peak.svg")


def main() -> None:
    """Draw the figure."""
    with matplotlib.rc_context(STYLE):
        write(figure(shares(PAGE)), IMAGE)


def shares(page: Path) -> dict[str, float]:
    """Percent of the machine's speed, by work: the last column of both tables."""
    networks = rows_in(page, OF_NETWORKS)
    measures = rows_in(page, OF_ROOFLINES)
    rows = {f"training, {name}": cells for name, cells in networks.items()} | measures
    return {name: float(re.findall(r"[\d.]+", cells[-1])[0]) for name, cells in rows.items()}


def figure(percent: dict[str, float]) -> Figure:
    """Horizontal bars, the first at the top."""
    drawn = new_figure(7.6, 3.6)
    axes = drawn.subplots()
    note = "percent; networks: of a float32 product on all cores, measures: of one core's bound"
    prepare(axes, "Share of the machine's speed", note)
    names = list(percent)[::-1]
    bars = axes.barh(names, [percent[name] for name in names], color=COLOURS[0])
    axes.bar_label(bars, fmt="%.0f", padding=3)
    axes.set_xlim(0, 110)
    return drawn


if __name__ == "__main__":
    main()
