"""The map of the field has every method, and says what the methods say of themselves."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedkin.core.requirements import requirements_of
from fedkin.methods import METHODS


@pytest.fixture(scope="module")
def chart() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "docs/method_map.py"
    spec = importlib.util.spec_from_file_location("method_map", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["method_map"] = module
    spec.loader.exec_module(module)
    return module


def test_every_method_has_a_row_and_no_other(chart: ModuleType) -> None:
    assert chart.MAP.keys() == METHODS.keys()
    text = chart.page(METHODS)
    assert all(f"| `{name}` |" in text for name in METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_agrees_with_the_method(chart: ModuleType, name: str) -> None:
    row, method = chart.MAP[name], METHODS[name]
    fields = {field.name for field in dataclasses.fields(method)}
    if row.count == "given" and name != "oracle":
        assert fields & {"clusters", "components"}, "K is said to be given, and there is no such option"
    if row.count == "-":
        assert "clusters" not in fields
    if "peers" in row.decides:
        assert requirements_of(method()).peers
    if row.clusters == chart.NOTHING:
        assert row.membership == "-" and row.count == "-"
