"""The page on secret sums: its table is that of the declarations."""

from __future__ import annotations

from tests.docs import secret_table


def test_the_table_is_that_of_the_declarations() -> None:
    _, _, rest = secret_table.PAGE.read_text().partition(secret_table.BEGIN)
    written = "write it again: python -m tests.docs.secret_table"
    assert rest.partition(secret_table.END)[0] == secret_table.table(), written
