"""Attacks against published code's numbers (byzfl) and those computed apart (MinMax, MinSum)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.options.attack.attacks import (
    inner_product,
    largest_hidden_shift,
    little_is_enough,
    mimic,
    min_max,
    min_sum,
    optimal,
    sign_flip,
)

Oracle = Callable[[str], dict[str, Any]]
OURS: dict[str, Callable[[np.ndarray, dict[str, Any]], np.ndarray]] = {
    "SignFlipping": lambda honest, params: sign_flip(honest),
    "InnerProductManipulation": lambda honest, params: inner_product(honest, params["tau"]),
    # The library adds tau s.
    "ALittleIsEnough": lambda honest, params: little_is_enough(honest, -params["tau"]),
    "Mimic": lambda honest, params: mimic(honest, params["epsilon"]),
    "MinMax": lambda honest, params: min_max(honest, params["direction"]),
    "MinSum": lambda honest, params: min_sum(honest, params["direction"]),
    # the library adds tau s, and searches from there
    "Optimal_ALittleIsEnough": lambda honest, params: optimal(
        honest, lambda rows, tau: little_is_enough(rows, -tau), "nnm+trimmed_mean", params["f"]
    ),
    "Optimal_InnerProductManipulation": lambda honest, params: optimal(
        honest, inner_product, "nnm+trimmed_mean", params["f"]
    ),
}


def test_attacks_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")
    seen = set()
    for case in cases["attacks"]:
        if attack := OURS.get(case["name"]):
            honest = np.array(cases["inputs"][case["input"]]["vectors"])[: case["params"]["honest"]]
            sent = attack(honest, case["params"])
            np.testing.assert_allclose(
                sent, case["output"], atol=1e-10, rtol=1e-10, err_msg=case["name"]
            )
        seen.add(case["name"])
    assert seen == set(OURS)  # no attack of the oracle is left out


def test_alies_largest_shift_equals_the_paper(oracle: Oracle) -> None:
    for case in oracle("trust")["alie_z_max"]:
        assert largest_hidden_shift(case["n"], case["f"]) == pytest.approx(case["z"], abs=1e-12)


def test_minmax_is_as_far_as_the_farthest_honest_pair() -> None:
    honest = np.array([[0.0, 1.0], [2.0, 1.0]])
    row = min_max(honest, "unit")
    assert np.linalg.norm(honest - row, axis=1).max() == pytest.approx(2)
    with pytest.raises(ConfigError, match="direction must be one of unit, std, sign"):
        min_sum(honest, "up")


def test_honest_rows_that_are_all_zero_give_no_direction() -> None:
    np.testing.assert_array_equal(min_max(np.zeros((3, 2)), "unit"), [0, 0])
