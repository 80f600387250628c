"""The best methods of each setting of a comparison, which are bold in its tables."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.pairwise_tests import not_worse_than_best
from fedkin.analysis.statistics import LEAST_SEEDS
from fedkin.analysis.tables import rows_of

ENOUGH_SEEDS = 10  # with fewer, tables say that the test finds only large differences
_TESTED = (
    "all that are not significantly worse than it (paired t-test over seeds, two-sided, "
    "Holm-adjusted over all pairs of a setting, 5%)"
)


def best_methods(comparison: Comparison, measure: str | None = None) -> dict[str, set[str]]:
    """By setting: the best method, and all methods that are not significantly worse.

    Args:
        comparison: the comparison.
        measure: the measure; None: the comparison's measure.
    """
    sign = comparison.measure(measure).sign
    differences = rows_of(comparison.differences(measure))
    best = {}
    for setting in comparison.settings:
        scores = comparison.scores(setting, measure)
        means = {name: _mean(values) for name, values in scores.items()}
        pairs = [row for row in differences if row["setting"] == setting]
        best[setting] = not_worse_than_best(pairs, means, sign)
    return best


def _mean(values: Float[np.ndarray, "S"]) -> float | None:
    """Mean over the seeds that have a value; None if no seed has one."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None


def bold_note(comparison: Comparison, measure: str | None = None) -> str:
    """A sentence that says what bold type means in the tables of a comparison.

    Args:
        comparison: the comparison.
        measure: the measure; None: the comparison's measure.
    """
    compared = comparison.measure(measure)
    first = f"Bold: the {compared.best_word} {compared.title}"
    seeds = max(len(comparison.runs(s, m)) for s in comparison.settings for m in comparison.methods)
    if seeds < LEAST_SEEDS:
        alone = f"; with fewer than {LEAST_SEEDS} seeds, differences are not tested"
        return f"{first}{alone if len(comparison.methods) > 1 else ''}."
    note = f"{first}, and {_TESTED}."
    if seeds < ENOUGH_SEEDS:
        note += (
            f" With {seeds} seeds the test finds only large differences, so bold type does not "
            "mean that methods are equal."
        )
    return note
