"""Learning-rate schedules: equal to those of Optax, and the settings that are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

from fedkin.core.errors import ConfigError
from fedkin.core.schedule import Schedule, read_schedule

T = np.arange(30)


def joined(after: Any, start: float = 0.1) -> Any:
    """Optax's warm-up of four steps, and a schedule after it."""
    return optax.join_schedules([optax.linear_schedule(start, 1, 4), after], [4])


OPTAX = {
    "constant": (Schedule(), optax.constant_schedule(1.0)),
    "step": (
        Schedule("step", every=7, gamma=0.5),
        optax.exponential_decay(1.0, 7, 0.5, staircase=True),
    ),
    "exponential": (Schedule("exponential", gamma=0.9), optax.exponential_decay(1.0, 1, 0.9)),
    "linear": (Schedule("linear", length=12, end=0.25), optax.linear_schedule(1.0, 0.25, 12)),
    "cosine": (
        Schedule("cosine", length=20, end=0.05),
        optax.cosine_decay_schedule(1.0, 20, alpha=0.05),
    ),
    "warm-up": (Schedule(warmup=4), joined(optax.constant_schedule(1.0))),
    "warm-up and cosine": (
        Schedule("cosine", length=20, warmup=4, warmup_start=0.0),
        joined(optax.cosine_decay_schedule(1.0, 20), 0.0),
    ),
    "warm-up and step": (
        Schedule("step", every=5, gamma=0.1, warmup=4),
        joined(optax.exponential_decay(1.0, 5, 0.1, staircase=True)),
    ),
}


@pytest.mark.parametrize("name", OPTAX)
def test_optax_has_the_same(name: str) -> None:
    own, theirs = OPTAX[name]
    np.testing.assert_allclose(own.factors(T), [float(theirs(t)) for t in T], rtol=2e-6, atol=2e-7)


def test_without_a_length_it_ends_with_the_steps() -> None:
    own = Schedule("cosine", warmup=2, warmup_start=0.5)
    np.testing.assert_allclose(
        own.factors(np.arange(10), 10)[2:], Schedule("cosine", length=8).factors(np.arange(8))
    )
    np.testing.assert_allclose(own.factors(np.arange(10), 10)[:2], [0.5, 0.75])
    assert own.factors(np.arange(1), 1) == [0.5]  # a client with less than the warm-up


def test_from_a_name_and_from_a_table() -> None:
    assert read_schedule("cosine", "schedule") == Schedule("cosine")
    schedule = Schedule("step", every=3, gamma=0.5, warmup=2)
    assert (
        read_schedule(schedule.settings(), "schedule")
        == schedule
        == read_schedule(schedule, "schedule")
    )
    assert schedule.settings() == {"name": "step", "every": 3, "gamma": 0.5, "warmup": 2}
    assert read_schedule(None, "schedule") is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cosin", "schedule: unknown schedule 'cosin'; did you mean 'cosine'?"),
        (
            {"name": "cosine", "lenght": 3},
            "schedule: unknown option 'lenght'; did you mean 'length'?",
        ),
        (
            {"name": "cosine", "gamma": 0.5},
            "gamma does not apply to the schedule 'cosine', which has length and end",
        ),
        ({"name": "constant", "length": 5}, "which has no such option"),
        ({"name": "step", "gamma": 0.5}, "every is required by the schedule 'step'"),
        ({"name": "exponential"}, "gamma is required by the schedule 'exponential'"),
        ({"name": "cosine", "length": 0}, "length must be an integer of at least 1, got 0"),
        ({"warmup": -1}, "warmup must be an integer of at least 0, got -1"),
        ({"warmup_start": 2}, "warmup_start must be a number from 0 to 1, got 2"),
        ({"name": "exponential", "gamma": 0}, "gamma must be a number above 0, got 0"),
        ({"name": "cosine", "end": float("nan")}, "end must be a number from 0 up, got nan"),
        (7, "must be the name of a schedule or a table such as"),
    ],
)
def test_invalid_schedules_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_schedule(given, "schedule")
    assert str(error.value).startswith("schedule") and words in str(error.value)
