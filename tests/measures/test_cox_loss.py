"""The Cox loss per event, against vectors of statsmodels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedkin as fk
from fedkin.core.errors import FedkinError
from fedkin.measures.cox_loss import cox_loss
from tests.task_vectors import task_case

Oracle = Callable[[str], dict[str, Any]]


def patients(inputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores by the coefficients of a case, times and events."""
    scores = np.array(inputs["x"]) @ np.array(inputs["beta"])
    return scores, np.array(inputs["time"]), np.array(inputs["event"]) == 1


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_loss_per_event_equals_the_oracle(ties: str, oracle: Oracle) -> None:
    known = task_case(oracle, f"cox_{ties}")
    found = cox_loss(*patients(known["inputs"]), ties)
    assert found == pytest.approx(known["outputs"]["loss per event"], abs=1e-10)


def test_weighted_by_events_clients_have_the_stratified_loss(oracle: Oracle) -> None:
    known = task_case(oracle, "cox_stratified_by_client")
    scores, times, died = patients(known["inputs"])
    client = np.array(known["inputs"]["client"])
    total = 0.0
    for number, printed in enumerate(known["outputs"]["loss by client"]):
        own = client == number
        loss = cox_loss(scores[own], times[own], died[own])
        assert loss is not None
        assert loss * died[own].sum() == pytest.approx(printed, abs=1e-10)
        total += loss * died[own].sum()
    assert total == pytest.approx(known["outputs"]["stratified loss"], abs=1e-10)
    assert total != pytest.approx(known["outputs"]["pooled loss (not the same)"], abs=1)


def gradient(inputs: dict[str, Any], ties: str, clients: int = 1) -> list[float]:
    """Gradient of the summed loss by the coefficients, by central differences of sixth order. With
    several clients, the losses are those of each client's patients."""
    x = np.array(inputs["x"])
    _, times, died = patients(inputs)
    client = np.array(inputs["client"]) if clients > 1 else np.zeros(len(times), int)

    def total(beta: np.ndarray) -> float:
        losses = 0.0
        for number in range(clients):
            own = client == number
            mean = cox_loss(x[own] @ beta, times[own], died[own], ties)
            losses += (mean or 0.0) * died[own].sum()
        return losses

    found = []
    for direction in np.eye(2):
        differences = [
            total(np.array(inputs["beta"]) + step * direction)
            - total(np.array(inputs["beta"]) - step * direction)
            for step in (0.01, 0.02, 0.03)
        ]
        found.append(float(np.dot([45, -9, 1], differences)) / 0.6)
    return found


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_gradient_and_the_minimum_are_the_oracles(ties: str, oracle: Oracle) -> None:
    known = task_case(oracle, f"cox_{ties}")
    inputs = known["inputs"]
    # statsmodels computes Efron's gradient to 1e-6.
    tolerance = max(known["tolerance"], 1e-9)
    assert gradient(inputs, ties) == pytest.approx(known["outputs"]["gradient"], abs=tolerance)
    (fit,) = (value for name, value in known["outputs"].items() if name.startswith("fit"))
    at_minimum = gradient(inputs | {"beta": fit}, ties)
    assert at_minimum == pytest.approx([0, 0], abs=1e-5)


def test_the_stratified_gradient_is_the_oracles(oracle: Oracle) -> None:
    known = task_case(oracle, "cox_stratified_by_client")
    found = gradient(known["inputs"], "breslow", clients=3)
    assert found == pytest.approx(known["outputs"]["stratified gradient"], abs=1e-9)


def test_without_ties_both_are_the_same_and_a_shift_of_scores_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20)
    times = rng.permutation(20).astype(float)
    died = rng.random(20) < 0.5
    breslow = cox_loss(scores, times, died)
    assert breslow == pytest.approx(cox_loss(scores, times, died, "efron"), rel=1e-12)
    assert breslow == pytest.approx(cox_loss(scores + 700, times, died), rel=1e-9)


def test_lists_and_events_as_numbers_equal_booleans() -> None:
    """By hand: of scores 0, times 1 to 4, all events, (log 4 + log 3 + log 2 + log 1) / 4."""
    by_hand = np.log(24) / 4
    assert fk.cox_loss([0, 0, 0, 0], [1, 2, 3, 4], [1, 1, 1, 1]) == pytest.approx(by_hand)
    assert fk.cox_loss(np.zeros(4), np.arange(4), [True] * 4) == pytest.approx(by_hand)

    # Positions 0 and 1, if numbers were taken for rows.
    some = fk.cox_loss([0.5, 0.0, 0.0], [1, 2, 3], [0, 1, 0])
    assert some == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ties": "exact"}, ["ties", "'exact'", "breslow", "efron"]),
        ({"died": [1, 2, 0]}, ["died", "True or False", "got 2"]),
        ({"times": [1.0, 2.0]}, ["3 scores", "2 times", "3 events"]),
        ({"times": [1.0, float("nan"), 2.0]}, ["times", "finite", "times[1] = nan"]),
        ({"scores": [[1.0], [2.0], [3.0]]}, ["scores", "one number for each patient", "[3, 1]"]),
        ({"scores": ["a", "b", "c"]}, ["scores", "one number for each patient"]),
    ],
)
def test_bad_patients_are_refused(changed: dict[str, Any], words: list[str]) -> None:
    right: dict[str, Any] = {"scores": [1.0, 2.0, 3.0], "times": [1.0, 2.0, 3.0], "died": [1, 1, 0]}
    with pytest.raises(FedkinError) as refused:
        fk.cox_loss(**(right | changed))
    assert all(word in str(refused.value) for word in words), refused.value


def test_patients_without_an_event_have_no_loss() -> None:
    assert cox_loss(np.zeros(3), np.arange(3.0), np.zeros(3, bool)) is None
