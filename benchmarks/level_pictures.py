"""``python -m benchmarks.level_pictures``: the three pictures of the page "Do clusters help here?".

Levels, slopes and seasons are three ways in which clients of tables differ. Levels and seasons are
drawn from data: exam scores of schools, and growth of employment by industry. FEDKIN_DATA names the
folder of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from fedkin.clustering.kmeans import kmeans
from fedkin.data.natural import natural
from fedkin.reporting.style import COLOURS, INK, STYLE, new_figure, prepare, write

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SCHOOLS = 12
MONTHS = ("J", "F", "M", "A", "M", "J", "J", "A", "S", "O", "N", "D")


def levels() -> Figure:
    """Lines of schools: parallel, at different heights."""
    table = natural("exam").rows("train")
    lines = []
    for _, rows in table.groupby("client"):
        if len(rows) >= 50:
            lines.append(np.polyfit(rows["reading"], rows["exam"], 1))
    lines.sort(key=lambda line: line[1])
    chosen = [lines[i] for i in np.linspace(0, len(lines) - 1, SCHOOLS).round().astype(int)]
    pooled = np.polyfit(table["reading"], table["exam"], 1)

    figure = new_figure(8.0, 4.0)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    grid = np.array([-2.0, 2.0])
    prepare(left, "Levels", "exam scores by reading scores, twelve schools")
    for line in chosen:
        left.plot(grid, np.polyval(line, grid), color=COLOURS[0], lw=1)
    left.plot(grid, np.polyval(pooled, grid), color=INK, lw=2, label="one line for all")
    left.legend(frameon=False, loc="upper left")
    prepare(right, "An intercept for each school", "one slope for all, a number for each school")
    means = [np.polyval(line, 0) for line in chosen]
    for mean in means:
        right.plot(grid, mean + pooled[0] * grid, color=COLOURS[0], lw=1)
    for axes in (left, right):
        axes.set_xlabel("reading score at intake")
    left.set_ylabel("exam score")
    return figure


def seasons() -> Figure:
    """Mean growth by month of industries, in clusters of their seasons."""
    table = natural("employment").rows("train")
    growth = table.pivot_table(index="client", columns="month", values="growth", aggfunc="mean")
    shape = growth.to_numpy(np.float32)
    cluster = kmeans(np.clip(shape, -4, 4), 4, 0)
    order = np.argsort(-np.bincount(cluster))

    figure = new_figure(8.0, 4.5)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for number, (axes, group) in enumerate(zip(panels, order, strict=True)):
        members = shape[cluster == group]
        heading = f"Cluster {number + 1}"
        note = f"{len(members)} of {len(shape)} industries; growth by month, percent"
        prepare(axes, heading, note)
        for row in members[:40]:
            axes.plot(row, color=COLOURS[number], lw=0.6, alpha=0.5)
        axes.plot(np.median(members, axis=0), color=INK, lw=1.8)
        axes.set_ylim(-12, 12)
        axes.set_xticks(range(12), MONTHS)
    return figure


def slopes() -> Figure:
    """Two kinds of clients whose lines cross: no intercept can help."""
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 40)
    figure = new_figure(8.0, 4.0)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    prepare(left, "Slopes", "two kinds of clients, drawn from a formula")
    prepare(right, "A line for each cluster", "the same clients in two clusters")
    for client in range(10):
        slope = 1.0 if client % 2 else -1.0
        slope += 0.15 * rng.standard_normal()
        left.plot(x, slope * x, color=COLOURS[0], lw=1)
        right.plot(x, slope * x, color=COLOURS[client % 2], lw=0.8, alpha=0.6)
    left.plot(x, 0 * x, color=INK, lw=2, label="one line for all")
    left.legend(frameon=False, loc="upper center")
    for number, slope in enumerate((-1.0, 1.0)):
        right.plot(x, slope * x, color=COLOURS[number], lw=2.5)
    for axes in (left, right):
        axes.set_xlabel("a feature")
    left.set_ylabel("label")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "clients-levels": levels,
    "clients-slopes": slopes,
    "clients-seasons": seasons,
}


def draw(folder: Path = IMAGES, ending: str = "svg") -> None:
    """Draw all pictures into a folder."""
    for name, picture in PICTURES.items():
        with matplotlib.rc_context(STYLE):
            write(picture(), folder / f"{name}.{ending}")


if __name__ == "__main__":
    draw()
