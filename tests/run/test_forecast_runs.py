"""Runs on forecasts: both engines, predictions in units of the label, newcomers with their own
scale, and the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.core.errors import ConfigError, DataError
from fedkin.export.forecast_inputs import new_rows
from fedkin.models import mclr
from fedkin.run.trained.load_series import load_series

MONTHS = 60
LEVELS = (1.0, 30.0, 900.0)


def shops(shops_of: int = 6) -> pd.DataFrame:
    """Half of the shops sell in summer, half in winter, each at its own level."""
    rng = np.random.default_rng(4)
    parts = []
    for number in range(shops_of):
        month = np.arange(MONTHS)
        season = np.cos(2 * np.pi * (month + 6 * (number % 2)) / 12)
        level = LEVELS[number % len(LEVELS)]
        parts.append(
            pd.DataFrame(
                {
                    "shop": f"shop-{number}",
                    "date": pd.period_range("2015-01", periods=MONTHS, freq="M").astype(str),
                    "month": month % 12 + 1,
                    "sales": level * (10 + 3 * season + rng.normal(0, 0.5, MONTHS)),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


OPTIONS: dict[str, Any] = {
    "label": "sales",
    "client": "shop",
    "features": ["month"],
    "categories": ["month"],
    "min_frequency": 1,
    "task": "forecast",
    "time": "date",
    "lags": [1],
    "test_from": "2019-01",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fk.Run:
    data = fk.data.from_pandas(shops(), **OPTIONS)
    return fk.simulate(
        fk.FlexCFL(clusters=2),
        data,
        mclr(data),
        rounds=100,
        cohort=6,
        local=fk.LocalTraining(lr=0.2, batch_size=8),
        out=tmp_path_factory.mktemp("forecast") / "run",
    )


def test_clusters_are_seasons_whatever_the_level(run: fk.Run) -> None:
    clusters = run.assignment.tolist()
    assert clusters[0::2] == [clusters[0]] * 3
    assert clusters[1::2] == [1 - clusters[0]] * 3
    last = run.history.iloc[-1]
    # The seasonal naive forecast has the noise of two months, a trained model has the noise of one.
    assert last["mean_absolute_scaled_error"] < last["seasonal_naive_error"]
    assert last["seasonal_naive_error"] < last["last_value_error"]
    of_clusters = run.evaluate(split="test").clusters
    assert list(of_clusters["seasonal_naive_error"]) == pytest.approx([1.0, 1.0], abs=0.5)


def test_a_client_without_mase_is_not_ranked(tmp_path: Path) -> None:
    """A shop that repeats itself every season has no MASE. It is neither among the worst clients
    nor in the median, and the files of the run are JSON without NaN."""
    table = shops(5)
    repeated = pd.DataFrame(
        {
            "shop": "shop-9",
            "date": table.date[:MONTHS],
            "month": table.month[:MONTHS],
            "sales": np.tile(np.arange(12.0), MONTHS // 12),
        }
    )
    data = fk.data.from_pandas(pd.concat([table, repeated], ignore_index=True), **OPTIONS)
    run = fk.simulate(fk.FedAvg(), data, mclr(data), rounds=1, cohort=6, out=tmp_path / "run")
    scores = run.clients["mean_absolute_scaled_error"].to_numpy(float)
    assert np.isnan(scores).tolist() == [False] * 5 + [True]
    record = run.records[-1]
    worst = record["mean_absolute_scaled_error_worst_decile"]
    assert worst == pytest.approx(scores[:5].max(), rel=1e-6)
    median = record["mean_absolute_scaled_error_median_client"]
    assert median == pytest.approx(np.median(scores[:5]), rel=1e-6)
    for file in (tmp_path / "run").glob("*.json*"):
        assert "NaN" not in file.read_text(), file


def test_both_engines_score_alike(run: fk.Run) -> None:
    pytest.importorskip("torch", reason="needs pip install 'fedkin[torch]'")
    import torch

    data = fk.data.from_pandas(shops(), **OPTIONS)
    results = []
    for model in (mclr(data), torch.nn.Linear(data.x.shape[1], 1)):
        if isinstance(model, torch.nn.Linear):
            torch.nn.init.zeros_(model.weight)
            torch.nn.init.zeros_(model.bias)
        trained = fk.simulate(
            fk.FedAvg(),
            data,
            model,
            rounds=2,
            cohort=6,
            # The models stay as they are.
            local=fk.LocalTraining(lr=1e-12, batch_size=100),
        )
        results.append(trained.history.iloc[-1])
    for name in ("seasonal_naive_error", "last_value_error"):
        assert results[0][name] == pytest.approx(results[1][name], rel=1e-5)
    # The model of zeros forecasts the mean of each client's training period.
    task = data.task_type
    y = data.y[data.test.rows].astype(np.float64)
    of_mean = task.sample_scores(np, np.zeros((len(y), 1)), y)
    assert results[1]["mean_absolute_error"] == pytest.approx(of_mean[2].mean(), rel=1e-5)
    scaled = of_mean[0].mean()
    assert results[1]["mean_absolute_scaled_error"] == pytest.approx(scaled, rel=1e-5)


def test_a_forecast_is_in_units_of_the_client(run: fk.Run) -> None:
    """The last month has no label; the forecast is near what follows from its season."""
    table = shops()
    truth: Any = table.groupby("shop")["sales"].last()
    table.loc[table["date"] == "2019-12", "sales"] = np.nan
    for number in (2, 3):
        own = table[table["shop"] == f"shop-{number}"]
        found = run.predict(own, client=f"shop-{number}")
        level = LEVELS[number % len(LEVELS)]
        assert found[-1] == pytest.approx(truth[f"shop-{number}"], abs=1.5 * level)
        assert np.isnan(found[0])  # it has no month before
        # A table of one client needs no column of the client.
        again = run.predict(own.drop(columns="shop"), client=f"shop-{number}")
        assert again.tobytes() == found.tobytes()
    with pytest.raises(ConfigError, match="needs the past and the scale of each series"):
        run.predict(np.zeros((3, 13)), client="shop-0")
    with pytest.raises(DataError, match="has no column 'sales'"):
        run.predict(table.drop(columns="sales"), client="shop-0")
    with pytest.raises(DataError, match="the model needs the time of each row; add the column"):
        run.predict(table.drop(columns="date"), client="shop-0")


def test_a_newcomer_is_scaled_by_its_own_past(run: fk.Run) -> None:
    """Its level is unlike any of the run's. A scale of the run would be wrong a thousandfold."""
    winter: Any = shops()[lambda table: table["shop"] == "shop-1"]
    newcomer = winter.assign(shop="new", sales=winter["sales"] * 1000)
    placement = run.place(newcomer)
    assert placement.cluster == run.assignment[1]
    newcomer.loc[newcomer["date"] == "2019-12", "sales"] = np.nan
    own = run.predict(newcomer, cluster=placement.cluster)[-1]
    level = 1000 * LEVELS[1]
    assert own / level == pytest.approx(winter["sales"].iloc[-1] / LEVELS[1], abs=1.5)
    with pytest.raises(DataError, match=r"client new .* has 1 rows with a label"):
        run.predict(newcomer.iloc[:2].assign(sales=[5.0, np.nan]), cluster=0)
    unnamed = newcomer.drop(columns="shop")
    assert run.predict(unnamed, cluster=placement.cluster)[-1] == own
    with pytest.raises(DataError, match=r"no column 'shop'\): the series has 1 rows with a label"):
        run.predict(unnamed.iloc[:2].assign(sales=[5.0, np.nan]), cluster=0)


def test_a_scored_row_is_not_in_its_unit_of_mase(run: fk.Run) -> None:
    """Clients of the run keep the unit of the training period. The unit of a newcomer's row comes
    from the rows before."""
    samples = run.trained.parts.samples
    task_type: Any = run.trained.parts.data.task_type
    table = shops()
    newcomer: Any = table[table["shop"] == "shop-1"].assign(shop="new")
    jumped = newcomer.assign(sales=np.where(newcomer["date"] >= "2018-01", 1e4, newcomer["sales"]))
    units = []
    for one in (newcomer, jumped):
        new = new_rows(pd.concat([table, one]), samples)
        units.append(new.rows.seasonal_error[-MONTHS:])
        of_run = new.rows.seasonal_error[:-MONTHS].reshape(-1, MONTHS)
        for number, unit in enumerate(of_run):
            assert (unit == task_type.seasonal_errors[f"shop-{number}"]).all()
    # Row 36 is the first one of 2018.
    assert units[0][:37].tolist() == units[1][:37].tolist()
    assert units[0][37] != units[1][37]
    assert (units[0][:24] == 0).all()
    sales = newcomer["sales"].to_numpy()
    errors = np.abs(sales[12:] - sales[:-12])
    for row in (24, 25, 40, 59):
        assert units[0][row] == pytest.approx(errors[: row - 12].mean(), rel=1e-12)
    training = np.abs(sales[12:48] - sales[:36]).mean()
    assert task_type.seasonal_errors["shop-1"] == pytest.approx(training, rel=1e-12)


def test_an_evaluation_of_a_file_has_the_scores_of_the_run(run: fk.Run, tmp_path: Path) -> None:
    """The rows of the test period, in a table that has them and the month before."""
    table = shops()
    late: Any = table[table["date"] >= "2018-12"]
    late.to_csv(tmp_path / "late.csv", index=False)
    samples = run.trained.parts.samples
    found = run.evaluate(data=load_series(tmp_path / "late.csv", samples)).summary
    expected = run.evaluate(split="test").summary
    for name in ("mean_absolute_scaled_error", "mean_absolute_error"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4)


def test_the_commands(run: fk.Run, tmp_path: Path) -> None:
    """A configuration with the keys of forecasts, an export, predictions and a placement."""
    csv = tmp_path / "sales.csv"
    shops().to_csv(csv, index=False)
    folder = tmp_path / "run"
    keys = [
        "data.name=file",
        f"data.path={csv}",
        "data.label=sales",
        "data.client=shop",
        'data.features=["month"]',
        'data.categories=["month"]',
        "data.min_frequency=1",
        "data.task=forecast",
        "data.time=date",
        "data.season=12",
        "data.lags=[1]",
        "data.validation_from=2018-01",
        "data.test_from=2019-01",
        "method.name=flexcfl",
        "method.clusters=2",
        "run.rounds=2",
        "run.cohort=6",
    ]
    runner = CliRunner()
    done = runner.invoke(app, ["run", *keys, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    assert "MASE" in done.output
    exported = tmp_path / "models"
    done = runner.invoke(app, ["export", str(folder), "--out", str(exported)])
    assert done.exit_code == 0, done.output
    out = tmp_path / "forecasts.csv"
    done = runner.invoke(app, ["predict", str(exported), str(csv), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "mean absolute scaled error" in done.output
    forecasts: Any = pd.read_csv(out)["prediction"]
    assert len(forecasts) == 6 * MONTHS
    assert forecasts.isna().sum() == 6
    level: Any = forecasts.groupby(np.repeat(np.arange(6), MONTHS)).mean()
    assert level[2] / level[0] == pytest.approx(900, rel=0.2)
    unnamed = tmp_path / "unnamed.csv"
    one = shops()[lambda table: table["shop"] == "shop-1"].drop(columns="shop")
    one.to_csv(unnamed, index=False)
    done = runner.invoke(app, ["predict", str(exported), str(unnamed)])
    assert done.exit_code != 0
    assert "has no column 'shop' with the client of each row" in done.output
    assert "newcomer" not in done.output
    done = runner.invoke(app, ["predict", str(exported), str(unnamed), "--cluster", "0"])
    assert done.exit_code == 0, done.output
    shops().drop(columns="shop").to_csv(unnamed, index=False)
    done = runner.invoke(app, ["predict", str(exported), str(unnamed), "--cluster", "0"])
    assert done.exit_code != 0
    assert "row 60 is a second row at 2015-01" in done.output
    assert "(one series, because it has no column 'shop')" in done.output
    new = tmp_path / "new.csv"
    newcomer = shops()[lambda table: table["shop"] == "shop-1"].assign(shop="new")
    newcomer.to_csv(new, index=False)
    done = runner.invoke(app, ["place", str(folder), str(new)])
    assert done.exit_code == 0, done.output
    assert "new" in done.output
    done = runner.invoke(app, ["evaluate", str(folder), "--data", str(csv)])
    assert done.exit_code == 0, done.output
    wrong = [key for key in keys if not key.startswith("data.time")]
    done = runner.invoke(app, ["run", *wrong])
    assert done.exit_code != 0
    assert "data.time" in done.output or "time = 'date'" in done.output
