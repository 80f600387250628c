"""papers/claims.csv: all parts of the claims, one row a part.

It has the values behind each verdict of docs/results.md, their 95% interval, and the command that
prints the runs behind them. With ``--out`` and a new folder the command makes them again.
``pandas.read_csv("papers/claims.csv")`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from papers import claims
from papers.claims.claim import Judgement, Part
from papers.claims.samples import Sample
from papers.claims.table import measurements
from papers.number_text import at_most_four_decimals
from papers.reproduction_marks import Results
from papers.results_csv import written

COLUMNS = (
    "key",
    "paper",
    "section",
    "quote",
    "measure",
    "part",
    "row",
    "column",
    "printed",
    "mean",
    "sd",
    "lower",
    "upper",
    "seeds",
    "draws",
    "rule",
    "part_verdict",
    "why_not",
    "claim_verdict",
    "minutes",
    "command",
)
SHOWN = "shown, judges nothing"


def text(results: Mapping[str, Results]) -> str:
    """The content of the file.

    Args:
        results: stored runs, by paper.
    """
    return written(COLUMNS, _rows(results))


def _rows(results: Mapping[str, Results]) -> Iterator[dict[str, str]]:
    for key, judgement in claims.judgements(results).items():
        barred = iter(judgement.uncounted)
        for measured in measurements(judgement):
            part = measured.part
            is_judged = measured.verdict is not None
            uncounted = next(barred) if is_judged else Sample()
            yield {
                **_of_claim(key, judgement),
                **_of_part(part),
                **_values(measured.sample if measured.sample.values else uncounted),
                "part_verdict": str(measured.verdict) if is_judged else SHOWN,
            }


def _of_claim(key: str, judgement: Judgement) -> dict[str, str]:
    claim = judgement.claim
    return {
        "key": key,
        "paper": claim.paper,
        "section": claim.where,
        "quote": claim.quote,
        "measure": claim.measure,
        "claim_verdict": str(judgement.verdict),
        "minutes": f"{judgement.cost.minutes:.1f}",
        "command": judgement.command,
    }


def _of_part(part: Part) -> dict[str, str]:
    return {
        "part": f"{part.group}: {part.label}" if part.group else part.label,
        "row": "; ".join(part.rows),
        "column": "; ".join(part.columns),
        "printed": at_most_four_decimals(part.printed),
        "rule": part.rule.name,
        "why_not": part.barred,
    }


def _values(sample: Sample) -> dict[str, str]:
    if not sample.values:
        return dict.fromkeys(("mean", "sd", "lower", "upper"), "") | {"seeds": "0", "draws": "0"}
    low, high = sample.bounds if sample.has_interval else (None, None)
    return {
        "mean": at_most_four_decimals(sample.mean),
        "sd": at_most_four_decimals(sample.deviation),
        "lower": at_most_four_decimals(low),
        "upper": at_most_four_decimals(high),
        "seeds": str(sample.seeds),
        "draws": str(sample.draws),
    }
