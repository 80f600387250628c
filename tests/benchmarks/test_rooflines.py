"""Shares of the bound, worked by hand, and the steps in small."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rooflines import MEMORY, PRODUCT, READ, SIDE, Step, row, steps


def test_a_share_is_the_larger_bound_divided_by_the_time() -> None:
    """The core does 2 GFLOP/s and reads 10 GB/s, at best."""
    product = 2 * SIDE**3 / 2e9
    memory = READ / 10e9
    times = {
        PRODUCT: np.array([product, 3 * product]),
        MEMORY: np.array([2 * memory, memory]),
        "x": np.array([2.0, 2.0, 2.0]),
    }
    nothing = print
    # 3 GFLOP take 1.5 s, and 5 GB take 0.5 s.
    by_product = row(Step("x", nothing, 3e9, 5e9), times)
    assert by_product == ["x", "2.000", "1.5 GFLOP/s", "2.0 GFLOP/s", "**75 %** (75-75)"]
    # At half the speed 3 GFLOP take 3 s.
    assert row(Step("x", nothing, 3e9, 5e9, 0.5), times)[3:] == [
        "1.0 GFLOP/s",
        "**150 %** (150-150)",
    ]
    # 0.2 GFLOP take 0.1 s.
    by_memory = row(Step("x", nothing, 2e8, 5e9), times)
    assert by_memory == ["x", "2.000", "2.5 GB/s", "10.0 GB/s", "**25 %** (25-25)"]


def test_the_steps_in_small() -> None:
    found = {step.name: step for step in steps(updates=6, parameters=800, clients=10)}
    for step in found.values():
        step.call()
    # A symmetric product of 6 x 800 has half of 2 x 6 x 6 x 800 operations.
    assert found["EDC"].operations == 28_800
    # 10 x 10 / 2 pairs, ten differences each, subtracted and added.
    assert found["MADC"].operations == 1000
    part = found["products of an eighth of the parameters, in float64"]
    assert part.operations == pytest.approx(28_800 / 8)
