"""Sites whose tables have times and events: each makes risk sets of its patients, the server
scales the columns by sums over training patients, and the deployed run is the simulated one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

import fedkin as fk
from fedkin.cli import app
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError
from fedkin.export import load
from fedkin.run.run import Run
from fedkin.server.deploy import run_server as serving
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.configurations import configurations
from fedkin.server.deploy.export_site import export_site
from tests.server.memory_transport import MemoryTransport

ROWS = (30, 45, 25)
SITES = len(ROWS)
OPTIONS = {"at_risk": 4, "draws": 2, "ties": "efron"}
SAMPLES: dict[str, Any] = {
    "shape": [2],
    "features": ["age", "dose"],
    "task": "survival",
    "loss_options": OPTIONS,
    "scale": "standard",
}


def table(site: int) -> pd.DataFrame:
    """The patients of a site: times in months, of which some are equal."""
    rng = np.random.default_rng(site)
    rows = ROWS[site]
    x = rng.normal(size=(rows, 2)).round(3)
    months = np.ceil(12 * rng.exponential(np.exp(-x[:, 0])))
    return pd.DataFrame(
        {
            "age": 60 + 10 * x[:, 0] + site,
            "dose": 3 + x[:, 1],
            "months": np.minimum(months, 30),
            "died": (months <= 30).astype(int),
            "split": np.where(np.arange(rows) % 4 == 0, "test", "train"),
            "client_id": f"site-{site}",
        }
    )


TABLES = {site: table(site) for site in range(SITES)}
COLUMNS: dict[str, Any] = {"label": "months", "event": "died", "features": ["age", "dose"]}


class Lab:
    """A server's file, an engine, and sites with tables of patients."""

    def __init__(self, folder: Path, **samples: Any) -> None:
        self.folder = folder
        self.samples = {name: v for name, v in {**SAMPLES, **samples}.items() if v is not None}
        self.transport = MemoryTransport()

    def client(self, site: int, **data: Any) -> Path:
        folder = self.folder / f"site-{site}"
        folder.mkdir(exist_ok=True)
        TABLES[site].to_csv(folder / "t.csv", index=False)
        used = {"name": "file", "path": "t.csv", **COLUMNS, **data}
        content = {
            "client": {"name": f"site-{site}", "federation": "trial", "folder": "state"},
            "samples": self.samples,
            "data": {name: value for name, value in used.items() if value is not None},
        }
        path = folder / "client.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def join(self, site: int, **data: Any) -> None:
        self.transport.join(100 - site, node_from_config(load_client(self.client(site, **data))))

    def serve(self) -> Run:
        content = {
            "federation": {"name": "trial", "capacity": SITES, "wait_for": SITES},
            "samples": self.samples,
            "method": {"name": "fedavg"},
            "local": {"epochs": 2, "batch_size": 10, "lr": 0.05},
            "run": {"rounds": 3, "cohort": SITES, "seed": 0},
        }
        path = self.folder / "server.toml"
        path.write_text(tomli_w.dumps(content))
        clock = self.transport.clock
        return serving.serve(load_server(path), self.transport, clock.time, clock.sleep)


def joined(parts: list[fk.data.FederatedData]) -> fk.data.FederatedData:
    """The risk sets of all sites on one machine."""
    starts = np.cumsum([0, *(len(part.y) for part in parts)])
    rows = {
        split: fk.data.Ragged.of(
            [part.part(split)[0] + start for part, start in zip(parts, starts, strict=False)]
        )
        for split in ("train", "test")
    }
    return fk.data.FederatedData(
        name="joined",
        x=np.concatenate([part.x for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        classes=parts[0].classes,
        train=rows["train"],
        test=rows["test"],
        task_type=parts[0].task_type,
    )


def served(folder: Path) -> Run:
    lab = Lab(folder)
    for site in range(SITES):
        lab.join(site)
    return lab.serve()


def test_a_deployed_run_is_the_simulated_one(tmp_path: Path) -> None:
    far = served(tmp_path)
    transform = json.loads((Path(str(far.folder)) / "transform.json").read_text())
    given = {
        key: dict(zip(transform["columns"], transform[key], strict=True))
        for key in ("mean", "scale")
    }
    parts = [
        fk.data.load(
            tmp_path / f"site-{site}" / "t.csv", scale_from=given, loss_options=OPTIONS, **COLUMNS
        )
        for site in range(SITES)
    ]
    # A table of all sites has the same risk sets as the tables of the sites.
    pooled = fk.data.from_pandas(
        pd.concat(TABLES.values()),
        client="client_id",
        test="split",
        scale_from=given,
        loss_options=OPTIONS,
        **COLUMNS,
    )
    for data in (joined(parts), pooled):
        near = fk.simulate(
            fk.FedAvg(),
            data,
            fk.models.cox(data),
            rounds=3,
            cohort=SITES,
            local=fk.LocalTraining(epochs=2, batch_size=10, lr=0.05),
        )
        np.testing.assert_array_equal(far.state.models, near.state.models)
        assert far.records[-1]["concordance_index"] == near.records[-1]["concordance_index"]


def test_the_server_scales_by_training_patients_and_not_by_risk_sets(tmp_path: Path) -> None:
    far = served(tmp_path)
    found = json.loads((Path(str(far.folder)) / "transform.json").read_text())
    patients = pd.concat(TABLES.values())
    trained = patients.loc[patients.split == "train", ["age", "dose"]].to_numpy()
    np.testing.assert_allclose(found["mean"], trained.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["scale"], trained.std(axis=0), rtol=1e-12)


def test_exports_of_server_and_site_predict_risks(tmp_path: Path) -> None:
    far = served(tmp_path)
    far = Run.load(Path(str(far.folder)))
    far.export(tmp_path / "export")
    features = TABLES[1][["age", "dose"]]
    found = load(tmp_path / "export").model(cluster=0).predict(features)
    risk = far.predict(features, client="site-1")
    np.testing.assert_array_equal(found, risk)
    # Of the two first patients of a pair, the one with the earlier event has the higher risk.
    assert np.corrcoef(risk, TABLES[1].age)[0, 1] > 0.8
    site = load_client(tmp_path / "site-1" / "client.toml")
    card = json.loads(export_site(site, tmp_path / "of-site", "safetensors").read_text())
    assert card["columns"] == {"label": "months", "client": "client_id", "event": "died"}
    of_site = load(tmp_path / "of-site").model("cluster").predict(features)
    np.testing.assert_array_equal(of_site, risk)


def test_sites_with_text_and_missing_values_agree_on_one_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COLUMNS, "features", ["age", "dose", "ward"])
    for site in range(SITES):
        wards = np.array(["er", "icu", "surgery"])[np.arange(ROWS[site]) % 3]
        monkeypatch.setitem(TABLES, site, table(site).assign(ward=wards))
        TABLES[site].loc[::5, "dose"] = np.nan
    files = [tmp_path / f"{site}.csv" for site in range(SITES)]
    call = CliRunner().invoke
    for site, file in enumerate(files):
        TABLES[site].to_csv(file, index=False)
        sums = ["data", "sums", str(file), "label=months", "event=died", "--out", f"{file}.json"]
        assert call(app, sums).exit_code == 0
    columns = tmp_path / "columns.json"
    join = ["data", "join", *(f"{file}.json" for file in files), "--out", str(columns)]
    assert call(app, join).exit_code == 0
    # All tables in one place have the same encoding.
    pooled = fk.data.from_pandas(
        pd.concat(TABLES.values()), client="client_id", test="split", **COLUMNS
    )
    found = json.loads(columns.read_text())
    assert pooled.transform is not None and found["columns"] == list(pooled.transform.columns)
    np.testing.assert_allclose(found["mean"], pooled.transform.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["scale"], pooled.transform.scale, rtol=1e-9)

    lab = Lab(tmp_path, shape=None, features=None, scale=None, scale_from=str(columns))
    for site in range(SITES):
        lab.join(site)
    far = lab.serve()
    risks = far.predict(TABLES[1], client="site-1")
    assert len(risks) == ROWS[1] and np.isfinite(risks).all()


def test_init_describes_survival(tmp_path: Path) -> None:
    names = [f"site-{site}" for site in range(SITES)]
    for site, name in enumerate(names):
        (tmp_path / name).mkdir()
        TABLES[site].to_csv(tmp_path / name / "t.csv", index=False)
    settings = ["data.name=file", "data.path=t.csv", "data.label=months", "data.event=died"]
    settings += ['data.features=["age", "dose"]', "data.loss_options={at_risk = 4}"]
    server, sites = configurations(tmp_path, names, new=names, settings=settings, secure=False)
    found = server["samples"]
    assert found["task"] == "survival" and found["features"] == ["age", "dose"]
    assert found["shape"] == [4, 3] and found["classes"] == 4
    assert server["model"] == {"name": "cox"}
    trained = pd.concat(TABLES.values()).query("split == 'train'")
    assert found["scale_from"]["mean"] == pytest.approx(trained[["age", "dose"]].mean().to_dict())
    for content in sites.values():
        assert content["samples"] == found and content["data"]["event"] == "died"


def test_a_setting_of_the_model_keeps_the_default_of_survival(tmp_path: Path) -> None:
    settings = ["data.name=file", "data.path=t.csv", "data.label=months", "data.event=died"]
    settings += ["samples.shape=[2]", "samples.features=['age', 'dose']", "samples.scale=standard"]
    for given, model in {
        "model.l2=0.1": {"name": "cox", "l2": 0.1},
        "model.name=mclr": {"name": "mclr"},
    }.items():
        server, sites = configurations(
            tmp_path, ["a"], new=["a"], settings=[*settings, given], secure=False
        )
        assert server["model"] == model and sites["a"]["model"] == model


def test_a_site_without_events_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    with pytest.raises(ConfigError, match="needs the time and the event of each patient"):
        lab.join(0, event=None)
    with pytest.raises(ConfigError, match=r"data\.task: \[samples\] says"):
        lab.join(0, task="survival")


def test_a_site_with_events_and_units_is_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    with pytest.raises(ConfigError, match=r"t\.csv: unit does not apply to task = 'survival'"):
        lab.join(0, unit="age", features=["dose"])


def test_a_site_with_events_needs_samples_of_survival(tmp_path: Path) -> None:
    lab = Lab(tmp_path, task="regression", loss_options=None)
    with pytest.raises(ConfigError, match=r'says that labels are regression.*task = "survival"'):
        lab.join(0)


def test_samples_of_another_shape_are_refused(tmp_path: Path) -> None:
    lab = Lab(tmp_path, shape=[8, 3], classes=8)
    with pytest.raises(ConfigError, match=r"number of columns, such as \[2\]"):
        lab.join(0)
