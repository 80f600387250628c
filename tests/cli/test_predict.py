"""``fedkin predict`` and ``fedkin evaluate`` on tables as people have them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from tests.refusals import refused

N = 120


def patients() -> pd.DataFrame:
    """Six hospitals with numbers for names; in half of them the labels are reversed."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.normal(size=N), "dose": rng.normal(size=N), "hospital": np.arange(N) % 6 + 1}
    )
    return table.assign(
        outcome=np.where((table["age"] > 0) ^ (table["hospital"] > 3), "ill", "well")
    )


NEW = patients().head(12)


def fedkin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its export."""
    place = tmp_path_factory.mktemp("predict")
    patients().to_csv(place / "t.csv", index=False)
    done = fedkin(
        "run",
        f"data.path={place / 't.csv'}",
        "data.label=outcome",
        "data.client=hospital",
        "method.name=ifca",
        "method.clusters=2",
        "run.rounds=3",
        "run.cohort=6",
        "run.against=[]",
        "--out",
        place / "run",
    )
    assert done.exit_code == 0, done.output
    assert fedkin("export", place / "run", "--out", place / "export").exit_code == 0
    return place


def predicted(folder: Path, table: pd.DataFrame, name: str = "new.csv") -> Result:
    table.to_parquet(folder / name) if name.endswith("parquet") else table.to_csv(
        folder / name, index=False
    )
    return fedkin("predict", folder / "export", folder / name)


def evaluated(folder: Path, table: pd.DataFrame, out: Path) -> Result:
    table.to_csv(folder / "new.csv", index=False)
    return fedkin("evaluate", folder / "run", "--data", folder / "new.csv", "--out", out, "--json")


def test_numbers_are_no_positions_of_named_labels(folder: Path, tmp_path: Path) -> None:
    numbers = NEW.assign(outcome=(NEW["outcome"] == "ill").astype(int))
    for result in (predicted(folder, numbers), evaluated(folder, numbers, tmp_path)):
        refused(result, "new.csv", "'outcome'")
        refused(result, "row 0 is a number", "labels are ill, well")
    run = fk.Run.load(folder / "run")
    with pytest.raises(fk.DataError, match="labels are ill, well"):
        run.evaluate(data=fk.data.from_pandas(numbers, label="outcome", client="hospital"))


@pytest.mark.parametrize("cluster", [[], ["--cluster", "0"]])
def test_booleans_are_no_positions_of_named_labels(
    cluster: list[str], folder: Path, tmp_path: Path
) -> None:
    NEW.assign(outcome=NEW["outcome"] == "ill").to_csv(tmp_path / "booleans.csv", index=False)
    for command in (("predict", folder / "export"), ("evaluate", folder / "run", "--data")):
        result = fedkin(*command, tmp_path / "booleans.csv", *cluster)
        refused(result, "booleans.csv", "labels are booleans")
        refused(result, "named ill, well", "write these names")


def test_an_unseen_label_is_named_with_its_row_of_the_file(folder: Path, tmp_path: Path) -> None:
    table = NEW.copy()
    table.loc[2, "outcome"] = None
    table.loc[5, "outcome"] = "ILL"
    result = predicted(folder, table)
    refused(result, "new.csv", "'outcome'")
    refused(result, "row 5", "'ILL'", "did you mean 'ill'")
    refused(
        evaluated(folder, table.drop(index=2), tmp_path), "row 4", "'ILL'", "did you mean 'ill'"
    )


def test_numbers_are_positions_where_the_run_was_given_their_names(tmp_path: Path) -> None:
    table = patients().assign(outcome=lambda t: (t["outcome"] == "ill").astype(int))
    data = fk.data.from_pandas(
        table, label="outcome", client="hospital", label_names=["well", "ill"]
    )
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6)
    run.export(tmp_path / "export")
    table.to_csv(tmp_path / "t.csv", index=False)
    result = fedkin("predict", tmp_path / "export", tmp_path / "t.csv")
    share = np.mean(run.predict(table, cluster=0) == np.where(table["outcome"] == 1, "ill", "well"))
    assert f"{share:.3f}" in result.stderr


def test_booleans_are_read_from_numbers(tmp_path: Path) -> None:
    table = patients().assign(outcome=lambda t: t["outcome"] == "ill")
    data = fk.data.from_pandas(table, label="outcome", client="hospital")
    fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=6).export(
        tmp_path / "export"
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    table.assign(outcome=table["outcome"].astype(int)).to_csv(tmp_path / "n.csv", index=False)
    words, numbers = (
        fedkin("predict", tmp_path / "export", tmp_path / name).stderr
        for name in ("t.csv", "n.csv")
    )
    assert words.split()[-1] == numbers.split()[-1] and float(words.split()[-1]) != 0.5


def test_labels_are_not_needed(folder: Path) -> None:
    """An empty column is not scored; of a column with some labels these are."""
    blank = predicted(folder, NEW.assign(outcome=None))
    assert blank.exit_code == 0 and "accuracy" not in blank.stderr
    complete = predicted(folder, NEW)
    assert blank.stdout == complete.stdout
    some = NEW.copy()
    some.loc[4:, "outcome"] = None
    result = predicted(folder, some)
    found = complete.stdout.splitlines()[1:5]
    share = np.mean(
        [line.split(",")[0] == label for line, label in zip(found, NEW["outcome"], strict=False)]
    )
    assert (
        f"4 of 12 rows, those with a label, in {folder / 'new.csv'}: {share:.3f}" in result.stderr
    )


@pytest.mark.parametrize("row", [0, 3, 11])
def test_a_missing_value_is_named_by_its_row_of_the_file(folder: Path, row: int) -> None:
    table = NEW.copy()
    table.loc[row, "dose"] = np.nan
    result = predicted(folder, table)
    refused(result, "new.csv", "column 'dose'")
    refused(result, f"row {row} (rows count from 0)", "NaN")
    x = NEW[["age", "dose"]].to_numpy(copy=True)
    x[row, 1] = np.inf
    np.savez(folder / "new.npz", x=x, hospital=NEW["hospital"])
    refused(
        fedkin("predict", folder / "export", folder / "new.npz"), "new.npz", f"sample {row} holds"
    )


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
@pytest.mark.parametrize("blank", [None, np.nan, " "])
def test_a_missing_client_is_refused_by_row(folder: Path, name: str, blank: object) -> None:
    table = NEW.astype({"hospital": object})
    table.loc[3, "hospital"] = blank
    if name.endswith("parquet"):
        table["hospital"] = table["hospital"].astype(str if blank == " " else float)
    result = predicted(folder, table, name)
    refused(result, name, "column 'hospital'", "row 3")
    refused(result, "has no client", "--client NAME")
    whole = fedkin("predict", folder / "export", folder / name, "--client", "1")
    assert whole.exit_code == 0, whole.output


@pytest.mark.parametrize("name", ["new.csv", "new.parquet"])
def test_client_1_is_not_1_point_0(folder: Path, name: str) -> None:
    """A column of numbers in which an entry was once missing holds floats."""
    floats = predicted(folder, NEW.astype({"hospital": float}), name)
    assert floats.exit_code == 0, floats.output
    assert floats.stdout == predicted(folder, NEW).stdout


def test_clients_of_floats_are_whole_numbers_in_every_loader(tmp_path: Path) -> None:
    table = patients().astype({"hospital": float})
    table.to_parquet(tmp_path / "t.parquet")
    x = table[["age", "dose"]].to_numpy()
    y = table["outcome"]
    owners = table["hospital"].to_numpy()
    expected = tuple(str(number) for number in range(1, 7))
    assert (
        fk.data.load(tmp_path / "t.parquet", label="outcome", client="hospital").client_names
        == expected
    )
    assert fk.data.from_pandas(table, label="outcome", client="hospital").client_names == expected
    assert fk.data.from_arrays(x, y, clients=owners).client_names == expected
    assert fk.data.from_arrays(x, y, clients=owners + 0.5).client_names == tuple(
        f"{n}.5" for n in range(1, 7)
    )


def test_other_columns_are_left_out_by_both(folder: Path, tmp_path: Path) -> None:
    extra = NEW.assign(remark="text", count=range(12))
    assert predicted(folder, extra).stdout == predicted(folder, NEW).stdout
    assert (
        evaluated(folder, extra, tmp_path / "a").stdout
        == evaluated(folder, NEW, tmp_path / "b").stdout
    )
    refused(
        evaluated(folder, NEW.drop(columns="dose"), tmp_path / "c"),
        "unknown column 'dose'",
        "the model needs it",
    )


@pytest.mark.parametrize("name", ["new.json", "new.jsonl", "new.txt"])
def test_other_formats_are_refused(folder: Path, name: str, tmp_path: Path) -> None:
    NEW.to_json(folder / name, orient="records", lines=name.endswith("l"))
    result = fedkin("predict", folder / "export", folder / name)
    refused(result, name, ".csv", ".parquet")
    refused(result, f"got .{name[4:]}")
    refused(
        fedkin("evaluate", folder / "run", "--data", folder / name, "--out", tmp_path), name, ".csv"
    )


def test_semicolons_and_a_byte_order_mark(folder: Path) -> None:
    expected = predicted(folder, NEW).stdout
    NEW.to_csv(folder / "excel.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    result = fedkin("predict", folder / "export", folder / "excel.csv")
    assert result.exit_code == 0 and result.stdout == expected


def test_the_input_is_not_overwritten(folder: Path) -> None:
    table = folder / "precious.csv"
    NEW.to_csv(table, index=False)
    before = table.read_bytes()
    refused(
        fedkin("predict", folder / "export", table, "--out", table),
        "precious.csv is read by this command",
    )
    other = folder / "other.csv"
    other.write_text("name,value\n1,2\n")
    refused(fedkin("predict", folder / "export", table, "--out", other), "other.csv exists", "rm ")
    card = folder / "export" / "card.json"
    refused(fedkin("predict", folder / "export", table, "--out", card), "card.json exists")
    assert table.read_bytes() == before and other.read_text() == "name,value\n1,2\n"
    for _ in range(2):  # its own output may be replaced
        assert fedkin("predict", folder / "export", table, "--out", folder / "p.csv").exit_code == 0
    assert len(pd.read_csv(folder / "p.csv")) == 12
