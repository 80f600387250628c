"""FedSim's Figure 7 on the page, and the functions of all pages."""

from __future__ import annotations

import ast
import re
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import papers
from fedkin.methods import FedSim
from papers.catalogue import PAPERS
from papers.fedsim import figures, page
from papers.fedsim.authors_curves import curves_of
from papers.fedsim.network_recipes import FIGURE_6, MNIST_CNN
from papers.fedsim.recipes import CELLS, FEMNIST, MNIST, OF_AUTHORS, SYNTHETIC, TABLE_4
from papers.results_page import page as page_of

FOLDER = Path(papers.__file__).parent


def runs(row: str, column: str, gain: int, seeds: int, table: str = "4") -> list[dict[str, Any]]:
    """``gain`` points above 50 in the first round, two points more in the second; nothing counts in
    round 0."""
    line = {"table": table, "row": row, "column": column, "tested": 100}
    return [
        {**line, "seed": seed, "right": [10 + 30 * seed, 50 + gain, 52 + gain]}
        for seed in range(seeds)
    ]


def cells(results: list[dict[str, Any]]) -> list[str]:
    lines = page.variants(results).splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {FEMNIST.row} |"))
    return line.strip("| ").split(" | ")


def test_similarity_and_round_robin_are_compared_over_the_seeds_that_both_have() -> None:
    row = FEMNIST.row
    results = [
        *runs(row, "FedAvg", 0, 3),
        *runs(row, "FedSim", 4, 2),
        *runs(row, page.ROUND_ROBIN, 3, 2),
    ]
    # Round robin lacks this seed.
    results += [{**run, "seed": 2} for run in runs(row, "FedSim", 10, 1)]
    assert cells(results) == [row, "+4.00", "+3.00", "+1.00", "75%", "2 draws"]


def test_an_interval_is_students() -> None:
    """Five draws, mean 2 and deviation sqrt(2.5): t of 4 degrees of freedom is 2.776."""
    half = 2.776445 * sqrt(2.5 / 5)
    points = np.arange(5.0)
    assert page.spread(points) == f"+2.00 ({2 - half:.2f} to {2 + half:.2f})"
    assert page.spread(points[:2]) == "+0.50"  # too few


def test_seeds_that_share_cohorts_have_no_interval() -> None:
    assert page.spread(np.arange(5.0), independent=False) == "+2.00"
    row = OF_AUTHORS["(0, 0)"].row
    results = [
        run
        for column, gain in (("FedAvg", 0), ("FedSim", 4), (page.ROUND_ROBIN, 3))
        for run in runs(row, column, gain, 5, table="7")
    ]
    (line,) = (
        line for line in page.variants(results).splitlines() if line.startswith(f"| {row} |")
    )
    assert line == f"| {row} | +4.00 | +3.00 | +1.00 | 75% | 5 seeds |"


def test_a_share_is_of_two_gains_and_of_nothing_else() -> None:
    row = FEMNIST.row
    results = [
        *runs(row, "FedAvg", 0, 2),
        *runs(row, "FedSim", -8, 2),
        *runs(row, page.ROUND_ROBIN, -4, 2),
    ]
    assert cells(results)[1:] == ["-8.00", "-4.00", "-4.00", "-", "2 draws"]
    assert row not in page.variants(runs(row, "FedSim", 4, 2))


def test_gains_by_draws_stand_next_to_each_other() -> None:
    """On the authors' file +4, on draws like it +2, on others +1: not one mean of all."""
    results = [
        run
        for row, gain in (
            ("(0, 0), the authors' file", 4),
            ("(0, 0)", 2),
            ("(0, 0), other draws", 1),
        )
        for column, points in {"FedAvg": 0, "FedProx": 1, "FedSim": gain}.items()
        for run in runs(row=row, column=column, gain=points, seeds=2, table="7")
    ]
    line = next(row for row in page.other_draws(results).splitlines() if "| (0, 0) |" in row)
    assert line == ("| (0, 0) | +6.93, +5.83 | +4.0, +3.0 (1) | +2.0, +1.0 (2) | +1.0, +0.0 (2) |")


def test_figure_6_has_the_runs_of_table_6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedkin.reporting import style

    drawn = {}
    monkeypatch.setattr(style, "write", lambda figure, path: drawn.update({path.stem: figure}))
    gains = {"FedAvg": 0, "FedProx": 1, "FedSim": 4}
    of_table_6 = [
        run
        for column, gain in gains.items()
        for run in runs(row=MNIST_CNN.row, column=column, gain=gain, seeds=2, table="6")
    ]
    figures.draw([*of_table_6, *runs(MNIST_CNN.row, "FedAvg", 30, 2)], tmp_path)
    shown, *others = drawn["fedsim-networks"].axes
    assert shown.get_visible() and shown.get_title(loc="left") == MNIST_CNN.row
    ours = shown.lines[:3]
    # A run of Table 4 is none of this figure's.
    assert [line.get_ydata()[2] for line in ours] == pytest.approx([0.52, 0.53, 0.56])
    authors = shown.lines[3:6]
    assert [list(line.get_ydata()) for line in authors] == list(curves_of(MNIST_CNN.row).values())
    assert [line.get_color() for line in authors] == [line.get_color() for line in ours]
    assert all(line.get_linestyle() == ":" for line in authors)
    assert not any(axes.get_visible() for axes in others)
    last = FIGURE_6[-1].row
    figures.draw(runs(row=last, column="FedSim", gain=4, seeds=2, table="6"), tmp_path)
    shown, *others = drawn["fedsim-networks"].axes  # no empty places above it
    assert shown.get_title(loc="left") == last and [axes.get_visible() for axes in others] == [
        False
    ]


def test_the_page_has_figure_7_of_both_tables_data() -> None:
    results = [
        run
        for setting, table in ((MNIST, "4"), (SYNTHETIC["IID"], "7"))
        for column, gain in {"FedAvg": 0, "FedProx": 0, "FedSim": 4, page.ROUND_ROBIN: 1}.items()
        for run in runs(row=setting.row, column=column, gain=gain, seeds=2, table=table)
    ]
    text = page_of(PAPERS["fedsim"], results)
    _, figure_7 = text.split("\n## Figure 7")
    assert "images/fedsim-random.svg" in figure_7
    for row, count in ((MNIST.row, "2 draws"), ("IID", "2 draws")):
        assert f"| {row} | +4.00 | +1.00 | +3.00 | 25% | {count} |" in figure_7


def test_every_row_of_figure_7_has_clusters_that_are_dealt() -> None:
    cells = {(cell.setting.row, cell.column): cell for cell in CELLS}
    for setting in (*TABLE_4, *page.SEVEN):
        similar, dealt = (
            cells[setting.row, column].method(5) for column in ("FedSim", page.ROUND_ROBIN)
        )
        assert (similar, dealt) == (
            FedSim(clusters=5),
            FedSim(clusters=5, clustering="round_robin"),
        )


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*/page.py")), ids=lambda path: path.parent.name
)
def test_no_part_of_a_page_is_called_from_nowhere(path: Path) -> None:
    """Every public function of a page is named outside its own definition: in its file, the
    catalogue or a command."""
    tree = ast.parse(path.read_text())
    callers = [FOLDER / "catalogue.py", path.with_name("__main__.py")]
    called = "".join(caller.read_text() for caller in callers if caller.exists())
    for part in (
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"
    ):
        inside = set(map(id, ast.walk(part)))
        names = [
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and id(node) not in inside
        ]
        assert part.name in names or re.search(rf"page\.{part.name}\b", called), part.name
