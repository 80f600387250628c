"""FedSim's page, docs/results-fedsim.md: pairs of seeds, the verdicts, and the sign of a
difference."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.methods import FedAvg, FedSim
from papers.catalogue import PAPERS
from papers.fedsim import figures as fedsim_figures
from papers.fedsim import page as fedsim_page
from papers.fedsim import recipes as fedsim
from papers.fedsim.numbers import components, curves_of, heterogeneity, improvements, indices
from papers.fedsim.recipes import CELLS, FEMNIST, MNIST, SYNTHETIC, TABLE_4, TABLE_7, measure
from papers.recipe import Cell, Setting
from papers.reproduction_marks import Mark
from papers.results_page import page as page_of

TINY = Setting(
    row="tiny",
    data="digits",
    data_options=(("clients", 12),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=2,
    cohort=4,
    seeds=(0, 1),
)


def line(row: str, column: str, seed: int, right: list[int], table: str = "4") -> dict[str, Any]:
    return {
        "table": table,
        "row": row,
        "column": column,
        "seed": seed,
        "tested": 100,
        "right": right,
    }


def runs(row: str, gain: int, seeds: int, table: str = "4") -> list[dict[str, Any]]:
    """FedSim ahead of FedAvg by ``gain`` points in every round but the first, and level with
    FedProx on average."""
    found = []
    for seed in range(seeds):
        start = 10
        jitter = seed % 3
        found += [
            line(row=row, column="FedAvg", seed=seed, right=[start, 50 + jitter, 60], table=table),
            line(
                row=row,
                column="FedProx",
                seed=seed,
                right=[start, 50 + gain + (1 if seed % 2 else -1), 60 + gain],
                table=table,
            ),
            line(
                row=row,
                column="FedSim",
                seed=seed,
                right=[start, 50 + gain + jitter, 60 + gain - jitter],
                table=table,
            ),
        ]
    return found


def test_every_cell_is_there_once() -> None:
    keys = [(c.table, c.setting.row, c.column) for c in CELLS]
    assert len(keys) == len(set(keys))
    assert {c.setting.row for c in CELLS if c.table == "4"} == {s.row for s in TABLE_4}
    assert TABLE_7.keys() == SYNTHETIC.keys()


def test_seeds_are_paired_and_those_that_one_method_lacks_are_left_out() -> None:
    results = runs(MNIST.row, 5, 4)[:-1]  # FedSim lacks the last seed
    curves = curves_of(results, "4", MNIST.row, ["FedAvg", "FedSim"])
    assert curves["FedAvg"].shape == curves["FedSim"].shape == (3, 3)
    assert curves["FedAvg"][1].tolist() == [0.10, 0.51, 0.60]


def test_the_gain_is_the_papers_statistic() -> None:
    """Mean gains over FedAvg: 0, 5, and 5 - 1 (the mean of jitter); summed and divided by T = 2."""
    over_avg, *_ = improvements(runs(MNIST.row, 5, 12), {MNIST: ((7.32, 2.69), (5.65, 4.35))})
    assert over_avg.exact == pytest.approx(4.5) and over_avg.seeds == 12


def test_a_page_of_nothing_says_so(tmp_path: Path) -> None:
    text = page_of(PAPERS["fedsim"], [])
    assert "not run" in text and not re.search(r"\bnan\b", text)
    (tmp_path / "images").mkdir()
    fedsim_figures.draw([], tmp_path)
    drawn = {path.stem.removeprefix("fedsim-") for path in (tmp_path / "images").iterdir()}
    # No empty picture of Table 6.
    assert drawn == {
        "similarity",
        "real",
        "synthetic",
        "gain",
        "random",
        "components-pni",
        "plane",
    }


def test_measured_values_fit_into_json() -> None:
    figures = json.loads(
        json.dumps(
            measure(
                Cell(
                    table="4",
                    setting=TINY,
                    column="FedSim",
                    method=lambda m: FedSim(clusters=m),
                    published=None,
                ),
                0,
            )
        )
    )
    assert len(figures["right"]) == 3 and all(
        0 <= right <= figures["tested"] for right in figures["right"]
    )
    # Update and gradient, rounds x cohort x parameters x bytes.
    assert figures["bytes_up"] == 2 * 2 * 4 * 650 * 4


def test_components_explain_all_of_the_variance_together() -> None:
    figures = measure(
        Cell(
            table="Fig. 8",
            setting=TINY,
            column="FedSim",
            method=lambda m: FedSim(clusters=m),
            published=None,
        ),
        0,
    )
    assert len(figures["explained"]) == 4 and sum(figures["explained"]) == pytest.approx(
        1, abs=1e-4
    )
    assert figures["explained"] == sorted(figures["explained"], reverse=True)


def test_the_index_names_the_draw() -> None:
    setting = Setting(
        row="beta 0",
        data="synthetic",
        data_options=(("alpha", 0.0), ("beta", 0.0), ("clients", 4)),
        model="mclr",
        model_options=(),
        lr=0.1,
        clusters=2,
    )
    cell = Cell(
        table="Fig. 10", setting=setting, column="0", method=lambda m: FedAvg(), published=None
    )
    assert measure(cell, 3) == measure(cell, 3) != measure(cell, 4)
    assert measure(cell, 3)["pni"] > 0


def test_the_paper_published_the_numbers_next_to_ours() -> None:
    """As printed in Tables 4 and 7."""
    assert TABLE_4[FEMNIST] == ((11.11, 2.88), (9.08, 3.63))
    assert TABLE_7["(0.5, 0.5)"] == ((3.61, 6.23), (-0.06, 2.47))
    assert np.mean([len(s.seeds) for s in (MNIST, fedsim.GOODREADS)]) == 35


def test_rounds_better_than_both() -> None:
    ahead = runs(MNIST.row, 5, 12)
    for run in ahead:
        if run["column"] == "FedProx":  # far ahead in the first round, far behind in the last
            run["right"][1:] = [90, 20 + run["seed"] % 2]
    assert "| MNIST | **50.0%** | **2** | *after the first round* |" in fedsim_page.significance(
        ahead
    )


def test_rounds_better_than_both_are_tested_over_draws() -> None:
    """In the second round the gains of ten seeds have p = 0.006, the gains of their five draws p =
    0.05: twice that with two baselines."""
    results = runs(FEMNIST.row, 5, 10)
    for run in results:
        draw = FEMNIST.draws.index(FEMNIST.draw(run["seed"]))
        gains = (10 + draw, (10, 1, 6, -1, 4)[draw]) if run["column"] == "FedSim" else (0, 0)
        run["right"] = [10, *(50 + gain for gain in gains)]
    assert f"| {FEMNIST.row} | **50.0%** | **never** |" in fedsim_page.significance(results)


def test_the_variant_as_coded_is_compared_and_not_counted() -> None:
    """FedSim gains 4.5 points over FedAvg (6 and 3 over two rounds) and none over FedProx; the
    variant 3.5 points less (2 in one round, 5 in the other)."""
    results = runs(MNIST.row, 5, 12)
    with_defect = [
        dict(run, column="FedSim, as coded") for run in results if run["column"] == "FedSim"
    ]
    for run in with_defect:
        run["right"] = [right - cut for right, cut in zip(run["right"], (0, 2, 5), strict=True)]
    rows = {MNIST: ((1.0, 0.0), (0.5, 0.0))}
    over_avg, over_prox, *coded = improvements([*results, *with_defect], rows)
    assert (over_avg.mark, over_prox.mark) == (Mark.OUTSIDE, Mark.REPRODUCED)
    assert coded[0].mark == Mark.REPRODUCED
    assert [(n.column, n.variant_of, n.counts) for n in coded] == [
        ("over FedAvg, as coded", "over FedAvg", False),
        ("over FedProx, as coded", "over FedProx", False),
    ]
    assert (
        over_avg.difference == pytest.approx(3.5)
        and over_avg.seeds == 12
        and over_avg.unit == "points"
    )
    assert [number.mark for number in improvements([], rows)] == [Mark.NOT_RUN] * 4


def test_other_data_are_compared_and_not_counted() -> None:
    over_avg, *_ = improvements(
        runs(fedsim.MEX.row, 5, 3), {fedsim.MEX: ((4.5, 1.26), (2.68, 0.78))}
    )
    assert over_avg.mark == Mark.REPRODUCED and not over_avg.counts and over_avg.symbol == "(✓)"


def test_components_lie_between_the_papers_ends() -> None:
    def explained(shares: list[float]) -> list[dict[str, Any]]:
        row = fedsim.FIGURE_8[0].setting.row
        return [{"table": "Fig. 8", "row": row, "column": "FedSim", "seed": 0, "explained": shares}]

    # Four of them are 80%, so all five are needed.
    assert components(explained([0.2] * 5))[0].mark == Mark.REPRODUCED
    assert components(explained([0.96, 0.04]))[0].mark == Mark.FAILED  # one is enough
    assert {number.mark for number in components([])} == {Mark.NOT_RUN}


def test_the_index_must_grow_with_beta() -> None:
    def draws(*means: float) -> list[dict[str, Any]]:
        rows = zip(("beta 0", "beta 0.5", "beta 1"), means, strict=True)
        return [
            {"table": "Fig. 10", "row": row, "column": "0", "seed": s, "pni": pni + s}
            for row, pni in rows
            for s in (0, 1)
        ]

    assert heterogeneity(draws(1.0, 1.5, 2.0))[0].mark == Mark.REPRODUCED
    assert heterogeneity(draws(1.0, 1.0, 2.0))[0].mark == Mark.FAILED
    assert heterogeneity(draws(1.0, 1.5, 2.0)[:4])[0].mark == Mark.NOT_RUN


def test_the_index_is_compared_over_the_seeds_that_all_betas_have() -> None:
    """Beta 0 has a third seed, with a large index: its mean alone is above the mean of beta 0.5."""
    rows = {"beta 0": (1.0, 1.0, 40.0), "beta 0.5": (2.0, 2.0), "beta 1": (3.0, 3.0)}
    results = [
        {"table": "Fig. 10", "row": row, "column": "1", "seed": seed, "pni": pni}
        for row, indices in rows.items()
        for seed, pni in enumerate(indices)
    ]
    number = next(each for each in heterogeneity(results) if each.row == "alpha 1")
    assert number.mark == Mark.REPRODUCED and number.seeds == 2
    assert number.ours == "1.000, 2.000, 3.000"


def test_the_figure_of_the_index_has_the_seeds_that_all_cells_have() -> None:
    results = [
        {
            "table": "Fig. 10",
            "row": f"beta {beta:g}",
            "column": f"{alpha:g}",
            "seed": seed,
            "pni": 1,
        }
        for alpha in fedsim.ALPHAS
        for beta in fedsim.BETAS
        for seed in range(3 if alpha or beta else 5)
    ]
    values = indices(results, fedsim.ALPHAS)
    assert {len(pni) for pni in values.values()} == {3} and len(values) == 9
