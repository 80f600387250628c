"""The losses of numbers, counts and quantiles in PyTorch, against the oracle vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.task_types.loss import Loss, Targets
from tests.task_types.loss_cases import LOSSES, WITH_A_KINK, loss_case

torch = pytest.importorskip("torch", reason="PyTorch needs pip install 'fedkin[torch]'")

Oracle = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_values_and_gradients_equal_the_oracle(name: str, kind: str, oracle: Oracle) -> None:
    case = loss_case(oracle, name)
    dtype = getattr(torch, kind)
    scores = torch.tensor(case.scores, dtype=dtype, requires_grad=True)
    targets = case.targets(lambda array: torch.tensor(array, dtype=dtype))
    values = case.loss.of(torch, scores, targets)
    values.sum().backward()
    tolerance = case.tolerance if kind == "float64" else 1e-5
    found = values.detach().numpy()
    np.testing.assert_allclose(found, case.values, rtol=tolerance, atol=tolerance)
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad.numpy(), case.gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", WITH_A_KINK, ids=repr)
def test_the_gradient_at_a_tie_is_zero(loss: Loss) -> None:
    scores = torch.full((2, loss.outputs), 1.5, requires_grad=True)
    loss.of(torch, scores, Targets(torch.full((2,), 1.5), 0.0, None)).sum().backward()
    assert scores.grad is not None
    assert not scores.grad.numpy().any()
