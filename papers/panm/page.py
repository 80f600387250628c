"""The page on peers without a server, docs/results-panm.md, and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from papers.panm.numbers import FROM_ROUND, runs_of
from papers.panm.recipes import (
    ABSENT,
    ALPHAS,
    BY_ALPHA,
    COMPARED,
    FEDERATIONS,
    HARDER,
    OTHER_ALPHAS,
    PANMS,
    PEERS,
    ROUNDS,
    Question,
    column_of,
    in_federation,
    name_of,
)
from papers.panm.recipes import STAGE_ONE as T1
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown, percent

CURVES = "images/peers-neighbours.svg"
BREAKS = "images/where-panm-breaks.svg"
_LIBRARY = {"PANMGrad": "PANM"}  # the library's name of a method, if it differs
AXES = {
    "images": ("Fewer images", "training images per peer"),
    "clusters": ("More clusters", "true clusters among 100 peers"),
    "alpha": ("Another alpha", "alpha: weight of a round's own updates"),
}


def methods_side_by_side(results: Results) -> str:
    """Accuracy, neighbours and traffic of every method."""
    lines = []
    for question in COMPARED:
        runs = runs_of(results, question)
        cells = [percent([r[name][-1] for r in runs]) for name in ("accuracy", "bottom_decile")]
        cells += _neighbours(runs, stage_two=question.method in PANMS)
        megabytes = [r["bytes"] / ROUNDS / PEERS / 1e6 for r in runs]
        lines.append(
            [
                question.method,
                *cells,
                f"{np.mean(megabytes):.2f}" if megabytes else "",
                str(len(runs)),
            ]
        )
    head = [
        "method",
        "accuracy",
        "bottom 10%",
        f"lowest precision from round {FROM_ROUND}",
        "precision, end",
        "recall, end",
        "MB",
        "seeds",
    ]
    return markdown(head, lines)


def _neighbours(runs: list[dict[str, Any]], stage_two: bool) -> list[str]:
    """The lowest precision from ``FROM_ROUND`` on, precision and recall at the end; empty for
    methods without neighbours."""
    if not runs or runs[0]["neighbour_precision"][-1] is None:
        return ["", "", ""]
    lowest = [min(p for p in r["neighbour_precision"][FROM_ROUND:] if p is not None) for r in runs]
    ends = [[r[f"neighbour_{name}"][-1] for r in runs] for name in ("precision", "recall")]
    return [
        f"{np.floor(1000 * min(lowest)) / 1000:.3f}" if stage_two else "",
        *(f"{np.mean(end):.3f}" for end in ends),
    ]


def federations(results: Results) -> str:
    """Other data and other planted clusters: accuracy, and the precision and recall of PANM at the
    end."""
    columns = (*PANMS, "oracle", "gossip", "local")
    lines = []
    for place in FEDERATIONS:
        lines.append(
            [
                name_of(place),
                *(_federation(results, in_federation(place, method)) for method in columns),
            ]
        )
    head = ["", *(f"{name}<br>precision / recall" if name in PANMS else name for name in columns)]
    return markdown(head, lines)


def other_alphas(results: Results) -> str:
    """PANMGrad by the weight of a round's updates: accuracy, precision and recall at the end."""
    alphas = sorted((*ALPHAS, Question.alpha))
    lines = []
    for place in BY_ALPHA:
        cells = [_federation(results, in_federation(place, "PANMGrad", alpha)) for alpha in alphas]
        lines.append([name_of(place), *cells])
    return markdown(["", *(f"alpha {alpha:g}<br>precision / recall" for alpha in alphas)], lines)


def _federation(results: Results, question: Question) -> str:
    """Accuracy, and of PANM the precision and recall at the end."""
    runs = runs_of(results, question)
    numbers = (
        f"<br>{' / '.join(_neighbours(runs, False)[1:])}"
        if runs and question.method in PANMS
        else ""
    )
    return percent([r["accuracy"][-1] for r in runs]) + numbers


def missing_peers(results: Results) -> str:
    """Peers that drop out, never reply, come late or leave."""
    lines = []
    questions = [
        Question("absent", method, absent=who) for who in filter(None, ABSENT) for method in PANMS
    ]
    for question in (*questions, *(q for q in OTHER_ALPHAS if q.panel == "absent")):
        runs = runs_of(results, question)
        label = question.absent.replace("answer", "reply")
        accuracy = percent([r["accuracy"][-1] for r in runs])
        lines.append(
            [label, column_of(question), accuracy, *_neighbours(runs, False)[1:], str(len(runs))]
        )
    return markdown(
        ["peers", "method", "accuracy", "precision, end", "recall, end", "seeds"], lines
    )


def draw(results: Results, docs: Path) -> None:
    """Write both figures into ``docs/images``."""
    import matplotlib
    from matplotlib.figure import Figure

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        for name, axes in zip(
            ("precision", "recall"), figure.subplots(1, 2, sharey=True), strict=True
        ):
            _curves(results, name, axes)
        write(figure, docs / CURVES)
        figure = Figure(figsize=(10.5, 3.8), layout="constrained")
        for panel, axes in zip(AXES, figure.subplots(1, len(AXES), sharey=True), strict=True):
            _breaks(results, panel, axes)
        write(figure, docs / BREAKS)


def _curves(results: Results, name: str, axes: Any) -> None:
    """Precision or recall over the rounds, a line a method, mean over the seeds."""
    from fedkin.reporting.method_styles import method_styles
    from fedkin.reporting.style import FADED, prepare

    prepare(
        axes, f"Neighbours: {name}", f"mean over seeds; vertical line: stage two starts (T1 = {T1})"
    )
    shown = [q for q in COMPARED if q.method in (*PANMS, "PENS")]
    styles = method_styles(_LIBRARY.get(q.method, q.method) for q in shown)
    for question in shown:
        colour, dash = styles[_LIBRARY.get(question.method, question.method)].line
        curves = [r[f"neighbour_{name}"] for r in runs_of(results, question)]
        if curves:
            mean = np.array(
                [[np.nan if v is None else v for v in curve] for curve in curves], float
            ).mean(axis=0)
            axes.plot(mean, color=colour, ls=dash, lw=1.8, label=question.method)
    axes.axvline(T1, color=FADED, lw=0.8, zorder=0.5)
    axes.set_xlabel("round")
    axes.set_ylim(-0.03, 1.05)
    if name == "recall" and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8.5, loc="center right")


def _breaks(results: Results, panel: str, axes: Any) -> None:
    """Precision (strong) and recall (thin) at the end, mean over the seeds, by the setting that
    makes the task harder."""
    from fedkin.reporting.method_styles import method_style
    from fedkin.reporting.style import prepare

    heading, label = AXES[panel]
    prepare(axes, heading, "precision (strong) and recall (thin) at the end")
    for method in PANMS:
        colour = method_style(_LIBRARY.get(method, method)).light
        selected = [
            q for q in (*HARDER, *COMPARED) if q.panel in (panel, "compared") and q.method == method
        ]
        selected = [q for q in selected if panel != "alpha" or q.method == "PANMGrad"]
        numbers = sorted(
            (getattr(q, panel), runs_of(results, q)) for q in selected if runs_of(results, q)
        )
        for name, width in (("precision", 2.2), ("recall", 0.9)):
            ends = [np.mean([run[f"neighbour_{name}"][-1] for run in runs]) for _, runs in numbers]
            if numbers:
                series = method if name == "precision" else None
                axes.plot(
                    [at for at, _ in numbers],
                    ends,
                    "o-",
                    color=colour,
                    lw=width,
                    ms=3.5,
                    label=series,
                )
    axes.set_xlabel(label)
    axes.set_ylim(-0.03, 1.05)
    if panel == "images" and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="lower right")
