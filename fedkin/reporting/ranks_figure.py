"""Critical-difference diagram of a comparison: average ranks, with bars over methods that do not
differ significantly."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedkin.analysis.ranks import Ranks
from fedkin.analysis.tables import rows_of
from fedkin.core.errors import MissingExtra
from fedkin.reporting.style import headline, new_figure


def draw(ranks: Ranks, blocks: str = "settings") -> Figure:
    """Draw the critical-difference diagram of Demsar (2006) with scikit-posthocs.

    Args:
        ranks: ranks of the methods.
        blocks: plural noun for the things over which methods are ranked, such as "settings".

    Raises:
        MissingExtra: scikit-posthocs is not installed.
    """
    diagram = _diagram()
    figure = new_figure(8.0, 1.6 + 0.22 * len(ranks.average))
    axes = figure.subplots()
    names = list(ranks.average)
    apart = pd.DataFrame(1.0, index=names, columns=names)
    for row in rows_of(ranks.pairs):
        apart.loc[row["method"], row["against"]] = row["p_nemenyi"]
        apart.loc[row["against"], row["method"]] = row["p_nemenyi"]
    drawn = diagram(ranks.average, apart, ax=axes)
    # The library orders items by a set, whose order changes between processes.
    for bar in chain.from_iterable(drawn["crossbars"]):
        bar.set_xdata(np.sort(bar.get_xdata()))
    headline(
        figure,
        f"Average ranks over {len(ranks.scores)} {blocks}: bars join methods without significant "
        f"difference (Nemenyi, 5%, critical difference {ranks.critical_difference:.2f})\n",
    )
    return figure


def _diagram() -> Callable[..., Any]:
    """The drawing function of scikit-posthocs. Raises MissingExtra if it is not installed."""
    try:
        from scikit_posthocs import critical_difference_diagram
    except ImportError as error:
        raise MissingExtra(
            "the figure of average ranks needs scikit-posthocs, which is not installed; run pip "
            "install 'fedkin[ranks]'"
        ) from error
    return critical_difference_diagram
