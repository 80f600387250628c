from __future__ import annotations

from fedkin.core.model_spec import spec_from_shapes
from fedkin.core.object_repr import count, html_table, listed


def test_numbers_and_names() -> None:
    assert (count(1, "client"), count(2000, "client"), count(0, "class", "classes")) == (
        *("1 client", "2,000 clients", "0 classes"),
    )
    assert listed("abcd") == "a, b, c, d" and listed(range(1005)) == "0, 1, 2, 3 and 1,001 more"


def test_a_table_is_escaped() -> None:
    table = html_table("<b>", {"a<": "x&y"})
    assert "<b>" not in table and "&lt;b&gt;" in table and "a&lt;" in table and "x&amp;y" in table
    wide = html_table("t", {"a": (1, 2), "b": (3, 4)}, ["first", "second"])
    assert wide.count("<tr>") == 3 and wide.count("<td") == 4 and ">first</th>" in wide


def test_a_model_in_words() -> None:
    facts = spec_from_shapes({"weight": (10, 200), "bias": (10,)}, detects=False).facts()
    assert facts == {
        "parameters": "2,010 parameters",
        "arrays": "2 arrays: weight (2,000), bias (10)",
        "last layer": "2,010 parameters",
    }
    assert spec_from_shapes({"scale": (3,)}, detects=False).facts()["last layer"] == "not known"
    assert (
        "detector"
        in spec_from_shapes({"weight": (1, 2), "bias": (1,)}, detects=True).facts()["last layer"]
    )
