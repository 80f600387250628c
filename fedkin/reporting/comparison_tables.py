"""A comparison as files: CSV for further work, Markdown and LaTeX for reading, a picture, JSON for machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.compare.pairwise_tests import HOLDS, TOO_FEW, as_good_as_the_best
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import rows_of
from fedkin.config.comparison_grid import MEASURES
from fedkin.core.storage import write_atomic
from fedkin.reporting import comparison_figure
from fedkin.reporting.style import save_as
from fedkin.run import run_folder

MARKDOWN, LATEX = "comparison.md", "comparison.tex"
HEADS = ("final (%)", "best (%)", "worst tenth (%)", "rounds to target", "MB down / up", "seconds")
Row = dict[str, Any]


def write(comparison: Comparison, folder: Path, measure: str | None = None) -> Path:
    """Write the tables comparison.md and comparison.tex and, where a run is finished, the figure.

    Args:
        comparison: what to show.
        folder: where to write; it need not exist.
        measure: ``final``, ``best`` or ``worst``; the comparison's own (``by``) where nothing is said.

    Returns:
        The path of comparison.md.

    Raises:
        StorageError: they cannot be written.
    """
    run_folder.make(folder)
    write_atomic(folder / MARKDOWN, markdown(comparison, measure))
    write_atomic(folder / LATEX, latex(comparison, measure))
    if comparison.found:
        save_as(lambda: comparison_figure.draw(comparison), folder / "figure")
    return folder / MARKDOWN


def cells_in_words(row: Row) -> list[str]:
    """The figures of a cell, as tables show them."""
    shares = [_percent(row, name) for name in ("final_accuracy", "best_accuracy", "bottom_decile")]
    rounds = "-" if row["rounds_to_target"] is None else f"{row['rounds_to_target']:.1f}"
    partly = f" ({row['reached']} of {row['seeds']})" if 0 < row["reached"] < row["seeds"] else ""
    sent = ["-" if row[name] is None else f"{row[name] / 1e6:.1f}" for name in ("bytes_down", "bytes_up")]
    seconds = "-" if row["seconds"] is None else f"{row['seconds']:.1f}"
    return [*shares, rounds + partly, " / ".join(sent), seconds]


def differences_in_words(comparison: Comparison, measure: str | None = None) -> list[str]:
    """One line for every difference that holds, and what became of the others, setting by setting."""
    told, rows, ranks = [], rows_of(comparison.differences(measure)), comparison.ranks(measure)
    for setting in comparison.settings:
        pairs, place = [row for row in rows if row["setting"] == setting], f"{setting}: " if setting else ""
        held = [row for row in pairs if row["verdict"] == HOLDS]
        few = sum(row["verdict"] == TOO_FEW for row in pairs)
        left = len(pairs) - len(held) - few
        told += [f"{place}{_held(row)}" for row in held]
        if few:
            told.append(f"{place}{few} of {len(pairs)} pairs have fewer than {LEAST_SEEDS} seeds in common: not tested")
        if left:
            told.append(f"{place}no difference shown between {left} of {len(pairs)} pairs")
    if len(comparison.settings) > 1 and ranks:
        ordered = sorted(ranks.items(), key=lambda one: one[1])
        told.append(f"mean rank over the settings: {'; '.join(f'{name}: {rank:.2g}' for name, rank in ordered)}")
    return told


def _held(row: Row) -> str:
    """A difference that holds, in words."""
    return (
        f"{row['method']} over {row['against']}: {100 * row['difference']:+.1f} points "
        f"({100 * row['low']:.1f} to {100 * row['high']:.1f}), p = {row['p']:.2g}"
    )


def small_print(comparison: Comparison, measure: str | None = None) -> list[str]:
    """What the numbers are."""
    finished = [len(comparison.runs(s, m)) for s in comparison.settings for m in comparison.methods]
    tested = max(finished) >= LEAST_SEEDS
    told = ["Means over the seeds of a row" + (f", with {_INTERVALS}" if tested else "") + "."]
    if tested:
        told.append(
            "All seeds share the data of their setting: intervals and tests speak for start, cohorts and batches."
        )
    told.append("Bytes and seconds are a run's; the first runs of a setting also compile.")
    highest = _NAMES[comparison.by if measure is None else measure]
    told.append(f"Bold: the highest {highest}" + (f", and {_TESTED}." if tested else "."))
    targets = [f"{target:.1%}" for setting in comparison.settings if (target := comparison.target(setting)) is not None]
    if targets:
        asked = any("target" in setting.raw.get("run", {}) for setting in comparison.grid.settings)
        what = "run.target" if asked else f"what {comparison.methods[0]} has in its last round"
        of_whom = "mean of the seeds that reached it; in brackets, where not all did, how many"
        told.append(f"Target: {what}, {' / '.join(targets)}; {of_whom}.")
    if comparison.missing:
        told.append(f"Not finished: {len(comparison.missing)} of {_asked(comparison)} runs.")
    return told


def _asked(comparison: Comparison) -> int:
    return len(comparison.settings) * len(comparison.methods) * len(comparison.seeds)


_INTERVALS = f"their 95% intervals (Student's t) where it has {LEAST_SEEDS} or more"
_TESTED = (
    "what was not shown to differ from it (paired t-test over seeds, two-tailed, Holm-adjusted over all pairs of a "
    "setting, 5%)"
)
_NAMES = {"final": "accuracy in the last round", "best": "best accuracy", "worst": "accuracy of the worst-served tenth"}


def markdown(comparison: Comparison, measure: str | None = None) -> str:
    """The table, the differences that hold and what the numbers are."""
    head = [*(["setting"] if len(comparison.settings) > 1 else []), "method", "seeds", *HEADS]
    lines = [head, ["---"] * len(head)]
    lines += [
        _named(comparison, row) + _bold(cells_in_words(row), row, strong, measure or comparison.by, "**{}**".format)
        for row, strong in strong_rows(comparison, measure)
    ]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    told = "\n".join(f"* {line}" for line in differences_in_words(comparison, measure))
    return "\n\n".join([table, told, " ".join(small_print(comparison, measure))]) + "\n"


def latex(comparison: Comparison, measure: str | None = None) -> str:
    """The table for a paper (needs the package booktabs)."""
    several = len(comparison.settings) > 1
    heads = [*(["Setting"] if several else []), "Method", "Seeds", *(head[0].upper() + head[1:] for head in HEADS)]
    lines = [
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{" + "l" * (1 + several) + "r" * (1 + len(HEADS)) + "}",
        r"\toprule",
        " & ".join(map(escaped, heads)) + r" \\",
    ]
    before = None
    for row, strong in strong_rows(comparison, measure):
        if row["setting"] != before:
            lines.append(r"\midrule")
        names = [escaped(name) for name in _named(comparison, row)]
        if several and row["setting"] == before:
            names[0] = ""
        cells = [escaped(cell).replace("±", r"$\pm$") for cell in cells_in_words(row)]
        cells = _bold(cells, row, strong, measure or comparison.by, r"\textbf{{{}}}".format)
        lines.append(" & ".join([*names, *cells]) + r" \\")
        before = row["setting"]
    notes = [f"% {line}" for line in (*small_print(comparison, measure), *differences_in_words(comparison, measure))]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *notes]) + "\n"


def escaped(text: str) -> str:
    """Text as LaTeX takes it."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    special |= {"[": "{[}", "*": "{*}"}  # at the start of a line they belong to the \\ before it
    return "".join(special.get(character, character) for character in text)


def strong_rows(comparison: Comparison, measure: str | None = None) -> list[tuple[Row, set[str]]]:
    """The rows of the table, each with the methods of its setting that are as good as the best."""
    measure = comparison.by if measure is None else measure
    rows, differences = rows_of(comparison.table()), rows_of(comparison.differences(measure))
    strong = {}
    for setting in comparison.settings:
        means = {row["method"]: row[MEASURES[measure]] for row in rows if row["setting"] == setting}
        pairs = [row for row in differences if row["setting"] == setting]
        strong[setting] = as_good_as_the_best(pairs, means)
    return [(row, strong[row["setting"]]) for row in rows]


def _named(comparison: Comparison, row: Row) -> list[str]:
    return [*([row["setting"]] if len(comparison.settings) > 1 else []), row["method"], str(row["seeds"])]


def _bold(cells: list[str], row: Row, strong: set[str], measure: str, mark: Callable[[str], str]) -> list[str]:
    """The cell that methods are told apart by, marked where its method is among the best."""
    place = list(MEASURES).index(measure)
    return [mark(cell) if i == place and row["method"] in strong else cell for i, cell in enumerate(cells)]


def _percent(row: Row, name: str) -> str:
    if row[name] is None:
        return "-"
    high = row[f"{name}_high"]
    return f"{100 * row[name]:.1f}" + ("" if high is None else f" ± {100 * (high - row[name]):.1f}")
