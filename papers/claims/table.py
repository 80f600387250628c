"""The table of all claims and their verdicts, "one screen first", in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from papers.claims import athena, fedgroup, fedsim, flexcfl, panm
from papers.claims.claim import Claim, Cost, Judgement, Part, judge
from papers.claims.rules import Verdict
from papers.claims.samples import Sample
from papers.number_text import format_number
from papers.reproduction_marks import Results
from papers.tables_markdown import markdown

CLAIMS: tuple[Claim, ...] = (
    *fedgroup.CLAIMS,
    *flexcfl.CLAIMS,
    *fedsim.CLAIMS,
    *athena.CLAIMS,
    *panm.CLAIMS,
)
LEGEND = (
    "Gains and differences are percentage points of the best accuracy; FedSim's are means over the "
    "rounds, and PANM's are of the last round. A gain over both is over the better baseline. ± is "
    "the standard deviation over draws of the data, or over seeds of a single draw. A claim is "
    "judged in parts, such as data sets, by runs of the paper's full size. *Reproduced*: all parts "
    "are (“most”: more than half). *Undecided*: most intervals allow both answers. *Partly*: at "
    "least half of the decided parts are reproduced or partly so, such as the printed sign with "
    "another size. One or two values are never more than "
    "*partly*. Not attempted: without full-size runs. `papers.claims.rules()` prints the rule of "
    "each claim. Core-minutes are those of all runs of the row. With `--stored`, a command prints "
    "the stored runs and makes none."
)
UNTESTED = "untested"  # a part that was not attempted
HEAD = ("claim (paper, section)", "printed", "ours (mean±SD)", "verdict", "core-minutes", "command")


def judgements(results: Mapping[str, Results]) -> list[Judgement]:
    """All claims, judged by stored runs.

    Args:
        results: stored runs, by the name of their store.
    """
    return [judge(claim, results) for claim in CLAIMS]


def counts(results: Mapping[str, Results]) -> dict[Verdict, int]:
    """How many claims have each verdict.

    Args:
        results: stored runs, by the name of their store.
    """
    found = Counter(judgement.verdict for judgement in judgements(results))
    return {verdict: found[verdict] for verdict in Verdict}


def counts_in_words(results: Mapping[str, Results]) -> str:
    """The counts as a part of a sentence: "9 reproduced, 8 partly, 2 not, 4 not attempted".

    Args:
        results: stored runs, by the name of their store.
    """
    return ", ".join(f"{number} {verdict}" for verdict, number in counts(results).items())


def markdown_table(results: Mapping[str, Results]) -> str:
    """A row for each claim: its words, the printed evidence, ours, the verdict, cost and command.

    Args:
        results: stored runs, by the name of their store.
    """
    return markdown(list(HEAD), [row(judgement) for judgement in judgements(results)])


def rules() -> str:
    """The rule of each claim, as a Markdown list."""
    return "\n".join(f"* {_words(claim)}: {claim.rule}" for claim in CLAIMS)


def row(judgement: Judgement) -> list[str]:
    """The cells of a claim.

    Args:
        judgement: of the claim.
    """
    claim = judgement.claim
    return [
        _words(claim),
        f"{claim.measure}: {claim.evidence or _printed(claim)}",
        _ours(judgement),
        str(judgement.verdict),
        _minutes(judgement.cost),
        f"`{judgement.command}`",
    ]


def _words(claim: Claim) -> str:
    return f"{claim.paper}, {claim.where}: “{claim.quote}”"


def _minutes(cost: Cost) -> str:
    minutes = f"{cost.minutes:,.0f}" if cost.minutes >= 1 else "below 1"
    return f"{minutes} (estimate)" if cost.estimated else minutes


def _printed(claim: Claim) -> str:
    """The paper's numbers, parts of one label separated by commas; of counted parts, the lowest and
    the highest."""
    if claim.counted:
        ends = sorted(claim.parts, key=lambda part: part.printed or 0.0)
        return " to ".join(_number(part.printed, part.form) for part in (ends[0], ends[-1]))
    groups = groupby(claim.parts, key=lambda part: part.label)
    return "; ".join(", ".join(_number(part.printed, part.form) for part in of) for _, of in groups)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format_number(value, form)


def _ours(judgement: Judgement) -> str:
    """Mean and standard deviation of each part, and the numbers of seeds and draws."""
    claim = judgement.claim
    if judgement.verdict == Verdict.NOT_ATTEMPTED:
        reasons = dict.fromkeys(part.barred for part in claim.parts if part.barred)
        return "; ".join(reasons) or "not run"
    text = _count(judgement) if claim.counted else _list(claim.parts, judgement.samples)
    if any(sample.values for sample in judgement.shown):
        text += f"; {_list(claim.shown, judgement.shown)}"
    return f"{text} ({_sizes(judgement.samples)})"


def _list(parts: Sequence[Part], samples: Sequence[Sample]) -> str:
    """Each label with the values of its parts."""
    pairs = zip(parts, samples, strict=True)
    groups = groupby(pairs, key=lambda pair: pair[0].label)
    return "; ".join(
        f"{label} {', '.join(_value(sample, part.form) for part, sample in of_label)}"
        for label, of_label in groups
    )


def _value(sample: Sample, form: str) -> str:
    """Mean and standard deviation, or that there are no runs."""
    if not sample.values:
        return UNTESTED
    mean = format_number(sample.mean, form)
    if sample.deviation is None:
        return mean
    return f"{mean}±{format_number(sample.deviation, form.removeprefix('+'))}"


def _count(judgement: Judgement) -> str:
    """How many of the attempted parts are reproduced, and the lowest and highest value."""
    attempted = [v for v in judgement.verdicts if v != Verdict.NOT_ATTEMPTED]
    holds = sum(verdict == Verdict.REPRODUCED for verdict in attempted)
    pairs = zip(judgement.claim.parts, judgement.samples, strict=True)
    ordered = sorted(
        ((part, sample) for part, sample in pairs if sample.values),
        key=lambda pair: pair[1].mean,
    )
    ends = [_value(sample, part.form) for part, sample in (ordered[0], ordered[-1])]
    return f"holds in {holds} of {len(attempted)}: {' to '.join(ends)}"


def _sizes(samples: Sequence[Sample]) -> str:
    """The numbers of seeds and draws of the parts that were attempted."""
    attempted = [sample for sample in samples if sample.values]
    seeds = _span([sample.seeds for sample in attempted])
    draws = _span([sample.draws for sample in attempted])
    return f"{seeds} {_plural('seed', seeds)}, {draws} {_plural('draw', draws)}"


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _plural(noun: str, number: str) -> str:
    return noun if number == "1" else f"{noun}s"


def of_table(results: Mapping[str, Results], names: Sequence[str]) -> list[str]:
    """The claims that a table judges, in sentences of Markdown; those without runs are left out.

    Args:
        results: stored runs, by the name of their store.
        names: the table's names, as ``fedkin reproduce`` knows them.
    """
    judged = [judge(claim, results) for claim in CLAIMS if claim.table in names]
    return [
        f"“{judgement.claim.quote}” ({judgement.claim.where}): **{judgement.verdict}**. "
        f"{judgement.claim.measure}: {_ours(judgement)}; printed: "
        f"{judgement.claim.evidence or _printed(judgement.claim)}"
        for judgement in judged
        if judgement.verdict != Verdict.NOT_ATTEMPTED
    ]
