"""``fedkin reproduce``: the list, a table that is really run, and how it refuses."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedkin.cli import app
from fedkin.methods import FedAvg, FedProx
from papers import claims, recipe, table_request
from papers.accuracy_numbers import best_accuracies
from papers.catalogue import Paper, Table, tables
from papers.recipe import Cell, Setting
from papers.result_store import job_of, read, text_of
from tests.refusals import refused

DIGITS = Setting(
    row="Digits-MCLR, own",
    data="digits",
    data_options=(("clients", 8),),
    model="mclr",
    model_options=(),
    lr=0.1,
    clusters=2,
    epochs=1,
    rounds=2,
    cohort=3,
    seeds=(0, 1),
)
CELLS = [
    Cell(table="I", setting=setting, column=column, method=method, published=published)
    for setting in (
        DIGITS,
        replace(DIGITS, row="Digits-MCLR: short", rounds=1, deviation="1 round for 2"),
    )
    for column, method, published in (
        ("FedAvg", lambda m: FedAvg(), 200.0),
        ("FedProx", lambda m: FedProx(), None),
    )
]


def table(
    measure: Callable[[Cell, int], dict[str, Any]] = recipe.measure, cells: Sequence[Cell] = CELLS
) -> Table:
    jobs = tuple(job_of(cell, measure) for cell in cells)
    compare = lambda measured: best_accuracies(measured, cells)  # noqa: E731
    return Table(
        name="toy-table1",
        title="Table I: a toy",
        statistic="best accuracy",
        rule="within 1.5 points",
        jobs=jobs,
        compare=compare,
        also=("toy-fig2",),
    )


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, toy: Table) -> None:
    """A catalogue of one small table."""
    paper = Paper("toy", "A toy", (toy,))
    monkeypatch.setattr(table_request, "tables", lambda: {toy.name: (paper, toy)})
    monkeypatch.setattr(table_request, "PAPERS", {"toy": paper})


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Table:
    use(monkeypatch, table())
    return table()


def reproduce(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)], env={"COLUMNS": "200"})


# --- the list


def test_without_a_name_everything_is_listed() -> None:
    result = reproduce()
    assert result.exit_code == 0, result.output
    for name in tables():
        assert f"\n{name} " in result.stdout, name
    assert "on two cores" in result.stdout and "estimate" in result.stdout


def test_the_list_says_which_cells_are_measured_and_how_long_the_rest_takes(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(
        monkeypatch, replace(table(), jobs=tuple(replace(job, seconds=600) for job in table().jobs))
    )
    line = job_of(CELLS[0], fake).run(0) | {"seconds": 30.0}
    (elsewhere / "results").mkdir()
    (elsewhere / "results" / "toy.jsonl").write_text(text_of(line) + "\n")
    (summary,) = json.loads(reproduce("--json").stdout)
    # Two cells of two seeds at 30 s (measured), two at the recipe's 600 s; one run is there.
    assert (summary["cells"], summary["measured"], summary["guessed"]) == (4, 1, True)
    assert (summary["seconds"], summary["seconds_left"]) == (4 * 30 + 4 * 600, 3 * 30 + 4 * 600)
    assert summary["name"] == "toy-table1" and summary["also"] == ["toy-fig2"]
    assert reproduce().stdout.count("~42 min") == 2


# --- a table


ONE_CELL = (
    *("toy-table1", "--json", "--seeds", "1"),
    *("--rows", "digits-mclr-own", "--columns", "FEDAVG"),
)


@pytest.mark.usefixtures("toy")
def test_a_cell_is_run_and_shown_with_the_papers_number(elsewhere: Path) -> None:
    result = reproduce(*ONE_CELL)
    assert result.exit_code == 0, result.output
    output = json.loads(result.stdout)
    assert output["ran"] == 1 and output["store"] == "results/toy.jsonl"
    (number,) = output["numbers"]
    assert (number["row"], number["column"], number["published"]) == (DIGITS.row, "FedAvg", "200")
    assert number["mark"] == "differs, no interval" and number["seeds"] == 1
    (line,) = read(elsewhere / "results" / "toy.jsonl").runs
    assert number["difference"] == pytest.approx(100 * line["best"] - 200)
    assert "1/1  Digits-MCLR, own, FedAvg, seed 0" in result.stderr and "left" in result.stderr
    assert json.loads(reproduce(*ONE_CELL).stdout)["ran"] == 0


def fake(cell: Cell, seed: int) -> dict[str, Any]:
    return {"table": "I", "row": cell.setting.row, "column": cell.column, "seed": seed, "best": 0.5}


def test_rows_and_columns_are_named_freely(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, table(fake))

    def ran(*arguments: str) -> int:
        return json.loads(reproduce("Toy Fig2", "--json", *arguments).stdout)["ran"]

    assert ran("--rows", "Digits MCLR, own", "--columns", "fedavg", "--out", "a") == 2
    assert ran("--rows", "digits", "--columns", "fedavg,fedprox", "--out", "b") == 8
    assert (
        ran(
            "--rows",
            "digits-mclr-own,digits-mclr-short",
            "--columns",
            "fed",
            "--out",
            "c",
            "--seeds",
            "3",
        )
        == 12
    )
    assert ran("--out", "a") == 6  # finished runs are not run again


@pytest.mark.usefixtures("toy")
def test_stored_runs_are_shown_without_a_new_one(elsewhere: Path) -> None:
    reproduce("toy-table1", "--rows", "digits-mclr-own", "--columns", "fedavg", "--seeds", "1")
    store = (elsewhere / "results" / "toy.jsonl").read_bytes()
    output = json.loads(reproduce("toy-table1", "--stored", "--json").stdout)
    assert output["ran"] == 0 and (elsewhere / "results" / "toy.jsonl").read_bytes() == store
    assert [number["seeds"] for number in output["numbers"]].count(1) == 1
    assert "not run" in reproduce("toy-table1", "--stored").stdout


def test_few_seeds_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy prints 200."""
    use(monkeypatch, table(lambda cell, seed: {**fake(cell, seed), "best": 1.5}))
    shown = " ".join(reproduce("toy-table1").stdout.split())
    assert "≠ with fewer than 5 seeds decides nothing" in shown
    use(monkeypatch, table(lambda cell, seed: {**fake(cell, seed), "best": 2.0}))
    assert "decides nothing" not in reproduce("toy-table1", "--out", "new").stdout


def test_the_marks_are_shown_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, table(lambda cell, seed: {**fake(cell, seed), "best": 1.99}))
    shown = reproduce("toy-table1").stdout
    assert (
        "✓ reproduced (1 round for 2)" in shown
        and "no number in the paper" in shown
        and "-1.00" in shown
    )
    assert "1 reproduced; 1 no number in the paper" in shown and "runs: results/toy.jsonl" in shown


def test_claims_that_a_table_judges_stand_below_it(
    toy: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the stored runs of the cells that are asked for, and nothing of fewer seeds."""

    def of_table(results: dict[str, Any], names: Sequence[str], key: str) -> list[str]:
        assert names == ("toy-table1", "toy-fig2") and key == ""
        runs = len(results["toy"])
        return [f"“better” (Table I): **reproduced**. runs: {runs}"] if runs else []

    monkeypatch.setattr(claims, "of_table", of_table)
    assert "Claims" not in reproduce("toy-table1", "--stored").stdout
    shown = reproduce("toy-table1").stdout
    assert shown.index("runs: ") < shown.index("Claims that this table judges:")
    assert "runs: 8" in shown and "**" not in shown and shown.endswith("\n")

    def sentences(*arguments: str) -> list[str]:
        return json.loads(reproduce("toy-fig2", "--stored", "--json", *arguments).stdout)["claims"]

    assert sentences() == ["“better” (Table I): **reproduced**. runs: 8"]
    assert sentences("--columns", "FedAvg") == ["“better” (Table I): **reproduced**. runs: 4"]
    assert sentences("--seeds", "1") == sentences("--out", ".") == []


def test_a_claim_is_named_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells alone, and its verdict alone: other claims are judged by the same table."""
    monkeypatch.chdir(Path(__file__).parents[2])  # the repository's stored runs
    output = json.loads(reproduce("fedgroup-1", "--stored", "--json").stdout)
    assert output["name"] == "fedgroup-table3"
    rows = {(number["row"], number["column"]) for number in output["numbers"]}
    columns = ("FedAvg", "FedProx", "FedGroup")
    assert rows == {
        (row, column) for row in ("MNIST-MCLR", "FEMNIST-MLP, shared images") for column in columns
    }
    (claim,) = output["claims"]
    assert claim.startswith("fedgroup-1: “significantly improve test accuracy")
    refused = reproduce("fedgroup-1", "--rows", "mnist")
    assert refused.exit_code == 2 and "leave out --rows" in refused.stderr


@pytest.mark.parametrize(
    ("best", "words"),
    [
        ((1.9, 2.0, 1.95, 2.0, 1.9), "~ differs, inside the interval of one more run"),
        ((1.9, 1.9, 1.9, 1.91, 1.9), "✗ differs, outside the interval of one more run"),
    ],
    ids=["inside", "outside"],
)
def test_a_difference_is_shown_with_what_the_interval_says(
    monkeypatch: pytest.MonkeyPatch, best: tuple[float, ...], words: str
) -> None:
    """The toy prints 200, and has five seeds here."""
    cells = [replace(cell, setting=replace(cell.setting, seeds=tuple(range(5)))) for cell in CELLS]
    made = lambda cell, seed: {**fake(cell, seed), "best": best[seed]}  # noqa: E731
    use(monkeypatch, table(made, cells))
    shown = " ".join(reproduce("toy-table1").stdout.split())
    assert words in shown and "(1 round for 2)" in shown


def test_ctrl_c_keeps_finished_runs(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(cell: Cell, seed: int) -> dict[str, Any]:
        if seed == 1:
            raise KeyboardInterrupt
        return fake(cell, seed)

    use(monkeypatch, table(stopped))
    result = reproduce("toy-table1", "--out", "mine")
    assert (
        result.exit_code == 130
        and "interrupted; 1 of 8 runs are stored in mine/toy.jsonl" in result.stderr
    )
    assert len(read(elsewhere / "mine" / "toy.jsonl").runs) == 1
    use(monkeypatch, table(fake))
    assert json.loads(reproduce("toy-table1", "--out", "mine", "--json").stdout)["ran"] == 7


def test_in_a_checkout_runs_go_to_its_store(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, table(fake))
    for folder in ("papers/results",):
        (elsewhere / folder).mkdir(parents=True)
    assert (
        json.loads(reproduce("toy-table1", "--json").stdout)["store"] == "papers/results/toy.jsonl"
    )
    assert len(read(elsewhere / "papers" / "results" / "toy.jsonl").runs) == 8


# --- refusals


def test_without_a_checkout_it_says_where_the_tables_are(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an installed wheel: papers/ lies neither next to the package nor in the working
    directory."""
    monkeypatch.setattr("sys.path", sys.path[:])
    monkeypatch.setattr("fedkin.cli.reproduce._ROOT", elsewhere / "site-packages")
    refused(
        reproduce(),
        "stored results are in the folder papers/",
        "docs/results.md",
        "clone the repository",
        "make demo",
        ".venv/bin/fedkin reproduce",
    )
    (elsewhere / "papers").mkdir()
    (elsewhere / "papers" / "catalogue.py").touch()
    refused(reproduce("toy-tabel1"), "unknown table")  # the working directory has them


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("toy-tabel1",), ("unknown table 'toy-tabel1'", "did you mean 'toy-table1'?")),
        (("",), ("unknown table",)),
        (
            ("toy-table1", "--rows", "digist-mclr-own"),
            ("toy-table1", "unknown row", "did you mean 'digits-mclr-own'?"),
        ),
        (("toy-table1", "--columns", "fedsgd"), ("unknown column 'fedsgd'", "did you mean")),
        (("toy-table1", "--columns", "fedavg,ifca"), ("unknown column 'ifca'",)),
        (("toy-table1", "--rows", ","), ("expected the name of a row", "','")),
        (("toy-table1", "--seeds", "0"), ("--seeds", "at least 1", "got 0")),
        (("--rows", "digits"), ("need a table",)),
        (("--stored",), ("--stored need a table",)),
        (("toy-table1", "--stored", "--out", "misspelt"), ("--out: there is no folder misspelt",)),
    ],
    ids=str,
)
def test_bad_names_end_in_one_line(
    elsewhere: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    refused(reproduce(*arguments), *words)
    assert not list(elsewhere.iterdir())


def test_the_nearest_table_of_the_real_catalogue_is_named() -> None:
    refused(reproduce("flexcfl-tabel3"), "did you mean 'flexcfl-table3'?")
    refused(reproduce("flexcfl-table3", "--rows", "mnist-mcrl"), "did you mean 'mnist-mclr'?")
    refused(
        reproduce("fedgroup-table1", "--rows", "5", "--columns", "fedprox"),
        "unknown column 'fedprox'",
    )


def test_rows_and_columns_without_a_cell_in_common() -> None:
    """Table III has the code's slip in four rows only."""
    refused(
        reproduce(
            "flexcfl-table3", "--rows", "femnist-mlp-own-images", "--columns", "ifca-first-client"
        ),
        "flexcfl-table3 has no cell",
        "femnist-mlp-own-images",
    )


def test_runs_left_out_of_a_store_are_named_and_count_nowhere(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged line, and a run of a recipe that has changed since:
    its learning rate was another."""
    use(monkeypatch, table(fake))
    changed = replace(CELLS[0], setting=replace(DIGITS, lr=0.2))
    (elsewhere / "results").mkdir()
    old = job_of(changed, lambda cell, seed: fake(cell, seed) | {"best": 1.99}).run(0)
    (elsewhere / "results" / "toy.jsonl").write_text(f"nonsense\n{text_of(old)}\n")
    (summary,) = json.loads(reproduce("--json").stdout)
    assert (summary["cells"], summary["measured"]) == (4, 0)
    shown = reproduce("toy-table1").stdout
    assert "left out: results/toy.jsonl, line 1: not a run, damaged" in shown
    assert f"left out: I, {DIGITS.row}, FedAvg: 1 run of another setting" in shown
    # Neither the old run nor a mean with it.
    assert "50.00" in shown and "199" not in shown and "124.50" not in shown
    output = json.loads(reproduce("toy-table1", "--json").stdout)
    assert [number["seeds"] for number in output["numbers"]] == [2] * 4  # seed 0 was run again
    assert output["left_out"] == [
        "results/toy.jsonl, line 1: not a run, damaged",
        f"I, {DIGITS.row}, FedAvg: 1 run of another setting",
    ]


def test_a_store_without_faults_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, table(fake))
    assert "left out" not in reproduce("toy-table1").stdout
    assert json.loads(reproduce("toy-table1", "--json").stdout)["left_out"] == []


@pytest.mark.usefixtures("toy")
def test_a_file_for_a_folder(elsewhere: Path) -> None:
    (elsewhere / "file").touch()
    refused(reproduce("toy-table1", "--out", "file"), "--out", "file is a file")


def test_a_recipe_whose_data_are_missing_ends_in_one_line(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes into the store, and no number is shown."""
    monkeypatch.setenv("FEDKIN_DATA", str(elsewhere))
    monkeypatch.setenv("FEDKIN_CACHE", str(elsewhere / "cache"))
    options = (("folder", "synthetic"), ("file", "lost.npz"))
    cell = replace(CELLS[0], setting=replace(DIGITS, data="published", data_options=options))
    use(
        monkeypatch,
        replace(
            table(), jobs=(job_of(cell),), compare=lambda lines: best_accuracies(lines, [cell])
        ),
    )
    result = reproduce("toy-table1", "--out", "mine")
    assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.stderr
    (error,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert (
        "lost.npz not found" in error
        and "set FEDKIN_DATA to the folder that has synthetic/ in it" in error
    )
    assert (elsewhere / "mine" / "toy.jsonl").read_text() == ""
    (summary,) = json.loads(reproduce("--out", "mine", "--json").stdout)
    assert summary["measured"] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.usefixtures("toy")
def test_a_folder_that_cannot_be_written(elsewhere: Path) -> None:
    (elsewhere / "closed").mkdir(mode=0o500)
    refused(reproduce("toy-table1", "--out", "closed"), "cannot write")
