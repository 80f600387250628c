"""The column "worse than alone" of a comparison: the clients that each method serves worse than the
models that they train alone, which are the runs of the comparison's method ``local``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from fedkin.analysis.own_models import LOCAL, ServedWorse, served_worse
from fedkin.analysis.tables import mean_and_interval
from fedkin.config.comparison_grid import ComparisonGrid
from fedkin.measures.worse_than_alone import WORSE_THAN_ALONE
from fedkin.run.run import Run

WORSE = WORSE_THAN_ALONE.name


@runtime_checkable
class FinishedRuns(Protocol):
    """The parts of a ``Comparison`` from which the column is computed."""

    @property
    def grid(self) -> ComparisonGrid:
        """Settings, methods and seeds."""
        ...

    @property
    def finished(self) -> Mapping[tuple[str, str, int], Run]:
        """Finished runs by setting, method and seed."""
        ...

    def runs(self, setting: str, method: str) -> list[Run]:
        """The finished runs of a method in a setting, in the order of the seeds."""
        ...


def local_label(grid: ComparisonGrid) -> str | None:
    """The label of the method by which every client trains alone; None if the comparison has no
    such method."""
    return next((one.label for one in grid.methods if one.entry.get("name") == LOCAL), None)


def harm(comparison: FinishedRuns, setting: str, method: str) -> list[ServedWorse | None]:
    """For each finished run of a method in a setting, how many clients it serves worse than their
    own models. None without a finished run of ``local`` with the same seed.

    Args:
        comparison: the comparison.
        setting: the setting's label.
        method: the method's label.
    """
    local = local_label(comparison.grid)
    found = []
    for run in comparison.runs(setting, method):
        alone = comparison.finished.get((setting, local or "", run.config.seed))
        found.append(None if local is None or alone is None else served_worse(run, alone))
    return found


def harm_row(comparison: FinishedRuns, setting: str, method: str) -> dict[str, float | None]:
    """The entries of a table row: mean share of clients over the seeds and its 95% interval. They
    are None if a seed has no share.

    Args:
        comparison: the comparison.
        setting: the setting's label.
        method: the method's label.
    """
    values = [None if one is None else one.share for one in harm(comparison, setting, method)]
    return mean_and_interval(WORSE, values)
