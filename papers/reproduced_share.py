"""The share of the published numbers that was reproduced: in all, and by table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

from papers import inventory
from papers.catalogue import PAPERS, Table
from papers.causes import LEAST_RUNS, MEANINGS, SHOWN, prediction_interval
from papers.reproduction_marks import DIFFERS, MARGIN, POINTS, Cause, ComparedNumber, Mark, Results
from papers.tables_markdown import markdown

CPU_SIZED = 300  # seconds of a run on two cores, at most


@dataclass(frozen=True)
class Share:
    """Counts of numbers in percentage points."""

    printed: int = 0  # in the paper
    sized: int = 0  # of these: the recipe is the paper's, and a run takes at most CPU_SIZED
    run: int = 0  # of these
    reproduced: int = 0
    code: int = 0  # of those that differ: the cause, in the order of Cause
    data: int = 0
    authors: int = 0
    spread: int = 0
    copy: int = 0
    unknown: int = 0
    above: int = 0  # of those that differ
    below: int = 0
    single_seed: int = 0  # of those run

    @property
    def shown(self) -> int:
        """Numbers that differ, with a run that gives the paper's number, or the authors' own run
        that gives ours."""
        return self.code + self.data + self.authors

    @property
    def possible(self) -> int:
        """Numbers that differ, with a cause that no run shows."""
        return self.spread + self.copy

    def __add__(self, other: Share) -> Share:
        return Share(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def share_of(table: Table, results: Results) -> Share:
    """The counts of one table."""
    countable = [number for number in table.numbers(results) if number.counts]
    small = cpu_sized(table)
    sized = [number for number in countable if number.row in small]
    ran = [number for number in sized if number.mark != Mark.NOT_RUN]
    off = [number for number in ran if number.mark in DIFFERS]
    causes = Counter(number.cause for number in off)
    return Share(
        printed=len(countable) + sum(table.without_recipe.values()),
        sized=len(sized),
        run=len(ran),
        reproduced=sum(number.mark == Mark.REPRODUCED for number in ran),
        **{str(cause): causes[cause] for cause in Cause},
        above=sum((number.difference or 0) > 0 for number in off),
        below=sum((number.difference or 0) < 0 for number in off),
        single_seed=sum(number.seeds == 1 for number in ran),
    )


def cpu_sized(table: Table) -> set[str]:
    """The rows whose runs take at most five minutes by the recipe's estimate, on data that are
    available. Measured times depend on the other work of a machine, and must not change the
    counts."""
    return {job.row for job in table.jobs if job.seconds <= CPU_SIZED and not job.needs}


def section(results: Mapping[str, Results]) -> str:
    """The section of docs/results.md on the share of reproduced numbers."""
    rows = []
    total = Share()
    incomplete = []
    for paper in PAPERS.values():
        shares = [(table, share_of(table, results.get(paper.name, []))) for table in paper.tables]
        shares = [(table, share) for table, share in shares if share.printed]
        of_paper = sum((share for _, share in shares), Share())
        rows += [_line(table.name, share) for table, share in shares]
        rows += [_line(f"**{paper.name}**", of_paper)] if shares else []
        incomplete += [table for table, _ in shares if table.without_recipe]
        total += of_paper
    rows.append(_line("**all**", total))
    return "\n\n".join(
        [
            "## How much was reproduced",
            headline(total) + not_cpu_sized(results),
            in_other_words(total)
            + agreed_once(results)
            + runs_by_outcome(results)
            + few_runs(results)
            + width_of_spread(results)
            + code_and_spread(results),
            meanings(),
            duration(results),
            markdown(HEAD, rows),
            _legend(incomplete),
            "Numbers that are not in percentage points, each by the rule of its table:",
            other_numbers(results),
        ]
    )


HEAD = (
    *("", "numbers printed", "CPU-sized", "of these run", f"within {MARGIN} points"),
    *(*(f"differs: {cause}" for cause in Cause), "above", "below", "from one seed"),
)


def headline(total: Share) -> str:
    """The share in a sentence."""
    run = (
        f" ({total.reproduced / total.run:.0%} of the {total.run} that were run)"
        if total.run
        else ""
    )
    return (
        f"**{total.reproduced} of {total.sized}** published numbers that are CPU-sized are "
        f"reproduced within {MARGIN} points{run}. For {total.shown} more, a run shows why they "
        f"differ ({total.code} code, {total.data} data, {total.authors} authors). For "
        f"{total.spread} more, the paper's number is where one more run may be (spread). "
        f"{total.copy} are printed in another row of the same table, where ours agree with them "
        f"(copy). **{total.unknown}** differ for an unknown reason. Of all that differ, "
        f"{total.above} are above the paper's number and {total.below} below. "
        f"{total.single_seed} of those run rest on a single seed."
    )


def in_other_words(total: Share) -> str:
    """The share with a shown cause, and with a possible one."""
    if not total.run:
        return ""
    shown = total.reproduced + total.shown
    either = shown + total.possible
    return (
        f"So {shown} of {total.run} ({shown / total.run:.0%}) are within {MARGIN} points or have a "
        "cause that a run shows; with the causes that our runs do not contradict they are "
        f"{either} ({either / total.run:.1%})."
    )


def not_cpu_sized(results: Mapping[str, Results]) -> str:
    """The outcomes of published numbers that were run although they are not CPU-sized. No other
    count includes them."""
    numbers = [
        number for number, sized in _countable(results) if not sized and number.mark != Mark.NOT_RUN
    ]
    if not numbers:
        return ""
    outcomes = Counter(
        str(number.cause) if number.mark in DIFFERS else f"within {MARGIN} points"
        for number in numbers
    )
    words = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    once = sum(number.seeds == 1 for number in numbers)
    return (
        f" In addition, {len(numbers)} numbers that are not CPU-sized were run, {once} of them "
        f"from a single seed: {words}."
    )


def meanings() -> str:
    """The meaning of each cause, the strongest first."""
    lines = [f"* *{cause}*: {MEANINGS[cause]}." for cause in MEANINGS]
    return "\n".join(
        ["Each number is assigned the first cause in this list that applies:", "", *lines]
    )


def agreed_once(results: Mapping[str, Results]) -> str:
    """The number of agreements that rest on one run."""
    numbers = _counted(results)
    once = sum(number.mark == Mark.REPRODUCED and number.seeds == 1 for number in numbers)
    shown = sum(
        number.cause in SHOWN and number.source is not None and number.source.seeds == 1
        for number in numbers
    )
    words = []
    if once:
        words.append(f"{once} of those within the margin")
    if shown:
        words.append(f"{shown} of the shown causes")
    return f" {' and '.join(words)} rest on one run and may be so by chance." if words else ""


def runs_by_outcome(results: Mapping[str, Results]) -> str:
    """The number of agreeing and differing numbers with few runs: differing ones were rerun
    first."""
    numbers = _counted(results)
    sides = [
        [n for n in numbers if n.mark == Mark.REPRODUCED],
        [n for n in numbers if n.mark in DIFFERS],
    ]
    agree, differ = ((sum(n.seeds < LEAST_RUNS for n in side), len(side)) for side in sides)
    if not agree[0]:
        return ""
    return (
        f" Further seeds were run first where a number differed: {agree[0]} of the {agree[1]} "
        f"numbers within the margin and {differ[0]} of the {differ[1]} that differ have fewer than "
        f"{LEAST_RUNS} runs. So agreement by chance has been tested less, and *spread* can be the "
        "cause only where these seeds were run."
    )


def few_runs(results: Mapping[str, Results]) -> str:
    """The number of unknown causes that may still turn out to be spread."""
    unknown = _of_cause(Cause.UNKNOWN, results)
    few = sum(len((number.source or number).runs) < LEAST_RUNS for number in unknown)
    have = "has" if few == 1 else "have"
    return (
        f" {few} of the unknown {have} fewer than the {LEAST_RUNS} runs that *spread* needs."
        if few
        else ""
    )


def width_of_spread(results: Mapping[str, Results]) -> str:
    """How wide the intervals behind *spread* are: a wide one contradicts little."""
    numbers = _of_cause(Cause.SPREAD, results)
    widths = [
        high - low for low, high in (prediction_interval((n.source or n).runs) for n in numbers)
    ]
    if not widths:
        return ""
    return (
        " *Spread* shows no more than that our runs do not contradict the paper's number: half of "
        f"their intervals are wider than {median(widths):.0f} points."
    )


def code_and_spread(results: Mapping[str, Results]) -> str:
    """The number of *spread* causes with the interval of a variant, and the number of these that
    our interval would not explain."""
    variants = [n for n in _of_cause(Cause.SPREAD, results) if n.source and n.source.variant_of]
    if not variants:
        return ""
    comparable = [n for n in variants if len(n.runs) >= LEAST_RUNS and n.printed is not None]
    intervals = [(n.printed or 0.0, *prediction_interval(n.runs)) for n in comparable]
    outside = sum(not low <= printed <= high for printed, low, high in intervals)
    are = "is" if len(variants) == 1 else "are"
    return (
        f" {len(variants)} of these intervals {are} not from our runs but from runs that do what "
        f"the authors' code does. For {outside} of these numbers our interval does not hold the "
        "paper's number."
    )


def duration(results: Mapping[str, Results]) -> str:
    """How long the runs behind the counted numbers took, in the row of the longest."""
    times: dict[tuple[str, str], list[float]] = {}
    for paper in PAPERS.values():
        for table in paper.tables:
            counted = {n.row for n in table.numbers([]) if n.counts} & cpu_sized(table)
            # Variants are not counted.
            jobs = [job for job in table.jobs if job.published and job.row in counted]
            places = {(job.key.get("table"), job.row, job.column) for job in jobs}
            for line in results.get(paper.name, []):
                if (
                    line.get("table"),
                    line.get("row"),
                    line.get("column"),
                ) in places and "seconds" in line:
                    times.setdefault((table.name, line["row"]), []).append(float(line["seconds"]))
    if not times:
        return ""
    (name, row), seconds = max(times.items(), key=lambda item: median(item[1]))
    return (
        f"The longest runs behind these numbers are those of {name}, {row}: "
        f"{median(seconds):.0f} seconds in the median and at most {max(seconds):.0f}, each on one "
        "core while other work ran."
    )


def _of_cause(cause: Cause, results: Mapping[str, Results]) -> list[ComparedNumber]:
    """The counted numbers of all tables that have this cause."""
    return [number for number in _counted(results) if number.cause == cause]


def _counted(results: Mapping[str, Results]) -> list[ComparedNumber]:
    """The numbers of all tables that the share is of."""
    return [number for number, sized in _countable(results) if sized]


def _countable(results: Mapping[str, Results]) -> list[tuple[ComparedNumber, bool]]:
    """The numbers of all tables at the papers' settings, and whether they are CPU-sized."""
    tables = [
        (paper.name, table, cpu_sized(table)) for paper in PAPERS.values() for table in paper.tables
    ]
    return [
        (number, number.row in small)
        for paper, table, small in tables
        for number in table.numbers(results.get(paper, []))
        if number.counts
    ]


def _line(name: str, share: Share) -> list[str]:
    return [name, *(str(getattr(share, f.name)) for f in fields(share))]


def _legend(tables: Sequence[Table]) -> str:
    """The meaning of the columns, and the numbers that are not counted."""
    without_recipe = "\n".join(
        f"* {table.name}: {', '.join(table.without_recipe)}" for table in tables
    )
    return (
        "*CPU-sized*: the recipe is the paper's, and by the recipe's estimate a run takes at most "
        "300 seconds on two quiet cores. The other printed numbers are of convolutional and "
        "recurrent networks, and of Fed-MEx. A number counts as run from one seed on. The tables "
        "of accuracies and gains on the papers' pages say how many seeds there are. Shortened "
        "runs, other data and variants of ours are shown there and not counted. FedSim's FEMNIST "
        "counts as we read the authors' logs, with three labels a client; their text has five.\n\n"
        "Printed numbers without a recipe of the paper's size:\n\n"
        f"{without_recipe}\n\n{inventory.sentence()}"
    )


def other_numbers(results: Mapping[str, Results]) -> str:
    """Numbers that are not in points: how many were run, and how many satisfy their table's
    rule."""
    lines = []
    for paper in PAPERS.values():
        for table in paper.tables:
            numbers = [
                number for number in table.numbers(results.get(paper.name, [])) if _is_other(number)
            ]
            if numbers:
                ran = [number for number in numbers if number.mark != Mark.NOT_RUN]
                reproduced = sum(number.mark == Mark.REPRODUCED for number in ran)
                lines.append(
                    [table.name, table.rule, str(len(numbers)), str(len(ran)), str(reproduced)]
                )
    return markdown(["", "rule", "numbers", "run", "hold"], lines)


def _is_other(number: ComparedNumber) -> bool:
    return number.unit != POINTS and not number.deviation and number.mark != Mark.NO_NUMBER
