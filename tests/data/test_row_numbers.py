"""The row numbers of pandas are no features, wherever a table comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin as fk

N = 40
TABLE = pd.DataFrame(
    {"a": np.linspace(0, 1, N), "y": np.arange(N) % 2, "client_id": np.arange(N) % 4}
)
FILTERED = TABLE.sample(frac=1, random_state=0)  # its index is not 0, 1, 2, ..
STORED = TABLE.assign(__index_level_0__=np.arange(N)[::-1])  # as pyarrow stores an index


def loaded(kind: str, table: pd.DataFrame, folder: Path) -> fk.data.FederatedData:
    if kind == "pandas":
        return fk.data.from_pandas(table, label="y", client="client_id")
    if kind == "hf":
        from datasets import Dataset

        return fk.data.from_hf(Dataset.from_pandas(table), by="client_id", label="y")
    path = folder / f"t.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    return fk.data.load(path)


@pytest.mark.parametrize("kind", ["pandas", "hf", "csv", "parquet"])
@pytest.mark.parametrize("table", [FILTERED, STORED], ids=["filtered", "stored"])
def test_an_index_is_left_out(kind: str, table: pd.DataFrame, tmp_path: Path) -> None:
    assert loaded(kind, table, tmp_path).feature_names == ("a",)


@pytest.mark.parametrize("kind", ["pandas", "hf", "csv", "parquet"])
@pytest.mark.parametrize("name", ["Unnamed: 0", " "])
def test_a_column_without_a_name_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    table = TABLE.copy()
    table.insert(0, name, np.arange(N))
    with pytest.raises(
        fk.DataError, match=r"a name for every column, got '.*row numbers.*index=False"
    ):
        loaded(kind, table, tmp_path)


def test_a_chosen_column_may_have_any_name(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "t.csv")
    data = fk.data.load(tmp_path / "t.csv", features=["a"])
    assert data.feature_names == ("a",)
