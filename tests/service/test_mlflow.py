"""The MLflow model: it loads from code, predicts the same numbers, and refuses unknown clients."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException

import fedkin as fk
from fedkin.core.errors import ConfigError, MissingExtra, StorageError
from fedkin.export import load

pytestmark = pytest.mark.filterwarnings("ignore")  # of warnings about the code of MLflow
ROWS = np.array([[1.5, 0.25, -1.0], [-2.0, 0.5, 0.0]], np.float32)


@pytest.fixture(scope="module")
def folder(small_run: fk.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mlflow") / "model"
    card = small_run.export(path, "mlflow")
    assert card.is_file() and path in card.parents
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return mlflow.pyfunc.load_model(str(folder))


@pytest.mark.parametrize("client", ["site-0", "site-1"])
def test_a_client_gets_the_numbers_of_its_cluster(
    client: str, model: Any, small_run: fk.Run
) -> None:
    found = model.predict(ROWS, params={"client": client})
    assert found["prediction"].tolist() == small_run.predict(ROWS, client=client).tolist()
    expected = small_run.predict(ROWS, client=client, proba=True)
    np.testing.assert_array_equal(found[["probability_no", "probability_yes"]], expected)


def test_a_folder_that_cannot_be_written(
    small_run: fk.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: object, **options: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", forbidden)
    with pytest.raises(StorageError, match=r"cannot write .*model: Permission denied"):
        small_run.export(tmp_path / "model", "mlflow")


def test_a_cluster_may_be_named(model: Any, small_run: fk.Run) -> None:
    for cluster in (0, 1):
        found = model.predict(ROWS, params={"cluster": cluster})
        assert found["prediction"].tolist() == small_run.predict(ROWS, cluster=cluster).tolist()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (None, "name a client or a cluster"),
        ({"client": "new"}, "'new' is not known"),
        ({"cluster": 9}, "no model of cluster 9"),
        ({"client": "site-0", "cluster": 0}, "not both"),
    ],
)
def test_wrong_choices_are_refused(params: Any, words: str, model: Any) -> None:
    with pytest.raises(ConfigError, match=words):
        model.predict(ROWS, params=params)


def test_a_default_client_may_be_set(folder: Path, small_run: fk.Run) -> None:
    own = mlflow.pyfunc.load_model(str(folder), model_config={"client": "site-1"})
    assert own.predict(ROWS)["prediction"].tolist() == ["no", "yes"]
    # A choice of the caller wins.
    chosen = own.predict(ROWS, params={"client": "site-0"})
    assert chosen["prediction"].tolist() == ["yes", "no"]


def test_the_signature_names_shape_and_parameters(model: Any) -> None:
    signature = model.metadata.signature
    assert [p.name for p in signature.params.params] == ["client", "cluster"]
    with pytest.raises(MlflowException):
        model.predict(np.zeros((2, 4), np.float32), params={"cluster": 0})
    assert model.metadata.metadata["fedkin.models"] == ["cluster-0", "cluster-1"]


def test_nothing_is_pickled(folder: Path) -> None:
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert "mlflow_code.py" in names and not [name for name in names if name.endswith(".pkl")]
    assert load(folder / "artifacts/export").clients


def test_columns_by_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    table["y"] = (table["a"] > 0).astype(int)
    table["client_id"] = np.repeat(["p", "q"], 40)
    table.to_csv(tmp_path / "t.csv", index=False)
    data = fk.data.load(tmp_path / "t.csv", scale="standard")
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=2, cohort=2)
    run.export(tmp_path / "model", "mlflow")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    new = table[["b", "a"]].head(3)  # in another order
    found = model.predict(new, params={"client": "q"})
    assert found["prediction"].tolist() == run.predict(new, client="q").tolist()


def test_a_folder_that_is_not_empty_is_refused(small_run: fk.Run, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(StorageError, match="not empty"):
        small_run.export(tmp_path, "mlflow")


def test_without_mlflow_the_extra_is_named(
    small_run: fk.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(MissingExtra, match=r"fedkin\[mlflow\]"):
        small_run.export(tmp_path / "m", "mlflow")
