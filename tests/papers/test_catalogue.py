"""The catalogue is complete, and the numbers in it are the papers'."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from fedkin.scenarios.shift import Incremental
from papers.athena import published
from papers.athena import recipes as athena
from papers.catalogue import PAPERS, Table, tables
from papers.fedgroup import candidate_recipes, sent140_recipes
from papers.fedgroup import figure_recipes as fedgroup_figures
from papers.fedgroup import recipes as fedgroup
from papers.fedsim import (
    network_recipes,
    objective_recipes,
    search_recipes,
    similarity_recipes,
)
from papers.fedsim import recipes as fedsim
from papers.flexcfl import cnn_recipes, hypothesis_recipes
from papers.flexcfl import figure_recipes as flexcfl_figures
from papers.flexcfl import recipes as flexcfl
from papers.panm import recipes as peers
from papers.paper_tables import Paper
from papers.planted_clusters import recipes as planted
from papers.results_page import page
from tests.conftest import SHARED

FIGURES = [
    *fedgroup_figures.FIGURE_1,
    *fedgroup_figures.FIGURE_3,
    *fedgroup_figures.FIGURE_4,
    *fedgroup_figures.FIGURE_5,
]
CURVES = [*flexcfl_figures.FIGURE_1, *flexcfl_figures.FIGURE_3, *flexcfl_figures.FIGURE_5]
CELLS = {
    "fedgroup": [*fedgroup.CELLS, *sent140_recipes.CELLS, *candidate_recipes.CELLS, *FIGURES],
    "flexcfl": [*flexcfl.CELLS, *cnn_recipes.CELLS, *hypothesis_recipes.CELLS, *CURVES],
    "fedsim": [
        *fedsim.CELLS,
        *network_recipes.CELLS,
        *similarity_recipes.CELLS,
        *objective_recipes.CELLS,
        *search_recipes.CELLS,
    ],
    "athena": athena.CELLS,
}
OWN = [table for _, table in tables().values() if not table.same_runs]


@pytest.mark.parametrize("paper", CELLS)
def test_each_cell_of_a_recipe_belongs_to_one_table(paper: str) -> None:
    keys = Counter(
        str(job.key) for table in PAPERS[paper].tables if not table.same_runs for job in table.jobs
    )
    assert set(keys.values()) == {1}
    cells = [{"table": c.table, "row": c.setting.row, "column": c.column} for c in CELLS[paper]]
    assert keys.keys() == {str(key) for key in cells} and len(keys) == len(cells)


@pytest.mark.parametrize(("paper", "recipe"), [("planted", planted), ("peers", peers)])
def test_each_question_belongs_to_one_table(paper: str, recipe: object) -> None:
    """PANM's table of federations has the first one too, which another table compares."""
    jobs = PAPERS[paper].jobs()
    in_tables = [job for table in PAPERS[paper].tables for job in table.jobs]
    assert len(in_tables) - len(jobs) == (5 if paper == "peers" else 0)
    asked = [vars(question) for question, _ in recipe.questions()]  # type: ignore[attr-defined]
    assert sorted(str(job.key) for job in jobs) == sorted(map(str, asked))


@pytest.mark.parametrize("table", OWN, ids=lambda table: table.name)
def test_rows_and_columns_name_one_cell(table: Table) -> None:
    assert set(Counter((job.row, job.column) for job in table.jobs).values()) == {1}
    assert all(job.seconds > 0 and job.seeds for job in table.jobs)
    assert table.title and table.statistic and table.rule


def test_names_are_unique_and_those_of_their_paper() -> None:
    names = [name for _, table in tables().values() for name in (table.name, *table.also)]
    assert len(names) == len(set(names))
    expected = {
        "fedgroup-table1",
        "fedgroup-table3",
        "flexcfl-table1",
        "flexcfl-table3",
        "flexcfl-table4",
    }
    expected |= {
        "flexcfl-figure6",
        "fedsim-table4",
        "fedsim-table7",
        "fedsim-figure8",
        "fedsim-figure10",
    }
    expected |= {
        "fedgroup-figure1",
        "flexcfl-figure1",
        "fedgroup-figure3",
        "fedgroup-figure4",
        "fedgroup-figure5",
        "flexcfl-figure3",
        "flexcfl-figure4",
    }
    expected |= {
        "flexcfl-figure5",
        "fedsim-table6",
        *(f"fedsim-figure{n}" for n in (1, *range(3, 11))),
    }
    expected |= {
        "athena-eps",
        "athena-figure1",
        "athena-figure2",
        "athena-figure3",
        "athena-figure4",
        "athena-table1",
    }
    assert expected <= set(names)
    for name, (paper, table) in tables().items():
        assert name.startswith({"peers": "panm"}.get(paper.name, paper.name))
        assert not table.same_runs or (
            tables()[table.same_runs][1].jobs and table.same_runs != name
        )


def test_every_table_is_compared_where_nothing_was_measured() -> None:
    for _, table in tables().values():
        found = table.compare([])
        assert found, table.name
        assert all(number.difference is None or not number.seeds for number in found), table.name


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_every_page_is_whole_where_nothing_was_measured(paper: Paper) -> None:
    text = page(paper, [])
    assert not re.search(r"\bnan\b", text.lower())
    assert "[[" not in text and "{" not in text


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("fedgroup-table3", 6 * 6 - 1),
        ("flexcfl-table3", 8 * 8 - 1),
        ("flexcfl-table4", 8 * 6 * 3 + 1),  # and a gain of IFCA-MIG in the text
        ("fedgroup-table1", 4 * 2),
        ("flexcfl-table1", 4 * 2),
        ("fedsim-table4", 4 * 2),
        ("fedsim-table7", 6 * 2),
        ("fedsim-table6", 4 * 2),
        ("athena-figure1", 7 + 2),  # accuracies of clusters, gains
        ("athena-figure2", 5 + 12 + 2),  # detectors, networks, gains
    ],
)
def test_every_printed_number_is_counted_once(name: str, printed: int) -> None:
    """Rows x columns of the papers' tables (of Table I the two accuracies); two cells are printed
    empty."""
    table = tables()[name][1]
    assert (
        sum(number.counts for number in table.compare([])) + sum(table.without_recipe.values())
        == printed
    )


# --- read again from the papers' text


@pytest.fixture(scope="module")
def paper() -> Callable[[str], list[str]]:
    """The lines of a paper's text, from $FEDKIN_PAPERS or the folder next to the checkout."""
    folder = Path(os.environ.get("FEDKIN_PAPERS", SHARED / "papers"))

    def read(name: str) -> list[str]:
        path = folder / f"{name}.txt"
        if not path.is_file():
            pytest.skip(
                f"the text {path.name} is not in {folder}; set FEDKIN_PAPERS to the folder of the "
                "papers"
            )
        return path.read_text().splitlines()

    return read


def after(lines: list[str], caption: str, rows: int) -> list[str]:
    """So many lines behind the one that begins with a caption."""
    start = next(i for i, line in enumerate(lines) if line.startswith(caption))
    return lines[start + 1 : start + 1 + rows]


FIRST = re.compile(r"(?:<u>)?(-?\d+\.\d+|—)")


def stem(row: str) -> str:
    """A row as the paper calls it, without the names of our readings of its data."""
    reading = r"shared images|own images|five labels|by writer|other draws|draw 0|50 rounds"
    return re.sub(rf"(, ({reading}))+$", "", row)


def test_fedgroup_table_iii(paper: Callable[[str], list[str]]) -> None:
    rows = {}
    for line in after(paper("fedgroup"), "TABLE III", 16):
        name, *cells = line.split("\t")
        if (
            len(cells) == len(fedgroup.METHODS)
            and (values := [FIRST.match(cell) for cell in cells])
            and all(values)
        ):
            rows[name] = [None if value[1] == "—" else float(value[1]) for value in values if value]
    assert len(rows) == 6
    for setting, values in fedgroup.PUBLISHED.items():
        assert rows[stem(setting.row)] == list(values), setting.row


def test_fedgroup_table_i(paper: Callable[[str], list[str]]) -> None:
    found = {}
    for line in after(paper("fedgroup"), "TABLE I", 12):
        cells = line.replace("%", "").split("\t")
        if cells[0].isdigit():
            found[int(cells[0])] = tuple(map(float, cells[1:]))
    assert found == fedgroup.TABLE_I_PUBLISHED


def flexcfl_rows(lines: list[str], caption: str, pattern: str) -> dict[str, list[tuple[str, ...]]]:
    """Each number is printed three times in a row by the converter; the first is taken."""
    rows = {}
    for line in after(lines, caption, 12):
        name, *cells = line.split() or [""]
        found = [match for match in (re.match(pattern, cell) for cell in cells) if match]
        if found and "-" in name:
            rows[name] = [match.groups() for match in found]
    return rows


def test_flexcfl_table_iii(paper: Callable[[str], list[str]]) -> None:
    rows = flexcfl_rows(paper("flexcfl"), "TABLE III", r"(\d+\.\d)[\d(]")
    assert len(rows) == 8
    for setting, values in flexcfl.PUBLISHED_III.items():
        name = stem(setting.row)
        assert [float(value) for (value,) in rows[name]] == [
            value for value in values if value is not None
        ], name


def test_flexcfl_table_iv(paper: Callable[[str], list[str]]) -> None:
    rows = flexcfl_rows(paper("flexcfl"), "TABLE IV", r"(\d+\.\d)/(\d+\.\d)/(\d+\.\d)")
    assert len(rows) == 8
    for setting, values in flexcfl.PUBLISHED_IV.items():
        name = stem(setting.row)
        assert [tuple(map(float, cell)) for cell in rows[name]] == list(values), name


def test_flexcfl_table_iv_of_convolutional_networks(paper: Callable[[str], list[str]]) -> None:
    rows = flexcfl_rows(paper("flexcfl"), "TABLE IV", r"(\d+\.\d)/(\d+\.\d)/(\d+\.\d)")
    assert len(cnn_recipes.PUBLISHED_IV) == 3
    for setting, columns in cnn_recipes.PUBLISHED_IV.items():
        assert [tuple(map(float, cell)) for cell in rows[stem(setting.row)]] == list(
            columns.values()
        ), setting.row
        assert list(columns) == list(flexcfl.SHIFTED)


def test_flexcfl_table_i(paper: Callable[[str], list[str]]) -> None:
    found = {}
    for line in after(paper("flexcfl"), "TABLE I:", 6):
        if match := re.fullmatch(
            r"(\d+(?: \(IID\))?) ([\d.]+) ([\d.]+) ([\d.]+)% ([\d.]+)% (\d+)", line.strip()
        ):
            found[match[1]] = tuple(map(float, match.groups()[1:]))
    assert found == flexcfl.TABLE_I_PUBLISHED


def test_flexcfls_table_i_has_no_l2_term_but_in_its_variant() -> None:
    """The paper's section 3.1 names none; the code has 0.001 in Tables III and IV."""
    terms = {cell.column: dict(cell.setting.model_options) for cell in flexcfl.TABLE_I}
    assert terms == {"FedAvg": {}, flexcfl.WITH_L2: {"l2": 0.001}}
    best = {"FedAvg": 0.9, flexcfl.WITH_L2: 0.5}
    runs = [
        {"table": "I", "row": "1", "column": column, "seed": 0, "best": best[column]}
        for column in terms
    ]
    compared = tables()["flexcfl-table1"][1].compare(runs)
    assert [n.ours for n in compared if (n.row, n.column) == ("1", "best accuracy (%)")] == [
        "90.00"
    ]
    assert [cell.variant_of for cell in flexcfl.TABLE_I] == [""] * 4 + ["FedAvg"] * 4


def test_every_row_of_femnist_is_shuffled_but_that_in_the_pools_order() -> None:
    """The authors shuffle the images of a class; in the pool's order the first come from few
    writers."""
    settings = {
        cell.setting for cells in CELLS.values() for cell in cells if cell.setting.data == "femnist"
    }
    in_order = {
        setting for setting in settings if not dict(setting.data_options).get("shuffled", True)
    }
    assert {setting.row for setting in in_order} == {fedgroup.FEMNIST_BY_WRITER.row}
    assert len(settings) > len(in_order) and all(setting.deviation for setting in in_order)


def test_flexcfls_incremental_rows_are_as_coded_but_those_as_written() -> None:
    """The two differ in who notices the cut; only the first are compared with the paper."""
    settings = {
        cell.setting for cell in CELLS["flexcfl"] if isinstance(cell.setting.shift, Incremental)
    }
    shifts = {(setting.row.partition("incremental")[2], setting.shift) for setting in settings}
    assert shifts == {("", Incremental(as_coded=True)), (", as written", Incremental())}
    assert all(setting.deviation for setting in settings if setting.shift == Incremental())


GAIN = r"(-?\d+\.\d+) ?± ?(\d+\.\d+)"


def test_fedsim_tables_4_and_7(paper: Callable[[str], list[str]]) -> None:
    found = {}
    for line in paper("fedsim"):
        cells = line.rstrip("\t").split("\t")
        gains = [re.fullmatch(GAIN, cell.strip()) for cell in cells[1:]]
        if len(gains) == 2 and all(gains):
            found[re.sub(r"<.*?>|Synthetic| ", "", cells[0])] = tuple(
                (float(g[1]), float(g[2])) for g in gains if g
            )
    assert len(found) == 4 + 6
    for setting, numbers in fedsim.TABLE_4.items():
        assert numbers == found[setting.row.split(",")[0]], setting.row
    for name, numbers in fedsim.TABLE_7.items():
        assert numbers == found[name.replace(" ", "")], name


def test_athena_table_1(paper: Callable[[str], list[str]]) -> None:
    names = {"CIFAR-10": "cifar10", "MNIST": "mnist", "FMNIST": "fashion_mnist"}
    epochs: dict[str, list[list[str]]] = {}
    data = ""
    for line in paper("athena"):
        cells = line.split("\t")
        data = names.get(cells[0], data if not cells[0] else "")
        if data and len(cells) == 8:
            epochs.setdefault(data, []).append(cells[2:])
    assert epochs.keys() == set(names.values())
    for data, (ours, theirs, saved) in epochs.items():
        for i, split in enumerate(("IID", "5 classes", "2 classes")):
            assert published.TABLE_1[data, split] == (int(ours[2 * i]), int(theirs[2 * i]))
            assert published.ECONOMY_PUBLISHED[data][i] == float(saved[2 * i + 1])
