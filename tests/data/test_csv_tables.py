"""CSV files as people have them: words, separators, encodings and names of columns."""

from __future__ import annotations

import gzip
import logging
import re
from pathlib import Path

import pandas as pd
import pytest

from fedkin.core.errors import DataError
from fedkin.data import from_pandas, load
from fedkin.data.csv_tables import read_csv

HEADER = ["a", "y", "client_id"]
ROWS = [["1.5", "0", "north"], ["2.25", "1", "south"]]


def written(path: Path, separator: str, encoding: str = "utf-8", end: str = "\n") -> Path:
    lines = [separator.join(row) for row in (HEADER, *ROWS)]
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_and_encodings_are_detected(
    separator: str, encoding: str, end: str, tmp_path: Path
) -> None:
    table = read_csv(written(tmp_path / "t.csv", separator, encoding, end), "client_id")
    assert list(table) == HEADER
    assert table["a"].tolist() == [1.5, 2.25]
    assert table["client_id"].tolist() == ["north", "south"]


def test_a_separator_in_quotes_separates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"height; in cm","weight, in kg",y\n1,2,0\n')
    assert list(read_csv(path)) == ["height; in cm", "weight, in kg", "y"]


def test_a_gzipped_file_need_not_be_called_so(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(b"a,y\n1,0\n"))
    assert read_csv(path).to_dict("list") == {"a": [1], "y": [0]}


def test_decimal_commas_are_read_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;client\n1,5;0,125;1,5\n-2;0,25;2\n")
    with caplog.at_level(logging.WARNING, "fedkin"):
        table = read_csv(path, "client")
    assert table["a"].tolist() == [1.5, -2] and table["b"].tolist() == [0.125, 0.25]
    assert table["client"].tolist() == ["1,5", "2"]  # names are no numbers
    assert "decimal commas: a, b" in caplog.text


def test_commas_that_may_separate_thousands_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;y;client_id\n1,234;0;n\n5,678;1;s\n")
    with pytest.raises(
        DataError, match=r"t\.csv: column a, row 0 .*'1,234', which is not a number.*thousands"
    ):
        load(path)


def test_points_that_may_separate_thousands_are_refused_with_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;y;client_id\n0,5;800;0;n\n1,5;1.200;1;n\n")
    with pytest.raises(
        DataError, match=r"t\.csv: column b, row 1 .*'1\.200', .*decimal commas.*thousands"
    ):
        load(path)
    path.write_text("a;b;y;client_id\n0,5;1.25;0;n\n1,5;1.200;1;n\n")
    assert load(path, scale="none").x[:, 1].tolist() == pytest.approx([1.25, 1.2])
    path.write_text("a;b;y;client_id\n5;1.200;0;n\n6;1.300;1;n\n")
    assert load(path, scale="none").x[:, 1].tolist() == pytest.approx(
        [1.2, 1.3]
    )  # no column has decimal commas


@pytest.mark.parametrize("cell", ["1.000,5", "1,234.5", "1.200.000", "NA", "?"])
def test_the_first_cell_that_is_no_number_is_named(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a;y;client_id\n1;0;n\n{cell};1;n\n")
    with pytest.raises(
        DataError,
        match=rf"column a, row 1 .*'{re.escape(cell)}', which is not a number.*missing value",
    ):
        load(path)


@pytest.mark.parametrize("word", ["NA", "None", "null", "nan", "N/A", "NULL", "-nan"])
def test_words_are_values_of_labels_and_clients(word: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "a,y,client_id\n"
        + "".join(f"{i},{('low', word)[i % 2]},{(word, 'EU')[i // 2 % 2]}\n" for i in range(8))
    )
    data = load(path)
    assert sorted(data.label_names or ()) == sorted(["low", word])
    assert sorted(data.client_names or ()) == sorted([word, "EU"])


@pytest.mark.parametrize("cell", ["", " ", '""'])
def test_an_empty_cell_is_missing(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a,y,client_id\n1,low,n\n2,high,{cell}\n3,low,n\n")
    with pytest.raises(DataError, match=r"t\.csv: client_id is empty in row 1 \(1 such rows\)"):
        load(path)
    path.write_text(f"a,y,client_id\n1,low,n\n2,{cell},n\n3,low,n\n")
    with pytest.raises(DataError, match=r"t\.csv: the label is missing in row 1"):
        load(path)


def test_a_word_among_numbers_is_refused_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y,client_id\n1,0,n\nNA,1,n\n3,0,n\n")
    with pytest.raises(DataError, match=r"column a, row 1 .*'NA', which is not a number"):
        load(path)


@pytest.mark.parametrize(
    "header", ["a,y,y,client_id", "a,a,y,client_id", "y,a,client_id,client_id"]
)
def test_a_column_twice_is_refused_by_name(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n1,0,1,0\n2,1,0,1\n")
    twice = next(name for name in header.split(",") if header.split(",").count(name) > 1)
    with pytest.raises(DataError, match=rf"t\.csv: .*different names, got '{twice}' twice"):
        load(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_are_names_of_columns(ending: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"0": [1.0, 2, 3, 4], "1": [0, 1, 0, 1], "2": [7, 7, 8, 8]})
    path = tmp_path / f"t.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    for data in (load(path, label=1, client=2), load(path, label="1", client="2", features=[0])):
        assert data.feature_names == ("0",) and data.client_names == ("7", "8")
        assert data.y.tolist() == [0, 1, 0, 1]
    frame = table.rename(columns=int)
    for label in (1, "1"):
        assert from_pandas(frame, label=label, client=2).feature_names == ("0",)


def test_another_encoding_is_refused_with_a_cure(tmp_path: Path) -> None:
    path = tmp_path / "my table.csv"
    path.write_bytes("a,y,client_id\n1,0,Köln\n".encode("latin-1"))
    with pytest.raises(
        DataError,
        match=r"UTF-8, but the byte f6.*iconv -f LATIN1 -t UTF-8 '.*my table\.csv' > utf8",
    ):
        load(path)
    path.write_bytes("a,y,client_id\n1,0,c\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=r"NUL bytes.*byte-order mark"):
        load(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a,y\n1,0,c\n2,1,c\n", "the header names 2 columns, but rows have 3 cells"),
        ("a,y,client_id\n1,0,c\n2,1,c,9\n", "Expected 3 fields in line 3, saw 4"),
        ('[{"a": 1, "y": 0}]', "but it is JSON"),
        ("<html></html>", "it is a web page"),
        ("", "another kind"),
    ],
)
def test_files_that_are_no_tables_are_refused(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        load(path, label="y", client="client_id")


def test_separators_at_the_end_of_lines_make_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;y;client_id;\n1;0;n;\n2;1;n;\n")
    assert load(path).feature_names == ("a",)


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.xlsx", "t.txt", "t.csv.zip", "t.json.gz"])
def test_other_formats_are_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text('{"a": 1}\n')
    with pytest.raises(
        DataError, match=r"expected a file that ends in \.npz, \.csv, .*\.parquet.*got \."
    ) as refusal:
        load(path)
    assert ("to_csv('table.csv', index=False)" in str(refusal.value)) == (
        path.suffix in (".json", ".jsonl", ".xlsx")
    )
