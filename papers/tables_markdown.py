"""Cells and tables of the page in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from papers import accuracy_numbers
from papers.recipe import Cell, Setting
from papers.reproduction_marks import MARGIN, Mark, Results, figures_of, values_of

LAST_STORED = (
    "Accuracy (%) in the last round whose values are stored, which need not be the last: where "
    "accuracy varies from round to round, the two can be far apart."
)


def share(results: Results, cells: Sequence[Cell]) -> str:
    """A sentence: how many of the published cells are within the margin, in percentage points."""
    numbers = [
        n for n in accuracy_numbers.best_accuracies(results, cells) if n.mark != Mark.NO_NUMBER
    ]
    ran = [n for n in numbers if n.difference is not None]
    close = sum(n.mark == Mark.REPRODUCED for n in ran)
    above = sum(n.mark != Mark.REPRODUCED and (n.difference or 0) > 0 for n in ran)
    return (
        f"{len(ran)} of {len(numbers)} cells were run: {close} came out within {MARGIN} points of "
        f"the paper, {above} above and {len(ran) - close - above} below it."
    )


def seeds(results: Results, cells: Sequence[Cell]) -> str:
    """The number of seeds of each cell of a row."""
    counts = {len(figures_of(results, cell, "best")) for cell in cells}
    return " or ".join(str(n) for n in sorted(counts))


def accuracies(
    results: Results, cells: Sequence[Cell], figure: str, with_paper: bool = True
) -> str:
    """A table of percentages: settings down, methods across.

    Args:
        results: stored runs.
        cells: of the table.
        figure: the key in a run, such as ``best`` or ``final``.
        with_paper: show the published numbers and marks too.
    """
    rows = list(dict.fromkeys(c.setting for c in cells))
    columns = list(dict.fromkeys(c.column for c in cells))
    published = {(c.setting.row, c.column): c.published for c in cells}
    printed = {c.column for c in cells if c.published is not None}
    marks = (
        {(n.row, n.column): n.symbol for n in accuracy_numbers.best_accuracies(results, cells)}
        if with_paper
        else {}
    )

    def entry(setting: Setting, column: str) -> str:
        if (setting.row, column) not in published:
            return ""
        ours = percent(
            values_of(
                results=results, table=cells[0].table, row=setting.row, column=column, figure=figure
            )
        )
        if not with_paper or column not in printed:
            return ours
        number = published[setting.row, column]
        theirs = "none" if number is None else number
        mark = marks.get((setting.row, column))
        return f"{ours}<br>*{theirs}* {mark}" if mark else f"{ours}<br>*{theirs}*"

    of_row = {s: [c for c in cells if c.setting == s] for s in rows}
    counts = {s: seeds(results, of_row[s]) for s in rows}
    lines = [[s.row, *(entry(s, c) for c in columns), counts[s]] for s in rows if counts[s] != "0"]
    no_run = [_not_run(s, len(of_row[s])) for s in rows if counts[s] == "0"]
    parts = []
    if lines:
        parts.append(markdown(["", *columns, "seeds"], lines))
    if no_run and with_paper:
        parts.append("\n".join(["Not run yet:", "", *(f"* {row}" for row in no_run)]))
    return "\n\n".join(parts)


def _not_run(setting: Setting, cells: int) -> str:
    """A row without runs: its cells, the time of its runs by the recipe's estimate, and data that
    are missing."""
    hours = setting.seconds * len(setting.seeds) * cells / 3600
    time = f"about {hours:.0f} h" if hours >= 1 else "less than an hour"
    needs = f"; needs {setting.needs}, which cannot be distributed" if setting.needs else ""
    return f"{setting.row} ({cells} cells, {time}{needs})"


def by_classes(
    results: Results,
    published: Mapping[str, Sequence[float | int]],
    distance: str,
    column: str = "FedAvg",
) -> str:
    """Table I of FedGroup and FlexCFL: FedAvg's clients with more and more classes.

    Args:
        results: stored runs.
        published: the paper's numbers by classes per client.
        distance: the figure that measures how far solutions are apart: ``discrepancy`` or
            ``distance``.
        column: which runs.
    """
    forms: list[Callable[[list], str]] = [
        mean_and_range,
        mean_and_range,
        percent,
        percent,
        mean_and_range,
    ]
    marks = {
        (n.row, n.column): n.symbol
        for n in accuracy_numbers.by_classes(results, published, distance, column)
    }
    rows = []
    for classes, printed in published.items():
        row = [classes]
        for statistic, form, theirs in zip(
            accuracy_numbers.STATISTICS, forms, printed, strict=True
        ):
            values = values_of(
                results=results,
                table="I",
                row=classes,
                column=column,
                figure=statistic.figure.format(distance=distance),
            )
            mark = marks[classes, statistic.label]
            row.append(f"{form(values)}<br>*{theirs}* {mark}".rstrip())
        best = values_of(results=results, table="I", row=classes, column=column, figure="best")
        rows.append([*row, str(len(best))])
    labels = [statistic.label for statistic in accuracy_numbers.STATISTICS]
    return markdown(["classes", *labels, "seeds"], rows)


def global_models(results: Results, cells: Sequence[Cell]) -> str:
    """Accuracies of the cluster models and of their simple mean, the auxiliary global model, in the
    last stored round.

    Args:
        results: stored runs.
        cells: their runs store curves; cells of a method without clusters have no line.
    """
    lines = []
    for cell in cells:
        clusters = figures_of(results, cell, "accuracy")
        together = figures_of(results, cell, "global_accuracy")
        if together:
            ends = [percent([curve[-1] for curve in curves]) for curves in (clusters, together)]
            last = 1 + (len(together[0]) - 1) * figures_of(results, cell, "every")[0]
            lines.append(
                [
                    cell.setting.row,
                    cell.column,
                    *ends,
                    f"{last} of {cell.setting.rounds}",
                    str(len(together)),
                ]
            )
    head = ["", "", "cluster models", "auxiliary global model", "round", "seeds"]
    return f"{LAST_STORED}\n\n{markdown(head, lines)}" if lines else "not run"


def percent(values: list) -> str:
    """Mean and range, in percent; a run without a complete round has no best."""
    values = [value for value in values if value is not None]
    if not values:
        return "not run"
    shown = f"**{100 * mean(values):.1f}**"
    return (
        shown
        if len(values) == 1
        else f"{shown} ({100 * min(values):.1f} - {100 * max(values):.1f})"
    )


def mean_and_range(values: list) -> str:
    """Mean and range. Runs that never reached the target (None) are not in the mean; the text then
    says how many runs are."""
    numbers = [v for v in values if v is not None]
    if not numbers:
        return "not run" if not values else "**never**"
    if len(values) == 1:
        return f"**{_digits(numbers[0])}**"
    of_those = f" in {len(numbers)} of {len(values)} runs" if len(numbers) < len(values) else ""
    return (
        f"**{_digits(mean(numbers))}{of_those}** ({_digits(min(numbers))} - "
        f"{_digits(max(numbers))})"
    )


def _digits(value: float | int) -> str:
    """Three significant digits, or all of a large number's."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
