"""Figure of a run and its compared methods.

It shows the score (such as the accuracy) of all clients and of the worst 10% over the rounds, the
discrepancy (distance of client models to their aggregate), and the cluster sizes. If cluster sizes
never change, it shows the score of each client instead.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedkin.config.description import Description
from fedkin.config.registry import method_title
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES, RunScores, scores_in
from fedkin.reporting.client_scores import ranked_scores
from fedkin.reporting.method_styles import method_style, method_styles
from fedkin.reporting.style import (
    FADED,
    INK,
    draw_curve,
    headline,
    label_ends,
    measure_axis,
    new_figure,
    prepare,
    round_axis,
    save_as,
)
from fedkin.run.metrics.partial_rounds import CAUSE

if TYPE_CHECKING:
    from fedkin.run.run import Run


def save(run: Run, folder: Path) -> None:
    """Write the figure of a run, ``figure.png`` and ``figure.svg``, into a folder.

    Raises StorageError if a file cannot be written.
    """
    save_as(lambda: draw(run), folder / "figure")


def draw(run: Run) -> Figure:
    """Draw the figure of a run.

    The score is on the left. On the right are the worst 10% of clients, the discrepancy, and the
    cluster sizes. If cluster sizes never change, the score of each client replaces them.
    """
    extra_rows = -(-len(run.measures) // 3)
    figure = new_figure(12.5, 5.2 + 2.6 * extra_rows)
    grid = figure.add_gridspec(
        2 + extra_rows, 3, width_ratios=(1.5, 1, 1), hspace=0.08, wspace=0.06
    )
    runs = {run.config.method_name: run, **run.against}
    by_label = {method_label(method_run.config): method_run for method_run in runs.values()}
    histories = {label: method_run.history for label, method_run in by_label.items()}
    scores = scores_in(run.records[-1])
    left = figure.add_subplot(grid[:2, 0])
    _score(left, histories, scores)
    _mark_shifts(left, run)
    bottom = figure.add_subplot(grid[0, 1])
    discrepancy = figure.add_subplot(grid[1, 1])
    _bottom(bottom, histories, scores)
    _discrepancy(discrepancy, histories)
    last = _third_column(figure, grid, by_label)
    for axes in (bottom, *last[:-1]):
        axes.set_xlabel("")
    for place, measure in enumerate(run.measures):
        _measure(figure.add_subplot(grid[2 + place // 3, place % 3]), histories, measure)
    names = " / ".join(method_label(method_run.config) for method_run in runs.values())
    headline(
        figure,
        f"{names} on {run.config.data_title}: {len(run.assignment):,} clients, "
        f"{run.config.cohort} a round, seed {run.config.seed}\n",
    )
    return figure


def method_label(config: Description) -> str:
    """The title of a run's method, with the number of clusters if it is configured: ``IFCA (K =
    3)``."""
    title = method_title(config.method_with_options)
    return title if config.clusters is None else f"{title} (K = {config.clusters})"


def _third_column(figure: Figure, grid: GridSpec, runs: dict[str, Run]) -> list[Axes]:
    """Draw the third column: cluster sizes of the first method, score of each client, or both.

    A panel without contents is left out. Panels with rounds on the x axis come first.
    """
    name = next(iter(runs))
    history = runs[name].history
    # Sizes that never change need no curve.
    moving = "neighbours" in history or _sizes_change(history)
    has_scores = any(scores_in(run.records[-1]).names.score in run.clients for run in runs.values())
    panels = []
    if moving or not has_scores:
        axes = figure.add_subplot(grid[0, 2] if has_scores else grid[:2, 2])
        if "neighbours" in history:
            _neighbours(axes, name, history)
        else:
            _sizes(axes, name, history)
        panels.append(axes)
    if has_scores:
        axes = figure.add_subplot(grid[1, 2] if moving else grid[:2, 2])
        _clients(axes, runs)
        panels.append(axes)
    return panels


def _sizes_change(history: pd.DataFrame) -> bool:
    """Whether a run's cluster sizes differ between any two rounds."""
    rows = [list(sizes) for sizes in history["cluster_sizes"].dropna()]
    return any(sizes != rows[0] for sizes in rows)


def _last_round(histories: dict[str, pd.DataFrame]) -> int:
    """The last round of all methods."""
    return max(int(history.index[-1]) for history in histories.values())


def _split(histories: dict[str, pd.DataFrame]) -> str:
    """The split on which rounds were evaluated: ``validation`` or ``test``."""
    return "validation" if any("split" in history for history in histories.values()) else "test"


def _score(axes: Axes, histories: dict[str, pd.DataFrame], scores: RunScores) -> None:
    """Draw the score of all clients over the rounds. Partial rounds, in which some clients had
    no cluster or were absent, are pale."""
    partial = any(
        history["partial"].fillna(False).astype(bool).any() for history in histories.values()
    )
    score = scores.of_round
    together = "all clients together"
    if scores != ACCURACIES:
        together = f"per sample, {together}; {score.direction} is better"
    prepare(
        axes,
        f"{_split(histories).capitalize()} {score.head}",
        f"{together}{f'; pale: {_why_pale(histories)}' if partial else ''}",
    )
    ends = []
    styles = method_styles(histories)
    for name, history in histories.items():
        colour, dash = styles[name].line
        scored = history.dropna(subset=[score.name])
        if scored.empty:  # no client has test samples
            continue
        values = scored[score.name].astype(float)
        partial = scored["partial"].astype(bool)
        pale = values.where(partial | partial.shift(1, fill_value=False))
        draw_curve(axes, scored.index, pale, (colour, dash), width=2.2, alpha=0.35)
        draw_curve(axes, scored.index, values.where(~partial), (colour, dash), width=2.2)
        ends.append((float(values.iloc[-1]), name, colour))
    measure_axis(axes, score.unit)
    round_axis(axes, _last_round(histories))
    label_ends(axes, ends, score.text_with_unit)


def _why_pale(histories: dict[str, pd.DataFrame]) -> str:
    """Words for the note below the score: why the figure draws some rounds pale."""
    away = any("scored_of" in history for history in histories.values())
    return CAUSE if away else "some clients have no cluster yet"


def _bottom(axes: Axes, histories: dict[str, pd.DataFrame], scores: RunScores) -> None:
    """Draw the mean score of the worst 10% of clients over the rounds."""
    score = scores.of_round
    heading = f"{scores.worst_words.capitalize()} of clients"
    note = f"mean {_split(histories)} {score.head}"
    if score.direction == "lower":
        note += f", those with the {score.worst_word}"
    prepare(axes, heading, note)
    styles = method_styles(histories)
    for name, history in histories.items():
        known = history[scores.names.worst].dropna().astype(float)
        draw_curve(axes, known.index, known, styles[name].line, width=1.6)
    measure_axis(axes, score.unit)
    round_axis(axes, _last_round(histories))


def _clients(axes: Axes, runs: dict[str, Run]) -> None:
    """Draw the test score of each client at the end, the worst first."""
    scores = scores_in(next(iter(runs.values())).records[-1])
    score = scores.of_round
    ranked = {name: ranked_scores(run) for name, run in runs.items()}
    left_out = max((found.unranked for found in ranked.values() if found), default=0)
    few = f"; {left_out} with few samples left out" if left_out else ""
    prepare(
        axes,
        f"{score.heading} of each client",
        f"after the last round, {score.worst_word} first; grey: {scores.worst_words} of clients"
        f"{few}",
    )
    styles = method_styles(runs)
    for name, found in ranked.items():
        colour, dash = styles[name].line
        if found is not None:
            shares = (np.arange(len(found.values)) + 0.5) / max(1, len(found.values))
            axes.step(shares, found.values, where="mid", color=colour, ls=dash, lw=1.6)
    axes.axvspan(0, 0.1, color="#E9E9E9", lw=0, zorder=0)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the clients")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    measure_axis(axes, score.unit)


def _mark_shifts(axes: Axes, run: Run) -> None:
    """Mark rounds in which the data of more than a quarter of the clients shifted, if these are
    rare."""
    rounds = [r["round"] for r in run.records if 4 * (r["data_shifts"] or 0) > len(run.assignment)]
    rounds = rounds if 4 * len(rounds) <= len(run.records) else []
    for round in rounds:
        axes.axvline(round, color=FADED, lw=0.8, zorder=0.5)
    for round in rounds[:1]:  # only the first has a label
        axes.annotate(
            "data shift",
            (round, 0.015),
            (3, 0),
            textcoords="offset points",
            fontsize=8,
            color="#666",
        )


def _discrepancy(axes: Axes, histories: dict[str, pd.DataFrame]) -> None:
    """Draw the discrepancy over the rounds: the mean distance of client models to their
    aggregate."""
    prepare(axes, "Discrepancy", "mean L2 distance of client models to their aggregate")
    styles = method_styles(histories)
    for name, history in histories.items():
        known = history["discrepancy_mean"].dropna().astype(float)
        draw_curve(axes, known.index, known, styles[name].line, width=1.6)
    axes.set_ylim(bottom=0)
    round_axis(axes, _last_round(histories))


def _measure(axes: Axes, histories: dict[str, pd.DataFrame], measure: Measure) -> None:
    """Draw a measure over the rounds, such as a user's measure."""
    prepare(axes, measure.heading, "" if measure.title == measure.head else measure.title)
    styles = method_styles(histories)
    for name, history in histories.items():
        if measure.column not in history:  # the run does not have it
            continue
        known = history[measure.column].dropna().astype(float)
        draw_curve(axes, known.index, known, styles[name].line, width=1.6)
    if measure.unit == "share":
        measure_axis(axes, measure.unit)
    round_axis(axes, _last_round(histories))


def _sizes(axes: Axes, name: str, history: pd.DataFrame) -> None:
    """Draw the cluster sizes of the first method over the rounds as stacked areas."""
    prepare(axes, "Cluster sizes", f"clients in each cluster of {name}")
    known = history["cluster_sizes"].dropna()
    # Sizes [K, rounds]. A cluster that is created later has size 0 before.
    sizes = np.array(list(zip_longest(*known, fillvalue=0)), float)
    shades = matplotlib.colormaps["Blues"](np.linspace(0.75, 0.25, len(sizes)))
    axes.stackplot(known.index, sizes, colors=shades, edgecolor="white", linewidth=0.8, step="post")
    middle = np.cumsum(sizes[:, -1]) - sizes[:, -1] / 2
    for height, size in zip(middle, sizes[:, -1], strict=True):
        if len(sizes) <= 12 and size > 0.04 * sizes[:, -1].sum():
            at = (1.01, height)
            axes.annotate(
                f"{int(size)}",
                at,
                xycoords=axes.get_yaxis_transform(),
                va="center",
                fontsize=9,
                color=INK,
            )
    axes.set_ylim(0, max(1.0, float(sizes.sum(axis=0).max())))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    round_axis(axes, int(history.index[-1]))


def _neighbours(axes: Axes, name: str, history: pd.DataFrame) -> None:
    """Draw the mean number of peers that a peer trusts, over the rounds. Peers are the clients of a
    method without a server."""
    prepare(axes, "Neighbours", f"mean number of peers that a peer of {name} trusts")
    colour, _ = method_style(name).line
    known = history["neighbours"].dropna().astype(float)
    draw_curve(axes, known.index, known, (colour, "-"), width=1.6)
    axes.set_ylim(bottom=0)
    round_axis(axes, int(history.index[-1]))
