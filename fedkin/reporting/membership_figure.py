"""Figure of soft membership: each client's share of every cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fedkin.config.registry import method_title
from fedkin.reporting.style import COLOURS, FADED, headline, new_figure, prepare, save_as
from fedkin.run.metrics.soft_membership import by_largest_share, memberships
from fedkin.run.run import Run


def save(run: Run, folder: Path) -> list[Path]:
    """Write ``membership.png`` and ``membership.svg`` if membership is soft. Returns the paths."""
    if memberships(run.state) is None:
        return []
    return save_as(lambda: draw(run), folder / "membership")


def draw(run: Run) -> Figure:
    """Draw a stacked bar of cluster shares for each client that has a cluster. Clients are ordered
    by their largest share."""
    whole = memberships(run.state)
    assert whole is not None
    # Clients without a cluster have no shares.
    shares = whole[run.assignment >= 0]
    order = by_largest_share(shares)
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    prepare(
        axes,
        "Soft membership",
        "share of each cluster in a client; clients ordered by their largest share",
    )
    top = np.zeros(len(shares))
    for cluster, cluster_shares in enumerate(shares[order].T):
        axes.bar(
            np.arange(len(cluster_shares)),
            cluster_shares,
            1.0,
            bottom=top,
            color=COLOURS[cluster % len(COLOURS)],
            label=f"cluster {cluster}",
        )
        top += cluster_shares
    axes.set(
        xlim=(-0.5, max(len(shares), 1) - 0.5),
        ylim=(0, 1),
        xlabel=f"client ({len(shares)} with a cluster)",
    )
    axes.set_ylabel("share of the cluster")
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0))
    axes.set_xticks([])
    axes.axhline(0.5, color=FADED, lw=0.8, ls=(0, (4, 3)))
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    headline(figure, f"{method_title(run.config.method_name)} on {run.config.data_title}\n")
    return figure
