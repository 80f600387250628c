"""Portions of the clients of a call: few samples at once, if there are several portions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedkin.core.client import ClientRows

MB = 2**20


def portions(samples: list[int], numbers: int, together: bool = False) -> list[np.ndarray]:
    """Portions of one row per client.

    Args:
        samples: megabytes of each client's samples.
        numbers: float32 numbers of each row.
        together: whether rows of one client stay together.
    """
    rows: Any = SimpleNamespace(
        active=np.ones(len(samples), bool),
        clients=np.arange(len(samples)),
        data=SimpleNamespace(
            train=SimpleNamespace(sizes=np.array(samples)), x=np.zeros((1, MB), np.uint8)
        ),
        engine=SimpleNamespace(together=together),
    )
    return list(ClientRows.portions(rows, numbers))


def test_a_call_that_fits_is_one_portion() -> None:
    (rows,) = portions([20] * 12, 0)
    np.testing.assert_array_equal(rows, np.arange(12))


@pytest.mark.parametrize("together", [False, True])
def test_several_portions_have_64_mb_of_samples_each(together: bool) -> None:
    parts = portions([4] * 100, 0, together)
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(100))
    assert [len(part) for part in parts] == [15, 16, 16, 16, 16, 16, 5]


def test_few_samples_with_vectors_fill_256_mb() -> None:
    """100 vectors of 8 MB and few samples, as of a large model."""
    parts = portions([1] * 100, 2 * MB)
    assert [len(part) for part in parts] == [28, 28, 29, 15]
