"""FedSim's page, docs/results-fedsim.md."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from fedkin.analysis.statistics import LEAST_SEEDS, interval
from fedkin.core.randomness import Stream
from papers.fedsim import round_times
from papers.fedsim.numbers import BASELINES, improvements, paired_curves, unit_of
from papers.fedsim.paired_comparison import TOO_FEW, compare
from papers.fedsim.recipes import (
    OF_AUTHORS,
    SIGNIFICANT_PUBLISHED,
    SYNTHETIC,
    TABLE_4,
    TABLE_7,
    THREE,
    UNMATCHED,
    shares_cohorts,
)
from papers.recipe import Setting
from papers.reproduction_marks import ComparedNumber, Results
from papers.tables_markdown import markdown

ROUND_ROBIN = "FedSim, round robin"
SEVEN = {
    **{setting: TABLE_7[name] for name, setting in OF_AUTHORS.items()},
    **{SYNTHETIC[name]: published for name, published in TABLE_7.items()},
}
SEVEN_UNMATCHED = {UNMATCHED[name]: published for name, published in TABLE_7.items()}


def spread(points: Float[np.ndarray, "S"], independent: bool = True) -> str:
    """The mean, and its 95% interval (Student's t) where there are enough independent values.

    Args:
        points: one value a draw, or a seed.
        independent: whether the values are.
    """
    if not independent or len(points) < LEAST_SEEDS:
        return f"{points.mean():+.2f}"
    band = interval(points[:, None])
    return f"{points.mean():+.2f} ({band.low[0]:.2f} to {band.high[0]:.2f})"


def significance(results: Results) -> str:
    """The rounds in which FedSim is better than both baselines at once, and the paper's claim."""
    lines = []
    for setting, printed in SIGNIFICANT_PUBLISHED.items():
        curves = paired_curves(results, setting, list(THREE))
        if len(curves) == len(THREE):
            comparisons = compare(curves, "FedSim", Stream(0).rng())
            both = np.all([each.significant for each in comparisons], axis=0)[1:]
            lasting = len(both) - int(np.logical_and.accumulate(both[::-1]).sum())
            since = str(lasting + 1) if lasting < len(both) else "never"
            ours = [f"**{both.mean():.1%}**", f"**{since}**"]
            few = any(each.verdict == TOO_FEW for each in comparisons)
            lines.append([setting.row, *(["too few seeds"] * 2 if few else ours), f"*{printed}*"])
    return (
        markdown(["", "of the rounds", "in every round from", "paper"], lines)
        if lines
        else "not run"
    )


def variants(results: Results) -> str:
    """FedSim against FedAvg with clusters by similarity and by round robin, over the seeds that
    have all three; rows without runs are left out."""
    lines = []
    for setting in [*TABLE_4, *SEVEN]:
        both = _points_over_fedavg(results, setting, "FedSim", ROUND_ROBIN)
        similarity = both.get("FedSim")
        dealt = both.get(ROUND_ROBIN)
        if similarity is None or dealt is None:
            continue
        independent = not shares_cohorts(setting)
        of_all = (similarity, dealt, similarity - dealt)
        cells = [spread(points, independent) for points in of_all]
        gain = min(similarity.mean(), dealt.mean()) > 0
        share = f"{dealt.mean() / similarity.mean():.0%}" if gain else "-"
        lines.append([setting.row, *cells, share, _samples(dealt, setting)])
    head = [
        "",
        "by similarity",
        "round robin",
        "similarity minus round robin",
        "round robin's share",
        "n",
    ]
    return markdown(head, lines)


def _samples(points: Float[np.ndarray, "S"], setting: Setting) -> str:
    return f"{len(points)} {unit_of(setting)}{'s' if len(points) > 1 else ''}"


def _points_over_fedavg(
    results: Results, setting: Setting, *columns: str
) -> dict[str, Float[np.ndarray, "S"]]:
    """Points gained over FedAvg by each of these columns, over the seeds that all of them have;
    empty if one was not run."""
    curves = paired_curves(results, setting, ["FedAvg", *columns])
    if len(curves) < 1 + len(columns):
        return {}
    return {name: 100 * (curves[name] - curves["FedAvg"])[:, 1:].mean(axis=1) for name in columns}


def other_draws(results: Results) -> str:
    """Gains on draws that resemble the authors' test files, and on draws that do not."""
    by_row: dict[str, dict[str, ComparedNumber]] = {}
    for number in improvements(results, {**SEVEN, **SEVEN_UNMATCHED}):
        by_row.setdefault(number.row, {})[number.column] = number
    lines = []
    for name, published in TABLE_7.items():
        of_authors = [OF_AUTHORS[name].row] if name in OF_AUTHORS else []
        cells = []
        for row in (of_authors[:1], [SYNTHETIC[name].row], [UNMATCHED[name].row]):
            found = [by_row[each] for each in row]
            cells.append(_both(found[0]) if found else "–")
        printed = ", ".join(f"{points:+.2f}" for points, _ in published)
        lines.append([name, printed, *cells])
    head = ["", "printed", "the authors' data", "draws that resemble them", "draws that do not"]
    return markdown(head, lines)


def _both(numbers: Mapping[str, ComparedNumber]) -> str:
    """The gains over both baselines, and the number of draws."""
    over = [numbers[f"over {baseline}"] for baseline in BASELINES]
    if not all(number.ours for number in over):
        return "not run"
    gains = ", ".join(f"{number.exact:+.1f}" for number in over)
    return f"{gains} ({over[0].draws})"


# Parts of the page by their names in its text.
PARTS = {
    "fedsim-significance": significance,
    "fedsim-variants": variants,
    "fedsim-draws": other_draws,
    "fedsim-times": round_times.section,
}
