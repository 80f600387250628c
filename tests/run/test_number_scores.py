"""Records and summaries of numbers have the score per client, the clients that are not ranked, and
the coverage of quantiles with its interval."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedkin as fk
from fedkin.measures.lookup import compared_by
from fedkin.measures.measure import Measure
from fedkin.measures.run_scores import ACCURACIES, scores_in, scores_of
from fedkin.measures.table import COMPARED, MEASURES

RMSE = "root_mean_squared_error"
SIZES = (4, 9, 10, 40)  # test samples of each client
CLIENT = np.repeat(np.arange(4), SIZES)


def data(**options: object) -> fk.data.FederatedData:
    """Four clients of different sizes; the labels of a client have its level."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(len(CLIENT), 2)).astype(np.float32)
    y = 100.0 * CLIENT + 30 * x[:, 0] + rng.normal(size=len(CLIENT))
    return fk.data.from_arrays(
        np.concatenate([x, x]),
        np.concatenate([y, y]),
        clients=np.tile(CLIENT, 2),
        test=np.repeat([False, True], len(CLIENT)),
        **options,  # type: ignore[arg-type]
    )


def run_of(found: fk.data.FederatedData, folder: Path | None = None) -> fk.Run:
    """Two rounds of FedAvg on all clients."""
    return fk.simulate(fk.FedAvg(), found, fk.models.mclr(found), rounds=2, cohort=4, out=folder)


def test_per_client_every_client_has_the_same_weight_and_small_ones_are_not_ranked() -> None:
    run = run_of(data(task="regression"))
    summary = run.summary()
    errors = run.clients[RMSE].to_numpy()
    sizes = run.clients["test_samples"].to_numpy()
    assert sizes.tolist() == list(SIZES)
    assert summary[f"final_{RMSE}"] == pytest.approx(np.sqrt(np.average(errors**2, weights=sizes)))
    # The root of the mean of the clients' mean squares; a mean of roots would be less.
    assert summary[f"{RMSE}_per_client"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert summary[f"{RMSE}_per_client"] > errors.mean() + 1
    assert summary["unranked"] == 2
    assert summary[f"{RMSE}_worst_decile"] == pytest.approx(errors[2:].max())


def test_a_model_that_has_diverged_has_scores_of_none(tmp_path: Path) -> None:
    """Records are JSON, which has no NaN."""
    found = data(task="regression")
    diverging = fk.LocalTraining(lr=1e30, epochs=2, batch_size=2)
    run = fk.simulate(
        fk.FedAvg(),
        found,
        fk.models.mclr(found),
        rounds=2,
        cohort=4,
        local=diverging,
        out=tmp_path / "run",
    )
    assert run.records[0]["root_mean_squared_error_worst_decile"] is not None
    for record in run.records:
        json.dumps(record, allow_nan=False)
    json.dumps(run.summary(), allow_nan=False)


def test_the_coverage_of_quantiles_has_wilsons_interval_about_its_level(tmp_path: Path) -> None:
    run = run_of(data(task="quantile", quantiles=[0.1, 0.5, 0.9]), tmp_path / "run")
    summary = run.summary()
    assert summary["final_coverage_gap"] == pytest.approx(summary["final_coverage"] - 0.8)
    n = sum(SIZES)
    share = summary["final_coverage"]
    z2 = 1.959963984540054**2
    half = np.sqrt(z2) * np.sqrt(share * (1 - share) / n + z2 / (4 * n**2)) / (1 + z2 / n)
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    low, high = summary["final_coverage_gap_interval"]
    assert low == pytest.approx(max(centre - half, 0.0) - 0.8, abs=1e-9)
    assert high == pytest.approx(min(centre + half, 1.0) - 0.8, abs=1e-9)
    assert fk.Run.load(tmp_path / "run").summary() == summary


def test_records_of_classes_have_none_of_these() -> None:
    digits = fk.data.digits(clients=4)
    run = fk.simulate(fk.FedAvg(), digits, fk.models.mclr(digits), rounds=1, cohort=4)
    assert not [name for name in {**run.records[-1], **run.summary()} if "per_client" in name]
    assert "unranked" not in run.summary()
    assert scores_in(run.summary()) == scores_in(run.records[-1]) == ACCURACIES


def test_the_words_of_comparisons_mean_the_measures_of_the_runs_score() -> None:
    errors = scores_of([RMSE, "r2_score"])
    for word in ("final", "best", "bottom", "validation"):
        assert compared_by(word, (), errors).direction == "lower"
        assert compared_by(word).direction == "higher"
    assert [measure.name for measure in ACCURACIES.compared] == list(COMPARED)
    assert [measure.name for measure in errors.further] == [f"{RMSE}_per_client", "final_r2_score"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00012345, "0.000123"),
        (0.84327, "0.8433"),
        (12.3456, "12.35"),
        (54321.9, "54,322"),
        (0.0, "0.000"),
    ],
)
def test_errors_of_any_size_have_four_significant_digits(value: float, text: str) -> None:
    assert MEASURES[RMSE].text(value) == text


def test_half_an_interval_has_the_places_of_its_mean_and_a_gain_a_digit_less() -> None:
    measure = Measure("error", unit="label", direction="lower")
    assert measure.text_with_half(12.3456, 12.3956) == "12.35 ± 0.05"
    assert measure.gain_text(-0.0590123) == "-0.0590"
    assert (measure.best_word, measure.worst_word) == ("lowest", "highest")
