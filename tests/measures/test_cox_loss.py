"""The Cox loss per event, against vectors of statsmodels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedkin.measures.cox_loss import cox_loss

Oracle = Callable[[str], dict[str, Any]]


def case(oracle: Oracle, name: str) -> dict[str, Any]:
    """A case of the vectors; scores are those of its coefficients."""
    (found,) = (one for one in oracle("survival")["cases"] if one["id"] == name)
    return found


def patients(inputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, times and events."""
    scores = np.array(inputs["x"]) @ np.array(inputs["beta"])
    return scores, np.array(inputs["time"]), np.array(inputs["event"]) == 1


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_loss_per_event_is_that_of_the_oracle(ties: str, oracle: Oracle) -> None:
    known = case(oracle, f"cox_{ties}")
    found = cox_loss(*patients(known["inputs"]), ties)
    assert found == pytest.approx(known["outputs"]["loss per event"], abs=1e-10)


def test_weighted_by_events_clients_have_the_stratified_loss(oracle: Oracle) -> None:
    known = case(oracle, "cox_stratified_by_client")
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


def test_without_ties_both_are_the_same_and_a_shift_of_scores_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    scores, times, died = rng.normal(size=20), rng.permutation(20).astype(float), rng.random(20) < 0.5
    breslow = cox_loss(scores, times, died)
    assert breslow == pytest.approx(cox_loss(scores, times, died, "efron"), rel=1e-12)
    assert breslow == pytest.approx(cox_loss(scores + 700, times, died), rel=1e-9)


def test_patients_without_an_event_have_no_loss() -> None:
    assert cox_loss(np.zeros(3), np.arange(3.0), np.zeros(3, bool)) is None
