"""The tables of a comparison as Markdown and LaTeX, and its findings in words."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.latex import escaped
from fedkin.analysis.pairwise_tests import NO_SCORE, SIGNIFICANT, TOO_FEW, not_worse_than_best
from fedkin.analysis.ranks import Ranks
from fedkin.analysis.scores import is_partial
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import clusters_text, final_text, percent_and_half, rows_of
from fedkin.core.errors import MissingExtra
from fedkin.core.storage import write_atomic
from fedkin.reporting import comparison_figure, ranks_figure
from fedkin.reporting.seeds_tables import INCOMPLETE_SEED
from fedkin.reporting.style import save_as
from fedkin.run import run_folder
from fedkin.run.metrics.final import HONEST
from fedkin.run.private_runs import privacy_notes

MARKDOWN, LATEX, RANKS_LATEX = "comparison.md", "comparison.tex", "ranks.tex"
_log = logging.getLogger("fedkin")
HEADS = (
    *("final (%)", "best (%)", "bottom 10% of clients (%)"),
    *("clusters", "rounds to target", "download / upload (MB)", "seconds"),
)
VALIDATION = "best on validation (%)"  # behind them, where there are validation samples
HONEST_HEADS = ("honest clients (%)", "honest bottom 10% (%)", "honest ARI", "attackers alone (%)")  # the last ones
PLACES = {"final": 0, "best": 1, "bottom": 2, "validation": len(HEADS)}  # columns of the measures
Row = dict[str, Any]


def write(comparison: Comparison, folder: Path, measure: str | None = None) -> Path:
    """Write the tables comparison.md and comparison.tex and, where a run is finished, the figure.

    Args:
        comparison: what to show.
        folder: where to write; it need not exist.
        measure: ``final``, ``best``, ``bottom`` or ``validation``; the comparison's own (``by``) where nothing is said.

    Returns:
        The path of comparison.md.

    Raises:
        StorageError: they cannot be written.
    """
    run_folder.make_folder(folder)
    write_atomic(folder / MARKDOWN, markdown(comparison, measure))
    write_atomic(folder / LATEX, latex(comparison, measure))
    if (ranks := comparison.ranks(measure)).tested:
        _write_ranks(ranks, folder)
    if comparison.finished:
        save_as(lambda: comparison_figure.draw(comparison), folder / "figure")
    return folder / MARKDOWN


def _write_ranks(ranks: Ranks, folder: Path) -> None:
    """The table of ranks as LaTeX, and their picture where scikit-posthocs is installed."""
    write_atomic(folder / RANKS_LATEX, ranks.latex())
    try:
        save_as(lambda: ranks_figure.draw(ranks), folder / "ranks")
    except MissingExtra as error:
        _log.warning("%s", error)


def heads(comparison: Comparison) -> tuple[str, ...]:
    """What the columns are called."""
    columns = comparison.table().columns
    attacked = HONEST_HEADS if HONEST[0] in columns else ()
    return (*HEADS, *([VALIDATION] if "validation_accuracy" in columns else []), *attacked)


def cells(row: Row) -> list[str]:
    """The cells of a row, in the order of ``heads``."""
    accuracies = [final_text(row), *(percent_and_half(row, name) for name in ("best_accuracy", "bottom_decile"))]
    rounds = "-" if row["rounds_to_target"] is None else f"{row['rounds_to_target']:.1f}"
    partly = f" ({row['reached']} of {row['seeds']})" if 0 < row["reached"] < row["seeds"] else ""
    megabytes = ["-" if row[name] is None else f"{row[name] / 1e6:.1f}" for name in ("bytes_down", "bytes_up")]
    seconds = "-" if row["seconds"] is None else f"{row['seconds']:.1f}"
    chosen = [percent_and_half(row, "validation_accuracy")] if "validation_accuracy" in row else []
    attacked = _honest(row) if HONEST[0] in row else []
    return [*accuracies, clusters_text(row), rounds + partly, " / ".join(megabytes), seconds, *chosen, *attacked]


def not_run(row: Row) -> str | None:
    """Why a row has no numbers: nothing of it could be run. None of other rows."""
    return f"not run: {row['reason']}" if not row["seeds"] and row.get("reason") else None


def texts(row: Row) -> list[str]:
    """The cells of a row as ``cells`` has them; where nothing could be run the reason, in the first one."""
    numbers = cells(row)
    reason = not_run(row)
    return numbers if reason is None else [reason, *[""] * (len(numbers) - 1)]


def _honest(row: Row) -> list[str]:
    """Of a row of runs under attack: what honest clients reach, and the share of attackers alone."""
    accuracy, bottom, ari, alone = HONEST
    shares = [percent_and_half(row, name) for name in (accuracy, bottom)]
    return [*shares, "-" if row[ari] is None else f"{row[ari]:.2f}", percent_and_half(row, alone)]


def findings(comparison: Comparison, measure: str | None = None) -> list[str]:
    """One line per significant difference, and how many are not, setting by setting."""
    lines, rows, ranks = [], rows_of(comparison.differences(measure)), comparison.ranks(measure)
    for setting in comparison.settings:
        pairs, prefix = [row for row in rows if row["setting"] == setting], f"{setting}: " if setting else ""
        significant = [row for row in pairs if row["verdict"] == SIGNIFICANT]
        few = sum(row["verdict"] == TOO_FEW for row in pairs)
        without = [row for row in pairs if row["verdict"] == NO_SCORE]
        others = len(pairs) - len(significant) - few - len(without)
        lines += [f"{prefix}{_difference(row)}" for row in significant]
        if few:
            lines.append(f"{prefix}{few} of {len(pairs)} pairs share fewer than {LEAST_SEEDS} seeds: not tested")
        lines += [f"{prefix}{row['method']} and {row['against']} are not compared: {row['why']}" for row in without]
        if others:
            lines.append(f"{prefix}{others} of {len(pairs)} differences are not significant")
        lines += _agreement(comparison, setting, prefix)
    if missing := comparison.why_ranks_are_missing(measure):
        lines.append(missing)
    if len(comparison.settings) > 1 and ranks.average:
        ordered = sorted(ranks.average.items(), key=lambda one: one[1])
        tested = f" (Friedman p = {ranks.p:.2g}, critical difference {ranks.critical_difference:.2f})" * ranks.tested
        shown = "; ".join(f"{name}: {rank:.2g}" for name, rank in ordered)
        lines.append(f"mean rank over the settings{tested}: {shown}")
    return lines + _over_attacks(comparison)


def _over_attacks(comparison: Comparison) -> list[str]:
    """The worst and the mean over several settings with attacks, of each method that has a number in all of them."""
    rows = [row for row in rows_of(comparison.table()) if row.get(HONEST[0]) is not None]
    attacked = [s for s in comparison.settings if any(row["setting"] == s for row in rows)]
    lines = []
    for method in comparison.methods if len(attacked) > 1 else ():
        reached = {row["setting"]: row[HONEST[0]] for row in rows if row["method"] == method}
        if len(reached) == len(attacked):
            worst = min(reached, key=lambda setting: reached[setting])
            mean = sum(reached.values()) / len(reached)
            lines.append(
                f"{method} under {len(reached)} attacks, accuracy of honest clients: worst {100 * reached[worst]:.1f}% "
                f"({worst}), mean {100 * mean:.1f}%"
            )
    return lines


def _agreement(comparison: Comparison, setting: str, prefix: str) -> list[str]:
    """The agreement of each method's clusters with the true ones, where these are known."""
    known = {row["method"]: row.get("ari") for row in rows_of(comparison.table()) if row["setting"] == setting}
    shown = [f"{name} {ari:.2f}" for name, ari in known.items() if ari is not None]
    return [f"{prefix}agreement with the true clusters (ARI, mean over seeds): {', '.join(shown)}"] if shown else []


def _difference(row: Row) -> str:
    return (
        f"{row['method']} over {row['against']}: {100 * row['difference']:+.1f} points "
        f"({100 * row['low']:.1f} to {100 * row['high']:.1f}), p = {row['p']:.2g}"
    )


def table_notes(comparison: Comparison, measure: str | None = None) -> list[str]:
    """How to read the table: means, tests, the target."""
    finished = [len(comparison.runs(s, m)) for s in comparison.settings for m in comparison.methods]
    tested = max(finished) >= LEAST_SEEDS
    lines = ["Means over the seeds of a row" + (f", with {_INTERVALS}" if tested else "") + "."]
    if tested:
        lines.append(
            "All seeds share the data of their setting: intervals and tests are over models, cohorts, batches."
        )
    if any(is_partial(run) for run in comparison.finished.values()):
        lines.append(
            "Where clients had no cluster in the last round, its accuracies are those of the others; in brackets, the "
            "accuracy of all clients, which tests and bold type use (accuracy_all_clients in a run's summary)."
        )
    if any(row["best_accuracy"] is None and row["seeds"] for row in rows_of(comparison.table())):
        lines.append(f"{INCOMPLETE_SEED.capitalize()}.")
    lines.append("Bytes and seconds are per run; the first runs of a setting also compile.")
    highest = _NAMES[comparison.by if measure is None else measure]
    lines.append(f"Bold: the highest {highest}" + (f", and {_TESTED}." if tested else "."))
    targets = [f"{target:.1%}" for setting in comparison.settings if (target := comparison.target(setting)) is not None]
    if targets:
        configured = any("target" in setting.raw.get("run", {}) for setting in comparison.grid.settings)
        what = "run.target" if configured else f"accuracy of {comparison.methods[0]} in its last round"
        if any(run.scored_split != "test" for run in comparison.finished.values()):
            what += ", on validation samples"
        note = "mean of the seeds that reached it; in brackets, where not all did, how many"
        lines.append(f"Target: {what}, {' / '.join(targets)}; {note}.")
    private = [run.final["privacy"] for run in comparison.finished.values() if "privacy" in run.final]
    lines.extend(privacy_notes(private, bool(comparison.missing)))
    lines.extend(f"Not run: {line}." for line in comparison.partly_not_run)
    if comparison.missing:
        total = len(comparison.settings) * len(comparison.methods) * len(comparison.seeds)
        lines.append(f"Not finished: {len(comparison.missing)} of {total} runs.")
    return lines


_INTERVALS = f"their 95% intervals (Student's t) where it has {LEAST_SEEDS} or more"
_TESTED = (
    "all that do not differ significantly from it (paired t-test over seeds, two-sided, Holm-adjusted over all pairs "
    "of a setting, 5%)"
)
_NAMES = {
    "final": "accuracy in the last round",
    "best": "best accuracy",
    "bottom": "accuracy of the bottom 10% of clients",
    "validation": "best accuracy on validation samples",
}


def markdown(comparison: Comparison, measure: str | None = None) -> str:
    """The table, the findings and notes on how to read it."""
    head = [*(["setting"] if len(comparison.settings) > 1 else []), "method", "seeds", *heads(comparison)]
    lines = [head, ["---"] * len(head)]
    lines += [
        _labels(comparison, row) + _bold(texts(row), row, best, measure or comparison.by, "**{}**".format)
        for row, best in best_rows(comparison, measure)
    ]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    bullets = "\n".join(f"* {line}" for line in findings(comparison, measure))
    return "\n\n".join([table, bullets, " ".join(table_notes(comparison, measure))]) + "\n"


def latex(comparison: Comparison, measure: str | None = None) -> str:
    """The table as LaTeX, with the package booktabs."""
    several = len(comparison.settings) > 1
    named = [head[0].upper() + head[1:] for head in heads(comparison)]
    first = [*(["Setting"] if several else []), "Method", "Seeds"]
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{" + "l" * (1 + several) + "r" * (1 + len(named)) + "}",
        r"\toprule",
        " & ".join(map(escaped, [*first, *named])) + r" \\",
    ]
    before = None
    for row, best in best_rows(comparison, measure):
        if row["setting"] != before:
            lines.append(r"\midrule")
        names = [escaped(name) for name in _labels(comparison, row)]
        if several and row["setting"] == before:
            names[0] = ""
        shown = [escaped(cell) for cell in cells(row)]
        shown = _bold(shown, row, best, measure or comparison.by, r"\textbf{{{}}}".format)
        if reason := not_run(row):
            shown = [rf"\multicolumn{{{len(shown)}}}{{l}}{{{escaped(reason)}}}"]
        lines.append(" & ".join([*names, *shown]) + r" \\")
        before = row["setting"]
    notes = [f"% {line}" for line in (*table_notes(comparison, measure), *findings(comparison, measure))]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def best_rows(comparison: Comparison, measure: str | None = None) -> list[tuple[Row, set[str]]]:
    """The rows of the table, each with the methods of its setting that are not significantly worse than the best."""
    measure = comparison.by if measure is None else measure
    rows, differences = rows_of(comparison.table()), rows_of(comparison.differences(measure))
    best = {}
    for setting in comparison.settings:
        scores = comparison.scores(setting, measure)
        means = {name: _mean(values) for name, values in scores.items()}
        pairs = [row for row in differences if row["setting"] == setting]
        best[setting] = not_worse_than_best(pairs, means)
    return [(row, best[row["setting"]]) for row in rows]


def _mean(values: Float[np.ndarray, "S"]) -> float | None:
    """Mean of the seeds that have a number; None where none has."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _labels(comparison: Comparison, row: Row) -> list[str]:
    return [*([row["setting"]] if len(comparison.settings) > 1 else []), row["method"], str(row["seeds"])]


def _bold(cells: list[str], row: Row, best: set[str], measure: str, mark: Callable[[str], str]) -> list[str]:
    """The cells, that of the measure marked where its method is among the best."""
    return [mark(cell) if i == PLACES[measure] and row["method"] in best else cell for i, cell in enumerate(cells)]
