"""Figures of a report for a paper: one column wide (3.3 inches), 8 points, as PDF, SVG and PNG."""

from __future__ import annotations

import io
import itertools
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, ScalarFormatter

from fedkin.analysis.ranks import Ranks
from fedkin.core.errors import MissingExtra
from fedkin.core.storage import check_output, write_atomic
from fedkin.measures.number_texts import byte_text
from fedkin.reporting import ranks_figure
from fedkin.reporting.html.json_values import Json
from fedkin.reporting.html.page import PALETTE
from fedkin.reporting.html.paper_similarity_figures import draw_labels, draw_map, draw_similarity
from fedkin.reporting.html.paper_style import COLUMN, WIDTH, cluster_colour, hue, legend
from fedkin.reporting.method_styles import method_styles
from fedkin.reporting.style import (
    DASHES,
    FADED,
    FAINT,
    figure_metadata,
    index_axis,
    measure_axis,
    share_axis,
)
from fedkin.run.folder import run_folder

_KINDS = ("pdf", "svg", "png")
_log = logging.getLogger("fedkin")


def save(contents: Json, target: Path, ranks: Ranks | None = None) -> list[Path]:
    """Write all figures of a report into a folder.

    For each setting there are ``accuracy``, ``bottom`` (bottom 10% of clients), ``clients``
    (accuracy of each client) and ``ari``. For the run that is shown first on the page there are
    ``clusters``, ``alluvial``, ``communication``, ``map``, ``similarity`` and ``labels``, if known.
    The same run always gives the same bytes.

    Args:
        contents: the report's contents.
        target: the folder.
        ranks: ranks of a comparison's methods. If there are enough methods and settings for their
            tests, ``ranks`` is the critical-difference diagram.

    Raises StorageError if a file cannot be written.
    """
    figures = [*_figures(contents), *_ranks(ranks)]
    for name, kind in itertools.product([figure.name for figure in figures], _KINDS):
        check_output(target / f"{name}.{kind}")
    run_folder.make_folder(target)
    paths = []
    with matplotlib.rc_context(COLUMN):
        for name, height, draw, run in figures:
            figure = Figure(figsize=(WIDTH, height + (0.15 if run else 0)), layout="constrained")
            FigureCanvasAgg(figure)
            draw(figure)
            if run:
                figure.suptitle(run, fontsize=7, x=0.01, ha="left")
            figure.draw_without_rendering()
            figure.set_layout_engine("none")  # keep the layout, so that all formats are equal
            for kind in _KINDS:
                content = io.BytesIO()
                figure.savefig(content, format=kind, dpi=300, metadata=figure_metadata(kind))
                paths.append(target / f"{name}.{kind}")
                write_atomic(paths[-1], content.getvalue())
    return paths


class _PaperFigure(NamedTuple):
    """A figure: file name, height in inches, drawing function, and label if it shows one run."""

    name: str
    height: float
    draw: Callable[[Figure], None]
    run: str = ""


def _figures(contents: Json) -> Iterator[_PaperFigure]:
    """All figures of a report: those of each setting, then those of the run that is shown first."""
    charts = contents["accuracy"]
    score = contents["score"]
    run = contents["runs"][contents["opening"]]
    for chart in charts:
        ending = f"-{_file_name(chart['setting'])}" if len(charts) > 1 else ""
        yield _PaperFigure(
            f"accuracy{ending}",
            2.2,
            partial(_curves_of, chart=chart, name="accuracy", score=score),
        )
        yield _PaperFigure(
            f"bottom{ending}",
            2.2,
            partial(_curves_of, chart=chart, name="bottom_decile", score=score),
        )
        if any("ari" in line for line in chart["lines"]):
            agreement = partial(_curves_of, chart=chart, name="ari", score=score)
            yield _PaperFigure(f"ari{ending}", 2.2, agreement)
        for measure in contents["measures"]:
            draw = partial(_measure, chart=chart, measure=measure)
            yield _PaperFigure(f"measure-{_file_name(measure['name'])}{ending}", 2.2, draw)
        if any(line["clients"] for line in chart["lines"]):
            yield _PaperFigure(f"clients{ending}", 2.2, partial(_clients, chart=chart, score=score))
    if run["cluster_accuracy"]["lines"]:
        yield _PaperFigure("clusters", 2.2, partial(_clusters, run=run, score=score), run["label"])
    if run["alluvial"]:
        yield _PaperFigure("alluvial", 2.2, lambda figure: _alluvial(figure, run), run["label"])
    if run["communication"]:
        height = 0.7 + 0.35 * len(run["communication"])
        yield _PaperFigure(
            "communication", height, lambda figure: _communication(figure, run), run["label"]
        )
    similarity = contents["similarities"].get(run["similarity"])
    if similarity:
        yield _PaperFigure(
            "map", 2.8, lambda figure: draw_map(figure, run, similarity), run["label"]
        )
        yield _PaperFigure(
            "similarity", 2.4, lambda figure: draw_similarity(figure, run, similarity), run["label"]
        )
        height = 0.9 + 0.2 * len(run["labels"]["names"])
        yield _PaperFigure("labels", height, lambda figure: draw_labels(figure, run), run["label"])


def _ranks(ranks: Ranks | None) -> Iterator[_PaperFigure]:
    """The critical-difference diagram, if the ranks were tested. Without scikit-posthocs, a warning
    says how to install it."""
    if ranks is None or not ranks.tested:
        return
    try:
        ranks_figure.check_installed()
    except MissingExtra as error:
        _log.warning("%s", error)
        return
    height = 1.0 + 0.2 * len(ranks.average)
    draw = partial(ranks_figure.draw_on, ranks=ranks, size=7.0)
    yield _PaperFigure("ranks", height, draw)


def _curves_of(figure: Figure, chart: Json, name: str, score: Json) -> None:
    """Draw curves over the rounds: of the score (``accuracy``), of its mean over the worst clients
    (``bottom_decile``), or of the agreement with the true clusters (``ari``)."""
    label = {
        "accuracy": f"{{}} {score['head']}",
        "bottom_decile": f"{{}} {score['head']},\n{score['worst']} of clients",
        "ari": "adjusted Rand index",
    }[name]
    axes = _over_rounds(figure, chart["events"], label.format(chart["split"]))
    _curves(axes, chart, name)
    if name == "ari":
        index_axis(axes)
    else:
        measure_axis(axes, score["unit"])
    legend(figure, axes)


def _measure(figure: Figure, chart: Json, measure: Json) -> None:
    """Draw the curves of a user's measure over the rounds, one for each method."""
    axes = _over_rounds(figure, chart["events"], measure["head"])
    _curves(axes, chart, measure["name"])
    if measure["unit"] == "share":
        share_axis(axes)
    else:
        axes.yaxis.set_major_formatter(ScalarFormatter())
    legend(figure, axes)


def _curves(axes: Axes, chart: Json, name: str) -> None:
    """Draw a line over the rounds, and a band for its interval, for each method."""
    styles = method_styles(line["method"] for line in chart["lines"])
    for line in chart["lines"]:
        if name not in line:
            continue
        colour, dash = styles[line["method"]].line
        x = line["rounds"]
        low = _numbers(line[f"{name}_low"])
        high = _numbers(line[f"{name}_high"])
        if np.isfinite(low).any():
            axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        if "partial" in line and name == "accuracy":
            axes.plot(x, _numbers(line["partial"]), color=colour, ls=dash, alpha=0.35, lw=1.4)
        axes.plot(x, _numbers(line[name]), color=colour, ls=dash, lw=1.4, label=line["method"])


def _clients(figure: Figure, chart: Json, score: Json) -> None:
    """Draw the score of each client, the worst first."""
    axes = figure.subplots()
    axes.grid(axis="y", color=FAINT, lw=0.5)
    axes.axvspan(0, 0.1, color="#E4E4E4", lw=0, zorder=0)
    styles = method_styles(line["method"] for line in chart["lines"])
    for line in chart["lines"]:
        clients = line["clients"]
        if clients:
            colour, dash = styles[line["method"]].line
            axes.step(
                clients["shares"],
                clients["accuracy"],
                where="mid",
                lw=1.2,
                label=line["method"],
                color=colour,
                ls=dash,
            )
    axes.set(
        xlim=(0, 1),
        xlabel=f"clients, {score['worst_word']} {score['head']} first (grey: {score['worst']})",
        ylabel=f"client's test {score['head']}",
    )
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    measure_axis(axes, score["unit"])
    legend(figure, axes)


def _clusters(figure: Figure, run: Json, score: Json) -> None:
    """Draw the score of each cluster's clients over the rounds."""
    axes = _over_rounds(figure, run["events"], f"{run['split']} {score['head']}")
    for line in run["cluster_accuracy"]["lines"]:
        place = hue(run, line["cluster"])
        axes.plot(
            run["cluster_accuracy"]["rounds"],
            _numbers(line["accuracy"]),
            lw=1.2,
            label=f"{line['cluster']}",
            color=PALETTE[place],
            ls=DASHES[place % len(DASHES)],
        )
    axes.set_xlim(left=0)  # also if clusters are formed later
    measure_axis(axes, score["unit"])
    legend(figure, axes, "cluster")


def _alluvial(figure: Figure, run: Json) -> None:
    """Draw the clusters as bands over the rounds, and migrations as flows between them."""
    axes = figure.subplots()
    chart = run["alluvial"]
    for place, band in enumerate(chart["bands"]):
        colour = cluster_colour(run, band["cluster"])
        columns = zip(chart["rounds"], chart["ends"], chart["base"], chart["sizes"], strict=True)
        blocks = [
            _block(start, end, base[place], sizes[place]) for start, end, base, sizes in columns
        ]
        flows = [flow for flow in chart["flows"] if flow[1] == place]
        staying = [shape for _, source, target, _, shape in flows if source == target]
        leaving = [shape for _, source, target, _, shape in flows if source != target]
        axes.add_collection(
            PolyCollection([*blocks, *staying], facecolor=colour, edgecolor="none", alpha=0.85)
        )
        axes.add_collection(PolyCollection(leaving, facecolor=colour, lw=0, alpha=0.5))
        axes.plot([], [], color=colour, lw=4, label=band["name"].removeprefix("cluster "))
    top = max(
        base[-1] + sizes[-1] for base, sizes in zip(chart["base"], chart["sizes"], strict=True)
    )
    axes.set(
        xlim=(0, max(1, chart["last"])),
        ylim=(0, top),
        yticks=[],
        ylabel="clients, by cluster",
        xlabel="communication round",
    )
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _mark_events(axes, run["events"])
    legend(figure, axes, "cluster")


def _communication(figure: Figure, run: Json) -> None:
    """Draw bars of the bytes that a run sent in each operation."""
    axes = figure.subplots()
    rows = run["communication"]
    at = np.arange(len(rows))
    for side, shift, place, hatch in (("download", -0.2, 0, ""), ("upload", 0.2, 1, "////")):
        values = [row[side] for row in rows]
        axes.barh(
            at + shift,
            values,
            0.38,
            color=PALETTE[place],
            hatch=hatch,
            edgecolor="white",
            lw=0,
            label=side,
        )
        for y, value in zip(at + shift, values, strict=True):
            axes.annotate(
                byte_text(value),
                (value, y),
                (2, 0),
                textcoords="offset points",
                va="center",
                fontsize=6,
            )
    names = [
        f"{row['operation']} ({row['kind']})" if row["kind"] else row["operation"] for row in rows
    ]
    axes.set_yticks(at, names)
    most = max(1, *(row[side] for row in rows for side in ("download", "upload")))
    axes.set(xlabel="bytes", xlim=(0, 1.3 * most))
    axes.invert_yaxis()
    ticks = run["communication_ticks"]
    # One column has room for four ticks.
    step = 1 if len(ticks["values"]) <= 4 else 2
    axes.set_xticks(ticks["values"][::step], ticks["texts"][::step])
    legend(figure, axes)


def _over_rounds(figure: Figure, events: Json, label: str) -> Axes:
    """New axes for curves of shares (0 to 1) over the rounds, in which events are marked."""
    axes = figure.subplots()
    axes.grid(axis="y", color=FAINT, lw=0.5)
    axes.margins(x=0)
    axes.set(xlabel="communication round", ylabel=label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    _mark_events(axes, events)
    return axes


def _mark_events(axes: Axes, events: Json) -> None:
    """Draw vertical lines at data shifts, and where newcomers got a cluster."""
    for what, dash in (("shifts", "-"), ("newcomers", ":")):
        for round in events[what]:
            axes.axvline(round, color=FADED, ls=dash, lw=0.6, zorder=0.5)


def _block(
    start: float | int, end: float, low: float, height: float | int
) -> list[tuple[float, float]]:
    left = float(start)
    high = float(low + height)
    return [(left, low), (end, low), (end, high), (left, high)]


def _numbers(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _file_name(setting: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", setting).strip("-").lower() or "setting"
