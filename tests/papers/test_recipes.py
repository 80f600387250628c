"""The recipes behind the pages of results: runs, their figures, and the pages."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from fedkin.core.errors import ConfigError
from fedkin.methods import FedAvg
from papers import results_page
from papers.__main__ import main, named_jobs
from papers.catalogue import PAPERS
from papers.fedgroup.recipes import CELLS, METHODS, MNIST, PUBLISHED
from papers.recipe import Cell, Setting, measure
from papers.results_page import pages

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


def run_of(column: str, seed: int, best: float, row: str = MNIST.row) -> dict:
    figures = {"best": best, "final": best - 0.1}
    return {"table": "III", "row": row, "column": column, "seed": seed, **figures}


def test_every_cell_of_table_iii_is_there_once() -> None:
    keys = [(c.table, c.setting.row, c.column) for c in CELLS]
    assert len(keys) == len(set(keys)) == 4 + len(PUBLISHED) * len(METHODS)


def test_measuring_a_cell_gives_figures_that_json_can_hold() -> None:
    figures = json.loads(
        json.dumps(
            measure(
                Cell(
                    table="III",
                    setting=TINY,
                    column="FedAvg",
                    method=lambda m: FedAvg(),
                    published=50.0,
                ),
                0,
            )
        )
    )
    assert figures["row"] == "tiny" and figures["seed"] == 0 and figures["sizes"] == [12]
    assert 0 <= figures["final"] <= figures["best"] <= 1 and 1 <= figures["best_round"] <= 3
    assert figures["bytes_up"] == 3 * 4 * 650 * 4  # rounds x cohort x parameters of 64-10 x bytes


def test_a_page_shows_the_papers_number_ours_and_the_last_round() -> None:
    runs = [run_of("FedAvg", 1, 0.91), run_of("FedAvg", 0, 0.89)]
    text = pages({"fedgroup": runs})["results-fedgroup.md"]
    assert "| MNIST-MCLR | FedAvg | 89.3 | 90.0 | 1.4 | 2 | 80.0 | ✓ |" in text
    assert "Not run: MNIST-MCLR (5); MNIST-MLP (all 6); " in text


def test_each_paper_has_a_page_that_links_to_the_next() -> None:
    written = pages({})
    names = [paper.page for paper in PAPERS.values()]
    assert list(written) == ["results.md", "results-collective-test.md", *names]
    assert all(f"]({name})" in written["results.md"] for name in names)
    for name, following in pairwise([*names, "results.md"]):
        _, steps = written[name].split("\n## Next\n")
        assert "](results.md)" in steps and f"]({following})" in steps


def test_a_place_in_a_text_that_names_no_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = PAPERS["fedgroup"]
    (tmp_path / "fedgroup.md").write_text("# A page\n\n[[fedgroup-table9]]\n")
    monkeypatch.setattr(results_page, "TEXTS", tmp_path)
    with pytest.raises(ConfigError, match=r"fedgroup\.md: unknown table 'fedgroup-table9'"):
        results_page.page(paper, [])


@pytest.mark.parametrize(
    "rows", [["MNIST-MCRL"], ["MNIST", "flexcfl/V/"], ["planted/lost"]], ids=str
)
def test_a_row_that_is_not_there_ends_in_words(
    rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "papers" / "results"
    results.mkdir(parents=True)
    with pytest.raises(
        SystemExit, match=f"error: no table and no row begins with '{rows[-1]}'.* Nothing was run"
    ):
        main(rows)
    assert [path.name for path in tmp_path.iterdir()] == ["papers"] and not list(results.iterdir())


def test_rows_are_asked_for_by_paper_table_and_beginning() -> None:
    names = {name for job in named_jobs() for name in job.names}
    for row in ("MNIST-MCLR", "flexcfl/MNIST-MCLR: swap all", "flexcfl/IV/MNIST-MCLR: swap all"):
        assert row in names, row
    for row in (
        "flexcfl-table4/MNIST-MCLR: swap all",
        "planted/found/rotation",
        "fedsim/Fig. 8/MNIST",
    ):
        assert row in names, row
    assert not any(name.startswith("flexcfl/III/MNIST-MCLR: swap") for name in names)
