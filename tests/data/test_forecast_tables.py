"""Readers of forecasts: lags from the client's own past, a split at one date, times of all kinds,
and input that cannot be used."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.federated import FederatedData
from fedkin.data.new_series import prepare_new
from fedkin.data.series_history import SeriesHistory
from fedkin.data.time_steps import Frequency, read_steps
from fedkin.task_types.forecast import Forecast, ForecastColumn
from tests.task_types.test_forecast import read, series

LAG = "sales_lag"


def unscaled(data: FederatedData, feature: str) -> np.ndarray:
    """A feature in units of the label."""
    column = list(data.feature_names or ()).index(feature)
    assert data.transform is not None
    raw = data.transform.undo(data.x)[:, column]
    return raw * data.y[:, ForecastColumn.SCALE] + data.y[:, ForecastColumn.MEAN]


def label_of(data: FederatedData) -> np.ndarray:
    y = data.y.astype(np.float64)
    return y[:, ForecastColumn.LABEL] * y[:, ForecastColumn.SCALE] + y[:, ForecastColumn.MEAN]


def test_a_lag_is_the_clients_own_value_some_steps_before() -> None:
    """Rows in random order. The value says client and month, so another one is seen."""
    months = np.arange(30)
    table = series({"a": 100 + months, "b": 200 + months, "c": 300 + months})
    shuffled = table.sample(frac=1, random_state=3)
    data = read(shuffled, lags=[1, 12], test_from="2012-01")
    assert len(data.y) == 3 * 18  # the first twelve months have no lag 12
    for lag in (1, 12):
        lagged = unscaled(data, f"{LAG}{lag}")
        assert label_of(data) - lagged == pytest.approx(lag, abs=1e-2)


def test_the_future_does_not_change_the_past() -> None:
    """Other values in the test period change no training row, no scale and no lag before it."""
    rng = np.random.default_rng(1)
    values = {"a": rng.normal(5, 2, 40), "b": rng.normal(50, 9, 40)}
    changed = {name: np.where(np.arange(40) >= 30, 1e3, one) for name, one in values.items()}
    first = read(series(values), lags=[1, 12], test_from="2012-07")
    second = read(series(changed), lags=[1, 12], test_from="2012-07")
    training = first.train.rows
    assert training.tolist() == second.train.rows.tolist()
    assert first.y[training].tobytes() == second.y[training].tobytes()
    assert first.x[training].tobytes() == second.x[training].tobytes()
    # The first test month is forecast from the training period alone.
    opening = first.test[0][:1]
    assert first.x[opening].tobytes() == second.x[opening].tobytes()


def test_lookups_never_reach_another_client_or_a_later_step() -> None:
    history = SeriesHistory(
        client=np.array([0, 0, 0, 1, 1]),
        step=np.array([5, 6, 8, 5, 7]),
        value=np.array([1.0, 2.0, 3.0, 10.0, 20.0]),
    )
    nan = np.nan
    for steps, expected in (
        (1, [nan, 1, nan, nan, nan]),
        (2, [nan, nan, 2, nan, 10]),
        (3, [nan, nan, 1, nan, nan]),
        (50, [nan] * 5),
    ):
        assert np.array_equal(history.before(steps), expected, equal_nan=True)
    assert np.array_equal(history.last(), [nan, 1, 2, nan, 10], equal_nan=True)


def test_all_clients_are_divided_at_one_date() -> None:
    """A client with a late start has no training sample after the date of the others."""
    late = series({"late": np.arange(20.0)}, start="2012-01")
    table = pd.concat([series({"early": np.arange(44.0) ** 2}), late])
    data = read(table, lags=[1], validation_from="2012-09", test_from="2013-01")
    assert data.validation is not None
    assert data.test.sizes.tolist() == [8, 8]
    assert data.validation.sizes.tolist() == [4, 4]
    assert data.train.sizes.tolist() == [31, 7]


def test_a_share_of_test_samples_is_the_end_of_the_time() -> None:
    data = read(series({"a": np.arange(41.0), "b": np.arange(41.0) ** 2}), lags=[1], test=0.25)
    for client in range(2):
        label = label_of(data)
        assert label[data.test[client]].min() > label[data.train[client]].max()
    assert data.test.sizes.tolist() == [10, 10]


def test_a_share_of_test_samples_is_not_one_step_short_by_rounding(tmp_path: Path) -> None:
    """1 - 0.8 is 0.19999999999999996, and 100 times that is below 20."""
    table = series({"a": np.arange(51.0), "b": np.arange(51.0) ** 2})
    data = read(table, lags=[1], test=0.2)
    assert data.test.sizes.tolist() == [10, 10]
    path = tmp_path / "sales.csv"
    table.to_csv(path, index=False)
    loaded = fk.data.load(
        path,
        label="sales",
        client="shop",
        task="forecast",
        time="month",
        lags=[1],
        train_fraction=0.8,
    )
    assert loaded.test.sizes.tolist() == [10, 10]


def test_equal_training_labels_have_the_scale_1() -> None:
    """The mean of twenty times 0.1 is not 0.1."""
    values = np.where(np.arange(14) < 11, 0.1, np.arange(14.0))
    table = series({"a": values, "b": values})
    data = read(table, lags=[1], test_from="2010-12", label_scale="pooled")
    assert data.task_type.label.scale == 1.0


def test_a_split_that_learns_from_the_future_is_refused() -> None:
    table = series({"a": np.arange(24.0), "b": np.arange(24.0) ** 2})
    table["split"] = np.where(np.arange(48) % 5 == 0, "test", "train")
    with pytest.raises(DataError, match=r"a model would learn from the future.*test_from = "):
        read(table, lags=[1], test="split")
    # One client's test period in the training period of the other: the cluster would learn from it.
    table["split"] = ["train"] * 20 + ["test"] * 4 + ["train"] * 10 + ["test"] * 14
    with pytest.raises(DataError, match="learn from the future"):
        read(table, lags=[1], test="split")


def test_gaps_and_missing_labels_leave_rows_out() -> None:
    values = np.arange(20.0) ** 2
    values[10] = np.nan
    table = series({"a": values, "b": np.arange(20.0)})
    table = table.drop(index=25)  # month 5 of b
    data = read(table, lags=[1], test_from="2011-05")
    label = label_of(data)
    assert len(data.y) == (20 - 1 - 2) + (19 - 1 - 1)
    assert not {float(v) for v in label[data.train[0]]} & {121.0}  # the month after the gap


def test_times_of_all_kinds() -> None:
    """The same series, whose steps are months, quarters, days, hours, or numbers."""
    values = np.random.default_rng(0).normal(size=20)
    plain = read(series({"a": values, "b": 2 * values[::-1]}), lags=[1], season=1)
    times: dict[str, Any] = {
        "dates": pd.date_range("2015-01-01", periods=20, freq="MS"),
        "month ends": pd.date_range("2015-01-31", periods=20, freq="ME"),
        "periods": pd.period_range("2015-01", periods=20, freq="Q"),
        "quarters": pd.period_range("2015-01", periods=20, freq="Q").astype(str),
        "weeks": pd.date_range("2015-01-04", periods=20, freq="W"),
        "days": pd.date_range("2015-02-20", periods=20).strftime("%Y-%m-%d"),
        "hours": pd.date_range("2015-02-20", periods=20, freq="h", tz="UTC"),
        "steps": np.arange(100, 120),
        "YYYYMM": pd.period_range("2015-06", periods=20, freq="M").strftime("%Y%m").astype(int),
        "years": np.arange(1990, 2010),
    }
    for name, time in times.items():
        table = pd.concat(
            [
                pd.DataFrame({"shop": "a", "month": time, "sales": values}),
                pd.DataFrame({"shop": "b", "month": time, "sales": 2 * values[::-1]}),
            ]
        )
        found = read(table, lags=[1], season=1)
        assert found.y.tobytes() == plain.y.tobytes(), name
        assert found.x.tobytes() == plain.x.tobytes(), name


def test_times_with_a_zone_are_local_times() -> None:
    """Text and dates with an offset, and the date of the test period, mean the same time."""
    values = np.random.default_rng(0).normal(size=96)
    there = pd.date_range("2015-02-20", periods=96, freq="h", tz="Asia/Kolkata")
    times: dict[str, Any] = {
        "no zone": there.tz_localize(None),
        "zone": there,
        "offset": there.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "offset with a colon": there.astype(str),
        "objects": pd.Series(there.to_pydatetime(), dtype=object),
        "hours": there.strftime("%Y-%m-%d %H%z"),
        "UTC": there.tz_localize(None).strftime("%Y-%m-%dT%H:%MZ"),
    }
    for name, time in times.items():
        table = pd.DataFrame({"shop": "a", "month": time, "sales": values})
        for test_from in ("2015-02-22", "2015-02-22T00:00:00+05:30"):
            found = read(table, lags=[1], test_from=test_from)
            assert found.test.sizes.tolist() == [48], name


def test_columns_of_year_and_month() -> None:
    table = series({"a": np.arange(30.0) ** 2, "b": np.arange(30.0)})
    parts = table["month"].str.split("-", expand=True).astype(int)
    named = table.assign(year=parts[0], number=parts[1]).drop(columns="month")
    options: dict[str, Any] = {"label": "sales", "client": "shop", "task": "forecast"}
    found = fk.data.from_pandas(named, time=["year", "number"], **options)
    expected = fk.data.from_pandas(table, time="month", **options)
    assert found.y.tobytes() == expected.y.tobytes()
    assert found.feature_names == ("sales_lag1", "sales_lag12")
    # A column of the time may be a feature as well, such as the month as a category.
    seasonal = fk.data.from_pandas(
        named,
        time=["year", "number"],
        features=["number"],
        categories=["number"],
        min_frequency=1,
        **options,
    )
    assert seasonal.x.shape[1] == 12 + 2


def test_a_season_below_1_is_refused() -> None:
    with pytest.raises(ConfigError, match="season must be at least 1, got 0"):
        read(series({"a": np.arange(40.0)}), season=0)


def test_usual_seasons() -> None:
    for unit, every, season, text in (
        ("months", 1, 12, "one month"),
        ("months", 3, 4, "one quarter"),
        ("seconds", 86400, 7, "one day"),
        ("seconds", 3600, 24, "one hour"),
        ("seconds", 2 * 86400, 1, "2 days"),
        ("steps", 1, 1, "one step"),
    ):
        frequency = Frequency(unit, every)
        assert (frequency.season, str(frequency)) == (season, text)


def first_test_times(table: pd.DataFrame, test_from: Any) -> set[str]:
    """The time of the first test sample of each client, whose labels are the rows' numbers."""
    numbered = table.assign(sales=np.arange(len(table), dtype=np.float64))
    data = read(numbered, lags=[1], season=1, test_from=test_from)
    labels = label_of(data)
    times = list(table["month"])
    first = [times[round(labels[data.test[k]].min())] for k in range(data.clients)]
    return {str(time).removesuffix(" 00:00:00") for time in first}


def of_two_clients(time: Any, other: Any = None) -> pd.DataFrame:
    """Two clients with rows at some times."""
    of_other = time if other is None else other
    first = pd.DataFrame({"shop": "a", "month": time})
    return pd.concat([first, pd.DataFrame({"shop": "b", "month": of_other})], ignore_index=True)


def test_the_test_period_begins_at_the_first_step_at_or_after_a_date() -> None:
    months = pd.period_range("2017-01", periods=24, freq="M")
    sundays = pd.date_range("2017-01-01", periods=100, freq="W-SUN")
    mondays = pd.date_range("2017-01-02", periods=100, freq="W-MON")
    middles = months.to_timestamp() + pd.Timedelta(days=14)
    for time, date, first in (
        (months.astype(str), "2018-02", {"2018-02"}),
        (months.astype(str), "2018-02-15", {"2018-03"}),
        (months.astype(str), 2018, {"2018-01"}),
        (months.strftime("%Y%m").astype(int), "2018-02-15", {"201803"}),
        # Steps of a week, of a quarter or of two years rarely begin where the count of steps does.
        (sundays, "2018-02-04", {"2018-02-04"}),
        (sundays, "2018-02-05", {"2018-02-11"}),
        (pd.date_range("2013-02-01", periods=24, freq="3MS"), "2018-02-01", {"2018-02-01"}),
        (pd.date_range("2013-02-01", periods=24, freq="3MS"), "2018-02-02", {"2018-05-01"}),
        (1901 + 2 * np.arange(30), 1941, {"1941"}),
        (1901 + 2 * np.arange(30), 1942, {"1943"}),
        (pd.period_range("2013Q1", periods=24, freq="Q").astype(str), "2018Q2", {"2018Q2"}),
        # The rows of a month are at its end, or in its middle.
        (pd.date_range("2017-01-31", periods=24, freq="ME"), "2018-01-31", {"2018-01-31"}),
        (pd.date_range("2017-01-31", periods=24, freq="ME"), "2018-01", {"2018-01-31"}),
        (middles, "2018-01-15", {"2018-01-15"}),
        (middles, "2018-01-16", {"2018-02-15"}),
    ):
        assert first_test_times(of_two_clients(time), date) == first, (time[:1], date)
    # Weeks of two clients begin on different days.
    weeks = of_two_clients(sundays, mondays)
    assert first_test_times(weeks, "2018-02-04") == {"2018-02-04", "2018-02-05"}
    assert first_test_times(weeks, "2018-02-05") == {"2018-02-11", "2018-02-05"}
    assert first_test_times(weeks, "2018-02-06") == {"2018-02-11", "2018-02-12"}


def test_validation_begins_at_the_first_step_at_or_after_a_date() -> None:
    table = of_two_clients(pd.date_range("2017-01-01", periods=100, freq="W-SUN"))
    table["sales"] = np.arange(len(table), dtype=np.float64)
    data = read(table, lags=[1], season=1, validation_from="2018-01-07", test_from="2018-02-04")
    assert data.validation is not None
    assert data.validation.sizes.tolist() == [4, 4]
    assert data.train.sizes.tolist() == [52, 52]


def test_a_forecast_without_a_time() -> None:
    table = series({"a": np.arange(30.0), "b": np.arange(30.0)})
    with pytest.raises(ConfigError, match=r"needs the column of the time, such as time = 'date'"):
        fk.data.from_pandas(table, label="sales", client="shop", task="forecast")
    with pytest.raises(ConfigError, match=r"needs a table with a column of the time"):
        fk.data.from_arrays(np.zeros((9, 2)), np.arange(9.0), clients=[0] * 9, task="forecast")
    with pytest.raises(DataError, match=r"unknown column 'mnth'; did you mean 'month'\?.*time="):
        fk.data.from_pandas(table, label="sales", client="shop", task="forecast", time="mnth")
    with pytest.raises(ConfigError, match=r"season = 12 applies to forecasts only"):
        fk.data.from_pandas(table, label="sales", client="shop", task="regression", season=12)


def test_dates_that_cannot_be_read() -> None:
    table = series({"north": np.arange(30.0), "south": np.arange(30.0)})
    table.loc[40, "month"] = "31/05/2012"
    wrong = r"row 40 \(client south\) is '31/05/2012'.*pandas.to_datetime\(.*format="
    with pytest.raises(DataError, match=wrong):
        read(table)
    table.loc[40, "month"] = None
    with pytest.raises(DataError, match=r"row 40 \(client south\) has no time"):
        read(table)


def test_mixed_frequencies() -> None:
    table = series({"a": np.arange(30.0), "b": np.arange(30.0), "c": np.arange(30.0)})
    quarterly: Any = table[(table.shop != "c") | (table.index % 3 == 0)]
    wrong = (
        r"mixed frequencies: most clients have steps of one month.*client c has steps of one quarte"
    )
    with pytest.raises(DataError, match=wrong):
        read(quarterly)
    table["month"] = pd.to_datetime(table["month"])
    table.loc[table.shop == "c", "month"] = pd.date_range("2010-01-01", periods=30).to_numpy()
    # Months are counted in days here, and the commonest one has 31 days.
    wrong = (
        r"mixed frequencies: most clients have steps of one month.*client c has steps of one day"
    )
    with pytest.raises(DataError, match=wrong):
        read(table)


def test_two_rows_at_one_step() -> None:
    table = series({"a": np.arange(30.0), "b": np.arange(30.0)})
    twice = pd.concat([table, table.iloc[[33]]])
    with pytest.raises(DataError, match=r"row 60 \(client b\) is a second row at 2010-04"):
        read(twice)


def test_a_client_that_is_shorter_than_a_lag(caplog: pytest.LogCaptureFixture) -> None:
    table = pd.concat(
        [
            series({"long": np.arange(40.0), "other": np.arange(40.0) ** 2}),
            series({"short": np.arange(10.0)}, start="2012-07"),
        ]
    )
    with caplog.at_level(logging.WARNING, "fedkin"):
        data = read(table, lags=[1, 12], test_from="2013-01")
    assert list(data.client_names or ()) == ["long", "other"]
    assert "left out 1 of 3 clients" in caplog.text and "short" in caplog.text
    assert data.train.sizes.min() > 0
    with pytest.raises(DataError, match=r"no client has a training sample.*lags = \[1\]"):
        read(table, lags=[39], test_from="2013-01")


def test_columns_that_are_named_like_lags() -> None:
    """A lag of the table is used as it is. Another column with such a name is refused."""
    table = series({"a": np.arange(30.0) ** 1.5, "b": np.arange(30.0)})
    before = table.groupby("shop")["sales"].shift(1)
    table = table.assign(price=np.arange(60) % 7, sales_lag1=before)
    made = read(table.drop(columns="sales_lag1"), lags=[1, 2], test_from="2012-01")
    given = read(table, lags=[1, 2], test_from="2012-01")
    assert sorted(given.feature_names or ()) == sorted(made.feature_names or ())
    assert unscaled(given, "sales_lag1") == pytest.approx(unscaled(made, "sales_lag1"), abs=1e-3)
    # A wanted lag is a feature, whether or not `features` names it.
    named = read(table, lags=[1], features=["price"], test_from="2012-01")
    assert {"price", "sales_lag1"} <= set(named.feature_names or ())

    itself = table.assign(sales_lag0=table["sales"])
    with pytest.raises(DataError, match=r"'sales_lag0' is by its name 'sales' at the same step"):
        read(itself, lags=[1])
    assert "sales_lag0" not in (read(itself, lags=[1], features=["price"]).feature_names or ())
    other = table.assign(sales_lag1=table["price"] * 100.0)
    with pytest.raises(DataError, match=r"'sales_lag1' is by its name 'sales' 1 steps before, but"):
        read(other, lags=[1])
    # The cure of both messages helps: the column is left out, and a wanted lag is made.
    cured = read(other.assign(sales_lag0=0.0), lags=[1], drop=["sales_lag0", "sales_lag1"])
    assert sorted(cured.feature_names or ()) == ["price", "sales_lag1"]
    assert unscaled(cured, "sales_lag1") == pytest.approx(
        unscaled(read(table.drop(columns="sales_lag1"), lags=[1]), "sales_lag1"), abs=1e-3
    )
    with pytest.raises(DataError, match=r"column 'sales_lag2': the lag in row 0 .*is 'no'"):
        read(table.assign(sales_lag2="no"), lags=[1])
    # The lag of another column is a feature like any other.
    assert "price_lag0" in (read(table.assign(price_lag0=table["price"])).feature_names or ())


def test_a_lag_of_the_table_is_needed_for_predictions() -> None:
    table = series({"a": np.arange(30.0) ** 1.5, "b": np.arange(30.0)})
    table["sales_lag2"] = table.groupby("shop")["sales"].shift(2)
    data = read(table, lags=[1], test_from="2012-01")
    assert isinstance(data.task_type, Forecast)
    found = prepare_new(table, data.task_type, "new.csv")
    assert found.complete.sum() == 58
    with pytest.raises(DataError, match=r"new.csv: unknown column 'sales_lag2'"):
        prepare_new(table.drop(columns="sales_lag2"), data.task_type, "new.csv")


def test_options_with_wrong_values() -> None:
    table = series({"a": np.arange(30.0), "b": np.arange(30.0)})
    for lags in ([0, 1], [1, 1], [1.5], "twelve", [True]):
        with pytest.raises(ConfigError, match=r"lags must be different numbers of steps"):
            read(table, lags=lags)
    with pytest.raises(ConfigError, match=r"test_from must be a date.*got 'soon'"):
        read(table, test_from="soon")
    with pytest.raises(ConfigError, match=r"no test sample: the table is from 2010-01 to"):
        read(table, test_from="2030-01")
    with pytest.raises(ConfigError, match=r"validation_from = 2012-01 must be before"):
        read(table, validation_from="2012-01", test_from="2011-06")
    with pytest.raises(ConfigError, match="unknown value of label_scale 'own'"):
        read(table, label_scale="own")
    with pytest.raises(ConfigError, match=r"data.validation_from = '2017-01'"):
        read(table).with_validation(0.1)
    with pytest.raises(ConfigError, match=r"a forecast needs the client of each row"):
        fk.data.from_pandas(
            table.drop(columns="shop"),
            label="sales",
            partition="iid",
            num_clients=2,
            task="forecast",
            time="month",
        )
    constant = series({"a": np.ones(30), "b": np.ones(30)})
    with pytest.raises(DataError, match="all labels are 1"):
        read(constant)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_read_like_a_frame(tmp_path: Path, ending: str) -> None:
    table = series({"a": np.arange(40.0) ** 2, "b": np.arange(40.0)})
    path = tmp_path / f"sales.{ending}"
    if ending == "csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    options: dict[str, Any] = {
        "label": "sales",
        "client": "shop",
        "task": "forecast",
        "time": "month",
        "lags": [1, 12],
    }
    found = fk.data.load(path, test_from="2013-01", **options)
    expected = fk.data.from_pandas(table, test_from="2013-01", **options)
    assert found.y.tobytes() == expected.y.tobytes()
    assert found.x.tobytes() == expected.x.tobytes()
    assert fk.data.load(path, **options, train_fraction=0.8).test.sizes.tolist() == [5, 5]


def test_options_that_a_forecast_ignores_are_refused(tmp_path: Path) -> None:
    table = series({"a": np.arange(40.0) ** 2, "b": np.arange(40.0)})
    path = tmp_path / "sales.csv"
    table.assign(split=(["train"] * 30 + ["test"] * 10) * 2).to_csv(path, index=False)
    read_file: Any = partial(
        fk.data.load, path, label="sales", client="shop", task="forecast", time="month", lags=[1]
    )
    assert read_file().test.sizes.tolist() == [10, 10]
    with pytest.raises(ConfigError, match=r"train_fraction does not apply.*the column split"):
        read_file(train_fraction=0.8)
    with pytest.raises(ConfigError, match=r"integers = true applies to arrays"):
        read_file(integers=True)
    for options in ({"classes": 3}, {"label_names": ["a", "b"]}):
        with pytest.raises(ConfigError, match="labels are of task = 'forecast'"):
            read_file(**options)
        with pytest.raises(ConfigError, match="labels are of task = 'forecast'"):
            read(table, lags=[1], **options)


def test_steps_of_a_prediction_table_are_those_of_training() -> None:
    table = series({"a": np.arange(5.0)})
    names = table["shop"].to_numpy()
    monthly = read_steps(table, ["month"], names, "t")
    assert (monthly.frequency.unit, monthly.frequency.every) == ("months", 1)
    quarterly = Frequency("months", 3)
    with pytest.raises(DataError, match="no whole number of steps"):
        read_steps(table, ["month"], names, "t", quarterly)
    with pytest.raises(DataError, match="counts months, but in the training data"):
        read_steps(table, ["month"], names, "t", Frequency("steps", 1))


@pytest.mark.parametrize(
    ("name", "lags"),
    [
        ("employment", (1, 2, 3)),
        ("employment_lag12", (1, 2, 3, 12)),
        ("txhousing_lags", (1, 2, 3, 6, 12, 13)),
        ("txhousing", (1, 2, 12)),
    ],
)
def test_natural_forecasts(name: str, lags: tuple[int, ...], shared_data: Path) -> None:
    """The lags of the table are kept; those of the raw table are made."""
    from fedkin.config.registry import datasets

    data = datasets()["natural"](set=name)
    natural = fk.data.natural(name)
    assert data.task_type.name == "forecast"
    label = natural.label
    found = {feature for feature in data.feature_names if feature.startswith(f"{label}_lag")}
    assert {f"{label}_lag{lag}" for lag in lags} <= found
    # Of the raw table, three test rows lack the value of a lag.
    missing = natural.rows("test")[label].notna().sum() - data.test.sizes.sum()
    assert missing == (3 if name == "txhousing" else 0)
    # As in the table: the lag of a row is the label of the month before.
    lagged = unscaled(data, f"{label}_lag1")
    rows = data.train[3]
    assert lagged[rows][1:20] == pytest.approx(label_of(data)[rows][:19], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "unit", "every", "season"),
    [
        ("month", "months", 1, 12),
        ("quarter", "months", 3, 4),
        ("2 years", "months", 24, 1),
        ("week", "seconds", 604_800, 52),
        ("15 minutes", "seconds", 900, 96),
        ("step", "steps", 1, 1),
    ],
)
def test_words_of_a_frequency(words: str, unit: str, every: int, season: int) -> None:
    found = Frequency.of(words)
    assert found == Frequency(unit, every)
    assert found.season == season


@pytest.mark.parametrize("words", ["fortnight", "0 days", "", "m", "-1 month", 12, ["month"]])
def test_other_words_are_no_frequency(words: Any) -> None:
    with pytest.raises(ConfigError, match=r"frequency must be one of step, second, .*'2 weeks'"):
        Frequency.of(words)


def test_a_month_of_changing_days_is_a_month() -> None:
    """Rows on the middle day of each month are 28 to 31 days apart."""
    middle = pd.period_range("2015-01", periods=40, freq="M").to_timestamp() + pd.to_timedelta(
        np.arange(40) % 3, unit="D"
    )
    table = pd.DataFrame({"time": middle.astype(str)})
    declared = Frequency.of("month")
    found = read_steps(table, ["time"], ["a"] * 40, "t", declared, is_declared=True)
    assert np.diff(found.step).tolist() == [1] * 39
