"""A plan is checked wherever it comes from, and says which steps follow which round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedkin.config.plan import Plan
from fedkin.core.errors import ConfigError
from tests.mappings import merged


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 0}, "run.rounds: expected a value greater than or equal to 1, got 0"),
        ({"cohort": 0}, "run.cohort: expected a value greater than or equal to 1, got 0"),
        (
            {"evaluate_every": -1},
            "run.evaluate_every: expected a value greater than or equal to 0, got -1",
        ),
        (
            {"checkpoint_every": 0},
            "run.checkpoint_every: expected a value greater than or equal to 1, got 0",
        ),
        ({"seed": -1}, "run.seed: expected a value greater than or equal to 0, got -1"),
        ({"rounds": 2.5}, "run.rounds: expected a valid integer, got 2.5"),
        ({"cohort": True}, "run.cohort: expected a valid integer, got True"),
        ({"seed": None}, "run.seed: expected a valid integer, got None"),
        (
            {"selection": "robin"},
            "run.selection: expected 'uniform', 'round_robin', 'poisson' or 'seed_plus_round', "
            "got 'robin'",
        ),
    ],
)
def test_plans_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Plan(**merged({"rounds": 1, "cohort": 1}, values))
    reason, _, example = str(error.value).partition("; for example ")
    assert reason == message
    assert example.startswith(f"{next(iter(values))}=")


def test_arguments_by_position_are_named_in_messages() -> None:
    with pytest.raises(ConfigError, match=r"^run\.cohort: expected"):
        Plan(1, 0)


def test_numbers_of_numpy_become_plain() -> None:
    plan = Plan(np.int64(3), np.int32(2))  # type: ignore[arg-type]
    assert plan == Plan(3, 2) and type(plan.rounds) is type(plan.cohort) is int


def test_the_last_round_is_always_evaluated_and_kept() -> None:
    plan = Plan(5, 1, evaluate_every=2, checkpoint_every=3)
    assert [round for round in range(6) if plan.evaluates(round)] == [0, 2, 4, 5]
    assert [round for round in range(6) if plan.checkpoints(round)] == [0, 3, 5]
