"""The numbers of the tables that FedGroup and FlexCFL print, and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from papers.recipe import Cell
from papers.reproduction_marks import (
    MARGIN,
    POINTS,
    ComparedNumber,
    Mark,
    Results,
    average,
    compare_number,
    digits,
    figures_of,
    values_of,
)
from papers.result_store import Job

Figure = Callable[[dict[str, Any]], float]  # of one stored run


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
    "accuracies within 1.5 points; the discrepancy within a tenth, its variance within a quarter, "
    "rounds within 5 (margins of ours)"
)


def best_accuracies(results: Results, cells: Sequence[Cell]) -> list[ComparedNumber]:
    """The highest accuracy of a complete round, in percent, mean over the seeds: a number for each
    cell."""
    numbers = []
    for cell in cells:
        runs = _percents(results, cell, "best")
        row = cell.setting.row
        seeds = figures_of(results, cell, "seed")
        variant = f"a variant of {cell.variant_of}" if cell.variant_of else ""
        deviation = "; ".join(filter(None, [variant, cell.setting.deviation]))
        numbers.append(
            compare_number(
                row,
                cell.column,
                cell.published,
                average(runs),
                seeds=len(runs),
                deviation=deviation,
                runs=runs,
                variant_of=cell.variant_of,
                draws=len({cell.setting.draw(seed) for seed in seeds}),
                last=average(_percents(results, cell, "final")),
            )
        )
    return numbers


def _percents(results: Results, cell: Cell, figure: str) -> list[float]:
    """A figure of each seed, in percent; a run without a complete round has no best."""
    values = figures_of(results, cell, figure)
    return [100 * value for value in values if value is not None]


def by_classes(
    results: Results,
    published: Mapping[str, Sequence[float | int]],
    distance: str,
    column: str = "FedAvg",
) -> list[ComparedNumber]:
    """Table I of both papers: FedAvg's clients with more and more classes, and the distance of
    their solutions.

    Args:
        results: stored runs.
        published: the paper's numbers by classes per client, in the order of STATISTICS.
        distance: which figure of the runs it is: ``discrepancy`` or ``distance``.
        column: which runs.
    """
    return [
        _of_classes(
            results=results,
            classes=classes,
            column=column,
            statistic=statistic,
            printed=float(printed),
            figure=statistic.figure.format(distance=distance),
        )
        for classes, numbers in published.items()
        for statistic, printed in zip(STATISTICS, numbers, strict=True)
    ]


def _of_classes(
    results: Results, classes: str, column: str, statistic: Statistic, printed: float, figure: str
) -> ComparedNumber:
    values = values_of(results=results, table="I", row=classes, column=column, figure=figure)
    unit = statistic.unit
    # A run that did not reach the accuracy: the rounds that it needs are unknown.
    if any(value is None for value in values):
        never = f"never in {sum(value is None for value in values)} of {len(values)}"
        mark = Mark.NOT_REPRODUCED
        return ComparedNumber(
            row=classes,
            column=statistic.label,
            published=digits(printed),
            ours=never,
            difference=None,
            mark=mark,
            unit=unit,
            seeds=len(values),
        )
    runs = [value * 100 if unit == POINTS else value for value in values]
    margin = statistic.margin(printed)
    return compare_number(
        classes,
        statistic.label,
        printed,
        average(runs),
        margin=margin,
        unit=unit,
        seeds=len(values),
        runs=runs,
    )


def figure_of_job(job: Job, results: Results, figure: Figure, unit: str) -> ComparedNumber:
    """A figure of a job's runs, mean over the seeds, where no paper prints a number.

    Args:
        job: whose runs.
        results: stored runs.
        figure: of one run.
        unit: of the number.
    """
    runs = [line for line in results if job.matches(line)]
    ours = digits(average([figure(line) for line in runs]))
    return ComparedNumber(
        row=job.row,
        column=job.column,
        published="",
        ours=ours,
        difference=None,
        mark=Mark.NO_NUMBER,
        unit=unit,
        seeds=len(runs),
    )


def last_of_curve(
    job: Job, results: Results, figure: str, unit: str, factor: int
) -> ComparedNumber:
    """The last value of a job's curve, mean over the seeds, where no paper prints a number.

    Args:
        job: whose runs.
        results: stored runs.
        figure: the key of the curve.
        unit: of the number.
        factor: by which it is multiplied, such as 100 for percent.
    """
    return figure_of_job(job, results, lambda run: factor * run[figure][-1], unit)
