"""The numbers of the tables that FedGroup and FlexCFL print, beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from papers.recipe import Cell
from papers.reproduction_marks import MARGIN, POINTS, Compared, Mark, Measured, average, digits, number, of
from papers.result_store import Job


@dataclass(frozen=True)
class Statistic:
    """A column of Table I: its figure in the store, and how near ours must come."""

    label: str
    figure: str
    unit: str
    margin: Callable[[float], float]


STATISTICS = (
    Statistic("discrepancy, mean", "{distance}_mean", "discrepancy", lambda printed: printed / 10),
    Statistic("variance", "{distance}_variance", "variance", lambda printed: printed / 4),
    Statistic("best accuracy (%)", "best", POINTS, lambda printed: MARGIN),
    Statistic("median (%)", "median", POINTS, lambda printed: MARGIN),
    Statistic("rounds to 85%", "rounds_to_85", "rounds", lambda printed: 5.0),
)
RULE_BY_CLASSES = (
    "accuracies within 1.5 points; the discrepancy within a tenth, its variance within a quarter, rounds within 5 "
    "(margins of ours)"
)


def best_accuracies(measured: Measured, cells: Sequence[Cell]) -> list[Compared]:
    """The highest accuracy of a complete round, in percent, mean over the seeds: a number for each cell."""
    coded = {(c.setting.row, c.defect_of): _best(measured, c)[0] for c in cells if c.defect_of}
    found = []
    for cell in cells:
        ours, seeds = _best(measured, cell)
        row, aside = cell.setting.row, cell.setting.aside
        if cell.defect_of:
            aside = f"the authors' defect, for {cell.defect_of}"
        known = coded.get((row, cell.column))
        found.append(number(row, cell.column, cell.published, ours, as_coded=known, seeds=seeds, aside=aside))
    return found


def _best(measured: Measured, cell: Cell) -> tuple[float | None, int]:
    """Percent, and how many seeds."""
    values = of(measured, cell.table, cell.setting.row, cell.column, "best")
    mean = average(values)
    return None if mean is None else 100 * mean, len(values)


def by_classes(measured: Measured, published: Mapping[str, Sequence[float | int]], distance: str) -> list[Compared]:
    """Table I of both papers: FedAvg's clients with more and more classes, and the ``distance`` of their solutions."""
    return [
        _of_classes(measured, classes, statistic, float(printed), statistic.figure.format(distance=distance))
        for classes, numbers in published.items()
        for statistic, printed in zip(STATISTICS, numbers, strict=True)
    ]


def _of_classes(measured: Measured, classes: str, statistic: Statistic, printed: float, figure: str) -> Compared:
    values, unit = of(measured, "I", classes, "FedAvg", figure), statistic.unit
    if any(value is None for value in values):  # a run that never got there: how many rounds it needs is unknown
        gone = f"never in {sum(value is None for value in values)} of {len(values)}"
        mark = Mark.NOT_REPRODUCED
        return Compared(classes, statistic.label, digits(printed), gone, None, mark, unit, len(values))
    ours = average(values)
    ours = 100 * ours if ours is not None and unit == POINTS else ours
    margin = statistic.margin(printed)
    return number(classes, statistic.label, printed, ours, margin=margin, unit=unit, seeds=len(values))


def without_a_paper(job: Job, measured: Measured, figure: str, unit: str, times: int) -> Compared:
    """What ends a job's curve of ``figure``, mean over the seeds, where no paper prints a number."""
    runs = [line for line in measured if job.answers(line)]
    ours = average([line[figure][-1] for line in runs])
    shown = digits(None if ours is None else times * ours)
    return Compared(job.row, job.column, "", shown, None, Mark.NO_NUMBER, unit, len(runs))
