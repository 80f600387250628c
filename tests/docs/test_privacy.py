"""The page on privacy: its table is that of the declarations."""

from __future__ import annotations

from tests.docs import privacy_table


def test_the_table_is_that_of_the_declarations() -> None:
    _, _, rest = privacy_table.PAGE.read_text().partition(privacy_table.BEGIN)
    written = "write it again: python -m tests.docs.privacy_table"
    assert rest.partition(privacy_table.END)[0] == privacy_table.table(), written
