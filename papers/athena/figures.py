"""ATHENA-FL's figures: clusters over eps, and accuracy over the rounds (Figures 1 to 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedkin.clustering.dbscan_eps import eps_ranges
from papers.athena.numbers import first_run
from papers.athena.recipes import (
    CLUSTERINGS,
    COLUMNS,
    COMBINED,
    EPS,
    HALF,
    PER_CLUSTER,
    PRETRAINING,
    SPLITS,
    TITLES,
)
from papers.reproduction_marks import Results


def draw(results: Results, docs: Path) -> None:
    """Write every figure into ``docs/images``."""
    import matplotlib

    from fedkin.reporting.style import STYLE, write

    with matplotlib.rc_context(STYLE):
        for name, figure in {
            "eps": _eps(results),
            "apart": _accuracies(
                results=results, table="Fig. 1", settings=PER_CLUSTER, columns=tuple(HALF), wide=2
            ),
            "shared": _accuracies(
                results=results, table="Fig. 2-4", settings=COMBINED, columns=COLUMNS, wide=3
            ),
        }.items():
            write(figure, docs / "images" / f"athena-{name}.svg")


def _figure(panels: int, columns: int, height: float) -> tuple[Any, Any]:
    """The given number of panels, in rows of ``columns``; remaining places stay empty."""
    from matplotlib.figure import Figure

    rows = -(-panels // columns)
    columns = min(panels, columns)
    figure = Figure(figsize=(10.5, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for empty in axes[panels:]:
        empty.set_axis_off()
    return figure, axes[:panels]


def _run(results: Results, table: str, settings: dict, columns: Sequence[str]) -> dict:
    """The settings that have a run; all where none has."""
    available = {
        key: s
        for key, s in settings.items()
        if any(first_run(results, table, s.row, name) for name in columns)
    }
    return available or settings


def _eps(results: Results) -> Any:
    """Number of clusters (noise left out) over eps, for each split, model and number of local
    epochs."""
    from fedkin.reporting.style import COLOURS, DASHES, FADED, prepare

    measured_settings = _run(results, "eps", CLUSTERINGS, [str(epochs) for epochs in PRETRAINING])
    figure, panels = _figure(len(measured_settings), len(SPLITS), 3.0)
    for (split, model), axes in zip(measured_settings, panels, strict=True):
        title = f"{split}, {'CNN' if model == 'cnn' else 'MobileNetV2'}"
        prepare(axes, title, f"clusters over eps, by local epochs; line: {EPS}")
        for epochs, colour, dash in zip(PRETRAINING, COLOURS, DASHES, strict=False):
            run = first_run(results, "eps", CLUSTERINGS[split, model].row, str(epochs))
            if run:
                ranges = eps_ranges(np.array(run["biases"], np.float64), 2)
                edges = [max(r.low, 1e-4) for r in ranges] + [1.0]
                axes.stairs(
                    [r.clusters for r in ranges],
                    edges,
                    baseline=None,
                    color=colour,
                    ls=dash,
                    label=f"{epochs}",
                )
        axes.axvline(EPS, color=FADED, lw=0.8, zorder=0.5)
        axes.set_xscale("log")
        axes.set_xlim(5e-4, 0.5)
        axes.set_ylim(0, 6)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, title="local epochs", title_fontsize=8, fontsize=8)
    return figure


def _accuracies(
    results: Results, table: str, settings: dict, columns: tuple[str, ...], wide: int
) -> Any:
    """Accuracy over the rounds of each setting."""
    from matplotlib.ticker import PercentFormatter

    from fedkin.reporting.style import COLOURS, DASHES, prepare

    measured_settings = _run(results, table, settings, columns)
    figure, panels = _figure(len(measured_settings), wide, 3.2)
    for (key, setting), axes in zip(measured_settings.items(), panels, strict=True):
        heading = key if isinstance(key, str) else f"{TITLES[key[0]]}, {key[1]}"
        prepare(axes, heading, "test accuracy of all clients, over the rounds")
        for column, colour, dash in zip(columns, COLOURS, DASHES, strict=False):
            run = first_run(results, table, setting.row, column)
            if run:
                axes.plot(run["curve"], color=colour, ls=dash, lw=1.8, label=column)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, loc="best")
    return figure
