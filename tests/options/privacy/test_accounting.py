"""Epsilons of noisy rounds, against published vectors and against each other."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from fedkin.core.errors import ConfigError, MissingExtra
from fedkin.options.privacy import accounting
from fedkin.options.privacy.accounting import (
    NoisyRounds,
    affordable,
    by_renyi_bound,
    calibrate,
    check,
    epsilon,
    fixed_cohort_epsilon,
    renyi_epsilon,
)
from fedkin.options.privacy.client_dp import ClientDP

Oracle = Callable[[str], dict[str, Any]]
# The library composes for up to half a minute: not among the unit tests.
LONG = pytest.mark.simulation


@LONG
def test_epsilons_are_those_of_the_oracle(oracle: Oracle) -> None:
    """By PLD and by RDP (dp-accounting, a client added or removed)."""
    cases = oracle("trust")["epsilons"]
    assert len(cases) == 26 and {case["relation"] for case in cases} == {"ADD_OR_REMOVE_ONE"}
    for case in cases:
        rounds = NoisyRounds(case["q"], case["noise_multiplier"], case["rounds"])
        figure = epsilon(rounds, case["delta"])
        bound = renyi_epsilon(rounds, case["delta"])
        assert figure == pytest.approx(case["pld"], rel=1e-3), case
        assert bound == pytest.approx(case["rdp"], rel=1e-3), case
        assert figure <= bound


def test_epsilons_of_fixed_cohorts_are_those_of_the_oracle(oracle: Oracle) -> None:
    cases = oracle("trust")["epsilons_fixed_cohort"]
    assert len(cases) == 6
    for case in cases:
        assert fixed_cohort_epsilon(
            clients=case["population"],
            cohort=case["cohort"],
            noise_multiplier=case["noise_std_over_clip"],
            count=case["rounds"],
            delta=case["delta"],
        ) == pytest.approx(case["rdp"], rel=1e-3), case


@LONG
def test_noise_for_an_epsilon_is_below_the_oracles_which_is_of_the_looser_accountant(
    oracle: Oracle,
) -> None:
    cases = oracle("trust")["calibrated"]
    assert len(cases) == 4
    for case in cases:
        bound = renyi_epsilon(
            NoisyRounds(case["q"], case["noise_multiplier"], case["rounds"]), case["delta"]
        )
        assert bound == pytest.approx(case["target_epsilon"], rel=1e-3), case
    target, delta, q, count = (
        cases[0][name] for name in ("target_epsilon", "delta", "q", "rounds")
    )
    z = calibrate(target, delta, lambda z: NoisyRounds(q, z, count))
    assert 0.8 * cases[0]["noise_multiplier"] < z < cases[0]["noise_multiplier"]


def test_everybody_in_every_round_is_one_gaussian_of_less_noise() -> None:
    import dp_accounting

    exact = dp_accounting.get_epsilon_gaussian(5 / math.sqrt(200), 1e-4)
    assert epsilon(NoisyRounds(1.0, 5.0, 200), 1e-4) == pytest.approx(exact, rel=1e-3)


def test_noisy_scores_of_all_clients_add_to_rounds_and_nothing_amplifies_them() -> None:
    """Gaussians compose as 1 / z^2. With sampled rounds epsilon equals dp-accounting's composition
    of the two events."""
    import dp_accounting as da

    everybody = NoisyRounds(1.0, 5.0, 20, score_noise=2.0, score_sums=2)
    exact = da.get_epsilon_gaussian((20 / 5.0**2 + 2 / 2.0**2) ** -0.5, 1e-4)
    assert epsilon(everybody, 1e-4) == pytest.approx(exact, rel=1e-3)
    sampled = NoisyRounds(0.05, 1.0, 100, score_noise=2.0, score_sums=1)
    rounds = da.SelfComposedDpEvent(da.PoissonSampledDpEvent(0.05, da.GaussianDpEvent(1.0)), 100)
    composed = da.ComposedDpEvent([rounds, da.GaussianDpEvent(2.0)])
    assert epsilon(sampled, 1e-3) == pytest.approx(
        da.pld.PLDAccountant().compose(composed).get_epsilon(1e-3), rel=1e-3
    )
    assert epsilon(sampled, 1e-3) > epsilon(NoisyRounds(0.05, 1.0, 101), 1e-3)
    assert epsilon(NoisyRounds(1.0, 5.0, 1, score_sums=1), 1e-3) == math.inf


def test_fixed_cohorts_are_charged_for_a_replacement_and_cost_far_more() -> None:
    """A replaced client moves a sum by twice the clipping norm: the amplified figure does not hold
    for them."""
    fixed = fixed_cohort_epsilon(
        clients=1000, cohort=50, noise_multiplier=1.0, count=100, delta=1e-3
    )
    assert fixed == pytest.approx(29.65836625575963, rel=1e-3)
    assert fixed > 10 * epsilon(NoisyRounds(0.05, 1.0, 100), 1e-3)


@LONG
def test_a_tight_cap_costs_epsilon_and_a_wide_one_nothing() -> None:
    free = epsilon(NoisyRounds(0.05, 1.0, 100), 1e-5)
    tight, wide = (
        epsilon(
            NoisyRounds(probability=0.05, noise_multiplier=1.0, count=100, cap=cap, clients=1000),
            1e-5,
        )
        for cap in (60, 100)
    )
    assert tight == pytest.approx(8.87, rel=1e-2)
    assert wide == pytest.approx(free, rel=1e-2)


def test_rounds_add_up_and_none_costs_nothing() -> None:
    assert epsilon(NoisyRounds(0.05, 1.0, 0), 1e-5) == 0
    one, many = (epsilon(NoisyRounds(1.0, 5.0, count), 1e-5) for count in (1, 20))
    assert one < many < 20 * one
    assert epsilon(NoisyRounds(0.05, 0.0, 1), 1e-5) == math.inf
    assert 1e3 < epsilon(NoisyRounds(1.0, 1e-6, 1), 1e-5) < math.inf  # and no memory error


def test_noise_for_an_epsilon() -> None:
    z = calibrate(3.0, 1e-3, lambda z: NoisyRounds(0.05, z, 100))
    assert (
        epsilon(NoisyRounds(0.05, z, 100), 1e-3)
        <= 3.0
        < epsilon(NoisyRounds(0.05, z * 0.998, 100), 1e-3)
    )
    assert z < 0.9511457828267129  # RDP's, an upper bound


@LONG
def test_noise_for_the_epsilon_left_by_a_cold_start() -> None:
    """Between the start's price and its upper bound by RDP there is noise; below its price there is
    none."""

    def rounds(z: float) -> NoisyRounds:
        return NoisyRounds(1.0, z, 1, start_noise=2.0, start_sums=3)

    start = NoisyRounds(1.0, 1.0, 0, start_noise=2.0, start_sums=3)
    price = epsilon(start, 1e-3)
    bound = renyi_epsilon(start, 1e-3)
    target = (price + bound) / 2
    assert price < target < bound
    assert target * 0.99 < epsilon(rounds(calibrate(target, 1e-3, rounds)), 1e-3) <= target
    with pytest.raises(ConfigError, match="cannot be met, however large the noise"):
        calibrate(price * 0.99, 1e-3, rounds)


@LONG
def test_rounds_that_a_budget_allows() -> None:
    def rounds(count: int) -> NoisyRounds:
        return NoisyRounds(0.05, 1.0, count)

    count = affordable(1.0, 1e-3, rounds, 100)
    assert epsilon(rounds(count), 1e-3) <= 1.0 < epsilon(rounds(count + 1), 1e-3)
    assert affordable(3.0, 1e-3, rounds, 100) == 100
    assert affordable(0.01, 1e-3, rounds, 100) == 0


@pytest.mark.parametrize("delta", [1e-14, 1e-15, 1e-20, 1e-100, 1e-300, 5e-324])
def test_epsilon_of_the_smallest_deltas_is_just_above_the_exact_one(delta: float) -> None:
    """A distribution of losses in double precision ends at a delta of 1e-15; its Renyi bound does
    not."""
    import dp_accounting

    least = max(delta, 1e-300)  # the exact formula ends there
    exact = dp_accounting.get_epsilon_gaussian(5 / math.sqrt(200), least)
    found = epsilon(NoisyRounds(1.0, 5.0, 200), delta)
    assert exact <= found < 1.05 * exact + (5 if delta < least else 0)


def test_a_smaller_delta_costs_more_where_the_accountants_change_too() -> None:
    deltas = [1e-13, 1e-14, 0.999e-14, 1e-15, 1e-16]
    costs = [epsilon(NoisyRounds(0.05, 1.0, 10), delta) for delta in deltas]
    assert costs == sorted(costs) and costs[-1] < math.inf
    assert [by_renyi_bound(NoisyRounds(0.05, 1.0, 10), delta) for delta in deltas] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_rounds_with_a_cap_have_no_smallest_deltas() -> None:
    with pytest.raises(
        ConfigError,
        match=r"delta = 1e-15: .*at least 1e-14: raise privacy.delta, or leave out privacy",
    ):
        ClientDP(noise_multiplier=1.0, delta=1e-15, cap=20)
    assert ClientDP(noise_multiplier=1.0, delta=1e-14, cap=20).cap == 20


@pytest.mark.parametrize("target", [51.0, 200.0, 1000.0, 1e6])
def test_noise_for_an_epsilon_that_protects_nothing_follows_the_renyi_bound(
    target: float,
) -> None:
    z = calibrate(target, 1e-5, lambda z: NoisyRounds(0.05, z, 100))
    found = NoisyRounds(0.05, z, 100)
    assert 0.95 * target < epsilon(found, 1e-5) == renyi_epsilon(found, 1e-5) <= target
    assert epsilon(NoisyRounds(0.05, z * 0.998, 100), 1e-5) > target


def test_noise_for_an_epsilon_far_below_its_renyi_bound() -> None:
    """The bound of 1e-3 asks for twice as much noise as the figure: the search must not end at half
    of it."""
    z = calibrate(1e-3, 1e-5, lambda z: NoisyRounds(0.05, z, 100))
    assert (
        epsilon(NoisyRounds(0.05, z, 100), 1e-5)
        <= 1e-3
        < epsilon(NoisyRounds(0.05, z * 0.998, 100), 1e-5)
    )


@LONG
def test_noise_for_an_epsilon_of_rounds_with_a_cap() -> None:
    def rounds(z: float) -> NoisyRounds:
        return NoisyRounds(probability=0.1, noise_multiplier=z, count=2, cap=8, clients=50)

    z = calibrate(2.0, 1e-3, rounds)
    assert epsilon(rounds(z), 1e-3) <= 2.0 < epsilon(rounds(z * 0.998), 1e-3)
    assert z > calibrate(2.0, 1e-3, lambda z: NoisyRounds(0.1, z, 2))


@pytest.mark.parametrize("target", [9.0, 60.0, 200.0])
def test_a_search_with_a_cap_takes_fine_steps_only_near_the_target(
    target: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fine steps take ten seconds each:
    a search of twenty noises must not take them for every one."""
    pld_epsilon = accounting._pld_epsilon
    steps: list[float] = []

    def spied(rounds: NoisyRounds, delta: float, step: float) -> float:
        steps.append(step)
        return pld_epsilon(rounds, delta, max(step, 1e-2))  # so that the test itself is fast

    def rounds(noise: float) -> NoisyRounds:
        return NoisyRounds(probability=0.2, noise_multiplier=noise, count=5, cap=8, clients=40)

    monkeypatch.setattr(accounting, "_pld_epsilon", spied)
    accounting.epsilon.cache_clear()
    noise = calibrate(target, 1e-5, rounds)
    found = list(steps)
    cost = epsilon(rounds(noise), 1e-5)
    costs_of_less = epsilon(rounds(noise * 0.998), 1e-5)
    accounting.epsilon.cache_clear()
    assert 8 < len(found) < 40
    assert found.count(1e-4) <= 2
    assert cost <= target < costs_of_less


def test_coarse_steps_decide_as_fine_ones_do() -> None:
    rounds = NoisyRounds(probability=0.1, noise_multiplier=2.0, count=2, cap=8, clients=50)
    cost = epsilon(rounds, 1e-3)
    assert accounting.costs_at_most(cost, 1e-3, rounds)
    assert not accounting.costs_at_most(cost * (1 - 1e-6), 1e-3, rounds)
    assert not accounting.costs_at_most(cost / 2, 1e-3, rounds)


def test_large_epsilons_of_rounds_with_a_cap_are_bounded_by_everybody_with_half_the_noise() -> None:
    capped = NoisyRounds(probability=0.5, noise_multiplier=0.1, count=10, cap=30, clients=50)
    assert epsilon(capped, 1e-5) == renyi_epsilon(NoisyRounds(1.0, 0.05, 10), 1e-5)


def test_worthless_settings_are_named_with_their_cure() -> None:
    (large,) = ClientDP(epsilon=200.0, delta=1e-5).warnings(100)
    assert (
        "epsilon = 200 gives no protection" in large
        and "above 50" in large
        and "10 or less" in large
    )
    for found_by_figure in (
        ClientDP(epsilon=200.0, cap=8),
        ClientDP(epsilon=200.0, noise_multiplier=1.0),
    ):
        (large,) = found_by_figure.warnings(100)
        assert "epsilon = 200 gives no protection" in large and "10 or less" in large
        assert "Renyi" not in large
    (one_client,) = ClientDP(epsilon=2.0, delta=0.01).warnings(100)
    assert "delta = 0.01 with 100 clients" in one_client
    assert ClientDP(epsilon=50.0, delta=1e-5).warnings(100) == []


def test_accountants_that_contradict_each_other_are_refused() -> None:
    check(1.0, 1.0)
    with pytest.raises(ConfigError, match="contradict"):
        check(1.1, 1.0)


def test_a_missing_library_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    accounting._library.cache_clear()
    with pytest.raises(MissingExtra, match=r"fedkin\[privacy\]"):
        accounting._library("dp_accounting")
    accounting._library.cache_clear()
