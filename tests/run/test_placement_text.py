"""The text of a placement."""

from __future__ import annotations

import numpy as np

from fedkin.run.trained.placement import Placement


def test_a_single_sample_has_no_confidence() -> None:
    """All its resamples are equal, so the confidence is NaN."""
    shares = np.array([0.0, 1.0])
    assert repr(Placement(1, float("nan"), shares)) == "Placement(cluster 1)"
    assert repr(Placement(1, 0.75, shares)) == "Placement(cluster 1, confidence 0.75)"
