"""Predictions of labels that are numbers, from runs, their folders and their exports: a table with
missing values and an unseen category, in units of the label."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.export import load
from fedkin.export.predict_table import predict_file
from fedkin.run.trained import external_evaluation
from fedkin.run.trained.external_evaluation import load_other


def stays() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    hospital = np.arange(240) % 4
    table = pd.DataFrame({"age": rng.normal(50, 10, 240), "dose": rng.normal(3, 1, 240)})
    table["ward"] = np.array(["er", "icu", "surgery"])[rng.integers(0, 3, 240)]
    table["years"] = rng.uniform(0.5, 2, 240)
    table["days"] = rng.poisson(4 * table.years)
    table["score"] = 500 + 20 * (table.ward == "icu") + rng.normal(size=240)
    table.loc[::5, "dose"] = np.nan
    return table.assign(hospital=[f"h{number}" for number in hospital])


def trained(out: Path, label: str, **options: object) -> fk.Run:
    table = stays().drop(columns="score" if label == "days" else "days")
    if label == "score":
        table = table.drop(columns="years")
    data = fk.data.from_pandas(table, label=label, client="hospital", **options)  # type: ignore[arg-type]
    return fk.simulate(
        fk.FedGroup(clusters=2), data, fk.models.mclr(data), rounds=4, cohort=4, out=out
    )


def odd_rows() -> pd.DataFrame:
    """Rows with a missing age, and with a category that training never saw."""
    table = stays().head(8)
    table.loc[0, "age"] = np.nan
    table.loc[1, "ward"] = "never seen"
    return table


@pytest.mark.parametrize("format", ["safetensors", "torch", "onnx"])
def test_an_export_predicts_as_the_run(format: str, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "score", task="regression")
    table = odd_rows()
    table.to_csv(tmp_path / "new.csv", index=False)
    run.export(tmp_path / "models", format)
    predictions = predict_file(load(tmp_path / "models"), tmp_path / "new.csv")
    own = [run.predict(table.iloc[[row]], client=table.hospital[row])[0] for row in range(8)]
    np.testing.assert_allclose(predictions.table["prediction"], own, rtol=1e-5)
    # In units of the label: all labels are near 500.
    assert (abs(np.array(own) - 500) < 60).all()
    # A missing age is the mean of the training samples.
    transform = run.trained.parts.data.transform
    assert transform is not None and transform.encoding is not None
    filled = table.assign(age=table.age.fillna(transform.encoding.imputation.mean[0]))
    assert run.predict(filled.head(1), client="h0") == pytest.approx(own[0], rel=1e-6)
    assert predictions.scores is not None and predictions.scored == 8


def test_counts_are_times_the_exposure(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "days", task="count", exposure="years")
    table = odd_rows()
    rates = run.predict(table.drop(columns="years"), cluster=0)
    np.testing.assert_allclose(run.predict(table, cluster=0), rates * table.years, rtol=1e-6)
    for exposure, message in (
        (["two"] * 8, "the exposure in row 0 is 'two', which is not a number"),
        ([2.0, 0.0] * 4, "the exposure in row 1 is 0 .*above 0"),
    ):
        with pytest.raises(DataError, match=f"samples: {message}"):
            run.predict(table, cluster=0, exposure=exposure)
    twice = run.predict(table, cluster=0, exposure=np.full(8, 2.0))
    np.testing.assert_allclose(twice, 2 * rates, rtol=1e-6)
    assert 2 < rates.mean() < 6
    with pytest.raises(ConfigError, match="have no probabilities"):
        run.predict(table, cluster=0, proba=True)


def test_quantiles_are_columns_in_order(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "score", quantiles=[0.1, 0.9])
    odd_rows().to_csv(tmp_path / "new.csv", index=False)
    run.export(tmp_path / "models")
    table = predict_file(load(tmp_path / "models"), tmp_path / "new.csv").table
    assert list(table.columns) == ["prediction_0.1", "prediction_0.9"]
    low, high = table.to_numpy().T
    assert (low <= high).all()


def test_an_evaluation_has_the_measures_of_the_task(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "score", task="regression")
    summary = run.evaluate().summary
    final = run.summary()["final_root_mean_squared_error"]
    assert summary["root_mean_squared_error"] == pytest.approx(final, rel=1e-5)
    assert "accuracy" not in summary
    pooled = run.evaluate().clients
    mean_square = np.average(pooled["root_mean_squared_error"] ** 2, weights=pooled["samples"])
    assert summary["root_mean_squared_error"] == pytest.approx(np.sqrt(mean_square), rel=1e-5)


def test_a_run_names_a_category_that_training_never_saw(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For a DataFrame and for an array of its columns, once for each call."""
    run = trained(tmp_path / "run", "score", task="regression")
    table = odd_rows()[["age", "dose", "ward"]]
    with caplog.at_level(logging.WARNING, "fedkin"):
        run.predict(table, client="h0")
        run.predict(table.to_numpy(object), cluster=0)
        run.place(table, np.full(8, 500.0), resamples=2)
        run.predict(table.drop(index=1), client="h0")
    messages = [one.getMessage() for one in caplog.records if "category" in one.getMessage()]
    expected = (
        "samples: column 'ward': the category 'never seen' in row 1 is not among the training "
        "data's (1 such rows), so no category counts there; correct it, or train again with such "
        "rows"
    )
    assert messages == [expected] * 3


def test_a_file_is_read_once_for_its_columns_and_its_categories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run", "score", task="regression")
    odd_rows().to_csv(tmp_path / "new.csv", index=False)
    read = external_evaluation.read_table
    seen = []
    monkeypatch.setattr(
        external_evaluation, "read_table", lambda path: (seen.append(path), read(path))[1]
    )
    own: Any = run.trained.parts.samples
    load_other(tmp_path / "new.csv", {}, own, options={"client": "hospital"}, pooled=False)
    assert len(seen) == 1


def test_a_category_that_training_never_saw_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for a file, with the row and the client, in predictions and in evaluations."""
    run = trained(tmp_path / "run", "score", task="regression")
    table = odd_rows()
    table.loc[5, "ward"] = None
    table.to_csv(tmp_path / "new.csv", index=False)
    run.export(tmp_path / "models")
    own: Any = run.trained.parts.samples
    with caplog.at_level(logging.WARNING, "fedkin"):
        predict_file(load(tmp_path / "models"), tmp_path / "new.csv")
        load_other(tmp_path / "new.csv", {}, own, options={"client": "hospital"}, pooled=False)
    messages = [one.getMessage() for one in caplog.records if "category" in one.getMessage()]
    expected = (
        f"{tmp_path}/new.csv: column 'ward': the category 'never seen' in row 1 (client h1) is not "
        "among the training data's (1 such rows), so no category counts there; correct it, or "
        "train again with such rows"
    )
    assert messages == [expected] * 2
    caplog.clear()
    # With a column for infrequent categories, a new one is among these.
    encoding = own.transform.encoding
    vocabulary = replace(encoding.vocabularies["ward"], infrequent=True)
    other = replace(encoding, vocabularies={"ward": vocabulary})
    with caplog.at_level(logging.WARNING, "fedkin"):
        other.warn_of_new_categories(table, "new.csv")
    assert not caplog.records
