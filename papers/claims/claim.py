"""A claim of a paper, the runs that judge it, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from papers.catalogue import tables
from papers.claims.rules import EVERY, Rule, Verdict, Whole
from papers.claims.samples import Sample
from papers.paper_tables import Table
from papers.recipe import Setting
from papers.reproduction_marks import Results
from papers.result_store import Job, Line
from papers.table_request import plain

SKIPPED = " ... "  # between two pieces of a quote
SHARED_IMAGES = ", shared images"
INFERRED = "†"  # on the page: FEMNIST, whose file had to be inferred


@dataclass(frozen=True)
class Part:
    """One measurement of a claim, such as its gain on one data set.

    Attributes:
        label: the row, as the page names it.
        rows: of the table of the claim, whose runs are measured.
        columns: of the table of the claim; the first one is the measured method.
        sample: the values from the stored runs.
        rule: of the verdict.
        group: the measured quantity, where a claim has several; parts of a group follow each other.
        printed: the paper's number; None if it prints none.
        form: of numbers in the table.
        barred: why runs of these rows are no evidence: fewer rounds, other data, missing files.
    """

    label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sample: Callable[[Results], Sample]
    rule: Rule
    group: str = ""
    printed: float | None = None
    form: str = "+.1f"
    barred: str = ""


def reason_against(setting: Setting) -> str:
    """Why runs of a recipe are no evidence on the paper's claim; empty if they are.

    Args:
        setting: of the recipe.
    """
    if setting.needs:
        return f"needs {setting.needs.partition(' (')[0]}"
    return f"only {setting.deviation}" if setting.deviation else ""


def short_name(row: str) -> str:
    """A row of a table as the page names it: ``FEMNIST†-MLP`` of ``FEMNIST-MLP, shared images``."""
    name = row.partition(": ")[0].replace(SHARED_IMAGES, "")
    return name.replace("FEMNIST", f"FEMNIST{INFERRED}").replace("(1,1)-MCLR", "(1,1)")


@dataclass(frozen=True)
class Claim:
    """A claim in the paper's words, and how it is judged.

    Attributes:
        paper: its name.
        where: section, table or figure.
        quote: the paper's words; three dots between pieces.
        table: as ``fedkin reproduce`` knows it.
        measure: the measured quantity, in a few words.
        parts: the measurements.
        whole: how the verdicts on the parts give the verdict.
        evidence: the printed evidence in words, where it is not the parts' printed numbers.
        counted: whether the table counts the parts that hold, and does not list them.
        shown: measurements that the table shows next to the parts, and that judge nothing.
    """

    paper: str
    where: str
    quote: str
    table: str
    measure: str
    parts: tuple[Part, ...]
    whole: Whole = EVERY
    evidence: str = ""
    counted: bool = False
    shown: tuple[Part, ...] = ()

    @property
    def short_rule(self) -> str:
        """The names of the rules of its parts."""
        return ", ".join(dict.fromkeys(part.rule.name for part in self.parts))

    @property
    def prefix(self) -> str:
        """The beginning of its key: the paper, as its tables are named."""
        return self.table.partition("-")[0]

    @property
    def store(self) -> str:
        """The name of the store that has its runs."""
        return tables()[self.table][0].name

    @property
    def source(self) -> Table:
        """The table of the catalogue that has its runs."""
        return tables()[self.table][1]


@dataclass(frozen=True)
class Cost:
    """The time that runs take. ``estimated``: the recipes' estimates are a part of it."""

    minutes: float
    estimated: bool


@dataclass(frozen=True)
class Judgement:
    """A claim, judged by stored runs.

    Attributes:
        claim: the claim.
        samples: the values of each part; empty where there are no runs that count.
        verdicts: on each part.
        cost: of the runs behind the evidence.
        shown: the values of each measurement that judges nothing.
        uncounted: the values of each part whose runs are no evidence, such as shortened ones; empty
            for the other parts.
    """

    claim: Claim
    samples: tuple[Sample, ...]
    verdicts: tuple[Verdict, ...]
    cost: Cost
    shown: tuple[Sample, ...] = ()
    uncounted: tuple[Sample, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim."""
        return self.claim.whole.verdict(self.verdicts)

    @property
    def command(self) -> str:
        """The command that prints the runs behind the evidence, by rows and columns, after making
        missing ones. With ``--out`` and a new folder it makes all of them again."""
        return _command(self.claim.source, evidence_jobs(self.claim, self.verdicts))


def judge(claim: Claim, results: Mapping[str, Results]) -> Judgement:
    """Judge a claim.

    Args:
        claim: the claim.
        results: stored runs, by the name of their store.
    """
    runs = results.get(claim.store, ())
    samples = tuple(Sample() if part.barred else part.sample(runs) for part in claim.parts)
    pairs = zip(claim.parts, samples, strict=True)
    verdicts = tuple(part.rule.verdict(sample) for part, sample in pairs)
    jobs = evidence_jobs(claim, verdicts)
    return Judgement(
        claim=claim,
        samples=samples,
        verdicts=verdicts,
        cost=_cost(jobs, runs),
        shown=tuple(part.sample(runs) for part in claim.shown),
        uncounted=tuple(part.sample(runs) if part.barred else Sample() for part in claim.parts),
    )


def evidence_jobs(claim: Claim, verdicts: Sequence[Verdict]) -> list[Job]:
    """The jobs that a command selects for the rows and columns of the parts that were attempted; of
    all parts where none was.

    Args:
        claim: whose parts.
        verdicts: on its parts.
    """
    pairs = zip(claim.parts, verdicts, strict=True)
    attempted = [part for part, verdict in pairs if verdict != Verdict.NOT_ATTEMPTED]
    rows = {row for part in attempted or claim.parts for row in part.rows}
    columns = {column for part in attempted or claim.parts for column in part.columns}
    return [job for job in claim.source.jobs if job.row in rows and job.column in columns]


def _cost(jobs: Sequence[Job], results: Results) -> Cost:
    """The stored time of the jobs' runs; without runs, the estimates of the recipes."""
    stored = [(job, line) for job in jobs for line in results if _is_of(job, line)]
    if stored:
        seconds = sum(line.get("seconds", job.seconds) for job, line in stored)
        estimated = any("seconds" not in line for _, line in stored)
    else:
        seconds = sum(job.seconds * len(job.seeds) for job in jobs)
        estimated = True
    return Cost(seconds / 60, estimated)


def _is_of(job: Job, line: Line) -> bool:
    return all(line.get(name) == value for name, value in job.key.items())


def _command(table: Table, jobs: Sequence[Job]) -> str:
    """The command that selects exactly these jobs."""
    rows = dict.fromkeys(job.row for job in jobs)
    columns = dict.fromkeys(job.column for job in jobs)
    in_rows = {job.column for job in table.jobs if job.row in rows}
    command = f"fedkin reproduce {table.name}"
    if set(rows) < {job.row for job in table.jobs}:
        command += f' --rows "{_listed(rows)}"'
    if set(columns) < in_rows:
        command += f' --columns "{_listed(columns)}"'
    return command


def _listed(names: Mapping[str, None]) -> str:
    """Names as they may be typed, with commas between them."""
    return ", ".join(plain(name) for name in names)
