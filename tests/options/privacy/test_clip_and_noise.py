"""Clips, noisy sums and the clip that follows a quantile, against values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedkin.options.privacy.clip_and_noise import (
    clipped,
    next_clip,
    noise_of_updates,
    noisy_mean,
    noisy_sums,
)
from fedkin.options.privacy.randomness import SeededRandomness, SystemRandomness

Oracle = Callable[[str], dict[str, Any]]


@dataclass(frozen=True)
class Constant:
    """Numbers that are known."""

    value: float

    def uniform(self, count: int) -> np.ndarray:
        return np.full(count, self.value)

    def normal(self, *shape: int) -> np.ndarray:
        return np.full(shape, self.value)


@dataclass(frozen=True)
class Known:
    """Normal numbers that are known, of the shape that is asked for."""

    values: list[list[float]]

    def uniform(self, count: int) -> np.ndarray:
        raise NotImplementedError

    def normal(self, *shape: int) -> np.ndarray:
        numbers = np.array(self.values)
        assert numbers.shape == shape
        return numbers


def test_long_rows_are_cut_to_the_clip_and_short_ones_stay() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [np.nan, 1.0], [np.inf, 0.0]], np.float32)
    expected = [[0.6, 0.8], [0.3, 0.4], [0, 0], [0, 0], [0, 0]]
    np.testing.assert_allclose(clipped(rows, 1.0), expected, rtol=1e-7)
    assert clipped(rows, 1.0).dtype == np.float64


def test_a_row_of_the_largest_floats_is_no_longer_than_the_clip() -> None:
    rows = np.full((1, 100), np.finfo(np.float32).max, np.float32)
    assert np.linalg.norm(clipped(rows, 0.5)) == pytest.approx(0.5)


def test_sums_by_model_with_noise_of_the_clip_also_where_no_client_is() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    sums = noisy_sums(
        rows=rows,
        model_index=np.array([0, 2, 0]),
        models=3,
        noise_multiplier=0.8,
        clip=2.0,
        randomness=Constant(1.0),
    )
    np.testing.assert_allclose(sums, np.array([[1.5, 0.5], [0, 0], [0, 1]]) + 1.6, rtol=1e-12)


def test_clip_and_noise_are_those_of_the_oracle(oracle: Oracle) -> None:
    """For a mean of a fixed number of clients, with the oracle's normal numbers."""
    cases = oracle("trust")["clip_and_noise"]
    assert len(cases) == 3
    for case in cases:
        rows = clipped(np.array(case["updates"]), case["clip"])
        np.testing.assert_allclose(rows, case["clipped"], atol=1e-12)
        index = np.array(case["cluster"])
        models = len(case["sums"])
        plain = noisy_sums(
            rows=rows,
            model_index=index,
            models=models,
            noise_multiplier=0.0,
            clip=case["clip"],
            randomness=Constant(1.0),
        )
        np.testing.assert_allclose(plain, case["sums"], atol=1e-12)
        noisy = noisy_sums(
            rows=rows,
            model_index=index,
            models=models,
            noise_multiplier=case["noise_multiplier"],
            clip=case["clip"],
            randomness=Known(case["standard_normal"]),
        )
        np.testing.assert_allclose(
            noisy / case["expected_cohort_per_cluster"], case["noisy_mean"], atol=1e-12
        )


def test_clips_that_follow_the_median_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")["adaptive_clipping"]
    assert len(cases) == 3
    for case in cases:
        ours = noise_of_updates(case["noise_multiplier"], case["count_std"])
        assert ours == pytest.approx(case["noise_multiplier_of_updates"], rel=1e-12)
        clip = case["start"]
        for step in case["steps"]:
            assert clip == pytest.approx(step["clip"], rel=1e-9)
            noise = Constant(step["count_noise"] / case["count_std"])
            clip = next_clip(
                norms=np.array(step["norms"]),
                clip=clip,
                cohort=case["cohort"],
                count_deviation=case["count_std"],
                randomness=noise,
                quantile=case["target_quantile"],
                rate=case["eta"],
            )
            assert clip == pytest.approx(step["next_clip"], rel=1e-9)


@pytest.mark.parametrize(
    "randomness", [SystemRandomness(), SeededRandomness(np.random.default_rng(0))]
)
def test_noise_has_the_deviation_that_is_charged(randomness: SystemRandomness) -> None:
    """z C on the sum, to a percent: neither divided by clients, nor twice."""
    rows = np.zeros((0, 100_000))
    noise = noisy_sums(
        rows=rows,
        model_index=np.zeros(0, np.int64),
        models=2,
        noise_multiplier=1.5,
        clip=0.2,
        randomness=randomness,
    )
    assert noise.std() == pytest.approx(0.3, rel=0.01)
    assert abs(noise.mean()) < 0.01
    assert abs(np.corrcoef(noise)[0, 1]) < 0.02


def test_a_noisy_mean_of_shares_is_of_a_fixed_number_and_stays_between_0_and_1() -> None:
    """(0.5 + 1 + 2 x 0.25) / 8: who has no share, or none that is finite, counts as 0, and none as
    more than 1."""
    shares = np.array([0.5, np.nan, 7.0])
    assert noisy_mean(shares, 8, 2.0, Constant(0.25)) == pytest.approx(0.25)
    assert (
        noisy_mean(shares, 8, 2.0, Constant(99.0)) == 1
        and noisy_mean(shares, 8, 2.0, Constant(-99.0)) == 0
    )
    drawn = [noisy_mean(np.full(50, 0.5), 100, 2.0, SystemRandomness()) for _ in range(4000)]
    assert np.std(drawn) == pytest.approx(2.0 / 100, rel=0.06) and np.mean(drawn) == pytest.approx(
        0.25, abs=2e-3
    )


def test_one_client_moves_all_sums_together_by_no_more_than_the_clip() -> None:
    rng = np.random.default_rng(1)
    rows = clipped(rng.normal(size=(6, 5)) * 10, 0.7)
    index = np.array([0, 1, 2, 0, 1, 2])
    with_it, without = (
        noisy_sums(
            rows=rows[:n],
            model_index=index[:n],
            models=3,
            noise_multiplier=1.0,
            clip=0.7,
            randomness=Constant(0.0),
        )
        for n in (6, 5)
    )
    assert np.linalg.norm(with_it - without) == pytest.approx(0.7)


def test_system_randomness_is_never_the_same() -> None:
    system = SystemRandomness()
    assert not np.array_equal(system.normal(4), system.normal(4))
    uniform = system.uniform(100_000)
    assert 0 < uniform.min() and uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.01)


def test_the_clip_grows_where_most_norms_are_above_it() -> None:
    """Andrew et al. 2021, with numbers of their algorithm 1 worked out apart."""
    norms = np.linspace(0.45, 4, 20)
    assert next_clip(
        norms=norms,
        clip=0.1,
        cohort=20,
        count_deviation=1.0,
        randomness=Constant(-1.3090890728751423),
    ) == pytest.approx(0.11197337017357548)
    assert next_clip(
        norms=norms, clip=5.0, cohort=20, count_deviation=1.0, randomness=Constant(0.0)
    ) == pytest.approx(5 * math.exp(-0.1))


def test_a_count_next_to_the_updates_costs_noise_on_them() -> None:
    assert noise_of_updates(1.0, 1.0) == pytest.approx(1.1547005383792515)
    assert noise_of_updates(1.0, 1e6) == pytest.approx(1.0)
