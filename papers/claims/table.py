"""The tables of all claims and their verdicts, "one screen first", in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
SIGNS = {
    Verdict.REPRODUCED: "✓",
    Verdict.PARTLY: "~",
    Verdict.UNDECIDED: "?",
    Verdict.NOT: "✗",
    Verdict.NOT_ATTEMPTED: "",
}
LEGEND = """\
A line is a part of a claim: our mean, [its 95% interval], (the printed number), and the verdict:
✓ reproduced, ~ partly, ? undecided, ✗ not. Values are draws of the data, or seeds where there is a
single draw. Parts are points of the best accuracy; FedSim's are means over the rounds, PANM's of
the last round. Rules of a part:

* *size*: the interval is on the printed side of 0, and the mean within 1.5 points or a quarter of
  the printed number. Side alone: partly. An interval with 0 and the printed number: undecided.
* *above 0*, *below 0*, *above -1.5*: the interval is. Inside: undecided.
* *similar*: the mean is at most 1.5 points farther from 0 than the printed number.
* *within 2%*, *4 to 15*, *at least*: the mean is. All thresholds are ours.
* *all splits*, *fewer*: DBSCAN finds all three splits, OPTICS fewer.

One or two values are at most partly. So are seeds that share cohorts, (0,0) and (0.25,0.25) of
FedSim, which have no interval. A claim is **reproduced** if all its parts are (IV-B, “most”: more
than half), also the untested ones. It is **not** if more than half of the tested parts are not. It
is **partly** if as many parts are at least partly as are not, and at most half are undecided. Else
it is **undecided**. *Not attempted*: no run of the paper's size.

We chose the claims: results in abstracts, contributions and conclusions, and sentences on tables
and figures. [papers/claims.csv]({csv}) has a row a part, with the full command. Core-minutes are
those of the row's runs."""
HEAD = ("key", "claim (section)", "ours (printed)", "rule", "verdict", "core-minutes")
BREAK = "<br>"
MOST_NAMED = 5  # parts of a claim that are named, if none of them was run


def keys() -> dict[str, Claim]:
    """The claims by their keys, such as ``fedgroup-1``."""
    numbers: Counter[str] = Counter()
    found = {}
    for claim in CLAIMS:
        numbers[claim.prefix] += 1
        found[f"{claim.prefix}-{numbers[claim.prefix]}"] = claim
    return found


@dataclass(frozen=True)
class Measurement:
    """A part of a claim with its values, and its verdict; None where it judges nothing."""

    part: Part
    sample: Sample
    verdict: Verdict | None


def measurements(judgement: Judgement) -> list[Measurement]:
    """The parts of a claim, and those that are only shown.

    Args:
        judgement: of the claim.
    """
    claim = judgement.claim
    judged = zip(claim.parts, judgement.samples, judgement.verdicts, strict=True)
    shown = zip(claim.shown, judgement.shown, strict=True)
    return [
        *(Measurement(part, sample, verdict) for part, sample, verdict in judged),
        *(Measurement(part, sample, None) for part, sample in shown),
    ]


def judgements(results: Mapping[str, Results]) -> dict[str, Judgement]:
    """All claims, judged by stored runs, by their keys.

    Args:
        results: stored runs, by the name of their store.
    """
    return {key: judge(claim, results) for key, claim in keys().items()}


def counts(results: Mapping[str, Results]) -> dict[Verdict, int]:
    """How many claims have each verdict.

    Args:
        results: stored runs, by the name of their store.
    """
    found = Counter(judgement.verdict for judgement in judgements(results).values())
    return {verdict: found[verdict] for verdict in Verdict}


def counts_in_words(results: Mapping[str, Results]) -> str:
    """The counts as a part of a sentence: "9 reproduced, 8 partly, 2 not, 4 not attempted".

    Args:
        results: stored runs, by the name of their store.
    """
    return ", ".join(f"{number} {verdict}" for verdict, number in counts(results).items())


def markdown_tables(results: Mapping[str, Results]) -> str:
    """A table for each paper, a row for each of its claims.

    Args:
        results: stored runs, by the name of their store.
    """
    of_papers = groupby(judgements(results).items(), key=lambda pair: pair[1].claim.paper)
    return "\n\n".join(
        f"### {paper}\n\n{markdown(list(HEAD), [row(key, judged) for key, judged in pairs])}"
        for paper, pairs in of_papers
    )


def row(key: str, judgement: Judgement) -> list[str]:
    """The cells of a claim.

    Args:
        key: of the claim.
        judgement: of the claim.
    """
    claim = judgement.claim
    return [
        f"`{key}`",
        _words(claim),
        ours(judgement),
        claim.short_rule,
        f"**{judgement.verdict}**{_tally(judgement)}",
        _minutes(judgement.cost),
    ]


def _words(claim: Claim) -> str:
    printed = f"; printed: {claim.evidence}" if claim.evidence else ""
    return f"“{claim.quote}” ({claim.where}){printed}"


def _tally(judgement: Judgement) -> str:
    """How many parts have each verdict, where there are several."""
    found = Counter(judgement.verdicts)
    signs = [
        f"{found[verdict]} {sign}" for verdict, sign in SIGNS.items() if sign and found[verdict]
    ]
    if found[Verdict.NOT_ATTEMPTED]:
        signs.append(f"{found[Verdict.NOT_ATTEMPTED]} untested")
    is_single = len(judgement.verdicts) == 1 or judgement.verdict == Verdict.NOT_ATTEMPTED
    return "" if is_single else f": {', '.join(signs)}"


def _minutes(cost: Cost) -> str:
    minutes = f"{cost.minutes:,.0f}" if cost.minutes >= 1 else "below 1"
    return f"{minutes} (estimate)" if cost.estimated else minutes


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format_number(value, form)


def ours(judgement: Judgement, between: str = BREAK) -> str:
    """The values of all parts, the untested ones, and the numbers of seeds and draws.

    Args:
        judgement: of the claim.
        between: between two lines.
    """
    tested = [each for each in measurements(judgement) if each.sample.values]
    lines = [judgement.claim.measure, *_listed(judgement.claim, tested)]
    lines += [text for text in (_uncounted(judgement), _untested(judgement)) if text]
    if tested:
        lines.append(f"({_sizes([each.sample for each in tested])})")
    return between.join(lines)


def _listed(claim: Claim, tested: Sequence[Measurement]) -> Iterator[str]:
    """The lines of the tested parts, group by group."""
    for group, of_group in groupby(tested, key=lambda each: each.part.group):
        members = list(of_group)
        if claim.counted:
            yield (f"*{group}*: " if group else "") + _count(members)
            continue
        if group:
            yield f"*{group}*"
        yield from map(_line, members)


def _line(measured: Measurement) -> str:
    """A part: ours, the printed number, and the verdict."""
    part = measured.part
    printed = "" if part.printed is None else f" ({_number(part.printed, part.form)})"
    sign = SIGNS[measured.verdict] if measured.verdict else ""
    return f"{part.label} {value(measured.sample, part.form)}{printed} {sign}".rstrip()


def value(sample: Sample, form: str) -> str:
    """The mean, and its 95% interval where there are enough values that differ.

    Args:
        sample: with at least one value.
        form: of a number.
    """
    mean = format_number(sample.mean, form)
    if not sample.has_interval or not sample.deviation:
        return mean
    low, high = (format_number(end, form) for end in sample.bounds)
    return f"{mean} [{low}, {high}]"


def _count(members: Sequence[Measurement]) -> str:
    """In how many parts the rule holds, and the lowest and the highest value."""
    verdicts = [each.part.rule.verdict(each.sample) for each in members]
    holds = verdicts.count(Verdict.REPRODUCED)
    ordered = sorted(members, key=lambda each: each.sample.mean)
    ends = [format_number(each.sample.mean, each.part.form) for each in (ordered[0], ordered[-1])]
    name = ordered[0].part.label
    return f"✓ in {holds} of {len(members)}; {ends[0]} ({name}) to {ends[1]}"


def _uncounted(judgement: Judgement) -> str:
    """Values of runs that are no evidence, and why."""
    pairs = zip(judgement.claim.parts, judgement.uncounted, strict=True)
    barred = [(part, sample) for part, sample in pairs if sample.values]
    return "; ".join(
        f"not judged ({why}): {', '.join(_line(Measurement(*pair, None)) for pair in of_reason)}"
        for why, of_reason in groupby(barred, key=lambda pair: pair[0].barred)
    )


def _untested(judgement: Judgement) -> str:
    """The parts without any run, and why."""
    claim = judgement.claim
    parts = [
        part
        for part, verdict, barred in zip(
            claim.parts, judgement.verdicts, judgement.uncounted, strict=True
        )
        if verdict == Verdict.NOT_ATTEMPTED and not barred.values
    ]
    if not parts:
        return ""
    if len(parts) == len(claim.parts) > MOST_NAMED:
        return f"untested: all {len(parts)} ({parts[0].barred})"
    texts = []
    for why, of_reason in groupby(parts, key=lambda part: part.barred):
        names = ", ".join(dict.fromkeys(part.label for part in of_reason))
        texts.append(f"{names} ({why})" if why else names)
    return f"untested: {'; '.join(texts)}"


def _sizes(samples: Sequence[Sample]) -> str:
    """The numbers of seeds and draws of the parts that were run."""
    seeds = _span([sample.seeds for sample in samples])
    draws = _span([sample.draws for sample in samples])
    return f"{seeds} {_plural('seed', seeds)}, {draws} {_plural('draw', draws)}"


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _plural(noun: str, number: str) -> str:
    return noun if number == "1" else f"{noun}s"


def of_table(results: Mapping[str, Results], names: Sequence[str], key: str = "") -> list[str]:
    """The claims that a table judges, in sentences of Markdown; those without runs are left out.

    Args:
        results: stored runs, by the name of their store.
        names: the table's names, as ``fedkin reproduce`` knows them.
        key: of the only claim that counts; empty: all.
    """
    judged = {
        name: judge(claim, results)
        for name, claim in keys().items()
        if claim.table in names and key in ("", name)
    }
    return [
        f"{name}: {_words(judgement.claim)}: **{judgement.verdict}**{_tally(judgement)}. "
        f"{ours(judgement, between='; ')}"
        for name, judgement in judged.items()
        if judgement.verdict != Verdict.NOT_ATTEMPTED
    ]
