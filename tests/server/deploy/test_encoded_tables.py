"""Sites whose tables have text and missing values: all encode them by one file, and the deployed
run is the simulated one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import fedkin as fk
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError
from fedkin.data.table_options import FOR_SUMS
from fedkin.data.table_sums import joined, table_sums
from fedkin.export import load as load_export
from fedkin.run.run import Run
from fedkin.server.deploy import run_server as serving
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.configurations import configurations
from fedkin.server.deploy.export_site import export_site
from tests.server.memory_transport import MemoryTransport

ROWS = (40, 60, 50)
SITES = tuple(f"site-{number}" for number in range(len(ROWS)))
NAMES = ["healthy", "ill"]
DATA = {"name": "file", "path": "t.csv", "label": "state", "label_names": NAMES}


def table(site: int) -> pd.DataFrame:
    """A site's table; the last site has never measured a dose."""
    rng = np.random.default_rng(site)
    rows = ROWS[site] + 10
    dose = np.where(rng.random(rows) < 0.2, np.nan, rng.gamma(2, 3, rows).round(2))
    return pd.DataFrame(
        {
            "age": rng.normal(50 + 9 * site, 8, rows).round(1),
            "dose": np.nan if site == 2 else dose,
            "ward": rng.choice(["er", "icu", "surgery"], rows),
            "state": rng.choice(NAMES, rows),
            "split": np.where(np.arange(rows) < ROWS[site], "train", "test"),
            "client_id": SITES[site],
        }
    )


TABLES = [table(site) for site in range(len(ROWS))]


def pooled(**options: Any) -> fk.data.FederatedData:
    everything = pd.concat(TABLES, ignore_index=True)
    return fk.data.from_pandas(
        everything, label="state", client="client_id", test="split", **options
    )


@pytest.fixture
def columns() -> dict[str, Any]:
    """The values of the joined file."""
    read = [
        fk.data.from_pandas(
            one, label="state", client="client_id", test="split", scale_from=FOR_SUMS
        )
        for one in TABLES
    ]
    return joined([table_sums(data) for data in read]).values()


def site_file(folder: Path, site: int, scale_from: Any, **samples: Any) -> Path:
    own = folder / SITES[site]
    own.mkdir(exist_ok=True)
    TABLES[site].to_csv(own / "t.csv", index=False)
    content = {
        "client": {"name": SITES[site], "federation": "trial", "folder": "state"},
        "samples": {"classes": 2, "labels": NAMES, "scale_from": scale_from, **samples},
        "model": {"name": "mclr"},
        "data": DATA,
    }
    path = own / "client.toml"
    path.write_text(tomli_w.dumps(content))
    return path


def server_file(folder: Path, scale_from: Any) -> Path:
    content = {
        "federation": {"name": "trial", "capacity": 3, "wait_for": 3},
        "samples": {"classes": 2, "labels": NAMES, "scale_from": scale_from},
        "model": {"name": "mclr"},
        "method": {"name": "fedavg"},
        "local": {"epochs": 2, "batch_size": 10, "lr": 0.1},
        "run": {"rounds": 3, "cohort": 3, "seed": 0},
    }
    path = folder / "server.toml"
    path.write_text(tomli_w.dumps(content))
    return path


def served(folder: Path, scale_from: Any, of_sites: Any) -> Run:
    transport = MemoryTransport()
    for site in range(len(SITES)):
        config = load_client(site_file(folder, site, of_sites))
        transport.join(100 - site, node_from_config(config))
    clock = transport.clock
    config = load_server(server_file(folder, scale_from))
    return serving.serve(config, transport, clock.time, clock.sleep)


def simulated(data: fk.data.FederatedData) -> Run:
    local = fk.LocalTraining(epochs=2, batch_size=10, lr=0.1)
    model = fk.models.mclr(data)
    return fk.simulate(fk.FedAvg(), data, model, rounds=3, cohort=3, local=local)


def test_a_deployed_run_is_the_simulated_one(tmp_path: Path, columns: dict[str, Any]) -> None:
    far = served(tmp_path, columns, columns)
    near = simulated(pooled(scale_from=columns))
    np.testing.assert_array_equal(far.state.models, near.state.models)
    # The tables in one place have the same transform up to rounding.
    fitted = simulated(pooled())
    np.testing.assert_allclose(far.state.models, fitted.state.models, rtol=1e-3, atol=1e-5)


def test_a_file_says_the_columns_and_travels_with_the_models(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    run = served(tmp_path, "columns.json", "../columns.json")
    new = TABLES[1].drop(columns=["state", "client_id"]).head(4)
    new.loc[0, "ward"] = "an unknown ward"
    new.loc[1, "dose"] = np.nan
    expected = simulated(pooled(scale_from=columns)).predict(new, client="site-1")
    run.export(tmp_path / "export")
    found = load_export(tmp_path / "export").model(cluster=0).predict(new)
    assert list(found) == list(expected)
    # A site exports the models that it has received, with the same columns.
    config = load_client(tmp_path / "site-1" / "client.toml")
    export_site(config, tmp_path / "own", format="safetensors")
    assert list(load_export(tmp_path / "own").model("cluster").predict(new)) == list(expected)


def test_init_joins_the_tables_of_this_machine(tmp_path: Path, columns: dict[str, Any]) -> None:
    for site, name in enumerate(SITES):
        (tmp_path / name).mkdir()
        TABLES[site].to_csv(tmp_path / name / "t.csv", index=False)
    settings = [f"data.{key}={json.dumps(value)}" for key, value in DATA.items()]
    server, sites = configurations(tmp_path, list(SITES), list(SITES), settings, secure=False)
    assert server["samples"]["scale_from"] == columns
    assert server["samples"]["features"] == columns["columns"]
    assert server["samples"]["shape"] == [len(columns["columns"])]
    assert sites["site-2"]["samples"] == server["samples"]


def test_init_takes_the_file_of_tables_elsewhere(
    tmp_path: Path, columns: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("columns.json").write_text(json.dumps(columns))
    settings = [f"data.{key}={json.dumps(value)}" for key, value in DATA.items()]
    settings += ["samples.scale_from=columns.json", "samples.classes=2"]
    settings += [f"samples.labels={json.dumps(NAMES)}"]
    server, _ = configurations(tmp_path / "far", list(SITES), list(SITES), settings, secure=False)
    assert server["samples"]["scale_from"] == columns
    assert server["samples"]["features"] == columns["columns"]


def test_a_damaged_encoding_is_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    damaged = {**columns, "encoding": {**columns["encoding"], "columns": 3}}
    with pytest.raises(ConfigError, match=r"samples.scale_from: the encoding .* is damaged"):
        load_client(site_file(tmp_path, 0, damaged))
    with pytest.raises(ConfigError, match=r"missing\.json cannot be read"):
        load_client(site_file(tmp_path, 0, "missing.json"))


def test_a_table_without_a_column_of_the_file_is_refused(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    path = site_file(tmp_path, 0, columns)
    TABLES[0].drop(columns="ward").to_csv(path.parent / "t.csv", index=False)
    with pytest.raises(Exception, match="ward"):
        node_from_config(load_client(path))
