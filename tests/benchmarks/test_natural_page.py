"""The page of levels and clusters says how far its gains are from the reference figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.natural import differences_section, gain_error, gains_of
from fedkin.measures.corrected_interval import corrected_interval

KINDS = (
    "shared",
    "shared + own intercept",
    "personal",
    "local",
    "clusters",
    "clusters + own intercept",
)
# D2 of three draws in percent, and the reference.
DRAWS: dict[str, list[float]] = dict(
    zip(
        KINDS,
        (
            [40.0, 42, 41],
            [45.0, 46, 46],
            [46.0, 47, 46.5],
            [44.0, 42, 46],
            [41.0, 43, 42],
            [45.0] * 3,
        ),
        strict=True,
    )
)
REFERENCE = [40.0, 44.5, 44.5, 44.0, 41.1, 44.2]


def record(with_draws: bool) -> dict[str, Any]:
    means = {kind: float(np.mean(values)) for kind, values in DRAWS.items()}
    loss = 100 - means["shared"]
    comparisons = {"personal": "personal over shared", "clusters": "clusters over shared"}
    comparisons["shared + own intercept"] = "own intercept over shared"
    gains = []
    for kind, comparison in comparisons.items():
        points = np.array(DRAWS[kind]) - np.array(DRAWS["shared"])
        found = corrected_interval((100 * points / loss).tolist(), 0.25)
        gains.append({"comparison": comparison, "low": found.low, "high": found.high})
    stored = {
        "draws": 3,
        "models": [{"model": kind, "D2 %": mean} for kind, mean in means.items()],
        "gains": gains,
        "reference": REFERENCE,
    }
    return stored | ({"d2_of_draws": DRAWS, "test_ratio": 0.25} if with_draws else {})


def test_errors_of_stored_intervals_are_those_of_the_draws() -> None:
    for kind in ("shared + own intercept", "personal", "clusters"):
        points = np.array(DRAWS[kind]) - np.array(DRAWS["shared"])
        expected = np.sqrt((1 / 3 + 0.25) * points.var(ddof=1))
        assert gain_error(record(True), kind) == pytest.approx(expected)
        assert gain_error(record(False), kind) == pytest.approx(expected)
    assert np.isnan(gain_error(record(False), "local"))
    assert gain_error(record(True), "local") > 2


def test_gains_are_near_within_the_spread_or_neither() -> None:
    gains = gains_of(record(True))
    assert [gain.mean for gain in gains] == pytest.approx([14 / 3, 5.5, 3.0, 1.0, 4.0])
    # 5.5 instead of 4.5 is 2 errors of 0.38 away and more; 3.0 instead of 4.0 is within.
    assert [str(gain).rpartition(")")[2] for gain in gains] == ["", r" \*\*", r" \*", "", ""]
    assert str(gains_of(record(False))[2]) == "+3.0 (+4.0) ?"


def test_the_page_counts_them() -> None:
    text = " ".join(differences_section({"exam": record(True)}).split())
    assert "3 of 5 gains over the shared model are, and 2 are not" in text
    assert "For 3 of the 5 gains with a stored spread" in text
    assert "Among these are 2 that miss the aim: 1 are within the spread" in text
    other = " ".join(differences_section({"exam": record(False)}).split())
    assert "For 1 more that miss it, no spread is stored (?)." in other
