"""Robust rules against published code's numbers (byzfl), and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.robust.rules import RULES, adaptive_clipping, aggregate, nearest_neighbour_mixing, parse

Oracle = Callable[[str], dict[str, Any]]
OURS = {
    "Average": "mean",
    "Median": "median",
    "TrMean": "trimmed_mean",
    "Meamed": "mean_around_median",
    "krum_blanchard": "krum",
    "MultiKrum": "multi_krum",
    "geometric_median_exact": "geometric_median",
    "NNM+TrMean": "nnm+trimmed_mean",
    "NNM+Median": "nnm+median",
    "ARC+NNM+TrMean": "arc+nnm+trimmed_mean",
}


def test_rules_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases, seen = oracle("trust"), set()
    for case in cases["aggregators"]:
        if rule := OURS.get(case["name"]):
            rows = np.array(cases["inputs"][case["input"]]["vectors"])
            f = case["params"].get("f", 0)
            close = 1e-7 if rule == "geometric_median" else 1e-10
            np.testing.assert_allclose(aggregate(rows, rule, f), case["output"], atol=close, rtol=close, err_msg=rule)
            seen.add(case["name"])
    assert seen == set(OURS)


def test_what_comes_before_a_rule_is_that_of_the_oracle(oracle: Oracle) -> None:
    cases, ours = oracle("trust"), {"NNM": nearest_neighbour_mixing, "ARC": adaptive_clipping}
    for case in cases["preaggregators"]:
        if step := ours.get(case["name"]):
            rows = np.array(cases["inputs"][case["input"]]["vectors"])
            before = rows.copy()
            np.testing.assert_allclose(step(rows, case["params"]["f"]), case["output"], atol=1e-10, rtol=1e-10)
            np.testing.assert_array_equal(rows, before)  # a rule leaves its rows as they are


def test_by_hand() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])
    assert [float(aggregate(rows, rule, 1)[0]) for rule in ("median", "trimmed_mean", "mean_around_median")] == [
        2,
        2,
        1.5,
    ]
    assert aggregate(rows, "krum", 1)[0] == 1  # 1: 0, 1 away from two; 2: the same, and later
    assert aggregate(rows, "multi_krum", 1)[0] == 1.5
    assert aggregate(rows, "geometric_median", 1)[0] == pytest.approx(2)
    np.testing.assert_allclose(nearest_neighbour_mixing(rows, 2)[:, 0], [1, 1, 2, 2, 335])
    np.testing.assert_allclose(adaptive_clipping(rows, 1)[:, 0], [0, 1, 2, 3, 3])


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "mean"])
def test_fewer_than_half_move_no_rule_far(rule: str) -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(8, 5))
    rows = np.concatenate([honest, np.full((3, 5), 1e9)])
    assert np.linalg.norm(aggregate(rows, rule, 3) - honest.mean(axis=0)) < 5
    assert np.linalg.norm(aggregate(rows, "mean", 3)) > 1e8


def test_what_no_rule_can_do_is_refused() -> None:
    rows = np.zeros((4, 2))
    for f in (2, 3, -1):
        with pytest.raises(ConfigError, match=f"{f} Byzantine clients of 4 cannot be told"):
            aggregate(rows, "median", f)
    with pytest.raises(ConfigError, match="needs 4 replies or more, got 3"):
        aggregate(rows[:3], "krum", 1)
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        parse("nnm+medain")
    with pytest.raises(ConfigError, match="step before a rule"):
        parse("nmm+median")
