"""The scaling of a table travels with the models of a run: into its folder, its predictions and
every export."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkin as fk
from fedkin.config import run as configuration
from fedkin.export import load
from fedkin.export.predict_table import predict_file
from fedkin.run.simulate import execute
from fedkin.run.trained.external_evaluation import load_other
from fedkin.task_types.catalogue import task_type_from, values_of

RNG = np.random.default_rng(2)
N = 240
WHO = np.arange(N) % 6
SCORE = RNG.normal(size=N)
TABLE = pd.DataFrame(
    {
        "row_id": np.arange(N),
        "years": 5e4 + 9e3 * SCORE,
        # Differences that float32 does not resolve.
        "time": 1.7e9 + RNG.normal(size=N),
        "outcome": np.where((SCORE > 0) ^ (WHO < 3), "ill", "well"),
        "ward": WHO,
    }
)
RENAMED = {"years": "age"}
ROWS = TABLE[["years", "time"]].to_numpy()


def scaled(table: pd.DataFrame = TABLE, **options: Any) -> fk.data.FederatedData:
    """The table as data, without its row numbers."""
    return fk.data.from_pandas(table, label="outcome", client="ward", drop="row_id", **options)


def trained(data: fk.data.FederatedData, out: Path | None = None, **options: Any) -> fk.Run:
    """A short run of two clusters on these data."""
    return fk.simulate(
        fk.IFCA(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=3,
        cohort=6,
        local=fk.SGD(epochs=3, lr=0.3),
        out=out,
        **options,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a folder."""
    path = tmp_path_factory.mktemp("scaled") / "run"
    trained(scaled(rename=RENAMED), path)
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> fk.Run:
    """The same run, loaded again."""
    data = scaled(rename=RENAMED)
    return fk.Run.load(folder, model=fk.models.mclr(data), data=data)


@pytest.fixture(scope="module")
def expected(run: fk.Run) -> np.ndarray:
    """Probabilities of all rows by the model of client 0, from features that were scaled by
    hand."""
    transform = scaled().transform
    assert transform is not None
    x = ((ROWS - transform.mean) / transform.scale).astype(np.float32)
    return run.model_for(0).decide(x, prepared=True).probability


def test_a_run_on_scaled_columns_equals_a_run_on_columns_scaled_before() -> None:
    """And an identifier, left out of one table and never present in the other, has no effect."""
    data = scaled()
    assert data.transform is not None
    before = TABLE[["years", "time", "outcome", "ward"]].copy()
    before[["years", "time"]] = (ROWS - data.transform.mean) / data.transform.scale
    plain = fk.data.from_pandas(before, label="outcome", client="ward", scale="none")
    raw = scaled(scale="none")
    assert (trained(data).state.models == trained(plain).state.models).all()
    assert (trained(raw).state.models != trained(data).state.models).any()


def test_a_model_takes_raw_values(run: fk.Run, expected: np.ndarray) -> None:
    for x in (TABLE, TABLE.rename(columns=RENAMED), ROWS):
        assert (run.predict(x, client=0, proba=True) == expected).all()
    rows = WHO == 1
    truth = TABLE["outcome"][rows]
    raw = run.place(TABLE[rows], truth)
    assert raw.cluster == run.place(ROWS[rows], truth).cluster == run.model_for(1).cluster
    tuned = run.fine_tune(cluster=0, x=TABLE[rows], y=truth, epochs=0)
    np.testing.assert_array_equal(tuned(ROWS), tuned(TABLE))


def test_features_that_are_scaled_already_are_refused(run: fk.Run) -> None:
    data = scaled(rename=RENAMED)
    assert data.transform is not None
    for x in (data.x[data.test[0]], data.x[:1], data.x):
        with pytest.raises(fk.DataError, match=r"rows of the scaled features .*transform\.undo"):
            run.predict(x, client=0)
    back = run.predict(data.transform.undo(data.x), client=0, proba=True)
    np.testing.assert_allclose(back, run.predict(TABLE, client=0, proba=True), atol=1e-6)


def test_whole_numbers_that_equal_scaled_ones_are_raw_values() -> None:
    """Median and interquartile range of both columns are whole, so (0, 0) and (2, 1) are raw rows
    and scaled ones."""
    counts = np.stack([np.repeat(range(5), 5), np.tile(range(5), 5)], axis=1)
    table = pd.DataFrame(np.tile(counts, (4, 1)), columns=["a", "b"])
    table["y"] = table.a > table.b
    table["client"] = np.arange(len(table)) % 2
    data = fk.data.from_pandas(table, label="y", client="client", scale="robust")
    assert data.transform is not None and data.transform.scale == (2.0, 2.0)
    run = fk.simulate(fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=2)
    for row in counts:
        run.predict(row[None].astype(float), client=0)
    with pytest.raises(fk.DataError, match="rows of the scaled features"):
        run.predict(data.x[(data.x == 0.5).any(axis=1)], client=0)


@pytest.mark.parametrize("format", ["safetensors", "torch", "onnx"])
def test_every_export_takes_raw_values(
    format: str, run: fk.Run, expected: np.ndarray, tmp_path: Path
) -> None:
    if format != "safetensors":
        pytest.importorskip("torch")
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    run.export(tmp_path / "e", format)
    export = load(tmp_path / "e")
    scale = export.card["input"]["transform"]
    assert scale["columns"] == ["age", "time"] and scale["renamed"] == RENAMED
    model = export.model(client="0")
    for x in (TABLE, ROWS):
        np.testing.assert_allclose(model.predict(x, proba=True), expected, atol=1e-5)
    TABLE.to_csv(tmp_path / "new.csv", index=False)
    found = predict_file(export, tmp_path / "new.csv", client="0").table
    np.testing.assert_allclose(found.iloc[:, 1:].to_numpy(), expected, atol=1e-5)


def test_the_code_of_an_export_scales(run: fk.Run, expected: np.ndarray, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    run.export(tmp_path / "e", "torch")
    spec = importlib.util.spec_from_file_location("model", tmp_path / "e" / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    card = json.loads((tmp_path / "e" / "card.json").read_text())
    entry = next(entry for entry in card["models"] if "0" in entry["clients"])
    network = module.build(card["architecture"]).eval()
    network.load_state_dict(torch.load(tmp_path / "e" / entry["file"], weights_only=True))
    scores = network(torch.tensor(ROWS)).softmax(1).detach().numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert card["input"]["dtype"] == "float64" and "raw columns" in card["input"]["scaling"]


def test_a_file_of_onnx_scales(run: fk.Run, expected: np.ndarray, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    run.export(tmp_path / "e", "onnx")
    card = json.loads((tmp_path / "e" / "card.json").read_text())
    entry = next(entry for entry in card["models"] if "0" in entry["clients"])
    session = runtime.InferenceSession(tmp_path / "e" / entry["file"])
    (scores,) = session.run(None, {"samples": ROWS})
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, atol=1e-5)


def test_other_data_are_scaled_as_the_run(run: fk.Run, tmp_path: Path) -> None:
    """New data with another mean are not scaled by their own statistics."""
    new = TABLE.assign(years=TABLE["years"] + 5e4)
    accuracy = np.mean(
        [
            np.mean(run.predict(new[client == WHO], client=client) == new["outcome"][client == WHO])
            for client in range(6)
        ]
    )
    for options in ({"rename": RENAMED}, {}, {"scale": "none"}, {"features": ["time", "years"]}):
        found = run.evaluate(data=scaled(new, **options))
        assert found.summary["accuracy"] == pytest.approx(accuracy, abs=1e-3)
    new.to_csv(tmp_path / "new.csv", index=False)
    own = {"label": "outcome", "client": "ward"}
    other = load_other(tmp_path / "new.csv", own, run.trained.parts.samples, {}, pooled=False)
    assert other.transform is not None and not other.transform.fitted
    assert other.transform.equals(run.trained.parts.data.transform)
    assert run.evaluate(data=other).summary["accuracy"] == pytest.approx(accuracy)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configuration of a run on a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    columns = ["data.path=t.csv", "data.label=outcome", "data.client=ward", "data.drop=row_id"]
    plan = ["run.rounds=1", "run.cohort=6", "run.against=[]", "local.lr=0.3"]
    return [*columns, "data.rename={years='age'}", *plan]


def test_a_folder_keeps_the_scaling_if_the_file_has_changed(configured: list[str]) -> None:
    execute(configuration.load(None, configured), out=Path("run"))
    stored = json.loads(Path("run/transform.json").read_text())
    assert stored["columns"] == ["age", "time"] and stored["kind"] == "standard"
    assert "transform.json" in Path("run/SHA256SUMS").read_text()
    before = fk.Run.load("run").predict(TABLE, client=0, proba=True)
    # In other units the scaled features are nearly equal, but raw values are not.
    TABLE.assign(years=TABLE["years"] / 365).to_csv("t.csv", index=False)
    with pytest.raises(fk.CheckpointError, match=r"t\.csv has changed since the run"):
        fk.Run.load("run").predict(TABLE, client=0)
    TABLE.to_csv("new.csv", index=False)
    own = {"label": "outcome", "client": "ward"}
    run = fk.Run.load("run")
    samples = run._for_other_data().parts.samples
    other = load_other(Path("new.csv"), own, samples, {}, pooled=False)
    truth = TABLE["outcome"].to_numpy()[WHO == 0]
    labels = np.array(["ill", "well"])[before.argmax(axis=1)][WHO == 0]
    found = run.evaluate(data=other).clients
    (accuracy,) = found["accuracy"][found["name"] == "0"]
    assert accuracy == pytest.approx(np.mean(labels == truth))


def test_a_copy_of_a_folder_predicts_as_the_run(configured: list[str], tmp_path: Path) -> None:
    """The copy has the scaling, the environment of the run, and the way to the data from its
    place."""
    execute(configuration.load(None, configured), out=Path("run"))
    whole = json.loads(Path("run/environment.json").read_text())
    versions = {**whole["versions"], "jax": "0.1"}
    Path("run/environment.json").write_text(json.dumps({**whole, "versions": versions}))
    Path("run/SHA256SUMS").unlink()
    expected = fk.Run.load("run").predict(TABLE, client=0, proba=True)
    fk.Run.load("run").save(tmp_path / "deep/copy")
    copied = json.loads(Path("deep/copy/environment.json").read_text())
    assert copied["versions"]["jax"] == "0.1" and copied["data_from_here"] == "../../t.csv"
    assert "transform.json" in Path("deep/copy/SHA256SUMS").read_text()
    found = fk.Run.load("deep/copy").predict(TABLE, client=0, proba=True)
    np.testing.assert_array_equal(found, expected)


def test_a_saved_run_that_had_no_folder_keeps_its_scaling(run: fk.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "kept")
    stored = json.loads((tmp_path / "kept/transform.json").read_text())
    assert stored["columns"] == ["age", "time"]


def test_a_folder_without_scaling_stays_without(configured: list[str]) -> None:
    """Earlier versions did not scale tables, and stored no option about it."""
    # One model: on unscaled columns there can be fewer different updates than clusters.
    changes = ["data.scale=none", "data.rename={}", "method.name=fedavg"]
    unscaled = configuration.load(None, [*configured, *changes])
    execute(unscaled, out=Path("run"))
    text = Path("run/config.toml").read_text()
    assert 'scale = "none"\n' in text and not Path("run/transform.json").exists()
    expected = fk.Run.load("run").trained.parts.data.x
    Path("run/config.toml").write_text(text.replace('scale = "none"\n', ""))
    Path("run/SHA256SUMS").unlink()
    run = fk.Run.load("run")
    # The edited configuration has another fingerprint, which is not checked here.
    assert (run._for_other_data().parts.data.x == expected).all()


def test_private_runs_take_given_statistics_only() -> None:
    private = fk.ClientDP(noise_multiplier=1.0)
    cohort = fk.Cohort(6, selection="poisson")

    def run_on(data: fk.data.FederatedData) -> fk.Run:
        return fk.simulate(
            fk.FedAvg(), data, fk.models.mclr(data), rounds=1, cohort=cohort, options=[private]
        )

    for kind in ("standard", "robust"):
        with pytest.raises(
            fk.ConfigError,
            match=rf"privacy: the columns of frame are scaled \({kind}\).*scale_from",
        ):
            run_on(scaled(scale=kind))
    given = {"mean": [5e4, 1.7e9], "scale": [9e3, 1]}
    assert run_on(scaled(scale_from=given)).records
    assert run_on(scaled(scale="none")).records


@pytest.mark.parametrize(
    ("task", "known", "loss"),
    [
        ("regression", {"mean": 3.0, "scale": 2.0}, "absolute_error"),
        ("quantile", {"mean": 3.0, "scale": 2.0}, None),
        ("count", {"rate": 2.5}, None),
    ],
)
def test_private_runs_take_given_statistics_of_labels_only(
    task: str, known: dict[str, float], loss: str | None
) -> None:
    """Mean, scale, rate, median and quantiles of the labels come from samples, without noise."""
    rng = np.random.default_rng(0)
    labels = rng.poisson(3.0, 60).astype(float)

    def read(**options: Any) -> fk.data.FederatedData:
        return fk.data.from_arrays(
            rng.normal(size=(60, 2)),
            labels,
            clients=np.arange(60) % 6,
            task=task,
            loss=loss,
            **options,
        )

    def run_on(data: fk.data.FederatedData) -> fk.Run:
        return fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.mclr(data),
            rounds=1,
            cohort=fk.Cohort(6, selection="poisson"),
            options=[fk.ClientDP(noise_multiplier=1.0)],
        )

    with pytest.raises(fk.ConfigError, match=r"privacy: the labels of arrays.*label_scale_from"):
        run_on(read())
    given = read(label_scale_from=known)
    assert run_on(given).records
    again = task_type_from(json.loads(json.dumps(values_of(given.task_type))), "card.json")
    assert not again.released  # packed data remember that the numbers were given


def test_private_forecasts_are_scaled_by_each_client() -> None:
    months = [f"{2010 + month // 12}-{month % 12 + 1:02d}" for month in range(48)]
    table = pd.concat(
        pd.DataFrame({"shop": shop, "month": months, "sales": np.arange(48.0) ** shop})
        for shop in (1, 2, 3)
    )

    def read(label_scale: str) -> fk.data.FederatedData:
        return fk.data.from_pandas(
            table,
            label="sales",
            client="shop",
            task="forecast",
            time="month",
            lags=[1],
            label_scale=label_scale,
            scale="none",
        )

    private = fk.ClientDP(noise_multiplier=1.0)
    with pytest.raises(fk.ConfigError, match=r"privacy: the labels.*data.label_scale = \"client"):
        private.simulated(read("pooled"), None)
    data, _ = private.simulated(read("client"), None)
    assert data.task_type.scales_by_client
