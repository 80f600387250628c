"""Which model serves each client: folds, mixtures, and the choice on federations of known kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.analysis.serving.held_out import (
    folds_of,
    held_out_parts,
    number_of_parts,
    without_fold,
)
from fedkin.analysis.serving.mixtures import half_and_half, largest_loss
from fedkin.core.errors import ConfigError
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.count import Count
from fedkin.task_types.regression import AbsoluteError, Regression

CLIENTS = 12


def federation(slopes: np.ndarray, samples: int, noise: float) -> fk.FederatedData:
    """Clients whose labels are a line of one of ten features, with their own slopes."""
    rng = np.random.default_rng(0)
    x, y, client = [], [], []
    for number, slope in enumerate(slopes):
        features = rng.standard_normal((2 * samples, 10))
        x.append(features)
        y.append(slope * features[:, 0] + noise * rng.standard_normal(2 * samples))
        client.append(np.full(2 * samples, number))
    test = np.tile(np.arange(2 * samples) >= samples, len(slopes))
    return fk.data.from_arrays(
        np.concatenate(x).astype(np.float32),
        np.concatenate(y),
        clients=np.concatenate(client),
        test=test,
        task="regression",
    )


def trained(data: fk.FederatedData) -> fk.Run:
    return fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=10,
        cohort=data.clients,
        local=fk.LocalTraining(epochs=2, batch_size=10, lr=0.1),
    )


def test_alike_clients_of_few_samples_share() -> None:
    """Ten noisy samples and ten features: the common model is far better than a client's own."""
    served = fk.serve(trained(federation(np.ones(CLIENTS), samples=10, noise=1.0)), folds=5)
    summary = served.summary()
    assert summary["gate_open"] and summary["gain"] > 0.1
    assert summary["served_by"]["own + global"] == CLIENTS - summary["vetoed"]
    assert summary["served_by"]["own + global"] > CLIENTS / 2


def test_only_clients_with_a_test_can_be_worse_by_chance() -> None:
    """A client with fewer than 8 held-out samples has no test."""
    for samples, expected in ((6, 0.0), (8, 0.05 * CLIENTS)):
        served = fk.serve(trained(federation(np.ones(CLIENTS), samples, noise=1.0)), folds=2)
        assert served.summary()["expected_by_chance"] == pytest.approx(expected)


def test_clients_with_opposite_lines_keep_their_own_models() -> None:
    slopes = np.where(np.arange(CLIENTS) % 2, 2.0, -2.0)
    served = fk.serve(trained(federation(slopes, samples=60, noise=0.1)), folds=3)
    assert served.summary()["served_by"] == {"own model": CLIENTS, "own + global": 0}
    assert not served.service.gate
    assert all(row.gain < 0 for row in served.rows)


def test_served_predictions_are_the_mean_of_both_models() -> None:
    data = federation(np.ones(CLIENTS), samples=10, noise=1.0)
    served = fk.serve(trained(data), folds=5)
    client = int(np.flatnonzero(served.service.model == 1)[0])
    x = data.x[data.test[client]]
    own = served.candidates.own.of_client(client)
    shared = served.candidates.shared.of_client(client)
    label = data.task_type.label
    expected = (own.scores_of(x) + shared.scores_of(x))[:, 0] / 2 * label.scale + label.mean
    np.testing.assert_allclose(served.predict(x, client=client), expected, rtol=1e-5, atol=1e-6)


def test_classes_have_mixed_probabilities() -> None:
    one = np.log(np.array([[0.9, 0.1]]))
    other = np.log(np.array([[0.2, 0.8]]))
    mixed = half_and_half(CLASSIFICATION, one, other)
    np.testing.assert_allclose(np.exp(mixed), [[0.55, 0.45]])
    losses = CLASSIFICATION.score_losses(mixed, np.array([1]))
    np.testing.assert_allclose(losses, -np.log([0.45]))


def test_counts_have_mixed_means_and_not_mixed_rates() -> None:
    mixed = half_and_half(Count(), np.log([[2.0]]), np.log([[8.0]]))
    np.testing.assert_allclose(np.exp(mixed), [[5.0]])  # the mean of rates would be 4


def test_squares_are_cut_at_three_standard_deviations() -> None:
    assert largest_loss(Regression()) == 9
    assert largest_loss(Regression(AbsoluteError())) == 3
    assert largest_loss(CLASSIFICATION) == np.inf


def test_each_sample_is_held_out_once() -> None:
    data = federation(np.ones(3), samples=7, noise=1.0)
    fold_of = folds_of(data, folds=3, seed=0)
    seen = []
    for fold in range(3):
        reduced, held_out = without_fold(data, fold_of, fold)
        seen.append(held_out.rows)
        assert not np.isin(held_out.rows, reduced.train.rows).any()
        assert len(held_out.rows) + len(reduced.train.rows) == len(data.train.rows)
    assert sorted(np.concatenate(seen)) == sorted(data.train.rows)


def test_a_single_sample_is_never_held_out() -> None:
    data = federation(np.ones(2), samples=5, noise=1.0)
    rows = [data.train[0][:1], data.train[1]]
    data = data.with_rows(fk.data.Ragged.of(list(rows)), data.test)
    assert (folds_of(data, folds=2, seed=0)[0] == -1).all()


def test_private_runs_are_refused() -> None:
    data = fk.data.digits(clients=6)
    run = fk.simulate(
        fk.FedAvg(),
        data,
        fk.models.mclr(data),
        rounds=1,
        cohort=fk.Cohort(3, selection="poisson"),
        options=[fk.ClientDP(noise_multiplier=1.0)],
    )
    with pytest.raises(ConfigError, match="the run has the option privacy"):
        fk.serve(run, folds=2)


def test_the_choice_is_kept_in_the_run(tmp_path: Path) -> None:
    data = fk.data.digits(clients=4)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=4)
    served = fk.serve(run, folds=2)
    path = served.save(tmp_path)
    assert path.name == "serving.json"
    assert '"rule": "do_no_harm"' in path.read_text()
    assert len(served.clients) == 4


def shops(clients: int = 6) -> pd.DataFrame:
    """Series whose next value is a multiple of the last one, each at another level."""
    rng = np.random.default_rng(3)
    parts = []
    for number in range(clients):
        values = [0.0]
        for _ in range(59):
            values.append(0.6 * values[-1] + rng.standard_normal())
        sales = 10.0**number * (10 + np.array(values))
        parts.append(pd.DataFrame({"shop": f"s{number}", "month": np.arange(60), "sales": sales}))
    return pd.concat(parts, ignore_index=True)


FORECAST: dict[str, Any] = {
    "label": "sales",
    "client": "shop",
    "task": "forecast",
    "time": "month",
    "lags": [1],
    "test_from": 50,
}


def test_forecasts_are_held_out_by_time_and_never_at_random() -> None:
    undivided = fk.data.from_pandas(shops(), **FORECAST)
    with pytest.raises(ConfigError, match=r"learn from the future.*validation_from = '2018-01'"):
        fk.serve(trained(undivided), folds=2)
    with pytest.raises(ConfigError, match=r"learn from the future.*validation_from = '2018-01'"):
        fk.clusters_or_levels(undivided, fk.models.mclr(undivided))

    data = fk.data.from_pandas(shops(), validation_from=40, **FORECAST)
    assert data.validation is not None
    parts = list(held_out_parts(data, number_of_parts(data, folds=5), seed=0))
    assert len(parts) == 1
    assert parts[0].rows.rows.tolist() == data.validation.rows.tolist()
    assert parts[0].reduced.train.rows.tolist() == data.train.rows.tolist()
    served = fk.serve(trained(data), folds=5)
    assert served.summary()["folds"] == 1
    assert all(row.held_out == 10 for row in served.rows)


def test_served_forecasts_are_in_units_of_the_label() -> None:
    data = fk.data.from_pandas(shops(), validation_from=40, **FORECAST)
    served = fk.serve(trained(data))
    for number in (0, 5):
        table = shops()[lambda rows: rows["shop"] == f"s{number}"]  # noqa: B023
        found = served.predict(table.drop(columns="shop"), client=f"s{number}")
        assert np.isnan(found[0])
        assert found[1:] == pytest.approx(np.full(59, 10.0 ** (number + 1)), rel=0.5)


def test_served_counts_are_times_the_exposure() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=120), "ward": np.arange(120) % 4})
    table["years"] = rng.uniform(0.5, 2, 120)
    table["days"] = rng.poisson(4 * table["years"])
    data = fk.data.from_pandas(table, label="days", client="ward", task="count", exposure="years")
    served = fk.serve(trained(data), folds=2)
    rates = served.predict(table.drop(columns="years"), client=0)
    np.testing.assert_allclose(served.predict(table, client=0), rates * table["years"], rtol=1e-6)
