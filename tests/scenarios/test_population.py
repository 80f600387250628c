"""Which clients take part: arrivals, dropout and stragglers as pure decisions per client and
round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.core.errors import ConfigError
from fedkin.core.randomness import Stream
from fedkin.scenarios.population import Population

EVERYONE = np.arange(2000)
STREAM = Stream(4, 6, "run/train")


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_fractions_are_met(fraction: float) -> None:
    """Within five standard deviations of 2,000 independent draws; none and all are exact."""
    slack = 5 * np.sqrt(2000 * fraction * (1 - fraction))
    silent = Population(dropout=fraction).dropped_out(EVERYONE, STREAM)
    slow = Population(stragglers=fraction).straggling(EVERYONE, STREAM)
    assert abs(silent.sum() - 2000 * fraction) <= slack
    assert abs(slow.sum() - 2000 * fraction) <= slack


def test_a_decision_depends_on_seed_round_and_client_only() -> None:
    population = Population(dropout=0.5, stragglers=0.5)
    order = np.roll(EVERYONE[::-3], 11)
    for decide in (population.dropped_out, population.straggling):
        usual = decide(EVERYONE, STREAM)
        np.testing.assert_array_equal(decide(order, STREAM), usual[order])
        np.testing.assert_array_equal(decide(EVERYONE, Stream(4, 6, "another purpose")), usual)
        assert (decide(EVERYONE, STREAM.at(7)) != usual).any()
        assert (decide(EVERYONE, Stream(5, 6, "run/train")) != usual).any()


def test_dropping_out_and_straggling_are_independent() -> None:
    """A quarter of all do both when half do each."""
    population = Population(dropout=0.5, stragglers=0.5)
    both = population.dropped_out(EVERYONE, STREAM) & population.straggling(EVERYONE, STREAM)
    assert abs(both.sum() - 500) < 5 * np.sqrt(2000 * 0.25 * 0.75)


def test_a_larger_fraction_loses_the_same_clients_and_more() -> None:
    few, many = (Population(dropout=p).dropped_out(EVERYONE, STREAM) for p in (0.2, 0.4))
    assert (many | ~few).all()


def test_stragglers_manage_every_number_of_epochs_below_theirs_as_often() -> None:
    """FedProx: integers drawn uniformly from [1, E)."""
    steps = Population(stragglers=1.0).partial_steps(EVERYONE, np.full(2000, 5), STREAM)
    values, counts = np.unique(steps, return_counts=True)
    np.testing.assert_array_equal(values, [1, 2, 3, 4])
    assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


def test_each_client_may_have_its_own_epochs() -> None:
    epochs = 1 + EVERYONE % 4
    steps = Population(stragglers=1.0).partial_steps(EVERYONE, epochs, STREAM)
    assert steps.min() == 1
    assert (steps < np.maximum(epochs, 2)).all()


def test_arrivals() -> None:
    population = Population(arrivals={5: 3, 2: 4})
    present = {0: 3, 1: 3, 2: 7, 4: 7, 5: 10, 50: 10}
    for round, count in present.items():
        np.testing.assert_array_equal(population.reachable(10, round), np.arange(count))


def test_departures() -> None:
    population = Population(departures={5: 3, 2: 4})
    first = {0: 0, 1: 0, 2: 4, 4: 4, 5: 7, 50: 7}
    for round, gone in first.items():
        np.testing.assert_array_equal(population.reachable(10, round), np.arange(gone, 10))


def test_some_arrive_while_others_leave() -> None:
    population = Population(arrivals={3: 5}, departures={3: 4, 6: 1})
    for round, there in {2: range(5), 3: range(4, 10), 6: range(5, 10)}.items():
        assert population.reachable(10, round).tolist() == list(there)


def test_a_client_must_stay() -> None:
    population = Population(arrivals={9: 2}, departures={1: 3})
    with pytest.raises(
        ConfigError, match="departures leave no client in round 1: 3 have left, 2 of 5 come later"
    ):
        population.reachable(5, 1)
    assert population.reachable(6, 1).tolist() == [3]


def test_everybody_is_there_by_default() -> None:
    population = Population()
    np.testing.assert_array_equal(population.reachable(4, 0), np.arange(4))
    assert (
        not population.dropped_out(EVERYONE, STREAM).any()
        and not population.straggling(EVERYONE, STREAM).any()
    )


def test_a_client_must_be_there() -> None:
    population = Population(arrivals={1: 4})
    with pytest.raises(ConfigError, match="4"):
        population.reachable(4, 0)
    np.testing.assert_array_equal(population.reachable(4, 1), np.arange(4))


@pytest.mark.parametrize(
    "entry", [(2, 2.5), (2, True), (2, "3"), (2.5, 3), (True, 3), ("2", 3)], ids=str
)
@pytest.mark.parametrize("name", ["arrivals", "departures"])
def test_rounds_and_counts_are_whole_numbers(name: str, entry: tuple[Any, Any]) -> None:
    """The tests' own type checks would refuse most of them first, so they are put in behind their
    back."""
    population = Population()
    getattr(population, name)[entry[0]] = entry[1]
    with pytest.raises(
        ConfigError,
        match=f"^{name} must map rounds to numbers .*; got {entry[0]!r}: {entry[1]!r}$",
    ):
        population.__post_init__()


def test_numpys_whole_numbers_will_do() -> None:
    population = Population()
    population.arrivals[np.int64(2)] = np.int32(3)  # pyright: ignore[reportArgumentType]
    population.__post_init__()
    assert population.reachable(5, 1).tolist() == [0, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": -0.1},
        {"mute": 1.5},
        {"dropout": 1.1},
        {"dropout": float("nan")},
        {"stragglers": 2.0},
        {"arrivals": {0: 3}},
        {"arrivals": {2: 0}},
        {"departures": {0: 3}},
        {"departures": {2: 0}},
    ],
)
def test_invalid_values_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Population(**options)
