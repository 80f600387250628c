"""Predictions for a table of texts, by an export of adapters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("tokenizers", reason="texts need pip install 'fedkin[text]'")

import fedkin as fk
from fedkin.core.errors import ConfigError, DataError
from fedkin.export.predict_table import predict_file
from fedkin.export.reader import load
from tests.models.tiny_bert import write_bert

TABLE = pd.DataFrame(
    {
        "remark": ["the red cat", "blue dog", "a b c", "the dog sat"] * 6,
        "queue": ["animals", "animals", "letters", "animals"] * 6,
        "desk": ["north"] * 12 + ["south"] * 12,
    }
)


def test_texts_are_predicted_with_their_clients_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backbone = fk.models.from_transformers(write_bert(tmp_path / "tiny"))
    data = fk.data.texts(TABLE, text="remark", label="queue", client="desk", tokenizer=backbone)
    work = fk.LocalTraining(optimizer="adamw", lr=0.01)
    model = fk.lora(data, backbone, rank=2)
    run = fk.simulate(fk.Local(), data, model, local=work, rounds=2, cohort=2)
    run.export(tmp_path / "export")
    # The folder of the backbone is on another machine, or has moved.
    (tmp_path / "tiny").rename(tmp_path / "moved")
    export = load(tmp_path / "export", backbone=tmp_path / "moved")

    file = tmp_path / "new.csv"
    TABLE.to_csv(file, index=False)
    found = predict_file(export, file)
    expected = np.empty(len(TABLE), dtype=object)
    for desk in ("north", "south"):
        rows = (TABLE.desk == desk).to_numpy()
        expected[rows] = run.predict(data.x[rows], client=desk)
    assert found.table["prediction"].tolist() == expected.tolist()
    assert found.scored == len(TABLE)
    assert not caplog.messages
    TABLE.assign(remark="the red cat " * 4).to_csv(file, index=False)
    predict_file(export, file)
    assert caplog.messages[0].startswith(f"{file}: 24 of 24 texts are cut to 8 tokens: ")

    TABLE.drop(columns="remark").to_csv(file, index=False)
    with pytest.raises(DataError, match="remark"):
        predict_file(export, file)
    TABLE.to_csv(file, index=False)
    with pytest.raises(ConfigError, match="--backbone FOLDER"):
        predict_file(load(tmp_path / "export"), file)
