"""A finished run makes its data again: the same ones, from any folder, or it names the
fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.config import run as configuration
from fedkin.core.errors import CheckpointError
from fedkin.run.simulate import execute

Change = Callable[[pd.DataFrame], pd.DataFrame]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and a run on it, whose configuration has the relative path of the
    table."""
    place = tmp_path_factory.mktemp("workplace")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=40), "dose": rng.normal(size=40)})
    table = table.assign(y=(table["age"] > 0).astype(int), client_id=np.repeat(["ash", "elm"], 20))
    table.to_csv(place / "mine.csv", index=False)
    changes = [
        "data.path=mine.csv",
        "method.name=ifca",
        "method.clusters=2",
        "run.rounds=1",
        "run.cohort=2",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        config = configuration.load(None, [*changes, "run.against=[]", "local.epochs=1"])
        execute(config, out=Path("runs/one"))
    return place


def test_data_are_found_from_another_folder(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(fk.Run.load(workplace / "runs/one").evaluate().clients) == 2
    environment = json.loads((workplace / "runs/one/environment.json").read_text())
    assert environment["data_from_here"] == "../../mine.csv"


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.sample(frac=1, random_state=1),  # other rows become test samples
        lambda table: table.assign(dose=table["dose"] + 1),
    ],
)
def test_data_that_have_changed_are_refused(workplace: Path, change: Change) -> None:
    file = workplace / "mine.csv"
    before = file.read_text()
    try:
        change(pd.read_csv(file)).to_csv(file, index=False)
        with pytest.raises(
            CheckpointError,
            match=r"mine\.csv has changed since the run.*fedkin evaluate RUN --data",
        ):
            fk.Run.load(workplace / "runs/one").evaluate()
    finally:
        file.write_text(before)


def test_without_the_file_the_message_has_the_folder(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (workplace / "mine.csv").rename(workplace / "other.csv")
    try:
        with pytest.raises(fk.DataError, match=r"mine\.csv: .*no such file in the current folder"):
            fk.Run.load(workplace / "runs/one").evaluate()
    finally:
        (workplace / "other.csv").rename(workplace / "mine.csv")


def test_given_data_have_the_clients_of_the_run(
    workplace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = pd.read_csv(workplace / "mine.csv")
    own = fk.data.load(workplace / "mine.csv")
    fk.Run.load(workplace / "runs/one", data=own)
    assert "trained on" not in caplog.text
    swapped = fk.data.from_pandas(table.replace({"ash": "zelkova"}), label="y", client="client_id")
    with pytest.raises(
        CheckpointError,
        match=r"the client at position 0 is 'ash' in the run, but 'elm' in these data",
    ):
        fk.Run.load(workplace / "runs/one", data=swapped)
    more = fk.data.from_pandas(table.assign(dose=0), label="y", client="client_id")
    fk.Run.load(workplace / "runs/one", data=more)
    assert "data or model differ from the run's" in caplog.text
