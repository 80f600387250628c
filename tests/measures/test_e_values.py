"""E-values, against the vectors of ``production.json`` and by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import FedkinError
from fedkin.measures.e_values import (
    bounded_bet,
    conformal_p_values,
    detector_path,
    discordant_e_value,
    e_bh,
    martingale,
    not_worse_e_value,
    simple_jumper,
)

pytestmark = pytest.mark.unit

Oracle = Callable[[str], dict[str, Any]]


@pytest.fixture
def sequential(oracle: Oracle) -> dict[str, Any]:
    """The vectors of sequential tests."""
    return oracle("production")["sequential"]


def bets(sequential: dict[str, Any]) -> np.ndarray:
    """E-values of the vectors' stream."""
    mean = np.array(sequential["m0"])
    return bounded_bet(np.array(sequential["x"]), mean, np.array(sequential["lambda"]))


def test_the_martingale_is_the_oracles(sequential: dict[str, Any]) -> None:
    path = martingale(bets(sequential))
    assert np.log(path[-1]) == pytest.approx(sequential["martingale"]["log_end"], rel=1e-10)
    assert (path < 1 / sequential["alpha"]).all()
    assert sequential["martingale"]["first_at_1_over_alpha"] is None


@pytest.mark.parametrize(("form", "shiryaev_roberts"), [("e_cusum", False), ("e_sr", True)])
def test_detectors_are_the_oracles(
    form: str, shiryaev_roberts: bool, sequential: dict[str, Any]
) -> None:
    path = detector_path(bets(sequential)[:, None], shiryaev_roberts)[:, 0]
    for at, value in sequential[form]["values_at"].items():
        assert path[int(at)] == pytest.approx(value, rel=1e-10)
    assert np.flatnonzero(path >= 1 / sequential["alpha"])[0] == sequential[form]["first"]


def test_conformal_values_are_the_oracles(sequential: dict[str, Any]) -> None:
    vectors = sequential["conformal"]
    p_values = conformal_p_values(np.array(vectors["scores"]), np.array(vectors["theta"]))
    np.testing.assert_allclose(p_values, vectors["p_values"], rtol=1e-10)
    path = simple_jumper(p_values, 0.01)
    np.testing.assert_allclose(path, vectors["simple_jumper_J_0.01"], rtol=1e-10)


def test_equal_scores_share_a_rank_at_random() -> None:
    p_values = conformal_p_values(np.array([2.0, 2.0, 2.0, 1.0]), np.array([0.5, 0.5, 0.1, 0.25]))
    np.testing.assert_allclose(p_values, [0.5, 0.5, 0.1, (3 + 0.25) / 4])


def test_a_jump_outside_0_to_1_is_refused() -> None:
    with pytest.raises(FedkinError, match="jump must be from 0 to 1, got 2"):
        simple_jumper(np.array([0.5]), 2.0)


def test_discordant_counts_are_the_oracles(sequential: dict[str, Any]) -> None:
    vectors = sequential["discordant"]
    better = np.array([case["b"] for case in vectors["cases"]])
    worse = np.array([case["c"] for case in vectors["cases"]])
    e_values = discordant_e_value(better, worse)
    np.testing.assert_allclose(e_values, [case["e"] for case in vectors["cases"]], rtol=1e-10)
    # E-values of disjoint samples multiply.
    assert e_values.prod() == pytest.approx(vectors["product"], rel=1e-10)
    # The order of the two counts matters.
    assert discordant_e_value(np.array([13]), np.array([4]))[0] > 1 > e_values[-1]


def test_discordant_e_values_have_mean_1_if_both_models_are_equally_good() -> None:
    """At q = 1/2 the mean is exactly 1, at a smaller q it is below 1."""
    m = 9
    counts = np.arange(m + 1)
    e_values = discordant_e_value(counts, m - counts)
    weights = np.array([comb(m, k) for k in counts])
    assert (weights * e_values).sum() / 2**m == pytest.approx(1, rel=1e-12)
    lower = weights * 0.4**counts * 0.6 ** (m - counts)
    assert (lower * e_values).sum() < 1


def test_large_counts_stay_finite_in_the_logarithm() -> None:
    e_values = discordant_e_value(np.array([0, 500]), np.array([500, 0]))
    assert 0 <= e_values[0] < 0.01 and e_values[1] > 1e140


def test_not_worse_e_values_have_mean_1_at_the_margin() -> None:
    """Enumerates all outcomes of 4 samples with P(x = 1) = 0.2 and P(x = -1) = 0.3, so that the
    mean of x is minus the margin."""
    margin = 0.1
    chance = {1: 0.2, -1: 0.3, 0: 0.5}
    mean = 0.0
    for outcome in product(chance, repeat=4):
        better = np.array([outcome.count(1)])
        worse = np.array([outcome.count(-1)])
        e = float(not_worse_e_value(better, worse, np.array([4]), margin)[0])
        mean += e * np.prod([chance[x] for x in outcome])
    assert mean == pytest.approx(1, rel=1e-12)
    # 200 equal answers show that the other model is not worse by 10 points.
    none = np.array([0])
    assert not_worse_e_value(none, none, np.array([200]), margin)[0] > 1000


def test_rejected_hypotheses_are_the_oracles(sequential: dict[str, Any]) -> None:
    vectors = sequential["e_bh"]
    e_values = np.array(vectors["e_values"])
    rejected = e_bh(e_values, vectors["alpha"])
    assert e_values[rejected].tolist() == vectors["rejected"]


def test_a_late_rank_can_reject_earlier_ones() -> None:
    """With alpha = 0.1 and four hypotheses, the limits by rank are 40, 20, 13.3 and 10."""
    e_values = np.array([12.0, 39.0, np.nan, 25.0])
    # The largest one alone misses its limit (39 < 40); together with the second both pass.
    assert e_bh(e_values, 0.1).tolist() == [False, True, False, True]
    assert not e_bh(np.array([39.0, 1.0, 1.0, 1.0]), 0.1).any()


def test_alarms_of_quiet_streams_keep_their_rate() -> None:
    """M / T of the larger detector is an e-value: at most alpha of the streams exceed T / alpha."""
    rng = np.random.default_rng(3)
    x = rng.binomial(10, 0.3, (200, 400)) / 10
    path = detector_path(bounded_bet(x, np.array(0.3), np.array(2.0)), shiryaev_roberts=True)
    assert (path.max(axis=0) >= 200 / 0.2).mean() <= 0.2
    # The bound is on the right quantity: a lower limit is exceeded more often.
    assert (path.max(axis=0) >= 20).mean() > 0.2
