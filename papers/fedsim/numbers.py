"""The published numbers of FedSim's tables and figures, and ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.measures.pca import component_count
from papers.fedsim.paired_comparison import improvement
from papers.fedsim.recipes import ALPHAS, AS_CODED, BETAS, FIGURE_8, TABLE_4, THREE, Published
from papers.recipe import Setting
from papers.reproduction_marks import (
    ComparedNumber,
    Mark,
    Results,
    average,
    compare_number,
    figures_by_seed,
    mark_of_statement,
    values_of,
)

FEDSIM = "FedSim"
BASELINES = ("FedAvg", "FedProx")
# Principal components that keep 95% of the variance, over the paper's data sets.
LEAST = 4
MOST = 15
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
    seeds = (
        sorted(set.intersection(*(set(by_seed) for by_seed in available.values())))
        if available
        else []
    )
    return {
        column: np.stack([by_seed[seed] for seed in seeds])
        for column, by_seed in available.items()
        if seeds
    }


def paired_curves(
    results: Results, setting: Setting, columns: Sequence[str], table: str = ""
) -> Curves:
    """Accuracies [S, R] of each column in pairs: a pair for each seed; where the data have several
    draws, a pair for each draw, the mean over its seeds, because seeds of one draw are no
    independent samples of the data.

    Args:
        results: stored runs.
        setting: of the row.
        columns: the methods.
        table: of the cells, where not 4 or 7.
    """
    table = table or table_of(setting)
    if len(setting.draws) == 1:
        return curves_of(results, table, setting.row, columns)
    of_row = [m for m in results if m["row"] == setting.row]
    of_draws = [
        curves_of(
            [m for m in of_row if setting.draw(m["seed"]) == draw], table, setting.row, columns
        )
        for draw in setting.draws
    ]
    complete = [curves for curves in of_draws if len(curves) == len(columns)]
    return {
        name: np.stack([curves[name].mean(axis=0) for curves in complete])
        for name in columns
        if complete
    }


def unit_of(setting: Setting) -> str:
    """The unit that ``paired_curves`` counts."""
    return "seed" if len(setting.draws) == 1 else "draw"


def table_of(setting: Setting) -> str:
    """Which table a setting belongs to."""
    return "4" if setting.row in {s.row for s in TABLE_4} else "7"


def improvements(results: Results, rows: Mapping[Setting, Published]) -> list[ComparedNumber]:
    """Tables 4 and 7: points gained over each baseline, over the seeds that all three methods have;
    and the same of FedSim as coded."""
    return [
        number
        for setting, published in rows.items()
        for method, suffix in ((FEDSIM, ""), (AS_CODED, ", as coded"))
        for number in _improvements(
            results=results, setting=setting, published=published, method=method, suffix=suffix
        )
    ]


def _improvements(
    results: Results, setting: Setting, published: Published, method: str, suffix: str
) -> Iterator[ComparedNumber]:
    curves = paired_curves(results, setting, [method, *BASELINES])
    runs = _seeds(results, setting, method)
    for baseline, (printed, _) in zip(BASELINES, published, strict=True):
        column = f"over {baseline}"
        yield compare_number(
            setting.row,
            column + suffix,
            printed,
            _gain(curves, method, baseline),
            seeds=len(runs),
            deviation="; ".join(
                filter(None, [f"a variant of {FEDSIM}" if suffix else "", setting.deviation])
            ),
            runs=_gains_by_draw(curves, setting, method, baseline),
            variant_of=column if suffix else "",
            draws=len({setting.draw(seed) for seed in runs}),
        )


def _gain(curves: Curves, method: str, baseline: str) -> float | None:
    """None unless all three were run."""
    return (
        float(improvement(curves[method], curves[baseline])[0])
        if len(curves) == len(THREE)
        else None
    )


def _gains_by_draw(curves: Curves, setting: Setting, method: str, baseline: str) -> list[float]:
    """Points gained on each draw of the data. A single draw does not represent others, however many
    seeds it has."""
    if len(setting.draws) == 1 or len(curves) < len(THREE):
        return []
    pairs = zip(curves[method], curves[baseline], strict=True)
    return [float(improvement(ours[None], theirs[None])[0]) for ours, theirs in pairs]


def _seeds(results: Results, setting: Setting, method: str = FEDSIM) -> list[int]:
    """The seeds that a method and both baselines have."""
    table = table_of(setting)
    of_row = [m for m in results if m["row"] == setting.row and m["table"] == table]
    by_column = [
        {m["seed"] for m in of_row if m["column"] == column} for column in (method, *BASELINES)
    ]
    return sorted(set.intersection(*by_column))


def components(results: Results) -> list[ComparedNumber]:
    """Figure 8: the number of principal components that keep 95% of the gradients' variance (paper:
    4 to 15)."""
    numbers = []
    for cell in FIGURE_8:
        shares = values_of(
            results=results,
            table="Fig. 8",
            row=cell.setting.row,
            column=cell.column,
            figure="explained",
        )
        count = average([component_count(np.array(share, np.float64), 0.95) for share in shares])
        mark = mark_of_statement(None if count is None else LEAST <= count <= MOST)
        ours = "" if count is None else f"{count:.1f}"
        number = ComparedNumber(
            row=cell.setting.row,
            column="FedSim",
            published=f"{LEAST} - {MOST}",
            ours=ours,
            difference=None,
            mark=mark,
            unit="components",
            seeds=len(shares),
            deviation=cell.setting.deviation,
        )
        numbers.append(number)
    return numbers


def indices(results: Results, alphas: Sequence[float]) -> dict[tuple[float, float], list[float]]:
    """PNI of Synthetic(alpha, beta), over the seeds that all these cells have.

    Args:
        results: stored runs.
        alphas: of the cells, each with every beta.

    Returns:
        The values of each pair (alpha, beta), in the order of the seeds.
    """
    by_seed = {
        (alpha, beta): figures_by_seed(
            results=results,
            table="Fig. 10",
            row=f"beta {beta:g}",
            column=f"{alpha:g}",
            figure="pni",
        )
        for alpha in alphas
        for beta in BETAS
    }
    shared = sorted(set.intersection(*map(set, by_seed.values())))
    return {pair: [of_cell[seed] for seed in shared] for pair, of_cell in by_seed.items()}


def heterogeneity(results: Results) -> list[ComparedNumber]:
    """Figure 10: with every alpha, the index grows with beta. Only seeds that all betas have
    count."""
    numbers = []
    for alpha in ALPHAS:
        values = list(indices(results, [alpha]).values())
        seeds = len(values[0])
        means = [mean(pni) for pni in values] if seeds else []
        mark = mark_of_statement(means == sorted(set(means))) if seeds else Mark.NOT_RUN
        numbers.append(
            ComparedNumber(
                row=f"alpha {alpha:g}",
                column="beta 0, 0.5, 1",
                published="grows",
                ours=", ".join(f"{pni:.3f}" for pni in means),
                difference=None,
                mark=mark,
                unit="PNI",
                seeds=seeds,
            )
        )
    return numbers
