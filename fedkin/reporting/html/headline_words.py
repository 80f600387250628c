"""Words of the report's headline about the difference of two methods, and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedkin.analysis.statistics import DECIMALS
from fedkin.measures.measure import Measure


def ends_text(interval: Mapping[str, float | None], measure: Measure) -> str:
    """The bounds of the interval of a mean, as text. If the mean is a share, they are clipped to
    [0, 1]."""
    low = interval["mean_low"] or 0.0
    high = interval["mean_high"] or 0.0
    if measure.unit == "share":
        low = max(0.0, low)
        high = min(1.0, high)
    return f"{measure.text(low)} to {measure.text(high)}"


def gain_words(row: Mapping[str, Any], measure: Measure) -> str:
    """The difference of two methods' scores as text, with its unit."""
    return f"{measure.gain_text(shown_difference(row, measure))}{measure.points}"


def less_or_more(row: Mapping[str, Any], measure: Measure) -> str:
    """The difference of two methods' errors as text: ``0.0590 more``, ``0.0590 less``."""
    difference = shown_difference(row, measure)
    return f"{measure.gain_text(abs(difference))[1:]} {'more' if difference > 0 else 'less'}"


def shown_difference(row: Mapping[str, Any], measure: Measure) -> float:
    """The difference of two methods' scores. A difference that rounds to zero becomes exactly zero,
    since a negative one would be printed as "-0.0"."""
    printed = measure.text(row["difference"])
    return 0.0 if not printed.strip("-0.,") else float(row["difference"])


def same_in_all(row: Mapping[str, Any]) -> bool:
    """Whether a difference is the same in all seeds, so that its interval is a single point (see
    ``statistics.paired_p``)."""
    return row["p"] is not None and row["high"] - row["low"] < 10.0**-DECIMALS


def over_word(row: Mapping[str, Any], measure: Measure) -> str:
    """The word before the other method: "over" for a better main method, "against" for a worse
    one."""
    return "over" if measure.sign * shown_difference(row, measure) >= 0 else "against"


def evidence_text(row: Mapping[str, Any], measure: Measure, brief: bool = False) -> str:
    """Text about the evidence for a difference of two methods: its interval and p, or that there
    are too few seeds for a test.

    Args:
        row: the row of the table of tests.
        measure: the compared measure.
        brief: whether to write only p.
    """
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    if row["p"] is None:
        return f"{seeds}: not tested"
    p = "p < 0.001" if row["p"] < 0.001 else f"p = {row['p']:.2g}"
    interval = f"95% interval {measure.gain_text(row['low'])} to {measure.gain_text(row['high'])}"
    interval = "the same in all seeds" if same_in_all(row) else interval
    return p if brief else f"{interval}, {p}, {seeds}"
