"""The rule of no harm: gate, veto and paired t-test by hand, against SciPy, and on federations of
known kind; empirical Bayes against the oracle vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedkin.core.errors import MethodError
from fedkin.measures.do_no_harm import (
    HeldOutGains,
    choose_models,
    empirical_bayes,
    held_out_gains,
    paired_t_better,
)
from tests.task_vectors import task_case


def gains_of(
    mean: Any, variance: float = 0.01, samples: Any = 20, own_loss: float = 1.0
) -> HeldOutGains:
    """Gains of clients [N A] with the same variance."""
    mean = np.array(mean, float).reshape(len(mean), -1)
    return HeldOutGains(
        mean=mean,
        variance=np.full(mean.shape, variance),
        samples=np.broadcast_to(samples, len(mean)).copy(),
        own_loss=np.full(len(mean), own_loss),
    )


def test_gains_by_hand() -> None:
    own = np.array([2.0, 4.0, 100.0, 1.0])
    others = np.array([[1.0, 2.0, 0.0, 3.0], [2.0, 4.0, 100.0, 1.0]])
    found = held_out_gains(own, others, np.array([0, 0, 0, 2]), clients=3, cap=10.0)
    assert found.samples.tolist() == [3, 0, 1]
    np.testing.assert_allclose(found.own_loss, [16 / 3, np.nan, 1])
    # Gains of the first client are 1, 2 and 10: the cut loss minus 0.
    np.testing.assert_allclose(found.mean[:, 0], [13 / 3, np.nan, -2])
    np.testing.assert_allclose(found.variance[0], [73 / 3, 0])
    assert np.isnan(found.variance[1:]).all()


def test_an_open_gate_serves_all_but_those_who_lose() -> None:
    found = choose_models(gains_of([0.3, 0.2, -0.01, 0.0]))
    assert found.gate
    assert found.gain == pytest.approx(0.1225)
    assert found.model.tolist() == [1, 1, 0, 1]
    assert found.vetoed.tolist() == [False, False, True, False]
    assert not found.worse.any()


def test_a_closed_gate_serves_only_those_whose_own_test_says_better() -> None:
    """The mean gain is below 10%. Standard errors are 0.1 / sqrt(20) = 0.022."""
    found = choose_models(gains_of([0.2, 0.03, -0.05, 0.05]))
    assert not found.gate
    assert found.gain == pytest.approx(0.0575)
    assert found.model.tolist() == [1, 0, 0, 1]
    assert not found.vetoed.any()


def test_the_gate_is_relative_to_the_own_models_loss() -> None:
    """A gain of 0.3 is 30% of a loss of 1, and 3% of a loss of 10."""
    assert choose_models(gains_of([0.3, 0.3])).gate
    assert not choose_models(gains_of([0.3, 0.3], own_loss=10.0)).gate


def test_clients_with_few_samples_follow_the_gate() -> None:
    """The second client of each federation has 7 samples, the third one no gain that is finite."""
    opened = gains_of([[0.3], [-5.0], [np.nan]], samples=[20, 7, 20])
    opened = opened._replace(mean=np.array([[6.0], [-5.0], [np.nan]]))
    assert choose_models(opened).gate
    assert choose_models(opened).model.tolist() == [1, 1, 1]
    closed = gains_of([[-0.3], [0.4], [np.nan]], samples=[20, 7, 20])
    assert choose_models(closed).model.tolist() == [0, 0, 0]
    assert choose_models(closed, least_samples=5).model.tolist() == [0, 1, 0]


def test_the_best_alternative_opens_the_gate_and_tests_share_the_level() -> None:
    gains = gains_of([[0.1, 0.3], [0.2, 0.3]])
    found = choose_models(gains)
    assert found.best == 2
    assert found.model.tolist() == [2, 2]

    # With one alternative a t of 1.9 and 19 degrees of freedom is enough at 5%, with two it is not.
    t = 1.9 * 0.1 / np.sqrt(20)
    assert choose_models(gains_of([[t], [-t]])).model.tolist() == [1, 0]
    assert choose_models(gains_of([[t, -1.0], [-t, -1.0]])).model.tolist() == [0, 0]


def test_with_a_closed_gate_a_client_gets_its_own_best() -> None:
    found = choose_models(gains_of([[0.2, 0.1], [0.1, 0.2], [-0.3, -0.3]]))
    assert not found.gate
    assert found.model.tolist() == [1, 2, 0]


def test_clients_whose_test_says_worse_are_counted() -> None:
    """Of the losses 0.01, 0.2 and 0.2 with a standard error of 0.022 the second is shown, and the
    third has too few samples."""
    found = choose_models(gains_of([0.9, -0.01, -0.2, -0.2], samples=[20, 20, 20, 7]))
    assert found.worse.tolist() == [False, False, True, False]


def test_the_interval_of_the_gain_is_over_clients() -> None:
    mean = [0.3, 0.2, 0.1, 0.25]
    found = choose_models(gains_of(mean, own_loss=2.0))
    relative = np.array(mean) / 2
    low, high = stats.t.interval(0.95, 3, loc=relative.mean(), scale=stats.sem(relative))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_the_paired_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0.25, 1, (50, 30))
    tests: Any = stats.ttest_1samp(differences, 0, axis=1, alternative="greater")
    expected = tests.pvalue < 0.05
    found = paired_t_better(
        differences.mean(axis=1), differences.var(axis=1, ddof=1), np.full(50, 30)
    )
    assert found.tolist() == expected.tolist()
    assert 5 < found.sum() < 45


def test_the_paired_test_of_equal_differences_and_of_one_sample() -> None:
    mean = np.array([0.1, 0.0, 5.0, np.nan])
    variance = np.array([0.0, 0.0, np.nan, np.nan])
    samples = np.array([5, 5, 1, 0])
    assert paired_t_better(mean, variance, samples).tolist() == [True, False, False, False]


@dataclass(frozen=True)
class Federation:
    """Clients that estimate their mean from n samples; the alternative is the mean of own and
    global estimate."""

    spread: float  # standard deviation of the clients' true means
    clients: int = 400
    samples: int = 20

    def harmed(self, seed: int) -> tuple[float, float]:
        """The share of clients that lose more than 2% by the rule, and the mean loss relative to
        the loss of own models."""
        rng = np.random.default_rng(seed)
        truth = rng.normal(0, self.spread, self.clients)
        y = truth[:, None] + rng.normal(size=(self.clients, self.samples))
        own = y.mean(axis=1)
        half = (own + y.mean()) / 2
        # Leave-one-out estimates score the same samples.
        others = (y.sum(axis=1, keepdims=True) - y) / (self.samples - 1)
        client = np.repeat(np.arange(self.clients), self.samples)
        found = choose_models(
            held_out_gains(
                own=((y - others) ** 2).ravel(),
                others=((y - (others + y.mean()) / 2) ** 2).reshape(1, -1),
                client=client,
                clients=self.clients,
            )
        )
        own_loss = 1 + (own - truth) ** 2
        served = np.where(found.model == 0, own_loss, 1 + (half - truth) ** 2)
        return float((served > 1.02 * own_loss).mean()), float(served.mean() / own_loss.mean())


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_few_clients_are_harmed(spread: float) -> None:
    """Alike, somewhat different, and very different clients. The tests of the last ones are wrong
    for a few of them."""
    harmed, loss = Federation(spread).harmed(seed=0)
    assert harmed <= 0.05
    assert loss <= 1.001


def test_empirical_bayes_is_the_oracles(oracle: Callable[[str], dict[str, Any]]) -> None:
    known = task_case(oracle, "empirical_bayes_gain")
    found = empirical_bayes(np.array(known["inputs"]["d"]), np.array(known["inputs"]["s2"]))
    printed = known["outputs"]
    assert found.mu == pytest.approx(printed["mu"], rel=1e-12)
    assert found.tau2 == pytest.approx(printed["tau2"], rel=1e-12)
    assert found.variance_of_mu == pytest.approx(printed["v_mu"], rel=1e-12)
    np.testing.assert_allclose(found.mean, printed["posterior mean"], rtol=1e-12)
    np.testing.assert_allclose(found.variance, printed["posterior variance"], rtol=1e-12)
    assert found.switch.tolist() == printed["switch"]


def test_gains_that_vary_less_than_by_chance_are_all_shrunk_to_their_mean() -> None:
    """tau2 is at least 0: all clients are served alike. One client keeps its gain."""
    found = empirical_bayes(np.array([0.5, 0.6, 0.4]), np.full(3, 0.1))
    assert found.tau2 == 0
    np.testing.assert_allclose(found.mean, 0.5)
    assert found.switch.all() or not found.switch.any()
    single = empirical_bayes(np.array([0.5]), np.array([0.01]))
    assert (single.mu, single.tau2) == (0.5, 0)
    assert single.switch.tolist() == [True]


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        (gains_of(np.zeros((2, 0))), "at least one alternative"),
        (gains_of([np.nan, np.nan]), "no client has a finite gain"),
        (gains_of([0.1, 0.1], own_loss=-1.0), "above 0, got -1"),
    ],
)
def test_impossible_gains_are_refused(gains: HeldOutGains, words: str) -> None:
    with pytest.raises(MethodError, match=words):
        choose_models(gains)


def test_squared_errors_must_be_positive() -> None:
    with pytest.raises(MethodError, match="squared errors above 0"):
        empirical_bayes(np.array([0.5]), np.array([0.0]))
