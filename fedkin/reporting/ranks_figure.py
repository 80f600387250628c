"""Critical-difference diagram of a comparison: average ranks, with bars over methods that do not
differ significantly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from fedkin.analysis.ranks import Ranks
from fedkin.analysis.tables import rows_of
from fedkin.core.errors import MissingExtra
from fedkin.reporting.method_styles import method_styles
from fedkin.reporting.style import INK, headline, new_figure, spread

_MOST_RANKS = 15  # with a number each
_ABOVE = 30  # points between the axis and the bar of the critical difference
# Share of the axis below which two ranks would be drawn as one. Lines that are moved apart show
# slightly wrong ranks, so all gaps together take at most this part of the axis.
_TIED = 0.02
_GAPS = 0.2


def draw(ranks: Ranks, blocks: str = "settings") -> Figure:
    """Draw the critical-difference diagram of Demsar (2006) with scikit-posthocs.

    The axis has all possible ranks, from 1 to the number of methods K. The critical difference is a
    bar above the axis. The lines of methods with equal ranks are drawn next to each other.

    Args:
        ranks: ranks of the methods.
        blocks: plural noun for the things over which methods are ranked, such as "settings".

    Raises:
        MissingExtra: scikit-posthocs is not installed.
    """
    figure = new_figure(8.0, 2.1 + 0.24 * len(ranks.average))
    draw_on(figure, ranks)
    headline(
        figure,
        f"Average ranks over {len(ranks.scores)} {blocks} (1 is best): bars join methods without "
        "significant difference (Nemenyi, 5%)\n",
    )
    return figure


def draw_on(figure: Figure, ranks: Ranks, size: float = 9.0) -> None:
    """Draw the critical-difference diagram on an empty figure, without a heading.

    Args:
        figure: the figure.
        ranks: ranks of the methods.
        size: font size of the critical difference, in points.

    Raises:
        MissingExtra: scikit-posthocs is not installed.
    """
    diagram = _diagram()
    axes = figure.subplots()
    styles = method_styles(ranks.average)
    drawn = diagram(
        ranks.average,
        _p_of_pairs(ranks),
        ax=axes,
        color_palette={name: style.light for name, style in styles.items()},
        label_fmt_left="{label} ({rank:.2g})",
        label_fmt_right="({rank:.2g}) {label}",
    )
    _draw_axis(axes, len(ranks.average))
    _draw_critical_difference(axes, ranks, figure, size)
    _move_ties_apart(ranks.average, drawn)


def check_installed() -> None:
    """Raise MissingExtra if scikit-posthocs is not installed."""
    _diagram()


def _p_of_pairs(ranks: Ranks) -> pd.DataFrame:
    """Nemenyi's p of each pair of methods; 1 if Friedman's test finds no difference, because no
    pair counts as different then."""
    names = list(ranks.average)
    p = pd.DataFrame(1.0, index=names, columns=names)
    for row in rows_of(ranks.pairs) if ranks.differ else ():
        p.loc[row["method"], row["against"]] = row["p_nemenyi"]
        p.loc[row["against"], row["method"]] = row["p_nemenyi"]
    return p


def _draw_axis(axes: Axes, methods: int) -> None:
    """Draw the axis of all possible ranks, 1 to the number of methods, with a tick at each rank.
    With many methods, every second tick has its number."""
    axes.set_xlim(1, methods)
    step = 1 if methods <= _MOST_RANKS else 2  # all numbers would touch each other
    axes.set_xticks(np.arange(1, methods + 1, step))
    axes.set_xticks(np.arange(1, methods + 1), minor=True)
    axes.spines["top"].set_visible(True)
    axes.spines["top"].set_bounds(1, methods)


def _draw_critical_difference(axes: Axes, ranks: Ranks, figure: Figure, size: float) -> None:
    """Draw the critical difference as a bar above the axis, from rank 1 on, with its value. The bar
    ends with the axis if it is longer. ``size`` is the font size."""
    width = ranks.critical_difference
    longest = len(ranks.average) - 1
    end = 1 + min(width, longest)
    note = f"critical difference {width:.2f}"
    if width > longest:
        note += ", longer than the axis"
    above = offset_copy(axes.transData, figure, y=_ABOVE, units="points")
    axes.plot([1, end], [0, 0], "-|", transform=above, color=INK, lw=2, ms=9, mew=2, clip_on=False)
    axes.annotate(
        note,
        (1, 0),
        (0, _ABOVE + 6),
        textcoords="offset points",
        fontsize=size,
    )


def _move_ties_apart(average: Mapping[str, float], drawn: Mapping[str, list[Any]]) -> None:
    """Draw the lines of methods with (nearly) equal ranks next to each other, because one would
    hide the other. Bars are extended to these lines.

    Args:
        average: average rank of each method.
        drawn: the parts of the diagram. Methods with low ranks, which are on the left, come first;
            those on the right are in descending order of ranks.
    """
    ordered = sorted(average.values())
    methods = len(ordered)
    gap = min(_TIED, _GAPS / methods) * (methods - 1)
    places = spread(ordered, gap, low=1.0, high=float(methods))
    left = (methods + 1) // 2
    numbers = [*range(left), *reversed(range(left, methods))]
    parts = zip(numbers, drawn["elbows"], drawn["markers"], drawn["labels"], strict=True)
    for number, elbow, marker, label in parts:
        end = places[0] - gap if number < left else places[-1] + gap
        elbow.set_data([end, places[number], places[number]], elbow.get_ydata())
        marker.set_offsets([[places[number], 0]])
        label.set_x(end)
        for part in (elbow, marker):
            part.set_clip_on(False)
    for bar in chain.from_iterable(drawn["crossbars"]):
        ranks = bar.get_xdata()
        joined = [
            place
            for rank, place in zip(ordered, places, strict=True)
            if min(ranks) <= rank <= max(ranks)
        ]
        bar.set_data([joined[0], joined[-1]], [bar.get_ydata()[0]] * 2)


def _diagram() -> Callable[..., Any]:
    """The drawing function of scikit-posthocs. Raises MissingExtra if it is not installed."""
    try:
        from scikit_posthocs import critical_difference_diagram
    except ImportError as error:
        raise MissingExtra(
            "the critical-difference picture needs scikit-posthocs, which is not installed; run "
            "pip install 'fedkin[ranks]'; then fedkin compare --resume draws it and runs nothing "
            "again"
        ) from error
    return critical_difference_diagram
