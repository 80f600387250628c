"""The common style of all figures: colours, lines, headings and labels; and how figures are
saved."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from fedkin.core.storage import WRITTEN_BY, check_output, write_atomic

# Okabe and Ito's colours, which all kinds of colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = (
    "-",
    (0, (5, 2)),
    (0, (1, 1)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (8, 3)),
    (0, (2, 2)),
)
INK = "#222222"
FADED = "#888888"
FAINT = "#D9D9D9"
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": FADED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedkin",  # a constant, so that the same figure gives the same file
}


_HEADLINE: Any = {"fontsize": 13, "fontweight": "bold"}
_NOTE = "_note"  # label of a panel's note, by which ``fit`` finds it
_PAD = 18  # points between a panel and its heading, with room for a note of one line


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches. It needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_as(draw: Callable[[], Figure], path: Path) -> list[Path]:
    """Draw a figure in the common style and write it as ``path``.png and ``path``.svg.

    Raises StorageError if a file cannot be written.
    """
    paths = figure_paths(path)
    with matplotlib.rc_context(STYLE):
        figure = draw()
        fit(figure)
        for target in paths:
            write(figure, target)
    return paths


def figure_paths(path: Path) -> list[Path]:
    """The two files of a figure, png and svg. ``path`` may have one of these endings or none."""
    base = path.with_suffix("") if path.suffix in (".png", ".svg") else path
    return [base.with_name(base.name + ending) for ending in (".png", ".svg")]


def check_figure(path: Path) -> None:
    """Raise StorageError if a figure with this path would overwrite a file that fedkin did not
    write."""
    for target in figure_paths(path):
        check_output(target)


def figure_metadata(kind: str) -> dict[str, Any]:
    """The metadata of a figure's file. They have no date, so that the same figure gives the same
    bytes."""
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    return {"Software" if kind == "png" else "Creator": WRITTEN_BY, **dates[kind]}


def write(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending (png or svg). The same figure gives the
    same bytes."""
    kind = path.suffix[1:]
    content = io.BytesIO()
    figure.savefig(content, format=kind, dpi=160, metadata=figure_metadata(kind))
    write_atomic(path, content.getvalue())


def line_style(number: int) -> tuple[str, Any]:
    """Colour and dashes of line ``number`` of a chart. The first 49 lines all look different."""
    return COLOURS[number % len(COLOURS)], DASHES[(number + number // len(COLOURS)) % len(DASHES)]


def headline(figure: Figure, text: str) -> None:
    """Set the heading of a whole figure, wrapped if it is long."""
    width = int(8.6 * figure.get_figwidth())  # characters of 13 points
    folded = "\n".join(textwrap.wrap(text.strip(), width))
    if text.endswith("\n"):
        folded += "\n"
    figure.suptitle(folded, x=0.008, ha="left", **_HEADLINE)


def prepare(axes: Axes, heading: str, note: str) -> None:
    """Set a panel's heading, a note in small print, and the grid.

    Args:
        axes: the panel.
        heading: the panel's heading.
        note: how to read the panel; ``fit`` wraps it to the panel's width.
    """
    axes.set_title(heading, loc="left", fontsize=11, fontweight="bold", pad=_PAD)
    small = axes.annotate(
        note,
        (0, 1),
        (0, 5),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8.5,
        color="#666",
        label=_NOTE,
    )
    # A long note would make its panel narrow if the layout considered it.
    small.set_in_layout(False)
    axes.grid(axis="y", color=FAINT, lw=0.7)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def fit(figure: Figure) -> None:
    """Wrap the notes of all panels to the panels' width, and make room for them."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        for note in axes.texts:
            if note.get_label() == _NOTE:
                _break_lines(axes, note)


def _break_lines(axes: Axes, note: Text) -> None:
    """Break a panel's note into lines between words, so that it fits the panel's width."""
    room = axes.get_window_extent().width
    text = note.get_text()
    wide = note.get_window_extent().width
    if wide <= room:
        return
    # Characters per line, from the note's width so far, with 3% in reserve.
    lines = textwrap.wrap(text, max(12, int(len(text) * room / wide * 0.97)))
    note.set_text("\n".join(lines))
    heading = axes.get_title(loc="left")
    axes.set_title(
        heading, loc="left", fontsize=11, fontweight="bold", pad=_PAD + 11 * (len(lines) - 1)
    )


def label_ends(
    axes: Axes, ends: list[tuple[float, str, str]], gap: float, template: str = "{:.1%}"
) -> None:
    """Write the name and last value of each curve at its end. These labels are moved apart to avoid
    overlap.

    Args:
        axes: the panel.
        ends: last value, name and colour of each line.
        gap: smallest distance of two labels, in units of the y axis.
        template: format of a value.
    """
    heights = spread([value for value, _, _ in sorted(ends)], gap)
    for (value, name, colour), height in zip(sorted(ends), heights, strict=True):
        axes.annotate(
            f"{name}\n{template.format(value)}",
            (1.01, height),
            xycoords=axes.get_yaxis_transform(),
            color=colour,
            fontweight="bold",
            va="center",
        )


def spread(values: list[float], gap: float) -> list[float]:
    """Move the ascending heights of labels apart, so that neighbours are at least ``gap`` apart.
    Two labels that are too close are both moved away from their middle."""
    heights = list(values)
    for _ in heights:  # one pass for each label is enough, since a pass settles at least one pair
        for low in range(len(heights) - 1):
            lack = gap - (heights[low + 1] - heights[low])
            if lack > 0:
                heights[low] -= lack / 2
                heights[low + 1] += lack / 2
    return heights
