"""Fine-tuning: the choice of the number of epochs, and models in portions."""

from __future__ import annotations

import numpy as np
import pytest

import fedkin as fk
from fedkin.run.trained import fine_tuning
from fedkin.run.trained.fine_tuning import best_epochs, tuned_predictors


def test_the_first_of_the_best_scores_is_taken_and_nan_never_is() -> None:
    assert best_epochs([3.0, 1.0, np.nan, 1.0], sign=-1) == 1
    assert best_epochs([0.5, np.nan, 0.7, np.inf], sign=1) == 3
    assert best_epochs([np.nan, np.nan], sign=-1) == 0


def test_portions_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = fk.data.from_arrays(
        rng.normal(size=(40, 2)),
        rng.normal(size=40),
        clients=np.arange(40) % 4,
        task="regression",
    )
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4)
    clients = np.arange(4)
    together = dict(tuned_predictors(run.trained, clients, epochs=2))
    monkeypatch.setattr(fine_tuning, "_NUMBERS_AT_ONCE", 1)
    for client, predictor in tuned_predictors(run.trained, clients, epochs=2):
        assert (predictor.vector == together[client].vector).all()
        assert (predictor.vector == run.fine_tune(client, 2).vector).all()
    assert not list(tuned_predictors(run.trained, clients[:0], epochs=2))
