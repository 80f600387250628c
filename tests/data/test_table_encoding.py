"""Tables with text and missing values: features, statistics of training samples, given encodings
and columns that are refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.core.errors import DataError
from fedkin.data import array_checks
from fedkin.data.describe import column_table
from fedkin.data.raw_tables import CELL_BYTES
from fedkin.data.table_transform import TableTransform
from tests.task_vectors import task_case


def wards(rows: int = 240) -> pd.DataFrame:
    """Four hospitals; the dose is missing in all rows of the last one, and in every fifth row."""
    rng = np.random.default_rng(0)
    hospital = np.arange(rows) % 4
    table = pd.DataFrame({"age": rng.normal(50, 10, rows), "dose": rng.normal(3, 1, rows)})
    table["ward"] = np.array(["er", "icu", "surgery"])[rng.integers(0, 3, rows)]
    table["smokes"] = rng.random(rows) < 0.3
    table["score"] = 2 * table.age + 10 * (table.ward == "icu")
    table.loc[(hospital == 3) | (np.arange(rows) % 5 == 0), "dose"] = np.nan
    return table.assign(hospital=[f"h{number}" for number in hospital])


def federation(table: pd.DataFrame, **options: Any) -> fk.FederatedData:
    return fk.data.from_pandas(
        table, label="score", client="hospital", task="regression", **options
    )


def test_the_oracle(oracle: Callable[[str], dict[str, Any]]) -> None:
    """Two clients' columns are filled with the pooled means, and have the printed indicators."""
    known = task_case(oracle, "missing_values")
    clients = [np.array(rows, np.float64) for rows in known["inputs"]["clients"]]
    table = pd.DataFrame(np.concatenate(clients), columns=["a", "b"])
    owners = np.repeat(np.arange(len(clients)), [len(x) for x in clients])
    table = table.assign(y=np.arange(len(table)), who=owners)
    data = fk.data.from_pandas(
        table, label="y", client="who", task="regression", test=0, scale="none"
    )
    assert data.feature_names == ("a", "b", "a_missing", "b_missing")
    printed = np.array(known["outputs"]["with indicators"])
    np.testing.assert_allclose(data.x[: len(printed)], printed, rtol=1e-6)
    assert data.transform is not None and data.transform.encoding is not None
    np.testing.assert_allclose(
        data.transform.encoding.imputation.mean, known["outputs"]["pooled mean"], rtol=1e-12
    )


def test_features_are_numbers_categories_and_indicators() -> None:
    table = wards()
    data = federation(table)
    names = ("age", "dose", "ward_er", "ward_icu", "ward_surgery", "smokes", "dose_missing")
    assert data.feature_names == names
    train = data.train.rows
    np.testing.assert_allclose(data.x[train].mean(axis=0)[[0, 1, 5]], 0, atol=1e-6)
    # Categories and indicators stay 0 and 1; a missing number is the mean, which is 0.
    assert (data.x[:, 3] == (table.ward == "icu")).all()
    assert (data.x[:, 6] == table.dose.isna()).all()
    np.testing.assert_allclose(data.x[table.dose.isna(), 1], 0, atol=1e-6)


def test_only_training_samples_count() -> None:
    """The dose of test samples does not change the mean that replaces missing values."""
    table = wards()
    part = np.where(np.arange(len(table)) % 3 == 0, "test", "train")
    other = table.assign(dose=np.where(part == "test", 1000.0, table.dose))
    first = federation(table.assign(part=part), test="part")
    second = federation(other.assign(part=part), test="part")
    assert first.transform == second.transform
    present = table.dose[(part == "train") & table.dose.notna()]
    encoding = first.transform.encoding  # type: ignore[union-attr]
    assert encoding.imputation.mean[1] == pytest.approx(present.mean(), rel=1e-12)  # type: ignore[union-attr]


def test_files_equal_frames(tmp_path: Path) -> None:
    table = wards()
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    data = federation(table)
    for name in ("t.csv", "t.parquet"):
        loaded = fk.data.load(
            tmp_path / name,
            label="score",
            client="hospital",
            task="regression",
            train_fraction=0.8,
        )
        np.testing.assert_array_equal(loaded.x, data.x)
        assert loaded.transform == data.transform


def test_a_complete_table_has_no_encoding() -> None:
    complete: Any = wards()[["age", "smokes", "score", "hospital"]]
    data = federation(complete)
    assert data.transform is not None and data.transform.encoding is None
    assert "encoding" not in data.transform.values()


def test_it_survives_json_and_is_given_to_another_table() -> None:
    """A category that training never saw is a row of zeros, and a missing age is its mean."""
    data = federation(wards())
    assert data.transform is not None
    values = json.loads(json.dumps(data.transform.values()))
    assert TableTransform.of_values(values) == data.transform
    other = wards(40).assign(ward=["new"] * 20 + ["icu"] * 20)
    other.loc[0, "age"] = np.nan
    given = federation(other, scale_from=values)
    assert given.feature_names == data.feature_names
    assert given.x[:20, 2:5].sum() == 0 and given.x[20:, 3].all()
    assert given.x[0, 0] == pytest.approx(0, abs=1e-6)


def test_features_of_two_columns_with_one_name_are_refused() -> None:
    table = wards()
    itself = table.assign(dose_missing=table["dose"].fillna(0.0))
    with pytest.raises(DataError, match=r"'dose_missing' and 'dose' would both .*'dose_missing'"):
        federation(itself)
    cure = r'rename = \{"ward_er" = "other"\}'
    with pytest.raises(DataError, match=rf"'ward' and 'ward_er' would both .*'ward_er'.*{cure}"):
        federation(table.assign(ward_er=np.arange(len(table))))
    assert "other" in (
        federation(
            table.assign(ward_er=np.arange(len(table))), rename={"ward_er": "other"}
        ).feature_names
        or ()
    )
    first = np.where(np.arange(len(table)) % 2 == 0, "b_c", "other")
    second = np.where(np.arange(len(table)) % 3 == 0, "c", "other")
    pair = table.assign(a=first).assign(**{"a_b": second})
    with pytest.raises(DataError, match=r"'a' and 'a_b' would both have a feature named 'a_b_c'"):
        federation(pair)
    # A complete column has no indicator, and its name is free.
    assert "age_missing" in (federation(table.assign(age_missing=table["age"])).feature_names or ())


def test_rare_categories_are_infrequent() -> None:
    """A category of 9 training rows, and one that a single client has, share a column."""
    table = wards()
    table.loc[:8, "ward"] = "rare"
    table.loc[(table.hospital == "h0") & (table.ward == "er"), "ward"] = "only h0"
    data = federation(table, test=0)
    assert "ward_infrequent" in (data.feature_names or ())
    assert not {"ward_rare", "ward_only h0"} & set(data.feature_names or ())
    named = federation(table, test=0, min_frequency=9, min_clients=1)
    assert {"ward_rare", "ward_only h0"} <= set(named.feature_names or ())
    assert "ward_infrequent" not in (named.feature_names or ())


@pytest.mark.parametrize("first", [1.0, None], ids=["numbers", "empty cells"])
def test_a_category_that_begins_with_other_cells_is_counted_from_the_first_row(
    first: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kind of a column does not depend on the blocks in which its rows are read."""
    table = wards()
    table["ward"] = [first] * 60 + table.ward.tolist()[60:]
    at_once = federation(table)
    monkeypatch.setattr(array_checks, "_BLOCK_BYTES", 50 * 4 * CELL_BYTES)
    in_blocks = federation(table)
    assert in_blocks.feature_names == at_once.feature_names
    assert ("ward_1" if first else "ward_missing") in (in_blocks.feature_names or ())
    np.testing.assert_allclose(in_blocks.x, at_once.x, atol=1e-6)


def test_numbers_may_be_categories() -> None:
    table = wards().assign(month=np.arange(240) % 2 + 1)
    assert "month" in (federation(table).feature_names or ())
    assert {"month_1", "month_2"} <= set(federation(table, categories="month").feature_names or ())


def test_validation_samples_leave_the_means() -> None:
    data = federation(wards())
    divided = data.with_validation(0.3)
    train = divided.train.rows
    present = wards().dose.to_numpy()[train]
    encoding = divided.transform.encoding  # type: ignore[union-attr]
    mean = encoding.imputation.mean[1]  # type: ignore[union-attr]
    assert mean == pytest.approx(np.nanmean(present), rel=1e-5)
    np.testing.assert_allclose(divided.x[train].mean(axis=0)[[0, 1]], 0, atol=1e-5)


def test_a_column_that_a_client_lacks_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fedkin"):
        federation(wards())
    assert "column dose is missing in all training rows of 1 client (h3)" in caplog.text


def test_rows_without_a_label_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    table = wards()
    table.loc[[3, 17], "score"] = np.nan
    with caplog.at_level(logging.WARNING, "fedkin"):
        data = federation(table)
    assert "column 'score': left out 2 of 240 rows, whose label is missing" in caplog.text
    owned = np.concatenate([data.train.rows, data.test.rows])
    assert len(owned) == 238 and not {3, 17} & set(owned.tolist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dose": np.nan}, r"column 'dose' has no value .*drop = \['dose'\]"),
        ({"age": np.inf}, r"column age, row 0 holds infinity \(client h0; .*correct it"),
        ({"ward": [f"p{row}" for row in range(240)]}, "looks like an identifier or free text"),
        ({"dose": pd.Timedelta("1h")}, r"column dose holds timedelta.*total_seconds\(\)"),
        ({"dose": 1j}, r"column dose holds complex numbers; use their real and imaginary parts"),
        ({"ward": "2024-03-01"}, r"column ward holds dates.*ward_month.*drop = \['ward'\]"),
        ({"ward": [f"h{row % 4}" for row in range(240)]}, "identifies samples or clients"),
        (
            {"ward": [f"c{row % 60}" for row in range(240)]},
            "looks like an identifier|none with 10 training samples",
        ),
        ({"score": ["high"] * 240}, r"column 'score': the label in row 0 \(client h0\) is 'high'"),
        ({"score": 3.0}, "column 'score': all training labels are 3"),
    ],
)
def test_columns_that_cannot_be(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        federation(wards().assign(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": -1.0}, r"column 'score': the count in row 0 \(client h0\) is -1"),
        ({"years": 0.0}, r"column 'years': the exposure in row 0 \(client h0\) is 0.*above 0"),
        ({"years": np.nan}, r"column 'years': the exposure in row 0 \(client h0\) is missing"),
    ],
)
def test_counts_that_cannot_be(change: dict[str, Any], message: str) -> None:
    table = wards().assign(years=1.0, score=np.arange(240)).assign(**change)
    with pytest.raises(DataError, match=message):
        fk.data.from_pandas(table, label="score", client="hospital", task="count", exposure="years")


def test_a_client_with_one_row_trains() -> None:
    table = wards().query("hospital != 'h1' or index == 1")
    data = federation(table)
    assert data.train.sizes.tolist()[1] == 1 and data.test.sizes.tolist()[1] == 0


def test_the_described_columns_are_those_of_the_table() -> None:
    """Categories are not scaled, but their mean is their share, and booleans begin at 0."""
    data = federation(wards())
    rows = data.train.rows
    found = column_table(data)
    assert found is not None
    raw = wards().iloc[rows]
    for category in ("er", "icu", "surgery"):
        share = float((raw["ward"] == category).mean())
        row = found.loc[f"ward_{category}"]
        assert row["mean"] == pytest.approx(share)
        assert row["SD"] == pytest.approx(np.sqrt(share * (1 - share)))
        assert row["scaling"] == "(x - 0) / 1"
    assert found.loc["dose_missing", "mean"] == pytest.approx(raw["dose"].isna().mean())
    assert found.loc["age", "mean"] == pytest.approx(raw["age"].mean())
    assert found.loc["smokes", "min"] == 0.0
    assert found.loc["smokes", "mean"] == pytest.approx(raw["smokes"].mean())
