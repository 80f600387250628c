"""Reports ask a comparison for its table and its curves very often: neither is computed again and
again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.analysis.compare.comparison import Comparison
from fedkin.analysis.repeated_runs import curve_of
from fedkin.core.errors import ConfigError
from fedkin.run.run import Run
from tests.analysis.written_comparisons import comparison

CURVES = {"fedavg": [[0.1, 0.2, 0.4]], "fedprox": [[0.1, 0.3, 0.5]]}


def test_rows_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    row_of = Comparison._row

    def counted(one: Comparison, setting: str, method: str) -> dict[str, Any]:
        rows.append(method)
        return row_of(one, setting, method)

    monkeypatch.setattr(Comparison, "_row", counted)
    compared = comparison({"": CURVES})
    first = compared.table()
    expected = first.copy()
    # A caller may change its table.
    first["final_accuracy"] = 0.0
    assert compared.table().equals(expected)
    assert rows == ["fedavg", "fedprox"]


def test_a_curve_is_read_from_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    run = comparison({"": CURVES}, partial=[1]).runs("", "fedprox")[0]
    whole = run.history
    with monkeypatch.context() as patch:
        patch.setattr(Run, "history", property(lambda _: pytest.fail("a table of all columns")))
        np.testing.assert_array_equal(curve_of(run, "accuracy"), [0.1, np.nan, 0.5])
        np.testing.assert_array_equal(curve_of(run, "accuracy", partial=True), [0.1, 0.3, 0.5])
        np.testing.assert_array_equal(curve_of(run, "bytes_up"), whole["bytes_up"].to_numpy(float))
    for missing in ("accurcy", "round"):
        with pytest.raises(ConfigError, match=f"no '{missing}'; it has .*accuracy"):
            curve_of(run, missing)


def test_a_round_without_a_value_is_nan() -> None:
    run = comparison({"": CURVES}).runs("", "fedavg")[0]
    run.records[0].pop("bytes_up")
    run.records[1]["bytes_up"] = None
    np.testing.assert_array_equal(curve_of(run, "bytes_up"), [np.nan, np.nan, 2e6])
