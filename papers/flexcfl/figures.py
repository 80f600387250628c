"""FlexCFL's figures; 3 (its upper row: accuracy) and 4 from the accuracies over the rounds that
every run keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from papers.classes_figure import ClassesFigure
from papers.flexcfl import eta_figures
from papers.flexcfl.figure_recipes import FIGURE_1
from papers.flexcfl.recipes import FEMNIST, MNIST, MNIST_MLP, SHIFTS, SYNTHETIC
from papers.reproduction_marks import Results, values_of

NO_SHIFT = "images/flexcfl-no-shift.svg"
SHIFTED = "images/flexcfl-shift.svg"
BY_CLASSES = ClassesFigure(
    "flexcfl", FIGURE_1, "discrepancy_mean", "discrepancy, mean over the cohort (eq. 3)"
)
FIGURE_3 = {MNIST: 0.6, MNIST_MLP: 0.6, FEMNIST: 0.3, SYNTHETIC: 0.2}  # least accuracy shown
METHODS_3 = ("FedAvg", "FedProx", "IFCA", "FeSEM", "FlexCFL", "FlexCFL, eta_g .1")
METHODS_4 = ("FedAvg", "IFCA", "FedGroup", "FlexCFL", "FlexCFL, label-aware", "IFCA-MIG")


def draw(results: Results, docs: Path) -> None:
    """Write all figures into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        write(without_shift(results), docs / NO_SHIFT)
        write(under_shift(results), docs / SHIFTED)
    eta_figures.draw(results, docs)
    BY_CLASSES.draw(results, docs)


def without_shift(results: Results) -> Any:
    """Figure 3: the methods of Table III, a panel for each of its rows. The paper has MNIST only,
    with a CNN too."""
    figure, panels = _panels(2, 2, 3.4)
    for axes, (setting, least) in zip(panels, FIGURE_3.items(), strict=True):
        _curves(
            axes=axes,
            heading=setting.row,
            results=results,
            table="III",
            row=setting.row,
            methods=METHODS_3,
        )
        axes.set_ylim(least, 1)
    _legend(figure, panels)
    return figure


def under_shift(results: Results) -> Any:
    """Figure 4: the methods of Table IV on MNIST-MCLR, a panel for each kind of shift."""
    figure, panels = _panels(1, 3, 4.4, sharey=True)
    for axes, kind in zip(panels, SHIFTS, strict=True):
        _curves(
            axes=axes,
            heading=kind.capitalize(),
            results=results,
            table="IV",
            row=f"{MNIST.row}: {kind}",
            methods=METHODS_4,
        )
        axes.set_ylim(0.5, 1)
    _legend(figure, panels)
    return figure


def _panels(rows: int, columns: int, height: float, sharey: bool = False) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel()


def _legend(figure: Any, panels: Any) -> None:
    """One legend for all panels, below them: they have the same methods."""
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False
    )


def _curves(
    axes: Any, heading: str, results: Results, table: str, row: str, methods: Sequence[str]
) -> None:
    """Each method's mean over the seeds, and their range, in the complete rounds of all of them."""
    from fedkin.reporting.method_styles import method_styles
    from fedkin.reporting.style import prepare

    runs = {
        method: values_of(results=results, table=table, row=row, column=method, figure="curve")
        for method in methods
    }
    prepare(axes, heading, f"accuracy of all clients; {_seeds(list(runs.values()))}")
    styles = method_styles(runs)
    for method, curves in runs.items():
        colour, dash = styles[method].line
        scores = np.array(
            [[np.nan if a is None else a for a in curve] for curve in curves or [[None]]]
        )
        rounds = 1 + np.arange(scores.shape[1]) * (MNIST.rounds // 100)
        axes.plot(rounds, scores.mean(axis=0), color=colour, ls=dash, lw=1.6, label=method)
        axes.fill_between(
            rounds, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, lw=0
        )
    axes.set_xlim(0, MNIST.rounds)
    axes.set_xlabel("communication round")


def _seeds(runs: Sequence[list]) -> str:
    """Number of seeds behind the mean curves of a panel."""
    counts = sorted({len(curves) for curves in runs if curves})
    if counts in ([], [1]):
        return "one seed" if counts else "not run"
    return (
        f"mean of {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds, and their "
        "range"
    )
