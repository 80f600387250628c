"""The numbers that FedSim's tables and figures print, beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.analysis.statistics import improvement
from fedkin.measures.pca import component_count
from papers.fedsim.recipes import ALPHAS, AS_CODED, BETAS, FIGURE_8, TABLE_4, THREE, Published
from papers.recipe import Setting
from papers.reproduction_marks import Compared, Mark, Measured, average, held, number, of

BASELINES = ("FedAvg", "FedProx")
LEAST, MOST = 4, 15  # principal components that keep 95% of the variance, over the paper's data sets
Curves = dict[str, Float[np.ndarray, "S R"]]


def curves_of(measured: Measured, table: str, row: str, columns: Sequence[str]) -> Curves:
    """Accuracies [S, R] of each column that was run, over the seeds that all of them have."""
    runs: dict[str, dict[int, Any]] = {column: {} for column in columns}
    for m in measured:
        if (m["table"], m["row"]) == (table, row) and m["column"] in runs:
            runs[m["column"]][m["seed"]] = np.array(m["right"], float) / m["tested"]
    there = {column: found for column, found in runs.items() if found}
    seeds = sorted(set.intersection(*(set(found) for found in there.values()))) if there else []
    return {column: np.stack([found[seed] for seed in seeds]) for column, found in there.items() if seeds}


def table_of(setting: Setting) -> str:
    """Which table a setting belongs to."""
    return "4" if setting.row in {s.row for s in TABLE_4} else "7"


def improvements(measured: Measured, rows: Mapping[Setting, Published]) -> list[Compared]:
    """Tables 4 and 7: points gained over each baseline, over the seeds that all three methods have."""
    found = []
    for setting, published in rows.items():
        plain = curves_of(measured, table_of(setting), setting.row, list(THREE))
        coded = curves_of(measured, table_of(setting), setting.row, [AS_CODED, *BASELINES])
        seeds = len(plain["FedSim"]) if len(plain) == len(THREE) else 0
        for baseline, (printed, _) in zip(BASELINES, published, strict=True):
            ours, known = _gain(plain, "FedSim", baseline), _gain(coded, AS_CODED, baseline)
            column, aside = f"over {baseline}", setting.aside
            found.append(number(setting.row, column, printed, ours, as_coded=known, seeds=seeds, aside=aside))
    return found


def _gain(curves: Curves, method: str, baseline: str) -> float | None:
    """None unless all three were run."""
    return float(improvement(curves[method], curves[baseline])[0]) if len(curves) == len(THREE) else None


def components(measured: Measured) -> list[Compared]:
    """Figure 8: how many principal components keep 95% of the gradients' variance; the paper: 4 to 15."""
    found = []
    for cell in FIGURE_8:
        shares = of(measured, "Fig. 8", cell.setting.row, cell.column, "explained")
        mean = average([component_count(np.array(share, np.float64), 0.95) for share in shares])
        mark = held(None if mean is None else LEAST <= mean <= MOST)
        ours = "" if mean is None else f"{mean:.1f}"
        shown = Compared(cell.setting.row, "FedSim", f"{LEAST} - {MOST}", ours, None, mark, "components", len(shares))
        found.append(shown)
    return found


def heterogeneity(measured: Measured) -> list[Compared]:
    """Figure 10: with every alpha, the index grows with beta."""
    found = []
    for alpha in ALPHAS:
        draws = [of(measured, "Fig. 10", f"beta {beta:g}", f"{alpha:g}", "pni") for beta in BETAS]
        means = [average(pni) for pni in draws]
        there = [mean for mean in means if mean is not None]
        mark = held(there == sorted(set(there))) if len(there) == len(BETAS) else Mark.NOT_RUN
        ours, row = ", ".join(f"{mean:.3f}" for mean in there), f"alpha {alpha:g}"
        found.append(Compared(row, "beta 0, 0.5, 1", "grows", ours, None, mark, "PNI", min(map(len, draws))))
    return found
