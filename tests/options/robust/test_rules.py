"""Robust rules against published code's numbers (byzfl), and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.options.robust.preaggregation import (
    adaptive_clipping,
    bucket_means,
    clipped,
    majority,
    nearest_neighbour_mixing,
)
from fedkin.options.robust.rules import (
    RULES,
    aggregate,
    centered_clipping,
    krum,
    near_trusted,
    parse,
    smoothed_geometric_median,
)

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
    cases = oracle("trust")
    seen = set()
    for case in cases["aggregators"]:
        if rule := OURS.get(case["name"]):
            rows = np.array(cases["inputs"][case["input"]]["vectors"])
            f = case["params"].get("f", 0)
            np.testing.assert_allclose(
                aggregate(rows, rule, f), case["output"], atol=1e-10, rtol=1e-10, err_msg=rule
            )
            seen.add(case["name"])
    assert seen == set(OURS)


def test_the_step_before_a_rule_equals_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")
    ours = {"NNM": nearest_neighbour_mixing, "ARC": adaptive_clipping}
    assert [sum(case["name"] == name for case in cases["preaggregators"]) for name in ours] == [
        7,
        8,
    ]
    for case in cases["preaggregators"]:
        if step := ours.get(case["name"]):
            rows = np.array(cases["inputs"][case["input"]]["vectors"])
            before = rows.copy()
            np.testing.assert_allclose(
                step(rows, case["params"]["f"]), case["output"], atol=1e-10, rtol=1e-10
            )
            np.testing.assert_array_equal(rows, before)  # a rule leaves its rows as they are


def two_calls(rows: np.ndarray, params: dict[str, Any]) -> dict[str, np.ndarray]:
    """The second begins where the first ended."""
    radius = params["tau"]
    steps = params["L"]
    first = centered_clipping(rows, 0, radius=radius, steps=steps)
    second = centered_clipping(rows, 0, radius=radius, steps=steps, start=first)
    return {"first": first, "second": second}


WITH_PARAMETERS: dict[str, Callable[[np.ndarray, dict[str, Any]], Any]] = {
    "Krum": lambda rows, p: krum(rows, p["f"], len(rows) - p["f"] - 1),
    "MDA": lambda rows, p: aggregate(rows, "mda", p["f"]),
    "MoNNA": lambda rows, p: near_trusted(rows, p["f"], p["idx"]),
    "CenteredClipping": lambda rows, p: centered_clipping(rows, 0, p["tau"], p["L"]),
    "CenteredClipping_two_calls": two_calls,
    "GeometricMedian": lambda rows, p: smoothed_geometric_median(rows, 0, p["T"], p["nu"]),
    "NNM+GeometricMedian": lambda rows, p: smoothed_geometric_median(
        nearest_neighbour_mixing(rows, p["f"]), 0, p["T"], p["nu"]
    ),
}


def test_rules_with_parameters_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")
    seen = set()
    for case in cases["aggregators"]:
        if rule := WITH_PARAMETERS.get(case["name"]):
            rows = np.array(cases["inputs"][case["input"]]["vectors"])
            output = rule(rows, case["params"])
            expected = case["output"]
            pairs = (
                [(output[n], expected[n]) for n in expected]
                if isinstance(expected, dict)
                else [(output, expected)]
            )
            for ours, theirs in pairs:
                np.testing.assert_allclose(
                    ours, theirs, atol=1e-10, rtol=1e-10, err_msg=case["name"]
                )
        seen.add(case["name"])
    assert seen == OURS.keys() | WITH_PARAMETERS.keys()  # no rule of the oracle is left out


def test_clipping_and_bucketing_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")
    ours = {"Clipping": 0, "Bucketing": 0}
    for case in cases["preaggregators"]:
        rows = np.array(cases["inputs"][case["input"]]["vectors"])
        params = case["params"]
        if case["name"] == "Clipping":
            output = clipped(rows, params["c"])
        elif case["name"] == "Bucketing":
            output = bucket_means(rows, np.array(params["order"]), params["s"])
        else:
            continue
        np.testing.assert_allclose(
            output, case["output"], atol=1e-10, rtol=1e-10, err_msg=case["name"]
        )
        ours[case["name"]] += 1
    assert ours == {"Clipping": 16, "Bucketing": 16}


def test_by_hand() -> None:
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [1000.0]])
    assert [
        float(aggregate(rows, rule, 1)[0])
        for rule in ("median", "trimmed_mean", "mean_around_median")
    ] == [2, 2, 1.5]
    assert aggregate(rows, "krum", 1)[0] == 1  # 1: 0, 1 away from two; 2: the same, and later
    assert aggregate(rows, "multi_krum", 1)[0] == 1.5
    assert aggregate(rows, "geometric_median", 1)[0] == pytest.approx(2)
    np.testing.assert_allclose(nearest_neighbour_mixing(rows, 2)[:, 0], [1, 1, 2, 2, 335])
    np.testing.assert_allclose(adaptive_clipping(rows, 1)[:, 0], [0, 1, 2, 3, 3])
    np.testing.assert_allclose(clipped(rows)[:, 0], [0, 1, 2, 2, 2])  # the median length
    assert aggregate(rows, "mda", 1)[0] == 1.5  # 0 to 3
    assert near_trusted(rows, 2, 3) == 2  # 1, 2 and 3
    assert centered_clipping(rows, 1, steps=1) == pytest.approx(7 / 5)


def test_minorities_that_point_away_are_left_out_up_to_f_rows() -> None:
    honest = np.array([[4.0, 1], [5, 0], [4, -1], [6, 0]])
    other = np.array([[-3.0, 0.2], [-3, -0.2]])
    rows = np.concatenate([other, honest])
    assert majority(rows, 2).tolist() == [2, 3, 4, 5]
    assert majority(rows, 1).tolist() == list(range(6))  # two are more than may be Byzantine
    assert majority(rows[:4], 1).tolist() == [0, 1, 2, 3]  # two against two
    # All go one way.
    assert majority(np.concatenate([honest, honest]), 3).tolist() == list(range(8))
    aside = np.concatenate([honest, [[1.0, 9], [1, 9]]])  # another way, and not away
    assert majority(aside, 2).tolist() == list(range(6))
    np.testing.assert_allclose(aggregate(rows, "majority+mean", 2), honest.mean(axis=0))
    # f is 0 by then.
    np.testing.assert_allclose(aggregate(rows, "majority+trimmed_mean", 2), honest.mean(axis=0))
    assert len(majority(np.zeros((3, 2)), 1)) == 3


def test_buckets_are_random_pairs_and_the_same_ones_for_the_same_rows() -> None:
    rows = np.arange(14.0).reshape(7, 2)
    for same in (
        aggregate(rows, "bucketing+median", 1),
        aggregate(rows.copy(), "bucketing+median", 1),
    ):
        np.testing.assert_array_equal(same, aggregate(rows, "bucketing+median", 1))
    np.testing.assert_allclose(aggregate(rows[:6], "bucketing+mean", 1), rows[:6].mean(axis=0))
    assert (
        len({tuple(aggregate(rows + shift, "bucketing+median", 1) - shift) for shift in range(9)})
        > 1
    )
    with pytest.raises(ConfigError, match="2 Byzantine clients among 4 cannot be told"):
        aggregate(rows, "bucketing+median", 2)  # of four buckets two may be spoilt
    with pytest.raises(ConfigError, match=r"set robust\.rule=multi_krum"):
        aggregate(np.zeros((40, 1)), "mda", 12)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "mean"])
def test_fewer_than_half_move_no_rule_far(rule: str) -> None:
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(8, 5))
    rows = np.concatenate([honest, np.full((3, 5), 1e9)])
    assert np.linalg.norm(aggregate(rows, rule, 3) - honest.mean(axis=0)) < 5
    assert np.linalg.norm(aggregate(rows, "mean", 3)) > 1e8


def test_rows_that_no_rule_can_aggregate_are_refused() -> None:
    rows = np.zeros((4, 2))
    for f in (2, 3, -1):
        with pytest.raises(ConfigError, match=f"{f} Byzantine clients among 4 cannot be told"):
            aggregate(rows, "median", f)
    with pytest.raises(ConfigError, match="needs at least 4 replies, got 3"):
        aggregate(rows[:3], "krum", 1)
    with pytest.raises(ConfigError, match="did you mean 'median'"):
        parse("nnm+medain")
    with pytest.raises(ConfigError, match="step before a rule"):
        parse("nmm+median")
