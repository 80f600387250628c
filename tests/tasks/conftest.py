"""The order of the tests of every task."""

from __future__ import annotations

from pathlib import Path

import pytest

CONFORMANCE = Path(__file__).with_name("test_conformance.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the same example come one after the other: they run the same compiled programs."""
    places = [place for place, item in enumerate(items) if item.path == CONFORMANCE]
    in_order = sorted((items[place] for place in places), key=_example)
    for place, item in zip(places, in_order, strict=True):
        items[place] = item


def _example(item: pytest.Item) -> tuple[str, str]:
    """The example of a test and its model; empty for other tests."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("name", ""), parameters.get("model", "")
