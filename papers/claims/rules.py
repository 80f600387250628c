"""The rules that turn measured values into a verdict.

A claim has parts, such as its data sets. A rule judges one part from its values; all parts together
give the verdict of the claim. No verdict is typed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from papers.claims.samples import Sample
from papers.reproduction_marks import MARGIN, RATIO_MARGIN

QUARTER = 0.25  # of a printed gain, within which ours counts as equal


class Verdict(StrEnum):
    """How far a claim was reproduced."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    UNDECIDED = "undecided"
    NOT = "not"
    NOT_ATTEMPTED = "not attempted"


@dataclass(frozen=True)
class Rule:
    """When a part of a claim is reproduced: a name of a word or two, words that follow "if", and a
    function."""

    name: str
    words: str
    decide: Callable[[Sample], Verdict]

    def verdict(self, sample: Sample) -> Verdict:
        """The verdict on a part; without values it was not attempted. From one or two values, or
        from values that are not independent, it is at most "partly"."""
        if not sample.values:
            return Verdict.NOT_ATTEMPTED
        decided = self.decide(sample)
        is_whole = sample.has_interval or decided != Verdict.REPRODUCED
        return decided if is_whole else Verdict.PARTLY


@dataclass(frozen=True)
class Whole:
    """How the parts of a claim give its verdict: in words, and the share of all parts that must be
    reproduced. A claim with a part that was not attempted is reproduced only if the others are
    enough."""

    words: str
    least: float

    def verdict(self, parts: Sequence[Verdict]) -> Verdict:
        """The verdict on the claim.

        A claim without enough reproduced parts is "not" if more than half of its attempted parts
        are. Otherwise it is "partly" if as many parts are reproduced, or partly so, as are not, and
        no more than half are undecided. Else it is "undecided".
        """
        attempted = [part for part in parts if part != Verdict.NOT_ATTEMPTED]
        if not attempted:
            return Verdict.NOT_ATTEMPTED
        if parts.count(Verdict.REPRODUCED) >= self.least * len(parts):
            return Verdict.REPRODUCED
        failed = attempted.count(Verdict.NOT)
        undecided = attempted.count(Verdict.UNDECIDED)
        if 2 * failed > len(attempted):
            return Verdict.NOT
        at_least_partly = len(attempted) - failed - undecided
        is_partly = at_least_partly >= max(1, failed) and 2 * undecided <= len(attempted)
        return Verdict.PARTLY if is_partly else Verdict.UNDECIDED


EVERY = Whole("in each part", 1.0)
MOST = Whole("in more than half of the parts", 0.5 + 1e-9)


def _holds(true: bool) -> Verdict:
    return Verdict.REPRODUCED if true else Verdict.NOT


def _side(low: float, high: float) -> Verdict:
    """Whether an interval lies above 0, below 0 or on both sides. An interval that is only 0 is
    not above it."""
    if low > 0:
        return Verdict.REPRODUCED
    return Verdict.UNDECIDED if low < 0 < high else Verdict.NOT


def _above(sample: Sample) -> Verdict:
    low, high = sample.bounds
    return _side(low, high)


def _below(sample: Sample) -> Verdict:
    low, high = sample.bounds
    return _side(-high, -low)


def _not_behind(sample: Sample) -> Verdict:
    low, high = sample.bounds
    return _side(low + MARGIN, high + MARGIN)


ABOVE = Rule("above 0", "the 95% interval lies above 0 (0 inside: undecided)", _above)
BELOW = Rule("below 0", "the 95% interval lies below 0 (0 inside: undecided)", _below)
NOT_BEHIND = Rule(
    f"above -{MARGIN}",
    f"the 95% interval lies above -{MARGIN} points (-{MARGIN} inside: undecided)",
    _not_behind,
)


def gain(printed: float) -> Rule:
    """Side and size of a printed difference; only the side: partly; an interval with both 0 and the
    printed difference: undecided.

    Args:
        printed: the difference in the paper, not 0.
    """

    def decide(sample: Sample) -> Verdict:
        low, high = sample.bounds
        if not (low > 0 if printed > 0 else high < 0):
            has_both = low < 0 < high and low <= printed <= high
            return Verdict.UNDECIDED if has_both else Verdict.NOT
        distance = abs(sample.mean - printed)
        near = distance <= max(MARGIN, QUARTER * abs(printed))
        return Verdict.REPRODUCED if near else Verdict.PARTLY

    return Rule(
        "size",
        "the 95% interval lies on the printed side of 0, with its mean within "
        f"{MARGIN} points or a quarter of the printed number (side alone: partly; 0 and printed "
        "inside: undecided)",
        decide,
    )


def similar(printed: float) -> Rule:
    """Two methods that a paper calls similar: no farther apart than its numbers are.

    Args:
        printed: the difference in the paper.
    """
    farthest = abs(printed) + MARGIN
    return Rule(
        "similar",
        f"the mean is as near to 0 as the printed number, or {MARGIN} points farther",
        lambda sample: _holds(abs(sample.mean) <= farthest),
    )


def ratio(printed: float) -> Rule:
    """A printed ratio, within 2%."""
    margin = RATIO_MARGIN * printed
    return Rule(
        "within 2%",
        "the mean is within 2% of the printed number",
        lambda sample: _holds(abs(sample.mean - printed) <= margin),
    )


def at_least(threshold: float) -> Rule:
    """A mean of at least a threshold, which is ours.

    Args:
        threshold: in the unit of the values.
    """
    return Rule(
        f"at least {threshold:g}",
        f"the mean is at least {threshold:g}, a threshold of ours",
        lambda sample: _holds(sample.mean >= threshold),
    )


def between(low: float, high: float) -> Rule:
    """A mean in a printed range, whose ends belong to it."""
    return Rule(
        f"{low:g} to {high:g}",
        f"the mean lies between {low:g} and {high:g}",
        lambda sample: _holds(low <= sample.mean <= high),
    )
