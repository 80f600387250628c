"""The layout of the site's tables, and the colours of its figures in dark mode."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("markdown", reason="the site needs pip install 'fedkin[docs]'")

import markdown

from docs.site_hooks import TableLayout, has_numbers

RIGHT = 'style="text-align: right;"'


def html(page: str) -> str:
    return markdown.markdown(page, extensions=["tables", TableLayout()])


def test_a_column_of_numbers_is_aligned_right() -> None:
    page = html("| method | accuracy |\n|---|---|\n| ifca | **92.3** |\n| local | - |\n")
    assert page.count(RIGHT) == 3  # the head and two cells of one column
    assert f"<td {RIGHT}><strong>92.3</strong></td>" in page and "<td>ifca</td>" in page


def test_an_author_may_align_a_column_otherwise() -> None:
    page = html("| round |\n|:--|\n| 1 |\n")
    assert RIGHT not in page and "left" in page


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["92.3", "1,000", "-"], True),
        (["x 0.97", "x 2.00"], True),
        (["84.1 ± 0.3", "1.5 (1.3-1.5)", "12%"], True),
        (["3 / 5", "not run", "2 / 5"], True),
        (["1.5 MB", "12 s"], True),
        (["3 rounds of FedAvg", "2 clusters"], False),
        (["784-128-10", "ten clusters"], False),
        (["-", ""], False),
        (["1", "a long text that only one cell of the column has"], False),
    ],
)
def test_which_columns_have_numbers(cells: list[str], numbers: bool) -> None:
    assert has_numbers(cells) == numbers


@pytest.mark.parametrize(("columns", "marked"), [(8, ""), (9, 'data-wide=""'), (13, '"very"')])
def test_a_table_with_many_columns_is_marked(columns: int, marked: str) -> None:
    row = "|" + " a_b |" * columns + "\n"
    page = html(row + "|" + "---|" * columns + "\n" + row)
    assert (marked in page) if marked else ("data-wide" not in page)
    # Names may break in heads, and in all cells of a wide table.
    assert page.count("a_\u200bb") == (2 * columns if marked else columns)


def test_a_column_of_sentences_is_marked() -> None:
    sentence = "Every client selects the model with the lowest training loss."
    page = html(f"| name | class | what it does |\n|---|---|---|\n| ifca | IFCA | {sentence} |\n")
    assert page.count("data-long") == 2  # the head and the cell of one column
    assert "data-long" not in html(f"| name | what it does |\n|---|---|\n| ifca | {sentence} |\n")
    assert f'<td data-long="">{sentence}</td>' in page


def test_pictures_are_inverted_in_dark_mode_only() -> None:
    style = (Path(__file__).parents[2] / "docs/assets/site.css").read_text()
    rule = style.partition('[data-md-color-scheme="slate"] .md-typeset img {')[2].partition("}")[0]
    assert "invert(" in rule and "hue-rotate(180deg)" in rule and style.count("invert(") == 1
