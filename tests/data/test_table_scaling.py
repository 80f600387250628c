"""Tables are scaled by the training samples of all clients, and harmful columns are named."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import CheckpointError, ConfigError, DataError
from fedkin.data.column_statistics import column_statistics, combined, quantiles
from fedkin.data.federated import FederatedData
from fedkin.data.table_scaling import raw_statistics
from fedkin.data.table_transform import TableTransform
from fedkin.run.folder.transform_file import read_transform

RNG = np.random.default_rng(5)
M = 240
WHO = np.arange(M) % 4
# Validation and test samples lie far from the training samples.
SPLIT = np.where(np.arange(M) < 160, "train", np.where(np.arange(M) < 200, "test", "validation"))
AWAY = 1e6 * (SPLIT != "train")
TABLE = pd.DataFrame(
    {
        # The differences between large numbers are below the resolution of float32.
        "time": 1.7e9 + RNG.normal(size=M) + AWAY,
        "dose": RNG.exponential(size=M) + AWAY,
        "unit": np.where(SPLIT == "train", 0.1, 7),
        "y": np.arange(M) // 4 % 2,
        "client_id": WHO,
        "split": SPLIT,
    }
)
FEATURES = ["time", "dose", "unit"]
TRAIN = TABLE[FEATURES].to_numpy()[SPLIT == "train"]


@pytest.fixture(params=["csv", "parquet", "pandas"])
def loaded(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function that reads a table by one of the readers."""

    def read(table: pd.DataFrame = TABLE, **options: Any) -> FederatedData:
        path = tmp_path / f"t.{request.param}"
        if request.param == "pandas":
            return fk.data.from_pandas(
                table, label="y", client="client_id", test="split", name="t", **options
            )
        if request.param == "csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, row_group_size=50)
        return fk.data.load(path, **options)

    return read


def test_training_samples_alone_give_mean_and_deviation(loaded: Any) -> None:
    data = loaded()
    mean = TRAIN.mean(axis=0)
    deviation = TRAIN.std(axis=0)
    # The mean of a constant column may differ in its last bit, and a deviation of 0 is no scale.
    mean[2] = 0.1
    deviation[2] = 1
    assert data.transform.kind == "standard" and data.transform.columns == tuple(FEATURES)
    np.testing.assert_allclose(data.transform.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(data.transform.scale, deviation, rtol=1e-6)
    expected = (TABLE[FEATURES].to_numpy() - data.transform.mean) / data.transform.scale
    assert (data.x == expected.astype(np.float32)).all()
    trained = data.x[data.train.rows]
    np.testing.assert_allclose(trained.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(trained[:, :2].std(axis=0), 1, rtol=1e-5)
    assert (trained[:, 2] == 0).all()


def test_robust_scaling_uses_median_and_interquartile_range(loaded: Any) -> None:
    data = loaded(scale="robust")
    lower, middle, upper = np.quantile(TRAIN, (0.25, 0.5, 0.75), axis=0, method="inverted_cdf")
    np.testing.assert_allclose(data.transform.mean, middle, rtol=1e-9)
    np.testing.assert_allclose(data.transform.scale[:2], (upper - lower)[:2], rtol=1e-6)
    assert data.transform.scale[2] == 1


def test_a_column_without_interquartile_range_is_scaled_by_its_deviation() -> None:
    rare = np.zeros(40)
    rare[:4] = 1
    table = pd.DataFrame({"rare": rare, "x": np.arange(40) % 7, "y": np.arange(40) % 2, "c": 0})
    data = fk.data.from_pandas(table, label="y", client="c", test=0, scale="robust")
    assert data.transform is not None
    assert data.transform.mean == (0, 3)
    np.testing.assert_allclose(data.transform.scale, [0.3, 3])


def test_unscaled_tables_keep_their_numbers(loaded: Any) -> None:
    data = loaded(scale="none")
    assert data.transform is None
    assert (data.x == TABLE[FEATURES].to_numpy().astype(np.float32)).all()


def test_a_scaled_table_equals_a_table_that_was_scaled_before(loaded: Any) -> None:
    data = loaded()
    before = TABLE.copy()
    mean = np.array(data.transform.mean)
    before[FEATURES] = (TABLE[FEATURES] - mean) / np.array(data.transform.scale)
    assert (loaded(before, scale="none").x == data.x).all()


def test_validation_samples_that_are_drawn_do_not_scale() -> None:
    table = TABLE[SPLIT == "train"].drop(columns="split")
    data = fk.data.from_pandas(table, label="y", client="client_id", test=0)
    divided = data.with_validation(0.25, seed=3)
    assert divided.transform is not None and divided.transform.mean != data.transform.mean  # type: ignore[union-attr]
    train = TRAIN[divided.train.rows]
    np.testing.assert_allclose(divided.transform.mean, train.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(divided.transform.scale[:2], train.std(axis=0)[:2], rtol=1e-5)
    np.testing.assert_allclose(divided.x[divided.train.rows].mean(axis=0), 0, atol=1e-5)
    given = {"mean": [1, 2, 3], "scale": [4, 5, 6]}
    fixed = fk.data.from_pandas(table, label="y", client="client_id", scale_from=given)
    assert fixed.with_validation(0.25).transform == fixed.transform
    # A transform that was computed from other samples is given, too.
    taken = fk.data.from_pandas(table, label="y", client="client_id", scale_from=data.transform)
    assert taken.transform is not None and not taken.transform.fitted
    assert taken.transform.mean == data.transform.mean  # type: ignore[union-attr]
    after = taken.with_validation(0.25, seed=3)
    assert after.transform == taken.transform and (after.x == taken.x).all()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"mean": None}, "not iterable"),
        ({"columns": 3}, "not iterable"),
        ({"scale": ["wide", 1]}, "could not convert"),
        ({"scale": [1]}, "different lengths"),
        ({"renamed": 3}, "not iterable"),
        ("mean", "there is no 'mean'"),
    ],
)
def test_a_damaged_transform_is_one_kind_of_error(
    damage: dict[str, Any] | str, message: str, tmp_path: Path
) -> None:
    values: dict[str, Any] = TableTransform(("a", "b"), "given", (0.0, 0.0), (1.0, 1.0)).values()
    if isinstance(damage, str):
        del values[damage]
    else:
        values |= damage
    with pytest.raises(ValueError, match=message):
        TableTransform.of_values(values)
    (tmp_path / "transform.json").write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=rf"transform\.json cannot be read: .*{message}"):
        read_transform(tmp_path)


def test_columns_are_renamed_by_one_rule() -> None:
    transform = TableTransform.identity(["age", "mass"], {"years": "age", "kg": "mass"})
    assert transform.renaming(["years", "kg", "mass"]) == {"years": "age"}
    assert transform.new_names(["years", "kg", "mass"]) == ["age", "kg", "mass"]
    assert transform.renaming(["age", "mass"]) == {}


def test_given_statistics_are_used_by_name(loaded: Any, tmp_path: Path) -> None:
    numbers = {"mean": {"unit": 1, "time": 2.0, "dose": 3}, "scale": [10, 20, 30]}
    data = loaded(scale_from=numbers)
    assert data.transform.mean == (2, 3, 1) and data.transform.scale == (10, 20, 30)
    assert data.transform.kind == "given" and not data.transform.fitted
    file = tmp_path / "numbers.toml"
    file.write_text("mean = {unit = 1, time = 2, dose = 3}\nscale = [10, 20, 30]\n")
    assert (loaded(scale_from=str(file)).x == data.x).all()
    again = TableTransform.of_values(data.transform.values())
    assert again == data.transform
    turned = loaded(scale_from=again.values(), features=["unit", "dose"])
    assert turned.transform.mean == (1, 3) and turned.transform.scale == (30, 20)


def test_columns_are_dropped_and_renamed(loaded: Any) -> None:
    data = loaded(drop=["unit"], rename={"time": "dose", "dose": "time"}, scale="none")
    assert data.feature_names == ("dose", "time")
    assert (data.x == TABLE[["time", "dose"]].to_numpy().astype(np.float32)).all()
    assert loaded(drop="unit").feature_names == ("time", "dose")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"drop": "dos"}, DataError, r"drop: unknown column 'dos'; did you mean 'dose'"),
        ({"drop": ["y"]}, ConfigError, "drop: column 'y' is named as the label"),
        ({"drop": 2.5}, ConfigError, r"drop must be a list of columns, such as .*, got 2\.5"),
        ({"rename": {"tim": "a"}}, DataError, "rename: unknown column 'tim'; did you mean 'time'"),
        (
            {"rename": {"time": "dose"}},
            DataError,
            "'time' cannot become 'dose', because there is a column 'dose' already; .*"
            'time = "dose_2"',
        ),
        ({"rename": ["time"]}, ConfigError, "rename must be new names by old names"),
        ({"scale": "standart"}, ConfigError, "did you mean 'standard'.*example scale = 'robust'"),
        ({"scale": "none", "scale_from": {}}, ConfigError, "leave one of the two out"),
        ({"scale_from": "absent.json"}, ConfigError, r"absent\.json cannot be read"),
        ({"scale_from": {"mean": [1, 2, 3]}}, ConfigError, "needs the scale of each of the 3"),
        (
            {"scale_from": {"mean": [1, 2, 3], "scale": [1, 0, 1]}},
            ConfigError,
            "positive scale of each column, got 0 for dose",
        ),
        (
            {"scale_from": {"mean": {"time": 1}, "scale": [1, 1, 1]}},
            ConfigError,
            "no mean of column 'dose', but of time",
        ),
        (
            {"scale_from": {"mean": [1, 2, float("nan")], "scale": [1, 1, 1]}},
            ConfigError,
            r"needs numbers, got mean\.unit = nan",
        ),
    ],
)
def test_wrong_options_are_refused(
    loaded: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        loaded(**options)


def test_other_data_are_not_scaled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=TRAIN, y=np.arange(160) % 2, client_id=WHO[:160])
    data = fk.data.load(tmp_path / "a.npz", scale="none")
    assert data.transform is None and (data.x == TRAIN.astype(np.float32)).all()
    wrong: list[dict[str, Any]] = [{"scale": "standard"}, {"drop": "a"}, {"rename": {"a": "b"}}]
    for options in wrong:
        with pytest.raises(ConfigError, match=r"a\.npz: \w+ = .* of a table .*may hold images"):
            fk.data.load(tmp_path / "a.npz", **options)
    data = fk.data.from_arrays(TRAIN, np.arange(160) % 2, clients=WHO[:160])
    assert data.transform is None and (data.x == TRAIN.astype(np.float32)).all()


def test_harmful_columns_are_named(caplog: pytest.LogCaptureFixture) -> None:
    table = pd.DataFrame(
        {
            "row_id": RNG.permutation(M) + 1000,
            "age": 40 + np.arange(M) % 50,
            "x": RNG.normal(size=M) / 2,
            "site": 3,
            "y": np.arange(M) % 2,
            "client_id": WHO,
        }
    )

    def warnings(**options: Any) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fedkin"):
            fk.data.from_pandas(table, label="y", client="client_id", name="t", **options)
        return [record.getMessage() for record in caplog.records]

    constant, identifier = warnings()
    assert "t: column site has the same value" in constant and "data.drop=site" in constant
    assert "column row_id has a different whole number" in identifier
    assert "data.drop=row_id" in identifier
    assert warnings(drop=["site", "row_id"]) == []
    # The deviation of row_id is 139 times as large as in x, in age 29 times.
    (scales,) = warnings(drop=["site"], scale="none")[1:]
    assert "columns are not scaled" in scales and "row_id" in scales and "in x (" in scales
    assert warnings(drop=["site", "row_id"], scale="none") == []
    given = {"mean": [0] * 4, "scale": [1] * 4}
    assert warnings(scale_from=given) == []


def test_sums_of_sites_give_the_statistics_of_all() -> None:
    x = np.concatenate([1e8 + RNG.normal(size=(50, 3)), RNG.normal(size=(30, 3))])
    x[:, 2] = 0.1
    every = np.ones(80, bool)
    first = np.arange(80) < 50
    whole = column_statistics(x, every)
    parts = [column_statistics(x, first), column_statistics(x, ~first)]
    for found, expected in zip(combined(parts), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(whole.deviation[:2], x.std(axis=0)[:2], rtol=1e-12)
    assert whole.deviation[2] == 0 and whole.mean[2] == 0.1


def test_histograms_locate_quantiles_exactly() -> None:
    x = np.stack([RNG.integers(-9, 1000, 301), RNG.standard_cauchy(301), np.full(301, 0.1)], axis=1)
    taken = RNG.random(301) < 0.7
    facts = column_statistics(x, taken)
    shares = (0.01, 0.25, 0.5, 1.0)
    found = quantiles(x, taken, shares, facts)
    expected = np.quantile(x[taken], shares, axis=0, method="inverted_cdf")
    assert (found[:, 0] == expected[:, 0]).all() and (found[:, 2] == 0.1).all()
    np.testing.assert_allclose(found[:, 1], expected[:, 1], atol=1e-9)


def test_packed_tables_keep_their_scaling(loaded: Any, tmp_path: Path) -> None:
    data = loaded(rename={"time": "seconds"})
    packed = fk.data.pack(data, tmp_path / "packed")
    assert packed.transform == data.transform and (packed.x == data.x).all()
    raw = raw_statistics(packed.x, packed.train.rows, packed.transform)
    np.testing.assert_allclose(raw.mean, data.transform.mean)
    np.testing.assert_allclose(raw.deviation[:2], data.transform.scale[:2])


def test_the_scaling_of_columns_is_described() -> None:
    data = fk.data.from_pandas(TABLE, label="y", client="client_id", test="split", scale="robust")
    from fedkin.data.describe import column_table

    table = column_table(data)
    assert table is not None and table.index.tolist() == FEATURES
    np.testing.assert_allclose(table["mean"], TRAIN.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(table["max"], TRAIN.max(axis=0), rtol=1e-6)
    assert data.transform is not None
    middle = data.transform.mean[1]
    scale = data.transform.scale[1]
    assert table["scaling"].tolist()[1] == f"(x - {middle:.5g}) / {scale:.5g}"
    assert "scaled: robust" in repr(data)
    assert column_table(fk.data.digits(clients=4)) is None
