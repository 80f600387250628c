"""Texts of a table as token numbers, in Python and in a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.config.run import from_dict
from fedkin.core.errors import ConfigError, DataError
from fedkin.run.simulate import execute
from tests.models.tiny_bert import WORDS, write_bert

TABLE = pd.DataFrame(
    {
        "remark": ["the red cat", "blue dog", "a b c", "the dog sat"] * 6,
        "queue": ["animals", "animals", "letters", "animals"] * 6,
        "desk": ["north"] * 12 + ["south"] * 12,
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("backbone") / "tiny")


def read(source: Any, folder: Any, **options: Any) -> Any:
    names = {"text": "remark", "label": "queue", "client": "desk", "tokenizer": folder}
    return fk.data.texts(source, **(names | options))


def test_a_table_and_its_file_are_equal(folder: Path, tmp_path: Path) -> None:
    data = read(TABLE, folder)
    assert data.x.dtype == np.int32
    assert data.x.shape == (24, 8)
    assert data.x[1].tolist() == [*map(WORDS.index, ("[CLS]", "blue", "dog", "[SEP]")), 0, 0, 0, 0]
    assert data.label_names == ("animals", "letters")
    assert list(data.client_names) == ["north", "south"]
    TABLE.to_csv(tmp_path / "remarks.csv", index=False)
    TABLE.to_parquet(tmp_path / "remarks.parquet")
    for name in ("remarks.csv", "remarks.parquet"):
        other = read(tmp_path / name, folder)
        np.testing.assert_array_equal(other.x, data.x)
        np.testing.assert_array_equal(other.train.rows, data.train.rows)


def test_a_backbone_is_a_tokenizer(folder: Path) -> None:
    backbone = fk.models.from_transformers(folder)
    np.testing.assert_array_equal(read(TABLE, backbone).x, read(TABLE, folder).x)


def test_a_column_divides_the_samples(folder: Path) -> None:
    parts = ["train"] * 8 + ["test"] * 4
    data = read(TABLE.assign(split=parts * 2), folder, length=6)
    assert data.test.sizes.tolist() == [4, 4]
    assert data.x.shape == (24, 6)


def test_a_partition_makes_the_clients(folder: Path) -> None:
    data = read(TABLE, folder, client=None, partition="iid", clients=3)
    assert data.clients == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"text": "remarks"}, "no column 'remarks'|unknown column 'remarks'"),
        ({"client": None}, "got neither"),
        ({"partition": "iid", "clients": 3}, "got both"),
        ({"length": 99}, "length must be between 2 and 16"),
    ],
)
def test_bad_options(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, DataError), match=words):
        read(TABLE, folder, **options)


def test_texts_that_are_missing(folder: Path) -> None:
    with pytest.raises(DataError, match="the text in row 3 of column 'remark' is ' '"):
        read(TABLE.assign(remark=["dog", "cat", "a", " "] * 6), folder)


def test_a_configuration_of_texts(folder: Path, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "remarks.csv", index=False)
    values = {
        "data": {
            "name": "texts",
            "path": str(tmp_path / "remarks.csv"),
            "text": "remark",
            "label": "queue",
            "client": "desk",
            "tokenizer": str(folder),
        },
        "model": {"name": "lora", "backbone": str(folder), "rank": 2},
        "method": {"name": "fedavg"},
        "run": {"rounds": 1, "cohort": 2},
    }
    run = execute(from_dict(values), out=None)
    assert np.isfinite(run.models).all()
    assert run.models.shape[1] == fk.lora(read(TABLE, folder), folder, rank=2).spec.parameters


def test_a_warning_names_the_data_whose_texts_are_cut(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    TABLE.to_csv(tmp_path / "remarks.csv", index=False)
    read(tmp_path / "remarks.csv", folder, length=8)
    assert not caplog.messages
    read(tmp_path / "remarks.csv", folder, length=4)
    options: dict[str, Any] = {"text": "remark", "label": "queue", "tokenizer": folder}
    fk.data.from_pandas(TABLE, client="desk", length=4, name="remarks", **options)
    from_file, from_frame = caplog.messages
    assert from_file.startswith(f"{tmp_path / 'remarks.csv'}: 18 of 24 texts are cut to 4 tokens: ")
    assert from_frame.startswith("remarks: 18 of 24 texts are cut to 4 tokens: ")


def test_from_pandas_reads_texts_too(folder: Path) -> None:
    table = TABLE.assign(part=(["train"] * 8 + ["test"] * 4) * 2)
    options: dict[str, Any] = {"text": "remark", "label": "queue", "tokenizer": folder}
    data = fk.data.from_pandas(table, client="desk", test="part", name="remarks", **options)
    expected = read(table.rename(columns={"part": "split"}), folder)
    np.testing.assert_array_equal(data.x, expected.x)
    np.testing.assert_array_equal(data.test.rows, expected.test.rows)
    assert data.name == "remarks" and data.tokenizer == expected.tokenizer
    assert data.columns == expected.columns
    shares = fk.data.from_pandas(TABLE, client="desk", test=0.25, length=4, **options)
    assert shares.test.sizes.tolist() == [3, 3] and shares.x.shape == (24, 4)
    dealt = fk.data.from_pandas(TABLE, partition="iid", num_clients=3, **options)
    assert dealt.clients == 3
    with pytest.raises(ConfigError, match="scale does not apply to texts; leave out scale='none'"):
        fk.data.from_pandas(TABLE, client="desk", scale="none", **options)
    with pytest.raises(ConfigError, match="text needs tokenizer=: a local folder"):
        fk.data.from_pandas(TABLE, client="desk", text="remark", label="queue")
    with pytest.raises(ConfigError, match="length applies to texts; name their column"):
        fk.data.from_pandas(TABLE, client="desk", label="queue", length=8)
    with pytest.raises(DataError, match="unknown column 'remarks'; did you mean 'remark'"):
        fk.data.from_pandas(TABLE, client="desk", text="remarks", label="queue", tokenizer=folder)
