"""Tables of a comparison as Markdown and LaTeX."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.harm import local_label
from fedkin.analysis.compare.sweep import CHOSEN, has_validation
from fedkin.analysis.latex import escaped, latex_head, tabular
from fedkin.analysis.ranks import Ranks
from fedkin.analysis.scores import is_partial
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import (
    CLUSTERS,
    TRAFFIC,
    Column,
    mean_column,
    rows_of,
    score_columns,
    value_column,
)
from fedkin.core.errors import MissingExtra
from fedkin.core.storage import write_atomic
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES
from fedkin.measures.table import MEASURES
from fedkin.measures.worse_than_alone import WORSE_THAN_ALONE
from fedkin.options.privacy.statement import privacy_notes
from fedkin.reporting import comparison_figure, ranks_figure
from fedkin.reporting.best_methods import best_methods, bold_note
from fedkin.reporting.comparison_findings import findings, variation
from fedkin.reporting.ended_runs import early_stops, unfinished_note
from fedkin.reporting.harm_notes import definition, harm_notes
from fedkin.reporting.means_table import means_table
from fedkin.reporting.seeds_tables import INCOMPLETE_SEED
from fedkin.reporting.style import save_as
from fedkin.reporting.sweep_tables import candidate_table, importance_table
from fedkin.reporting.text_table import TextTable, markdown_table
from fedkin.run.folder import run_folder
from fedkin.run.number_notes import number_notes

MARKDOWN = "comparison.md"
LATEX = "comparison.tex"
RANKS_LATEX = "ranks.tex"
_log = logging.getLogger("fedkin")
Row = dict[str, Any]


def write(comparison: Comparison, folder: Path, measure: str | None = None) -> Path:
    """Write comparison.md, comparison.tex, the LaTeX files of ``further_tables`` and, if a run is
    finished, the figure.

    Args:
        comparison: the comparison.
        folder: the folder, created if missing.
        measure: measure by which methods are compared; default: the comparison's ``by``.

    Returns:
        The path of comparison.md.

    Raises:
        StorageError: a file cannot be written.
    """
    run_folder.make_folder(folder)
    write_atomic(folder / MARKDOWN, markdown(comparison, measure))
    write_atomic(folder / LATEX, latex(comparison, measure))
    for name, table in further_tables(comparison, measure).items():
        write_atomic(folder / f"{name}.tex", table.latex(name))
    if (ranks := comparison.ranks(measure)).tested:
        _write_ranks(ranks, folder)
    if comparison.finished:
        save_as(lambda: comparison_figure.draw(comparison), folder / "figure")
    return folder / MARKDOWN


def _write_ranks(ranks: Ranks, folder: Path) -> None:
    """Write the table of ranks as LaTeX and, if scikit-posthocs is installed, the figure of
    ranks."""
    write_atomic(folder / RANKS_LATEX, ranks.latex())
    try:
        save_as(lambda: ranks_figure.draw(ranks), folder / "ranks")
    except MissingExtra as error:
        _log.warning("%s", error)


def columns(comparison: Comparison) -> list[Column]:
    """The columns of a comparison's table that follow the columns for setting, method and seeds.

    Some columns are in every table, others depend on the runs, such as those for simulated attacks.
    The user's measures come last.
    """
    names = comparison.table().columns
    scores = comparison.run_scores
    shown = [
        *score_columns(scores),
        # Without an interval, since the interval of a share over few seeds would exceed 100%.
        value_column(WORSE_THAN_ALONE),
        CLUSTERS,
        Column(MEASURES["rounds_to_target"].head, _rounds_to_target, "rounds_to_target"),
        TRAFFIC,
        value_column(MEASURES["seconds"]),
    ]
    shown += [mean_column(measure) for measure in scores.further]
    if scores.validation.name in names:
        shown.append(mean_column(scores.validation))
    if scores.names.honest in names:
        shown += [_honest_column(measure) for measure in scores.honest]
    shown += [mean_column(measure) for measure in comparison.grid.measures]
    if CHOSEN in names and has_validation(comparison):
        shown.append(Column("chosen", lambda row: row[CHOSEN] or "", CHOSEN, text=True))
    return shown


def place_of(measure: Measure, shown: Sequence[Column]) -> int:
    """Index of the column that shows the measure by which methods are compared; -1 if the table has
    no such column.

    Args:
        measure: the compared measure.
        shown: the columns.
    """
    return next((place for place, column in enumerate(shown) if column.measure == measure.name), -1)


def cells(row: Row, shown: Sequence[Column]) -> list[str]:
    """The cells of a row of the comparison's table as text, in the order of the columns."""
    return [column.cell(row) for column in shown]


def _rounds_to_target(row: Mapping[str, Any]) -> str:
    """The mean number of rounds until the target accuracy, over the seeds that reached it. If some
    seeds did not reach it, the text ends with the number that did."""
    rounds = MEASURES["rounds_to_target"].text(row["rounds_to_target"])
    partly = f" ({row['reached']} of {row['seeds']})" if 0 < row["reached"] < row["seeds"] else ""
    return rounds + partly


def _honest_column(measure: Measure) -> Column:
    """The table column of a measure over the honest clients, which are those that do not attack.
    Shares are shown with an interval, the agreement with the true clusters without one."""
    return value_column(measure) if measure.unit == "index" else mean_column(measure)


def not_run(row: Row) -> str | None:
    """The reason why all runs of a table row (a method in a setting) failed; None if some have
    finished."""
    return f"not run: {row['reason']}" if not row["seeds"] and row.get("reason") else None


def texts(row: Row, shown: Sequence[Column]) -> list[str]:
    """The cells of a row of the comparison's table, as in ``cells``. If all runs of the row's
    method failed, the first cell has the reason instead."""
    reason = not_run(row)
    return cells(row, shown) if reason is None else [reason, *[""] * (len(shown) - 1)]


def table_notes(
    comparison: Comparison, measure: str | None = None, *, results: bool = True, means: bool = True
) -> list[str]:
    """Notes below a comparison's table: means, tests, and the target.

    Args:
        comparison: the comparison.
        measure: the measure by which methods are compared; default: the comparison's measure.
        results: whether the table of results is shown; if not, without notes on bytes and target.
        means: whether it or methods x settings is shown; if not, without a note on bold type.
    """
    scores = comparison.run_scores
    lines = [_means_note(comparison)] if means else []
    if _is_tested(comparison):
        lines.append(variation(comparison))
    if any(is_partial(run) for run in comparison.finished.values()):
        head = scores.of_round.head
        plural = "accuracies" if scores == ACCURACIES else "scores"
        lines.append(
            f"If clients had no cluster in the last round, its {plural} are over the other "
            f"clients. The {head} of all clients is in brackets, and is used for tests and bold "
            f"type ({scores.all_clients.name} in a run's summary)."
        )
    if any(row[scores.best.name] is None and row["seeds"] for row in rows_of(comparison.table())):
        lines.append(f"{INCOMPLETE_SEED.capitalize()}.")
    if results:
        lines.append("Bytes and seconds are per run; the first runs of a setting also compile.")
    if means or results:
        lines.extend(number_notes(summaries_of(comparison)))
    if means:
        lines.append(bold_note(comparison, measure))
    # The table of candidates has the column only with the method ``local``.
    if results or local_label(comparison.grid):
        lines.extend(harm_notes(comparison))
    if results:
        lines.extend(_target_notes(comparison))
    private = [
        run.final["privacy"] for run in comparison.finished.values() if "privacy" in run.final
    ]
    lines.extend(privacy_notes(private, bool(comparison.missing)))
    lines.extend(f"Not run: {line}." for line in comparison.partly_not_run)
    lines.extend(early_stops(comparison))
    if comparison.missing:
        lines.append(unfinished_note(comparison))
    return lines


def summaries_of(comparison: Comparison) -> list[dict[str, Any]]:
    """The summaries of the finished runs of a comparison."""
    return [run.summary() for run in comparison.finished.values()]


def _target_notes(comparison: Comparison) -> list[str]:
    """A line about the score that "rounds to target" counts to, if there is one."""
    score = comparison.run_scores.of_round
    targets = [
        score.text_with_unit(target)
        for setting in comparison.settings
        if (target := comparison.target(setting)) is not None
    ]
    if not targets:
        return []
    configured = any("target" in setting.raw.get("run", {}) for setting in comparison.grid.settings)
    first = comparison.methods[0]
    what = "run.target" if configured else f"{score.head} of {first} in its last round"
    if any(run.scored_split != "test" for run in comparison.finished.values()):
        what += ", on validation samples"
    note = "mean over the seeds that reached it, with their number in brackets if not all did"
    return [f"Target: {what}, {' / '.join(targets)}; {note}."]


_INTERVALS = f"their 95% intervals (Student's t) if there are {LEAST_SEEDS} or more"


def markdown(comparison: Comparison, measure: str | None = None) -> str:
    """The table, the findings and the notes of a comparison as Markdown."""
    shown = columns(comparison)
    place = place_of(comparison.measure(measure), shown)
    head = [*_label_heads(comparison), *(column.head for column in shown)]
    labels = len(_label_heads(comparison)) - 1  # the last one is the number of seeds
    rows = []
    for row, best in best_rows(comparison, measure):
        row_cells = texts(row, shown)
        if row["method"] in best:
            row_cells = _bold(row_cells, place, "**{}**".format)
        rows.append([*_labels(comparison, row), *row_cells])
    bullets = "\n".join(f"* {line}" for line in findings(comparison, measure))
    notes = " ".join(table_notes(comparison, measure))
    tables = [table.markdown() for table in further_tables(comparison, measure).values()]
    return "\n\n".join([markdown_table(head, rows, labels), bullets, notes, *tables]) + "\n"


def further_tables(
    comparison: Comparison, measure: str | None = None, shortened: bool = False
) -> dict[str, TextTable]:
    """The tables that follow the table of results, by name: ``sweep``, the candidates if options
    were tuned; ``means``, methods x settings; and ``importance``, how much each option mattered.

    Args:
        comparison: the comparison.
        measure: measure by which methods are compared; default: the comparison's ``by``.
        shortened: whether to leave out candidates if there are many.
    """
    tables = {
        "sweep": candidate_table(comparison, shortened),
        "means": means_table(comparison, measure),
        "importance": importance_table(comparison, measure),
    }
    return {name: table for name, table in tables.items() if table is not None}


def latex(comparison: Comparison, measure: str | None = None) -> str:
    """The table of a comparison as LaTeX, for the package booktabs."""
    shown = columns(comparison)
    place = place_of(comparison.measure(measure), shown)
    several = len(comparison.settings) > 1
    lines: list[list[str]] = []
    before = None
    for row, best in best_rows(comparison, measure):
        begins = row["setting"] != before
        if begins and before is not None:
            lines.append([])
        names = [escaped(name) for name in _labels(comparison, row)]
        if several and not begins:
            names[0] = ""
        numbers = [escaped(cell) for cell in cells(row, shown)]
        if row["method"] in best:
            numbers = _bold(numbers, place, r"\textbf{{{}}}".format)
        if reason := not_run(row):
            numbers = [rf"\multicolumn{{{len(numbers)}}}{{l}}{{{escaped(reason)}}}"]
        lines.append([*names, *numbers])
        before = row["setting"]
    heads = [
        latex_head(head) for head in (*_label_heads(comparison), *(column.head for column in shown))
    ]
    notes = [*table_notes(comparison, measure), *findings(comparison, measure)]
    labels = len(_label_heads(comparison))
    words = [labels + place for place, column in enumerate(shown) if column.text]
    return tabular(
        heads,
        lines,
        notes,
        text_columns=(*range(labels - 1), *words),  # the last label is the number of seeds
        caption=_caption(comparison, measure),
        label="comparison",
    )


def _caption(comparison: Comparison, measure: str | None) -> str:
    """The caption of the table of results: what the numbers and bold type mean."""
    sentences = [_means_note(comparison), bold_note(comparison, measure)]
    return " ".join([*sentences, *definition(comparison)])


def _means_note(comparison: Comparison) -> str:
    """A sentence that says what the numbers in the table of results are."""
    return "Means over the seeds of a row" + (
        f", with {_INTERVALS}." if _is_tested(comparison) else "."
    )


def _is_tested(comparison: Comparison) -> bool:
    """Whether some method has enough seeds for intervals and tests."""
    finished = [len(comparison.runs(s, m)) for s in comparison.settings for m in comparison.methods]
    return max(finished) >= LEAST_SEEDS


def best_rows(comparison: Comparison, measure: str | None = None) -> list[tuple[Row, set[str]]]:
    """The rows of a comparison's table (a method in a setting), each with those methods of the
    setting that are not significantly worse than the best one."""
    best = best_methods(comparison, measure)
    return [(row, best[row["setting"]]) for row in rows_of(comparison.table())]


def _label_heads(comparison: Comparison) -> list[str]:
    """The headings of the first columns of a comparison's table: setting, method and seeds. With
    only one setting, there is no column for it."""
    return [*(["setting"] if len(comparison.settings) > 1 else []), "method", "seeds"]


def _labels(comparison: Comparison, row: Row) -> list[str]:
    """The first cells of a row in a comparison's table, below the headings of ``_label_heads``."""
    return [
        *([row["setting"]] if len(comparison.settings) > 1 else []),
        row["method"],
        str(row["seeds"]),
    ]


def _bold(cells: list[str], place: int, mark: Callable[[str], str]) -> list[str]:
    """The cells of a table row, with the cell at index ``place`` marked as bold."""
    return [mark(cell) if number == place else cell for number, cell in enumerate(cells)]
