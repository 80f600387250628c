"""The common style of all figures: colours, lines, headings and labels; and how figures are
saved."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.ticker import MaxNLocator, PercentFormatter, ScalarFormatter

from fedkin.core.storage import WRITTEN_BY, check_output, write_atomic
from fedkin.measures.number_texts import percent

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
_END = "_end"  # label of the text at a curve's end, by which ``fit`` finds it
SHARE_STEPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # distances of two ticks of shares
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
            _write(figure, target)
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
    """Fit a figure's texts (``fit``) and write it in the format of the path's ending (png or svg).
    The same figure gives the same bytes."""
    fit(figure)
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    """Write a figure whose texts are fitted."""
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
    """Wrap the notes of all panels to the panels' width, and move labels at curves' ends apart."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        for note in axes.texts:
            if note.get_label() == _NOTE:
                _break_lines(axes, note)
    # The wrapped notes change the heights of the panels.
    figure.draw_without_rendering()
    for axes in figure.axes:
        _move_apart(axes)


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


def _move_apart(axes: Axes) -> None:
    """Move the labels at the ends of a panel's curves apart, and above the panel's lower end."""
    labels = [text for text in axes.texts if text.get_label() == _END]
    if not labels:
        return
    frame = axes.get_window_extent()
    extents = [label.get_window_extent() for label in labels]
    gap = 1.06 * max(float(extent.height) for extent in extents)
    middles = [float(extent.y0 + extent.y1) / 2 for extent in extents]
    # A label may be half a label above the panel. Below, it would touch the last tick's number.
    heights = spread(middles, gap, float(frame.y0) + gap / 2, float(frame.y1))
    to_axes = axes.transAxes.inverted()
    for label, height in zip(labels, heights, strict=True):
        assert isinstance(label, Annotation)
        place = (1.01, float(to_axes.transform((0, height))[1]))
        label.xycoords = label.anncoords = "axes fraction"
        label.xy = place
        label.set_position(place)


def draw_curve(
    axes: Axes, rounds: Any, values: Any, line: tuple[str, Any], width: float, alpha: float = 1.0
) -> None:
    """Draw a curve over the rounds. A curve of one point is drawn as a dot, because a line would be
    invisible.

    Args:
        axes: the panel.
        rounds: the rounds of the points.
        values: the values in these rounds; NaN: no value.
        line: colour and dashes.
        width: width of the line in points.
        alpha: opacity.
    """
    colour, dash = line
    one = int(np.isfinite(np.asarray(values, float)).sum()) == 1
    axes.plot(
        rounds,
        values,
        color=colour,
        ls=dash,
        lw=width,
        alpha=alpha,
        marker="o" if one else None,
        ms=5,
        clip_on=not one,
    )


def round_axis(axes: Axes, last: int) -> None:
    """Show the x axis of a panel from round 0 to the last round, also if a curve has one point
    only."""
    axes.set_xlim(0, max(1, last))
    axes.set_xlabel("communication round")


def share_axis(axes: Axes) -> None:
    """Show the y axis of a panel of shares in per cent, from tick to tick around the curves. So it
    ends with 100% if a curve is near it. Call it after the curves are drawn."""
    low, high = axes.dataLim.intervaly
    if not np.isfinite([low, high]).all():
        low = 0.0
        high = 1.0
    bottom, top, step = share_ticks(float(low), float(high))
    room = 0.03 * (top - bottom)  # so that lines along the ends are seen whole
    axes.set_ylim(bottom - room, top + room)
    axes.set_yticks(np.arange(bottom, top + step / 2, step))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0 if step >= 0.01 else 1))


def measure_axis(axes: Axes, unit: str) -> None:
    """Show the y axis of a panel of a measure, by its unit: shares in per cent, other numbers as
    they are. Call it after the curves are drawn."""
    if unit == "share":
        share_axis(axes)
    else:
        axes.yaxis.set_major_formatter(ScalarFormatter(useOffset=False))


def index_axis(axes: Axes) -> None:
    """Show the y axis of a panel of agreement (adjusted Rand index) up to 1, from 0 or the lowest
    value. Call it after the curves are drawn."""
    low = float(axes.dataLim.intervaly[0])
    axes.set_ylim(min(0.0, low if math.isfinite(low) else 0.0) - 0.03, 1.03)
    axes.yaxis.set_major_formatter("{x:.1f}")


def share_ticks(low: float, high: float) -> tuple[float, float, float]:
    """The first tick, the last tick and the step of an axis for shares between ``low`` and
    ``high``. The last tick is at most 1, and there are at most seven ticks."""
    low = min(max(low, 0.0), 1.0)
    high = min(max(high, low), 1.0)
    # Equal values need no fine ticks.
    step = next((step for step in SHARE_STEPS if 0 < high - low <= 5 * step), SHARE_STEPS[-1])
    # The small number absorbs rounding errors, such as in 0.3 / 0.1.
    bottom = step * math.floor(low / step + 1e-9)
    top = step * math.ceil(high / step - 1e-9)
    if top == bottom:  # all values are equal to a tick
        top, bottom = (top + step, bottom) if top < 1 else (top, bottom - step)
    return round(bottom, 6), round(top, 6), step


def label_ends(
    axes: Axes, ends: list[tuple[float, str, str]], write: Callable[[float], str] = percent
) -> None:
    """Write the name and last value of each curve at its end.

    Labels are moved apart, so that they do not overlap, when ``fit`` knows the panel's final size.
    Call it after the limits of the y axis are set.

    Args:
        axes: the panel.
        ends: last value, name and colour of each line.
        write: writes a value as text; default: in per cent.
    """
    for value, name, colour in sorted(ends):
        axes.annotate(
            f"{name}\n{write(value)}",
            (1.01, value),
            xycoords=axes.get_yaxis_transform(),
            color=colour,
            fontweight="bold",
            va="center",
            label=_END,
            annotation_clip=False,
        )


def spread(
    values: list[float], gap: float, low: float = -math.inf, high: float = math.inf
) -> list[float]:
    """Move the ascending heights of labels apart, so that neighbours are at least ``gap`` apart.

    Labels that are too close are moved away from their middle as a group.

    Args:
        values: the heights, in ascending order.
        gap: smallest distance of two labels.
        low: smallest height of a label. It is exceeded only if there is too little room.
        high: largest height of a label.
    """
    groups: list[_Group] = []
    for value in values:
        groups.append(_Group(min(max(value, low), high), 1))
        while len(groups) > 1 and groups[-1].lowest(gap) < groups[-2].lowest(gap) + (
            gap * groups[-2].labels
        ):
            upper = groups.pop()
            lower = groups.pop()
            groups.append(_Group(lower.total + upper.total, lower.labels + upper.labels))
    heights = [group.lowest(gap) + gap * place for group in groups for place in range(group.labels)]
    return _within(heights, gap, low, high)


class _Group(NamedTuple):
    """Labels that touch each other.

    Attributes:
        total: the sum of the heights that they should have.
        labels: their number.
    """

    total: float
    labels: int

    def lowest(self, gap: float) -> float:
        """The height of the lowest label, so that the group's middle is the mean of the heights."""
        return self.total / self.labels - gap * (self.labels - 1) / 2


def _within(heights: list[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels back between ``low`` and ``high``, without changing their order."""
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], high - gap * (len(heights) - 1 - place))
    for place in range(len(heights)):
        heights[place] = max(heights[place], low + gap * place)
    return heights
