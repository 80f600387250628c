"""Rows of measured tables: methods that are not measured now keep theirs."""

from __future__ import annotations

from pathlib import Path

from benchmarks.tables import rows_in
from benchmarks.throughput import HEAD, write


def test_a_measured_method_leaves_the_rows_of_the_others(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    old = "| fedavg | 0.2 | 0.03 | 584 | x 1.05 |\n| ifca | 0.1 | 0.05 | 362 | x 1.75 |\n"
    before = "words\n\n<!-- throughput mlp -->\n"
    page.write_text(
        f"{before}| method | {' | '.join(HEAD[1:5])} |\n|{' --- |' * 5}\n{old}\nafter\n"
    )
    fresh = ["fedprox", "0.1", "0.04", "500", "x 1.10", "1.00", "x 1.10"]
    write(page, "mlp", fresh)
    write(page, "mlp", ["ifca", "0.1", "0.06", "360", "x 1.80", "2.00", "x 0.90"])
    assert list(rows_in(page, "throughput mlp").values()) == [
        ["fedavg", "0.2", "0.03", "584", "x 1.05", "-", "-"],
        fresh,
        ["ifca", "0.1", "0.06", "360", "x 1.80", "2.00", "x 0.90"],
    ]
    assert page.read_text().startswith(before) and page.read_text().endswith("|\n\nafter\n")


def test_a_table_begins_empty(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- throughput femnist -->\n\nafter\n")
    write(page, "femnist", ["fedavg", *"123456"])
    assert page.read_text().splitlines()[-3:] == ["| fedavg | 1 | 2 | 3 | 4 | 5 | 6 |", "", "after"]
