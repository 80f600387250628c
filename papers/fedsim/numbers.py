"""The published numbers of FedSim's tables and figures, beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.analysis.paired_comparison import improvement
from fedkin.measures.pca import component_count
from papers.fedsim.recipes import ALPHAS, AS_CODED, BETAS, FIGURE_8, TABLE_4, THREE, Published
from papers.recipe import Setting
from papers.reproduction_marks import (
    ComparedNumber,
    Mark,
    Results,
    average,
    compare_number,
    mark_of_statement,
    values_of,
)

FEDSIM, BASELINES = "FedSim", ("FedAvg", "FedProx")
LEAST, MOST = 4, 15  # principal components that keep 95% of the variance, over the paper's data sets
Curves = dict[str, Float[np.ndarray, "S R"]]


def curves_of(results: Results, table: str, row: str, columns: Sequence[str]) -> Curves:
    """Accuracies [S, R] of each column that was run, over the seeds that all of them have.

    Args:
        results: stored runs.
        table: of the cells.
        row: of the cells.
        columns: the methods.
    """
    runs: dict[str, dict[int, Any]] = {column: {} for column in columns}
    for m in results:
        if (m["table"], m["row"]) == (table, row) and m["column"] in runs:
            runs[m["column"]][m["seed"]] = np.array(m["right"], float) / m["tested"]
    available = {column: by_seed for column, by_seed in runs.items() if by_seed}
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in available.values()))) if available else []
    return {column: np.stack([by_seed[seed] for seed in seeds]) for column, by_seed in available.items() if seeds}


def table_of(setting: Setting) -> str:
    """Which table a setting belongs to."""
    return "4" if setting.row in {s.row for s in TABLE_4} else "7"


def improvements(results: Results, rows: Mapping[Setting, Published]) -> list[ComparedNumber]:
    """Tables 4 and 7: points gained over each baseline, over the seeds that all three methods have; and the same of
    FedSim as coded."""
    return [
        number
        for setting, published in rows.items()
        for method, suffix in ((FEDSIM, ""), (AS_CODED, ", as coded"))
        for number in _improvements(results, setting, published, method, suffix)
    ]


def _improvements(
    results: Results, setting: Setting, published: Published, method: str, suffix: str
) -> Iterator[ComparedNumber]:
    curves = curves_of(results, table_of(setting), setting.row, [method, *BASELINES])
    by_draw = gains_by_draw(results, setting, method)
    for baseline, (printed, _) in zip(BASELINES, published, strict=True):
        column = f"over {baseline}"
        yield compare_number(
            setting.row,
            column + suffix,
            printed,
            _gain(curves, method, baseline),
            seeds=len(curves[method]) if len(curves) == len(THREE) else 0,
            deviation=f"a variant of {FEDSIM}" if suffix else setting.deviation,
            runs=by_draw.get(baseline, ()),
            variant_of=column if suffix else "",
        )


def _gain(curves: Curves, method: str, baseline: str) -> float | None:
    """None unless all three were run."""
    return float(improvement(curves[method], curves[baseline])[0]) if len(curves) == len(THREE) else None


def gains_by_draw(results: Results, setting: Setting, method: str = "FedSim") -> dict[str, list[float]]:
    """Points gained over each baseline on each draw of the data; the paper has one draw, and seeds on it.

    Args:
        results: stored runs.
        setting: of the row.
        method: that gains.
    """
    gains: dict[str, list[float]] = {}
    for draw in setting.draws:
        of_draw = [line for line in results if setting.draw(line["seed"]) == draw]
        curves = curves_of(of_draw, table_of(setting), setting.row, [method, *BASELINES])
        for baseline in BASELINES if len(curves) == len(THREE) else ():
            gains.setdefault(baseline, []).append(float(improvement(curves[method], curves[baseline])[0]))
    return gains


def components(results: Results) -> list[ComparedNumber]:
    """Figure 8: how many principal components keep 95% of the gradients' variance; the paper: 4 to 15."""
    numbers = []
    for cell in FIGURE_8:
        shares = values_of(results, "Fig. 8", cell.setting.row, cell.column, "explained")
        mean = average([component_count(np.array(share, np.float64), 0.95) for share in shares])
        mark = mark_of_statement(None if mean is None else LEAST <= mean <= MOST)
        ours = "" if mean is None else f"{mean:.1f}"
        number = ComparedNumber(
            cell.setting.row, "FedSim", f"{LEAST} - {MOST}", ours, None, mark, "components", len(shares)
        )
        numbers.append(number)
    return numbers


def heterogeneity(results: Results) -> list[ComparedNumber]:
    """Figure 10: with every alpha, the index grows with beta."""
    numbers = []
    for alpha in ALPHAS:
        draws = [values_of(results, "Fig. 10", f"beta {beta:g}", f"{alpha:g}", "pni") for beta in BETAS]
        means = [average(pni) for pni in draws]
        available = [mean for mean in means if mean is not None]
        mark = mark_of_statement(available == sorted(set(available))) if len(available) == len(BETAS) else Mark.NOT_RUN
        ours, row = ", ".join(f"{mean:.3f}" for mean in available), f"alpha {alpha:g}"
        numbers.append(ComparedNumber(row, "beta 0, 0.5, 1", "grows", ours, None, mark, "PNI", min(map(len, draws))))
    return numbers
