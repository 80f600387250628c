"""The Jensen-Shannon divergence of clients' labels: SciPy's, and cases by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from fedkin.core.errors import MethodError
from fedkin.measures.label_divergence import label_divergence


def test_as_scipy_has_it() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (6, 5)) + np.eye(6, 5, dtype=np.int64)
    whole = counts.sum(axis=0) / counts.sum()
    expected = [jensenshannon(row / row.sum(), whole, base=2) ** 2 for row in counts]
    np.testing.assert_allclose(label_divergence(counts), expected, rtol=1e-9)


def test_by_hand() -> None:
    """Two clients of one class each: p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4)."""
    expected = (np.log2(4 / 3) + (np.log2(2 / 3) + np.log2(2)) / 2) / 2
    np.testing.assert_allclose(label_divergence(np.array([[7, 0], [0, 7]])), [expected, expected])


def test_alike_clients_do_not_diverge() -> None:
    np.testing.assert_allclose(label_divergence(np.array([[1, 2], [10, 20]])), [0, 0], atol=1e-12)


def test_refused() -> None:
    for counts in ([[1, 2], [0, 0]], [[1, -1], [1, 1]]):
        with pytest.raises(MethodError, match="at least one label"):
            label_divergence(np.array(counts))
