"""FlexCFL's part of docs/results.md, and the figure of its curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from papers.flexcfl.communication import bytes_of, relative_bytes
from papers.flexcfl.recipes import COUNTED, FIGURE_6, MNIST, PRINTED_6, TABLE_I_PUBLISHED, TABLE_III, TABLE_IV
from papers.tables_markdown import Results, accuracies, by_classes, markdown, mean_and_range, percent, share, values_of

CURVES = "images/flexcfl-shift.svg"


def table_iii(results: Results) -> str:
    """No shift: best accuracies beside the paper's, and the last ones."""
    printed = [c for c in TABLE_III if not c.setting.deviation and not c.defect_of]
    return "\n\n".join(
        [
            "### Table III, no shift: best accuracy of a complete round (%)",
            f"Without the shortened runs, {share(results, printed)} 300 rounds; rounds in which some client has no "
            "cluster yet do not count.",
            accuracies(results, TABLE_III, "best"),
            "### The same runs: accuracy in the last round (%)",
            accuracies(results, TABLE_III, "final", with_paper=False),
        ]
    )


def table_iv(results: Results) -> str:
    """Shifting data: best accuracies and the last ones, the curves, and detected shifts."""
    return "\n\n".join(
        [
            "### Table IV, shifting data: best accuracy of a complete round (%)",
            share(results, TABLE_IV),
            accuracies(results, TABLE_IV, "best"),
            "### The same runs: accuracy in the last round (%)",
            accuracies(results, TABLE_IV, "final", with_paper=False),
            f"![accuracy over the rounds, MNIST-MCLR, three kinds of shift]({CURVES})",
            "### Shifts detected (swap all)",
            detected(results),
        ]
    )


def figure_6(results: Results) -> str:
    """Bytes of every method over FedAvg's."""
    return f"### Fig. 6: communication of 300 rounds, as a multiple of FedAvg's\n\n{communication(results)}"


def table_i(results: Results) -> str:
    """FedAvg's clients with more and more classes."""
    heading = "### Table I: FedAvg on MNIST-MCLR by classes per client"
    return f"{heading}\n\n{by_classes(results, TABLE_I_PUBLISHED, 'distance')}"


def detected(results: Results) -> str:
    """Of the clients whose data were swapped, how many detected it: blind to labels, and aware of them."""
    lines = []
    for row in dict.fromkeys(c.setting.row for c in TABLE_IV if c.setting.row.endswith("swap all")):
        for column in ("FlexCFL", "FlexCFL, label-aware", "IFCA-MIG"):
            names = ("moves_noticed", "shift_recall", "shift_precision")
            shares = [percent(values_of(results, "IV", row, column, name)) for name in names]
            lines.append([row, column, *shares, mean_and_range(values_of(results, "IV", row, column, "migrations"))])
    head = ["", "method", "data shifts detected (%)", "recall at the end (%)", "precision (%)", "migrations"]
    return markdown(head, lines)


def communication(results: Results) -> str:
    """Bytes of every method over FedAvg's: between server and clients, and with what servers would exchange."""
    marks = {(n.row, n.column): n.symbol for n in relative_bytes(results)}
    lines = []
    for row in dict.fromkeys(c.setting.row for c in FIGURE_6):
        base = bytes_of(results, row, "FedAvg")
        for column in COUNTED:
            ours, printed = bytes_of(results, row, column), PRINTED_6.get((row, column))
            shown = [f"**{b / a:.4g}**" if a else "not run" for a, b in zip(base, ours, strict=True)]
            lines.append([row, column, *shown, f"*{printed}* {marks[row, column]}".rstrip() if printed else ""])
    return markdown(["", "method", "with clients", "and between servers", "paper"], lines)


def draw(results: Results, docs: Path) -> None:
    """Every method's whole curve on MNIST-MCLR under the three kinds of shift: mean over the seeds, range shaded."""
    import matplotlib
    from matplotlib.figure import Figure

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 4.4), layout="constrained")
        _curves(results, figure.subplots(1, 3, sharey=True))
        write(figure, docs / CURVES)


def _curves(results: Results, panels: Any) -> None:
    """One panel per kind of shift."""
    from fedkin.reporting.style import COLOURS, DASHES, prepare

    columns = [c for c in dict.fromkeys(c.column for c in TABLE_IV) if c not in ("FeSEM", "FlexCFL, eta_g 5")]
    for axes, kind in zip(panels, ("swap all", "swap part", "incremental"), strict=True):
        prepare(axes, kind.capitalize(), "accuracy of all clients, each on its cluster's model")
        for column, colour, dash in zip(columns, COLOURS, DASHES, strict=False):
            curves = values_of(results, "IV", f"{MNIST.row}: {kind}", column, "curve")
            if curves:
                scores = np.array([[np.nan if a is None else a for a in curve] for curve in curves])
                rounds = 1 + np.arange(scores.shape[1]) * (MNIST.rounds // 100)
                axes.plot(rounds, scores.mean(axis=0), color=colour, ls=dash, lw=1.6, label=column)
                axes.fill_between(rounds, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, lw=0)
        axes.set_xlabel("communication round")
        axes.set_ylim(0.5, 1)
    panels[-1].legend(loc="lower right", frameon=False, fontsize=8.5)
