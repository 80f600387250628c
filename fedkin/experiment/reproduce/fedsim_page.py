"""FedSim's part of docs/results.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.experiment.reproduce.fedsim import (
    AUTHORS,
    DRAWN,
    FIGURE_8,
    SYNTHETIC,
    TABLE_4,
    TABLE_7,
    THREE,
    Published,
)
from fedkin.experiment.reproduce.recipe import Setting
from fedkin.experiment.reproduce.tables import Measured, markdown, of
from fedkin.experiment.statistics import LEVEL, as_printed, bootstrap, compare, holm, improvement, paired_p
from fedkin.randomness import Stream

FINAL_PUBLISHED = {  # mean accuracy of the last round, over 35 seeds, from the authors' logs: FedAvg, FedProx, FedSim
    "FEMNIST, shared images": (73.2, 75.7, 80.7),
    "MNIST": (81.9, 85.4, 87.1),
    "Fed-MEx, its test part": (91.1, 91.1, 93.6),
    "Fed-Goodreads": (60.0, 59.1, 61.8),
    "IID": (88.4, 67.0, 81.9),
    "(0, 0)": (81.6, 84.9, 86.9),
    "(0, 0), the authors' file": (81.6, 84.9, 86.9),
    "(0.25, 0.25)": (73.8, 82.1, 82.1),
    "(0.5, 0.5)": (67.7, 75.3, 73.6),
    "(0.75, 0.75)": (67.1, 74.2, 65.5),
    "(1, 1)": (61.4, 67.8, 59.0),
}
BASELINES = ("FedAvg", "FedProx")
VARIANTS = ("FedSim", "FedSim, as coded", "FedSim, round robin")
Curves = dict[str, Float[np.ndarray, "S R"]]


def section(measured: Measured) -> str:
    """Tables 4 and 7, the variants, and the figures."""
    seven = {AUTHORS: TABLE_7["(0, 0)"], **{SYNTHETIC[name]: published for name, published in TABLE_7.items()}}
    drawn = {DRAWN[name]: published for name, published in TABLE_7.items()}
    return "\n\n".join(
        [
            "## FedSim (Neurocomputing 2022)",
            ABOUT,
            "### Table 4, real data: what FedSim gains, in percentage points",
            gains(measured, TABLE_4),
            "![accuracy over the rounds, real data](images/fedsim-real.svg)",
            "![what FedSim gains over the rounds, real data](images/fedsim-gain.svg)",
            "### Table 7, synthetic data: what FedSim gains, in percentage points",
            gains(measured, seven),
            "![accuracy over the rounds, synthetic data](images/fedsim-synthetic.svg)",
            "### Table 7 again, a draw of the data per seed",
            gains(measured, drawn),
            "### The same runs: mean accuracy in the last round (%)",
            finals(measured, [*TABLE_4, *seven]),
            "### What the clusters are worth: other clusterings, against FedAvg",
            variants(measured, [*TABLE_4, *seven]),
            "![similarity against round robin](images/fedsim-random.svg)",
            "### Figures 8 and 10",
            "![principal components, and the non-IID index](images/fedsim-components-pni.svg)",
            components(measured),
        ]
    )


ABOUT = """\
*Improvement* is the paper's number, computed as its tables are: the difference of the mean curves, summed over rounds
0 to T and divided by T, with its deviation *over the rounds*. *Difference* is the mean over the seeds of each run's
mean over rounds 1 to T, with a bootstrap interval over the seeds. *Verdict* is that of two one-tailed paired t-tests on
the seeds at 0.05, Holm-adjusted over all comparisons of the table. *Rounds* is the share of rounds in which FedSim is
significantly better (Holm-adjusted over the two baselines of that round). *Sign* says whether a significant difference
has the sign of the paper's."""


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


def gains(measured: Measured, rows: Mapping[Setting, Published]) -> str:
    """FedSim against both baselines, a line each."""
    found: list[tuple[str, int, Curves, tuple[float, float]]] = []
    for setting, published in rows.items():
        curves = curves_of(measured, table_of(setting), setting.row, list(THREE))
        if len(curves) == len(THREE):
            found += [(setting.row, i, curves, published[i]) for i in range(len(BASELINES))]
    if not found:
        return "not run"
    points = [100 * (curves["FedSim"] - curves[BASELINES[i]])[:, 1:].mean(axis=1) for _, i, curves, _ in found]
    better = holm(np.array([paired_p(p, np.zeros_like(p)) for p in points], np.float64))
    worse = holm(np.array([paired_p(np.zeros_like(p), p) for p in points], np.float64))
    head = ["", "over", "improvement", "paper", "difference (95% interval)", "verdict", "rounds", "sign", "seeds"]
    p = zip(better.tolist(), worse.tolist(), strict=True)
    lines = [_line(*each, gain, both) for each, gain, both in zip(found, points, p, strict=True)]
    return markdown(head, lines)


def spread(points: Float[np.ndarray, "S"]) -> str:
    """The mean over the seeds, and its interval where there are enough of them."""
    low, high = bootstrap(points, Stream(0, purpose="results/bootstrap").rng())
    return f"{points.mean():+.2f}" + ("" if np.isnan(low) else f" ({low:.2f} to {high:.2f})")


def _line(
    row: str,
    baseline: int,
    curves: Curves,
    published: tuple[float, float],
    points: Float[np.ndarray, "S"],
    p: tuple[float, float],
) -> list[str]:
    """``p`` is that FedSim is better, and that it is worse."""
    other = BASELINES[baseline]
    value, deviation = improvement(curves["FedSim"], curves[other])
    share = compare(curves, "FedSim", Stream(0).rng())[baseline].share_significant
    verdict = (
        "too few seeds" if np.isnan(p[0]) else "better" if p[0] < LEVEL else "worse" if p[1] < LEVEL else "not shown"
    )
    same = np.sign(points.mean()) == np.sign(published[0])
    return [
        row,
        other,
        f"**{as_printed(value)}** ± {as_printed(deviation)}",
        f"*{published[0]} ± {published[1]}*",
        spread(points),
        verdict,
        "-" if np.isnan(share) else f"{share:.0%}",
        "-" if verdict not in ("better", "worse") else "agrees" if same else "**differs**",
        str(len(points)),
    ]


def finals(measured: Measured, settings: Sequence[Setting]) -> str:
    """Mean accuracy in the last round, with the authors' logs."""
    lines = []
    for setting in settings:
        curves = curves_of(measured, table_of(setting), setting.row, list(THREE))
        printed = FINAL_PUBLISHED.get(setting.row, (None,) * 3)
        cells = [
            (f"**{100 * curves[column][:, -1].mean():.1f}**" if column in curves else "not run")
            + (f"<br>*{number}*" if number else "")
            for column, number in zip(THREE, printed, strict=True)
        ]
        lines.append([setting.row, *cells])
    return markdown(["", *THREE], lines)


def variants(measured: Measured, settings: Sequence[Setting]) -> str:
    """Each variant of FedSim against FedAvg, over the seeds that all have."""
    lines = []
    for setting in settings:
        curves = curves_of(measured, table_of(setting), setting.row, ["FedAvg", *VARIANTS])
        if len(curves) < 1 + len(VARIANTS):
            lines.append([setting.row, *["not run"] * (1 + len(VARIANTS)), ""])
            continue
        points = {name: 100 * (curves[name] - curves["FedAvg"])[:, 1:].mean(axis=1) for name in VARIANTS}
        apart = points["FedSim"] - points["FedSim, round robin"]
        shown = [spread(gain) for gain in (*points.values(), apart)]
        lines.append([setting.row, *shown, str(len(apart))])
    head = ["", "by similarity", "by similarity, as coded", "round robin", "similarity less round robin", "seeds"]
    return markdown(head, lines)


def components(measured: Measured) -> str:
    """How many principal components keep 95% of the gradients' variance."""
    lines = []
    for cell in FIGURE_8:
        shares = of(measured, "Fig. 8", cell.setting.row, cell.column, "explained")
        counts = [1 + int(np.searchsorted(np.cumsum(share)[:-1], 0.95, side="right")) for share in shares]
        shown = f"**{mean(counts):.1f}** ({min(counts)} - {max(counts)})" if counts else "not run"
        lines.append([cell.setting.row, str(cell.setting.cohort), shown])
    return markdown(["", "gradients", "components for 95% (paper: 4 to 15)"], lines)
