"""The collective test: do the printed numbers of many cells look like one more run of ours each?

A verdict for each cell has little power: five runs give wide intervals, and 5% of the cells miss
theirs by chance. All cells together have power. Under the hypothesis that a printed number is one
more run of the same experiment, its two-sided p-value is uniform:

    t = (printed - mean) / (s sqrt(1 + 1/n)),   p = P(|T| > |t|),   T of Student with n - 1

with n runs (FedSim: draws) of ours, and their mean and standard deviation s. Then 5% of the numbers
are expected outside their 95% prediction interval; a binomial test says whether more are, and a
Kolmogorov-Smirnov test whether the p-values are uniform. Both assume that numbers are independent.
Those of one row share its data and seeds, so the tests are only nearly exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median

from papers.prediction import LEAST_RUNS, LEVEL, p_value
from papers.reproduction_marks import ComparedNumber


@dataclass(frozen=True)
class CollectiveTest:
    """The outcome for a group of printed numbers.

    Attributes:
        numbers: how many have at least ``LEAST_RUNS`` runs.
        outside: of these, how many lie outside their own 95% prediction interval.
        expected: how many are expected outside by chance.
        binomial_p: probability of as many outside, or more.
        uniform_p: of the Kolmogorov-Smirnov test that the p-values are uniform.
        median_p: the median of the p-values; above 0.5 where printed numbers are nearer to ours
            than independent runs are.
        shift: mean of ours minus printed, in percentage points.
    """

    numbers: int
    outside: int
    expected: float
    binomial_p: float
    uniform_p: float
    median_p: float
    shift: float

    @property
    def rejected(self) -> bool:
        """Whether the binomial test rejects at 5% that the printed numbers are runs of ours."""
        return self.binomial_p < LEVEL


def testable(numbers: Iterable[ComparedNumber]) -> list[ComparedNumber]:
    """The numbers with enough runs for an interval."""
    return [n for n in numbers if n.printed is not None and len(n.runs) >= LEAST_RUNS]


def without_copies(numbers: Iterable[ComparedNumber]) -> list[ComparedNumber]:
    """The numbers without copies, which are no independent evidence: the same printed number, and
    runs that are all among those of an earlier number. Numbers with too few runs all stay.

    Args:
        numbers: in the order of the pages.
    """
    kept: list[ComparedNumber] = []
    for number in numbers:
        enough = len(number.runs) >= LEAST_RUNS
        if not (enough and any(_is_copy(number, earlier) for earlier in kept)):
            kept.append(number)
    return kept


def _is_copy(number: ComparedNumber, earlier: ComparedNumber) -> bool:
    return number.printed == earlier.printed and set(number.runs) <= set(earlier.runs)


def is_outside(number: ComparedNumber) -> bool:
    """Whether the printed number lies outside the 95% prediction interval of our runs."""
    assert number.printed is not None
    return p_value(number.printed, number.runs) < LEVEL


def collective_test(numbers: Iterable[ComparedNumber]) -> CollectiveTest | None:
    """Test a group of numbers together; None if none has enough runs."""
    from scipy.stats import binom, kstest

    tested = testable(numbers)
    if not tested:
        return None
    p_values = [p_value(n.printed or 0.0, n.runs) for n in tested]
    outside = sum(p < LEVEL for p in p_values)
    return CollectiveTest(
        numbers=len(tested),
        outside=outside,
        expected=LEVEL * len(tested),
        binomial_p=float(binom.sf(outside - 1, len(tested), LEVEL)),
        uniform_p=float(kstest(p_values, "uniform").pvalue),
        median_p=median(p_values),
        shift=mean(n.exact - (n.printed or 0.0) for n in tested),
    )
