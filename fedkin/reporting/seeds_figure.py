"""Figure of several seeds: mean curves of the score (such as the accuracy) with intervals, and the
difference from the compared methods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedkin.analysis.repeated_runs import curves_of
from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.core.object_repr import count
from fedkin.measures.measure import Measure
from fedkin.measures.table import SCORE
from fedkin.reporting.method_styles import method_styles
from fedkin.reporting.run_figure import method_label
from fedkin.reporting.style import (
    FADED,
    draw_curve,
    headline,
    label_ends,
    measure_axis,
    new_figure,
    prepare,
    round_axis,
    save_as,
)

if TYPE_CHECKING:
    from fedkin.analysis.repeated_runs import RepeatedRuns

Curves = Mapping[str, Float[np.ndarray, "S R"]]  # by method


def save(repeated: RepeatedRuns, folder: Path) -> None:
    """Write the figure of several seeds, ``figure.png`` and ``figure.svg``, into a folder.

    Raises StorageError if a file cannot be written.
    """
    save_as(lambda: draw(repeated), folder / "figure")


def draw(repeated: RepeatedRuns) -> Figure:
    """Draw the mean score of every method over the rounds. With several methods, also draw the
    difference of the first method from the others."""
    score = repeated.run_scores.of_round
    labels = {name: method_label(repeated.of(name)[0].config) for name in repeated.curves()}
    named = {labels[name]: curve for name, curve in repeated.curves().items()}
    figure = new_figure(10.5, 4.6)
    compared = len(comparable(named)) > 1
    panels = figure.subplots(1, 2 if compared else 1, squeeze=False)[0]
    every = curves_of({name: repeated.of(name) for name in repeated.curves()}, score.name, True)
    accuracies(
        panels[0],
        named,
        f"{repeated.runs[0].scored_split.capitalize()} {score.head}",
        incomplete={labels[name]: curve for name, curve in every.items()},
        score=score,
    )
    if compared:
        gains(panels[1], named, score=score)
    run = repeated.runs[0]
    headline(
        figure,
        f"{' / '.join(named)} on {run.config.data_title}: {len(run.assignment):,} clients, "
        f"{run.config.cohort} a round, {count(len(repeated.seeds), 'seed')}\n",
    )
    return figure


def accuracies(
    axes: Axes,
    curves: Curves,
    heading: str = "Test accuracy",
    incomplete: Curves | None = None,
    sample: str = "seed",
    score: Measure = SCORE,
) -> None:
    """Draw the score (such as the accuracy) of each method over the rounds that every seed has: the
    mean over the seeds, with its 95% interval.

    Args:
        axes: the panel.
        curves: scores [S, R] by method.
        heading: heading of the panel.
        incomplete: scores including rounds in which some clients have no cluster. These
            rounds are drawn pale, and the note says so.
        sample: singular noun for the S repetitions, such as ``seed``, or ``draw`` if the data are
            drawn repeatedly.
        score: the measure, which has the format of values; default: the accuracy.
    """
    note = _note(curves, incomplete, sample)
    prepare(axes, heading, note if score.direction == "higher" else f"lower is better; {note}")
    limits = (0.0, 1.0) if score.unit == "share" else (-np.inf, np.inf)
    ends = []
    styles = method_styles(curves)
    for name, curve in curves.items():
        colour, dash = styles[name].line
        every = incomplete[name] if incomplete else curve
        evaluated = _rounds(every)
        if len(evaluated) > len(_rounds(curve)):
            means = every[:, evaluated].mean(axis=0)
            axes.plot(evaluated, means, color=colour, ls=dash, lw=1.8, alpha=0.4)
        _complete_rounds(axes, curve, evaluated, colour=colour, dash=dash, limits=limits)
        # The label has the last score over all clients, if there is one.
        last = _rounds(curve)[-1:] if len(_rounds(curve)) else evaluated[-1:]
        source = curve if len(_rounds(curve)) else every
        if len(last):
            ends.append((float(source[:, last].mean()), name, colour))
    measure_axis(axes, score.unit)
    round_axis(axes, max(len(curve[0]) for curve in curves.values()) - 1)
    label_ends(axes, ends, score.text_with_unit)


def _note(curves: Curves, incomplete: Curves | None, sample: str) -> str:
    """How to read a panel of accuracies, as for the function ``accuracies``."""
    least = min(map(len, curves.values()))
    seeds = max(map(len, curves.values()))
    number = str(seeds) if least == seeds else f"{least} to {seeds}"
    mean = f"mean of {number} {sample}s" if seeds > 1 else f"one {sample}"
    partial = any(
        len(_rounds(every)) > len(_rounds(curves[name]))
        for name, every in (incomplete or {}).items()
    )
    # Methods without any round in which all clients have a cluster, for every seed.
    never = [name for name, curve in curves.items() if not len(_rounds(curve))]
    lacking = ""
    if partial:
        lacking = "; pale: rounds in which some clients have no cluster"
    elif never:
        lacking = f"; without a round that is complete in all {sample}s: {', '.join(never)}"
    return (f"{mean}; band: its 95% interval" if seeds >= LEAST_SEEDS else mean) + lacking


def _rounds(curve: Float[np.ndarray, "S R"]) -> Int[np.ndarray, "r"]:
    """The rounds in which every seed has a value."""
    return np.flatnonzero(np.isfinite(curve).all(axis=0))


def _complete_rounds(
    axes: Axes,
    curve: Float[np.ndarray, "S R"],
    evaluated: Int[np.ndarray, "r"],
    colour: str,
    dash: Any,
    limits: tuple[float, float],
) -> None:
    """Draw the mean of the complete rounds, in which all clients have a cluster, with its interval.

    The line is broken at other evaluated rounds. A complete round between two of them is a dot.

    Args:
        axes: the panel.
        curve: scores; NaN in other rounds.
        evaluated: the evaluated rounds.
        colour, dash: how the line looks.
        limits: lowest and highest possible value.
    """
    complete = np.isfinite(curve[:, evaluated]).all(axis=0)
    if not complete.any():
        return
    band = interval(curve[:, evaluated])
    if len(curve) >= LEAST_SEEDS:
        low = band.low.clip(*limits)
        high = band.high.clip(*limits)
        axes.fill_between(evaluated, low, high, where=complete, color=colour, alpha=0.18, lw=0)
    axes.plot(evaluated, band.mean, color=colour, ls=dash, lw=1.8, alpha=1)
    padded = np.pad(complete, 1)
    alone = complete & ~padded[:-2] & ~padded[2:]
    if alone.any() and len(evaluated) > 1:
        axes.plot(evaluated[alone], band.mean[alone], "o", color=colour, ms=4)


def gains(axes: Axes, curves: Curves, heading: str | None = None, score: Measure = SCORE) -> None:
    """Draw the mean gain of the first method over each other method in each round, with 95%
    intervals; of accuracies, in percentage points. Of errors, it is the difference, and the first
    method is better where it is negative.

    The intervals are for illustration. Significance is tested once, in the table, not in every
    round.

    Args:
        axes: the panel.
        curves: scores [S, R] by method.
        heading: heading of the panel; default: "Gain of METHOD".
        score: the measure; default: the accuracy.
    """
    ours, *others = curves
    seeds = len(curves[ours])
    note = "mean over the seeds"
    if seeds >= LEAST_SEEDS:
        note += "; band: 95% interval"
    what = "Gain" if score.direction == "higher" else "Difference"
    if score.direction == "lower":
        note += f"; below 0: {ours} is better"
    prepare(axes, heading or f"{what} of {ours}", note)
    is_share = score.unit == "share"
    factor = 100 if is_share else 1
    ends = []
    styles = method_styles(curves)
    for name in others:
        gain = factor * (curves[ours] - curves[name])  # paired by seed
        scored = np.flatnonzero(np.isfinite(gain).all(axis=0))
        if not len(scored):
            continue
        colour, dash = styles[name].line
        band = interval(gain[:, scored])
        if seeds >= LEAST_SEEDS:
            axes.fill_between(scored, band.low, band.high, color=colour, alpha=0.18, lw=0)
        draw_curve(axes, scored, band.mean, (colour, dash), width=1.8)
        word = "over" if score.direction == "higher" else "from"
        ends.append((float(band.mean[-1]), f"{word} {name}", colour))
    axes.axhline(0, color=FADED, lw=0.8)
    low, high = axes.get_ylim()
    # The axis spans at least one point, so that smaller differences look small.
    if is_share and high - low < 1:
        axes.set_ylim((low + high - 1) / 2, (low + high + 1) / 2)
    axes.set_xlim(0, len(curves[ours][0]) - 1)
    axes.set_xlabel("communication round")
    axes.set_ylabel("percentage points" if is_share else score.head)
    label_ends(axes, ends, "{:+.1f}".format if is_share else score.gain_text)


def comparable(curves: Curves) -> Curves:
    """The curves of the first method, and of the methods that can be compared with it. For these,
    there is at least one round in which both methods have an accuracy for every seed."""
    ours, *others = curves
    shared = [name for name in others if np.isfinite(curves[ours] - curves[name]).all(axis=0).any()]
    return {name: curves[name] for name in (ours, *shared)}
