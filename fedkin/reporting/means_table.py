"""The table methods x settings of a comparison: mean and standard deviation over the seeds."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from fedkin.analysis.compare.comparison import Comparison
from fedkin.measures.measure import Measure
from fedkin.measures.number_texts import NO_NUMBER
from fedkin.reporting.best_methods import best_methods, bold_note
from fedkin.reporting.text_table import TextTable


def means_table(comparison: Comparison, measure: str | None = None) -> TextTable | None:
    """Methods x settings: mean ± SD of the compared measure. None with only one setting.

    The longer list goes down. In bold are the best of each setting, as in the table of results.

    Args:
        comparison: the comparison.
        measure: the measure; None: the comparison's measure.
    """
    if len(comparison.settings) < 2:
        return None
    compared = comparison.measure(measure)
    methods = comparison.methods
    texts: dict[tuple[str, str], str] = {}
    for setting in comparison.settings:
        scores = comparison.scores(setting, measure)
        texts |= {(setting, method): mean_and_sd(scores[method], compared) for method in methods}
    best = best_methods(comparison, measure)
    wide = len(methods) >= len(comparison.settings)  # settings are the columns
    down, across = (methods, comparison.settings) if wide else (comparison.settings, methods)
    rows = []
    bold = set()
    for first in down:
        for column, second in enumerate(across, 1):
            setting, method = (second, first) if wide else (first, second)
            if method in best[setting]:
                bold.add((len(rows), column))
        cells = [texts[second, first] if wide else texts[first, second] for second in across]
        rows.append([first, *cells])
    # The table of results has intervals after its ±, so this table says what its own ± is.
    spread = "mean ± SD over the seeds" if len(comparison.seeds) > 1 else "one seed"
    return TextTable(
        title=f"Methods and settings: {compared.head_with_unit}, {spread}",
        heads=["method" if wide else "setting", *across],
        rows=rows,
        bold=frozenset(bold),
        note=bold_note(comparison, measure),
    )


def mean_and_sd(values: Float[np.ndarray, "S"], measure: Measure) -> str:
    """Mean ± sample standard deviation over the seeds as text, without the unit.

    It is a dash if no seed has a value. With one value there is no deviation. If some seeds have no
    value, their number is in brackets.

    Args:
        values: one value per seed; NaN if missing.
        measure: the measure, which decides the format.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return NO_NUMBER
    text = measure.text(float(known.mean()))
    if len(known) > 1:
        text += f" ± {measure.text(float(known.std(ddof=1)))}"
    return text if len(known) == len(values) else f"{text} ({len(known)} of {len(values)})"
