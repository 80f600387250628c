"""FedGroup's and FlexCFL's figures: their recipes, the stored values of a run, and the
drawings."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedkin.methods import FedAvg, FlexCFL
from papers.curves import POINTS, curves_of, measure, plot, plot_clusters
from papers.fedgroup import figure_recipes as fedgroup
from papers.fedgroup import figures as fedgroup_figures
from papers.flexcfl import eta_figures
from papers.flexcfl import figure_recipes as flexcfl
from papers.flexcfl import figures as flexcfl_figures
from papers.recipe import Cell, Setting

TINY = Setting(
    row="tiny",
    data="digits",
    data_options=(("clients", 12),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=3,
    cohort=4,
    seeds=(0, 1),
)
CURVED = [
    *fedgroup.FIGURE_1,
    *flexcfl.FIGURE_1,
    *fedgroup.FIGURE_3,
    *fedgroup.FIGURE_4,
    *flexcfl.FIGURE_3,
    *flexcfl.FIGURE_5,
]


def record(round: int, **values: Any) -> dict[str, Any]:
    return {"round": round, "partial": False, "accuracy": round / 1000, **values}


def fake_line(cell: Cell, seed: int) -> dict[str, Any]:
    """Curves of two clusters over three stored rounds, from 1 on, every second one."""
    line = {
        "table": cell.table,
        "row": cell.setting.row,
        "column": cell.column,
        "seed": seed,
        "every": 2,
    }
    names = ("accuracy", "global_accuracy", "train_loss", "discrepancy_sum", "discrepancy_mean")
    by_cluster = {
        name: [[0.1, 0.2, 0.3], [0.5, None, 0.7]]
        for name in ("accuracy_by_cluster", "discrepancy_to_global")
    }
    return {**line, **{name: [None, 0.4 + 0.2 * seed, 0.5] for name in names}, **by_cluster}


def fake_pairs(cell: Cell) -> dict[str, Any]:
    line = {"table": cell.table, "row": cell.setting.row, "column": cell.column, "seed": 0}
    return {
        **line,
        "pairs": [[1.0, 2.0], [0.1, 0.2]],
        "correlation": 0.987,
        "slope": 0.1,
        "offset": 0.0,
    }


def test_every_cell_is_there_once_and_short() -> None:
    cells = [*CURVED, *fedgroup.FIGURE_5]
    assert (
        len({(c.table, c.setting, c.column) for c in cells})
        == len(cells)
        == 8 + 8 + 4 + 9 + 9 + 10 + 5
    )
    short, long = (
        [c for c in cells if (c.setting.seconds < 60) == is_short] for is_short in (True, False)
    )
    assert all(1 <= len(c.setting.seeds) <= 3 for c in cells) and {
        c.setting.seeds for c in long
    } == {(0,)}
    assert {c.setting.row for c in long} == {"FEMNIST-MLP, shared images, swap part"} and len(
        short
    ) == 48


def test_the_sweep_varies_the_inter_group_rate_and_nothing_else() -> None:
    for cells in (flexcfl.SWEEP_3, flexcfl.SWEEP_3_MLP, flexcfl.SWEEP_5, flexcfl.SWEEP_5_MLP):
        methods = [cell.method(4) for cell in cells]
        assert methods == [FlexCFL(clusters=4, eta_g=eta) for eta in (0.0, 0.01, 0.1, 1.0, 5.0)]
        assert len({(cell.setting, cell.selection) for cell in cells}) == 1


def test_a_hundred_rounds_are_stored_from_the_first_on() -> None:
    curves = curves_of([record(round) for round in range(301)])
    assert curves["every"] == 3 and len(curves["accuracy"]) == POINTS
    assert curves["accuracy"][:2] == [0.001, 0.004]
    assert set(curves) == {"every", "accuracy"}  # values that a run does not have are left out


def test_partial_rounds_have_no_accuracy_and_a_training_loss() -> None:
    curves = curves_of(
        [record(0), record(1, partial=True, train_loss=0.12345), record(2, train_loss=None)]
    )
    assert curves["accuracy"] == [None, 0.002] and curves["train_loss"] == [0.1235, None]


def test_clusters_have_a_curve_each() -> None:
    rounds = [record(0), *(record(r, discrepancy_to_global=[r, 10 * r, None]) for r in (1, 2))]
    assert curves_of(rounds)["discrepancy_to_global"] == [[1, 2], [10, 20], [None, None]]
    one = [record(0), record(1, accuracy_by_cluster=[0.5])]
    assert "accuracy_by_cluster" not in curves_of(one)  # it is the accuracy


def test_measuring_scores_the_global_model() -> None:
    line = json.loads(
        json.dumps(
            measure(
                Cell(
                    table="Fig. 5",
                    setting=TINY,
                    column="FlexCFL",
                    method=lambda m: FlexCFL(clusters=m),
                    published=None,
                ),
                0,
            )
        )
    )
    assert (line["row"], line["seed"], line["every"], len(line["train_loss"])) == ("tiny", 0, 1, 3)
    assert len(line["global_accuracy"]) == len(line["discrepancy_to_global"][0]) == 3
    assert len(line["discrepancy_to_global"]) == 2
    plain = measure(
        Cell(
            table="Fig. 5", setting=TINY, column="FedAvg", method=lambda m: FedAvg(), published=None
        ),
        0,
    )
    assert "global_accuracy" not in plain and len(plain["loss"]) == 3


def test_pairs_of_equal_directions_have_no_distance() -> None:
    """Three orthogonal directions, each twice. A row of M' is 1 at both updates of its direction
    and 0 elsewhere: two different ones are sqrt(4) apart. In M cosines of 1 and 0 become 0 and 1/2:
    two are sqrt(1/2) apart."""
    updates = np.repeat(np.diag([3.0, 2.0, 1.0]), 2, axis=0) * np.array([1, 5, 1, 5, 1, 5])[:, None]
    full, ternary = fedgroup.pair_distances(updates)
    same = np.array([(i // 2) == (j // 2) for i in range(6) for j in range(i + 1, 6)])
    np.testing.assert_allclose(full, np.where(same, 0, 2), atol=1e-7)
    assert same.sum() == 3 and np.allclose(ternary[same], 0, atol=1e-7)
    np.testing.assert_allclose(ternary[~same], np.sqrt(1 / 2), atol=1e-7)


def test_pairs_are_measured_and_stored_in_part() -> None:
    cell = Cell(
        table="Fig. 5",
        setting=replace(TINY, data_options=(("clients", 30),)),
        column="pairs",
        method=lambda m: FedAvg(),
        published=None,
    )
    line = json.loads(json.dumps(fedgroup.measure_pairs(cell, 0)))
    assert np.shape(line["pairs"]) == (2, fedgroup.PAIRS)  # of 435
    assert -1 <= line["correlation"] <= 1


def test_a_line_is_the_mean_of_the_seeds_and_its_band_their_range() -> None:
    cell = fedgroup.FIGURE_3[0]
    axes = Figure().subplots()
    plot(
        axes,
        [fake_line(cell, 0), fake_line(cell, 1), fake_line(CURVED[1], 2)],
        cell,
        "accuracy",
        label="it",
    )
    (line,) = axes.lines
    np.testing.assert_array_equal(np.asarray(line.get_xdata(), float), [1, 3, 5])
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), [np.nan, 0.5, 0.5])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]  # type: ignore[index]
    assert (np.nanmin(heights), np.nanmax(heights)) == pytest.approx((0.4, 0.6))


def test_clusters_are_those_of_the_first_seed() -> None:
    cell = CURVED[2]
    axes = Figure().subplots()
    runs = [fake_line(cell, seed) for seed in (1, 0)]
    runs[0]["accuracy_by_cluster"] = [[9.0, 9.0, 9.0]]
    plot_clusters(axes, runs, cell, "accuracy_by_cluster", label="each group")
    assert [float(np.asarray(line.get_ydata(), float)[0]) for line in axes.lines] == [0.1, 0.5]
    assert len(axes.get_legend_handles_labels()[0]) == 1


SHOWN = {  # texts that a figure has only where it has runs
    "fedgroup-figure1": "accuracy; dotted, right axis: discrepancy",
    "flexcfl-figure1": "accuracy; dotted, right axis: discrepancy",
    "fedgroup-figure3": "all, on the global model",
    "fedgroup-figure4": "all, on the global model",
    "fedgroup-figure5": "correlation 0.987",
    "fedgroup-global": ">FedGrouProx<",
    "flexcfl-figure3-curves": "FlexCFL, eta_g 0.1",
    "flexcfl-figure3-eta-curves": "FlexCFL, eta_g 5",
    "flexcfl-figure5-curves": "FlexCFL, eta_g 5",
}


def draw_flexcfl(results: Any, docs: Path) -> None:
    eta_figures.draw(results, docs)
    flexcfl_figures.BY_CLASSES.draw(results, docs)


@pytest.mark.parametrize(
    ("draw", "paper"),
    [(fedgroup_figures.draw, "fedgroup"), (draw_flexcfl, "flexcfl")],
    ids=["fedgroup", "flexcfl"],
)
def test_figures_are_drawn_with_and_without_runs(
    draw: Callable[[Any, Path], None], paper: str, tmp_path: Path
) -> None:
    runs = [fake_line(cell, seed) for cell in CURVED for seed in (0, 1)]
    for folder, results in {
        "empty": [],
        "full": [*runs, *map(fake_pairs, fedgroup.FIGURE_5)],
    }.items():
        (tmp_path / folder / "images").mkdir(parents=True)
        draw(results, tmp_path / folder)
        drawn = {path.stem: path.read_text() for path in (tmp_path / folder / "images").iterdir()}
        assert set(drawn) == {name for name in SHOWN if name.startswith(paper)}
        assert all((SHOWN[name] in text) == bool(results) for name, text in drawn.items())


def test_figure_1_has_the_discrepancy_of_its_paper_on_the_right_axis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FedGroup's eq. 4 is a sum over the cohort, FlexCFL's eq. 3 a mean; a panel for each number of
    classes."""
    figures: list[Figure] = []
    monkeypatch.setattr("fedkin.reporting.style.write", lambda figure, path: figures.append(figure))
    for figure in (fedgroup_figures.BY_CLASSES, flexcfl_figures.BY_CLASSES):
        lines = [fake_line(cell, 0) for cell in figure.cells]
        figure.draw(
            [
                {**line, "discrepancy_sum": [7.0] * 3, "discrepancy_mean": [9.0] * 3}
                for line in lines
            ],
            Path(),
        )
    for figure, height, classes in zip(
        figures, (7.0, 9.0), ("1235", ("1", "3", "5", "10 (IID)")), strict=True
    ):
        left = figure.axes[:4]
        right = figure.axes[4:]
        assert [axes.get_title(loc="left") for axes in left] == [
            f"classes per client: {name}" for name in classes
        ]
        assert [np.asarray(axes.lines[0].get_ydata(), float).tolist() for axes in right] == [
            [height] * 3
        ] * 4
        assert {axes.get_ylim() for axes in right} == {right[0].get_ylim()} and right[0].get_ylim()[
            0
        ] == 0


def test_figure_3_has_a_distance_to_the_global_model_for_each_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For the first seed. FedAvg and FedProx have no groups."""
    figures: dict[str, Figure] = {}
    monkeypatch.setattr(
        "fedkin.reporting.style.write", lambda figure, path: figures.setdefault(path.stem, figure)
    )
    lines = [fake_line(cell, seed) for cell in flexcfl.FIGURE_3 for seed in (0, 1)]
    for line in lines:
        line["discrepancy_to_global"] = [[0.1 + line["seed"]] * 3, [0.5] * 3]
        if line["column"] in flexcfl.FROM_THE_START:
            del line["discrepancy_to_global"]
    eta_figures.draw(lines, Path())
    for name, methods in (("flexcfl-figure3-curves", 4), ("flexcfl-figure3-eta-curves", 5)):
        left, right = figures[name].axes[6:8]  # the fourth of five quantities
        for axes, row in ((left, "MNIST-MCLR"), (right, "MNIST-MLP")):
            assert axes.get_title(loc="left") == row
            heights = [np.asarray(line.get_ydata(), float).tolist() for line in axes.lines]
            assert heights == [[0.1] * 3, [0.5] * 3] * methods
