"""FedLEASE's router against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import MethodError
from fedkin.measures.adapter_router import adapter_weights


@pytest.mark.parametrize("number", [0, 1])
def test_weights_are_the_oracles(number: int, oracle: Callable[[str], dict[str, Any]]) -> None:
    case = oracle("adapters")["fedlease_router"][number]
    logits = np.array(case["logits"])
    found = adapter_weights(logits, case["M"], case["own"])
    np.testing.assert_allclose(found, case["weights_of_experts"], atol=1e-9)
    # A softmax of all outputs, not of the largest ones, is something else.
    assert (found[:, case["own"]] > 0).all()
    assert (found == 0).any()


def test_large_outputs_do_not_overflow() -> None:
    found = adapter_weights(np.array([[2e4, 0.0, 2e4]]), adapters=2, own=0)
    np.testing.assert_array_equal(found, [[1, 0]])


def test_one_adapter_has_all_the_weight() -> None:
    np.testing.assert_array_equal(adapter_weights(np.array([[3.0], [-1.0]]), 1, 0), [[1], [1]])


def test_impossible_routers() -> None:
    with pytest.raises(MethodError, match="a router of 3 adapters has 5 outputs, got 4"):
        adapter_weights(np.zeros((1, 4)), adapters=3, own=0)
    with pytest.raises(MethodError, match="own must be from 0 to 2, got 3"):
        adapter_weights(np.zeros((1, 5)), adapters=3, own=3)
