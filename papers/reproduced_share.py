"""How much of what the papers print was reproduced: in all, and by table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from papers.catalogue import NO_RECIPE, PAPERS, Table
from papers.reproduction_marks import MARGIN, POINTS, Compared, Mark, Measured
from papers.result_store import seconds_of_rows
from papers.tables_markdown import markdown

CPU_SIZED = 300  # seconds of a run on two cores, at most


@dataclass(frozen=True)
class Share:
    """Counts of numbers in percentage points."""

    printed: int = 0  # in the paper
    sized: int = 0  # of these: the recipe is the paper's, and a run takes at most CPU_SIZED
    run: int = 0  # of these
    reproduced: int = 0
    defect: int = 0  # reproduced with the authors' defect only
    above: int = 0
    below: int = 0
    alone: int = 0  # of those run: from a single seed

    def __add__(self, other: Share) -> Share:
        return Share(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def share_of(table: Table, measured: Measured) -> Share:
    """What became of the numbers of a table."""
    counted = [number for number in table.compare(measured) if number.counts]
    small = cpu_sized(table, measured)
    sized = [number for number in counted if number.row in small]
    ran = [number for number in sized if number.mark != Mark.NOT_RUN]
    off = [number for number in ran if number.mark == Mark.NOT_REPRODUCED]
    return Share(
        printed=len(counted) + sum(table.beyond.values()),
        sized=len(sized),
        run=len(ran),
        reproduced=sum(number.mark == Mark.REPRODUCED for number in ran),
        defect=sum(number.mark == Mark.DEFECT for number in ran),
        above=sum((number.difference or 0) > 0 for number in off),
        below=sum((number.difference or 0) < 0 for number in off),
        alone=sum(number.seeds == 1 for number in ran),
    )


def cpu_sized(table: Table, measured: Measured) -> set[str]:
    """The rows whose runs take at most five minutes: by the median of what is stored, else by the recipe's guess."""
    return {row for row, (seconds, _) in seconds_of_rows(table.jobs, measured).items() if seconds <= CPU_SIZED}


def section(measured: Mapping[str, Measured]) -> str:
    """The top of docs/results.md."""
    rows, total, beyond = [], Share(), []
    for paper in PAPERS.values():
        shares = [(table, share_of(table, measured.get(paper.name, []))) for table in paper.tables]
        shares = [(table, share) for table, share in shares if share.printed]
        of_paper = sum((share for _, share in shares), Share())
        rows += [_line(table.name, share) for table, share in shares]
        rows += [_line(f"**{paper.name}**", of_paper)] if shares else []
        beyond += [table for table, _ in shares if table.beyond]
        total += of_paper
    rows.append(_line("**all**", total))
    return "\n\n".join(
        [
            "## How much was reproduced",
            headline(total),
            markdown(HEAD, rows),
            _explained(beyond),
            "Numbers that are not in percentage points, each by the rule of its table:",
            others(measured),
        ]
    )


HEAD = (
    *("", "numbers printed", "CPU-sized", "of these run", f"within {MARGIN} points"),
    *("needs the authors' defect", "above", "below", "from one seed"),
)


def headline(total: Share) -> str:
    """The share in a sentence."""
    run = f" ({total.reproduced / total.run:.0%} of the {total.run} that were run)" if total.run else ""
    defect = f"; {total.defect} more are with a defect of the authors' code" if total.defect else ""
    return (
        f"**{total.reproduced} of {total.sized}** published numbers that take a CPU at most five minutes a run are "
        f"reproduced within {MARGIN} points{run}{defect}. {total.above} came out above the paper's and {total.below} "
        f"below. {total.alone} of these rest on a single seed."
    )


def _line(name: str, share: Share) -> list[str]:
    return [name, *(str(getattr(share, f.name)) for f in fields(share))]


def _explained(tables: Sequence[Table]) -> str:
    """What the columns mean, and what is not counted."""
    beyond = "; ".join(f"{table.name}: {', '.join(table.beyond)}" for table in tables)
    return (
        "*CPU-sized*: the recipe is the paper's, and a run takes at most 300 seconds on two cores (the median of the "
        "row's runs in the store; the recipe's guess where none was measured). A number counts as run from one seed "
        "on; the tables below say how many there are. Shortened runs, other data and variants of ours are shown below "
        "and not counted. Printed, but not CPU-sized or not to be had: "
        f"{beyond}. {NO_RECIPE}"
    )


def others(measured: Mapping[str, Measured]) -> str:
    """Numbers that are not in points: how many were run, how many hold by their table's rule."""
    lines = []
    for paper in PAPERS.values():
        for table in paper.tables:
            found = [number for number in table.compare(measured.get(paper.name, [])) if _other(number)]
            if found:
                ran = [number for number in found if number.mark != Mark.NOT_RUN]
                held = sum(number.mark == Mark.REPRODUCED for number in ran)
                lines.append([table.name, table.rule, str(len(found)), str(len(ran)), str(held)])
    return markdown(["", "rule", "numbers", "run", "hold"], lines)


def _other(number: Compared) -> bool:
    return number.unit != POINTS and not number.aside and number.mark != Mark.NO_NUMBER
