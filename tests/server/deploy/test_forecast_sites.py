"""Sites whose tables are series: all make samples by the dates, steps and lags of [samples], each
series is scaled by its own past, and the deployed run is the simulated one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import fedkin as fk
from fedkin.config import peer
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, DataError
from fedkin.data.table_options import FOR_SUMS
from fedkin.data.table_sums import joined, table_sums
from fedkin.export import load as load_export
from fedkin.run.run import Run
from fedkin.server.deploy import run_server as serving
from fedkin.server.deploy.build_node import _site_data, node_from_config
from fedkin.server.deploy.configurations import check_files, configurations
from fedkin.server.deploy.export_site import export_site
from fedkin.task_types.label_words import scaled_label_words
from tests.server.memory_transport import MemoryTransport

SITES = ("site-0", "site-1", "site-2", "site-3")
LEVELS = {"ann": 1.0, "bob": 30.0, "cid": 900.0, "dan": 8.0}
MONTHS = {"ann": 60, "bob": 48, "cid": 54, "dan": 60}
SERIES: dict[str, Any] = {
    "label": "sales",
    "client": "shop",
    "task": "forecast",
    "time": "date",
    "lags": [1, 12],
    "test_from": "2019-01",
    "frequency": "month",
}
SCALING = {
    "mean": {"price": 5.0, "sales_lag1": 0.0, "sales_lag12": 0.1},
    "scale": {"price": 2.0, "sales_lag1": 1.0, "sales_lag12": 1.5},
}
FEATURES = ["price", "sales_lag1", "sales_lag12"]


def shop(name: str) -> pd.DataFrame:
    """The months of a shop until 2019-12; histories begin at different dates."""
    number = list(LEVELS).index(name)
    rng = np.random.default_rng(number)
    months = MONTHS[name]
    month = np.arange(60 - months, 60)
    season = np.cos(2 * np.pi * (month + 6 * (number % 2)) / 12)
    return pd.DataFrame(
        {
            "shop": name,
            "date": pd.period_range("2015-01", periods=60, freq="M").astype(str)[month],
            "price": rng.normal(5, 2, months).round(2),
            "kind": rng.choice(["web", "store"], months),
            "sales": LEVELS[name] * (10 + 3 * season + rng.normal(0, 0.5, months)).round(3),
        }
    )


# Each site has one shop.
TABLES = [shop(name) for name in LEVELS]
CID = 2  # the number of this shop's site


class Lab:
    """A server's file, an engine, and sites with tables of series."""

    def __init__(self, folder: Path, **samples: Any) -> None:
        self.folder = folder
        given = {"shape": [3], "features": FEATURES, "scale_from": SCALING, **SERIES, **samples}
        self.samples = {key: value for key, value in given.items() if value is not None}
        self.transport = MemoryTransport()

    def client(self, site: int, table: pd.DataFrame | None = None, **data: Any) -> Path:
        folder = self.folder / SITES[site]
        folder.mkdir(exist_ok=True)
        (TABLES[site] if table is None else table).to_csv(folder / "t.csv", index=False)
        content = {
            "client": {"name": SITES[site], "federation": "trial", "folder": "state"},
            "samples": self.samples,
            "model": {"name": "mclr"},
            "data": {"name": "file", "path": "t.csv", "drop": ["kind"], **data},
        }
        path = folder / "client.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def node(self, site: int, **how: Any) -> Any:
        return node_from_config(load_client(self.client(site, **how)))

    def serve(self, rounds: int = 3, tables: Sequence[pd.DataFrame] = TABLES, **data: Any) -> Run:
        for site, table in enumerate(tables):
            self.transport.join(100 - site, self.node(site, table=table, **data))
        path = self.folder / "server.toml"
        content = {
            "federation": {"name": "trial", "capacity": 4, "wait_for": 4},
            "samples": self.samples,
            "model": {"name": "mclr"},
            "method": {"name": "fedavg"},
            "local": {"epochs": 2, "batch_size": 10, "lr": 0.05},
            "run": {"rounds": rounds, "cohort": 4, "seed": 0},
        }
        path.write_text(tomli_w.dumps(content))
        clock = self.transport.clock
        return serving.serve(load_server(path), self.transport, clock.time, clock.sleep)


def pooled(**options: Any) -> fk.data.FederatedData:
    """The tables of all sites on one machine."""
    given = {"scale_from": SCALING, "drop": ["kind"], **SERIES, **options}
    return fk.data.from_pandas(pd.concat(TABLES, ignore_index=True), **given)


def simulated(data: fk.data.FederatedData, rounds: int = 3) -> Run:
    local = fk.LocalTraining(epochs=2, batch_size=10, lr=0.05)
    model = fk.models.mclr(data)
    return fk.simulate(fk.FedAvg(), data, model, rounds=rounds, cohort=4, local=local)


def assert_same(far: Run, near: Run) -> None:
    """The models are equal to the bit, and so are the scores of all rounds up to rounding."""
    np.testing.assert_array_equal(far.state.models, near.state.models)
    names = near.trained.parts.data.task_type.measures
    for mine, other in zip(far.records, near.records, strict=True):
        for name in names:
            assert mine[name] == pytest.approx(other[name], rel=1e-12), name


def test_a_deployed_run_is_the_simulated_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    far = lab.serve()
    assert_same(far, simulated(pooled()))
    # No scale of a label is asked for or sent.
    assert "label_sums" not in lab.transport.operations(0)
    assert not (Path(str(far.folder)) / "labels.json").exists()


def test_a_site_with_several_series_has_the_samples_of_the_simulation(tmp_path: Path) -> None:
    """A site adds up the models of its clients before the server does, so sums of float32 have
    another order, as with all data. The samples are equal to the bit."""
    tables = [pd.concat(TABLES[:2]), *TABLES[2:]]
    near = pooled()
    for site, table in enumerate(tables):
        lab = Lab(tmp_path)
        own = _site_data(load_client(lab.client(site, table=table)))
        for client, name in enumerate(own.client_names or ()):
            number = list(near.client_names or ()).index(name)
            for split in ("train", "test"):
                mine = own.part(split)[client]
                others = near.part(split)[number]
                assert own.x[mine].tobytes() == near.x[others].tobytes()
                assert own.y[mine].tobytes() == near.y[others].tobytes()
    far = Lab(tmp_path).serve(tables=tables)
    np.testing.assert_allclose(far.state.models, simulated(near).state.models, rtol=1e-6)


def test_the_split_column_of_a_table_is_left_out(tmp_path: Path) -> None:
    """A site cannot know whether the split of another one is by the same date."""
    lab = Lab(tmp_path)
    divided = TABLES[1].assign(split="train")
    with pytest.raises(ConfigError, match=r"column split divides .*: drop = \['split'\]"):
        lab.node(1, table=divided)
    lab.node(1, table=divided, drop=["kind", "split"])


def test_a_joined_file_of_sums_scales_lags_and_text(tmp_path: Path) -> None:
    options = {"drop": [], "min_frequency": 1}
    whole = []
    for number, table in enumerate(TABLES):
        path = tmp_path / f"{number}.csv"
        table.to_csv(path, index=False)
        whole.append(fk.data.load(path, **SERIES, scale_from=FOR_SUMS))
    columns = joined([table_sums(data) for data in whole]).values()
    assert list(columns["columns"])[-2:] == ["sales_lag1", "sales_lag12"]
    lab = Lab(tmp_path, scale_from=columns, shape=None, features=None)
    far = lab.serve(drop=[])
    assert_same(far, simulated(pooled(scale_from=columns, drop=None)))
    # The tables in one place have the same transform up to rounding.
    fitted = simulated(pooled(scale_from=None, **options))
    np.testing.assert_allclose(far.state.models, fitted.state.models, rtol=1e-3, atol=1e-5)


def test_sums_need_the_date_of_the_split(tmp_path: Path) -> None:
    options = {key: value for key, value in SERIES.items() if not key.endswith("_from")}
    TABLES[0].to_csv(tmp_path / "t.csv", index=False)
    data = fk.data.load(tmp_path / "t.csv", **options, scale_from=FOR_SUMS)
    with pytest.raises(ConfigError, match=r"t: .*sums are of training.*test_from = '2019-01'"):
        table_sums(data)


def test_a_server_sums_columns_and_not_labels(tmp_path: Path) -> None:
    lab = Lab(tmp_path, scale="standard", scale_from=None)
    far = lab.serve()
    assert "label_sums" not in lab.transport.operations(0)
    near = simulated(pooled(scale_from=None))
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)


def test_the_models_of_a_deployed_run_forecast(tmp_path: Path) -> None:
    """The server knows no scale, so it comes from the past in the table. A site's export has the
    scale of its training period, as the simulated run."""
    folder = Path(str(Lab(tmp_path).serve().folder))
    near = simulated(pooled())
    past = TABLES[CID][TABLES[CID]["date"] < "2019-01"]
    future = pd.DataFrame({"shop": ["cid"], "date": ["2019-01"], "price": [5.5]})
    table = pd.concat([past, future], ignore_index=True)
    expected = near.predict(table, client="cid")
    assert expected[-1] > 1000  # in scaled units it would be small
    # The past is the training period, so its scale equals the simulated one.
    loaded = Run.load(folder)
    np.testing.assert_allclose(loaded.predict(table, cluster=0), expected, rtol=1e-5)
    loaded.export(tmp_path / "of-server")
    found = load_export(tmp_path / "of-server").model(cluster=0).predict(table)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # A site with one series exports its models with its own scale: a later past changes nothing.
    config = load_client(tmp_path / SITES[CID] / "client.toml")
    export_site(config, tmp_path / "of-site", "safetensors")
    late = TABLES[CID][TABLES[CID]["date"] >= "2018-12"]
    own = load_export(tmp_path / "of-site").model("cluster").predict(late)
    np.testing.assert_allclose(own, near.predict(late, client="cid"), rtol=1e-5)
    card = load_export(tmp_path / "of-site").card
    assert card["columns"] == {"label": "sales", "client": "shop"}


def test_a_resumed_run_goes_on(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.serve(rounds=2)
    again = Lab(tmp_path)
    shutil.rmtree(tmp_path / "site-0" / "state", ignore_errors=True)
    far = again.serve(rounds=3)
    np.testing.assert_array_equal(far.state.models, simulated(pooled()).state.models)


REFUSED = [
    ({"frequency": None}, r"samples\.frequency: is required for forecasts: .*\"month\""),
    ({"test_from": None}, r"samples\.test_from: is required for forecasts: .*\"2019-01\""),
    ({"time": None}, r"samples\.time: is required for forecasts: .*\"date\""),
    ({"features": None}, r"samples\.(features|scale_from): "),
    ({"frequency": "fortnight"}, r"samples\.frequency: must be one of .*'2 weeks'; got 'fortnight"),
    ({"test_from": "soon"}, r"samples\.test_from: must be a date .*got 'soon'"),
    ({"lags": [1, 1]}, r"samples\.lags: must be different numbers of steps"),
    ({"lags": [1, 2, 12]}, r"samples\.features: lacks the lags sales_lag2 of label = 'sales'"),
    ({"label_scale": "pooled"}, r"samples\.label_scale: 'pooled' needs the labels of all clients"),
    (
        {"label_scale_from": {"mean": 1.0, "scale": 2.0}},
        r"samples\.label_scale_from: does not apply to forecasts",
    ),
    ({"task": "regression"}, r"samples\.label: applies to forecasts only; set task = \"forecast\""),
]


@pytest.mark.parametrize(("samples", "message"), REFUSED)
def test_samples_say_what_no_site_can_know(
    tmp_path: Path, samples: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load_client(Lab(tmp_path, **samples).client(0))
    assert "\n" not in str(error.value)


def test_a_date_of_toml_is_a_date(tmp_path: Path) -> None:
    lab = Lab(tmp_path, test_from=date(2019, 1, 1))
    assert_same(lab.serve(), simulated(pooled()))


def test_a_site_says_none_of_it_itself(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for key, value in {"lags": [1, 12], "label": "sales", "test_from": "2019-01"}.items():
        with pytest.raises(ConfigError, match=rf"data\.{key}: \[samples\] says what"):
            lab.node(0, **{key: value})


def test_a_site_has_no_validation_period(tmp_path: Path) -> None:
    """A server scores its sites on test samples, so these rows would be used for nothing."""
    message = r"data\.validation_from: does not apply to a real site"
    with pytest.raises(ConfigError, match=message):
        load_client(Lab(tmp_path).client(0, validation_from="2018-07"))
    with pytest.raises(ConfigError, match=message):
        peer.from_dict(peer_values(validation_from="2018-07"))


def weekly() -> pd.DataFrame:
    dates = pd.date_range("2015-01-04", periods=300, freq="W").astype(str)
    return pd.DataFrame({"shop": "eve", "date": dates, "price": 1.5, "sales": np.arange(300.0)})


def quarterly() -> pd.DataFrame:
    dates = pd.period_range("2005-01", periods=60, freq="Q").to_timestamp().astype(str)
    return pd.DataFrame({"shop": "eve", "date": dates, "price": 1.5, "sales": np.arange(60.0)})


def counted() -> pd.DataFrame:
    return pd.DataFrame(
        {"shop": "eve", "date": np.arange(60), "price": 1.5, "sales": np.arange(60.0)}
    )


BAD_TABLES = {
    "weeks": (
        weekly(),
        r"site-1/t\.csv: .*column 'date': client eve has a row every one week, .*resample",
    ),
    "quarters": (
        quarterly(),
        r"site-1/t\.csv: column 'date': client eve has a row every one quarter, .*says one month",
    ),
    "steps": (counted(), r"site-1/t\.csv: .*column 'date'.* every one step, .* says one month"),
    "short": (
        TABLES[1][TABLES[1]["date"] >= "2018-06"],
        r"site-1/t\.csv: column 'sales': no client has a training sample: .*lags 1, 12.*add rows "
        r"of earlier steps, or choose shorter lags",
    ),
    "late": (
        TABLES[1].iloc[-11:],
        r"site-1/t\.csv: column 'date': no train sample: .* 2019-02 to 2019-12, and the training "
        r"period ends before 2019-01; add earlier rows, or choose another test_from",
    ),
    "ended": (
        TABLES[1][TABLES[1]["date"] < "2018-12"],
        r"site-1/t\.csv: .*no test sample: the table is from 2016-01 to 2018-11, .*add later rows",
    ),
    "no column": (
        TABLES[1].drop(columns="shop"),
        r"site-1/t\.csv: .*unknown column 'shop'.*",
    ),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_table_that_does_not_fit_is_refused_with_one_line(tmp_path: Path, name: str) -> None:
    table, message = BAD_TABLES[name]
    with pytest.raises((ConfigError, DataError), match=message) as error:
        Lab(tmp_path).node(1, table=table.drop(columns="kind", errors="ignore"), drop=[])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("frequency", ["day", "week", "2 months", "hour"])
def test_monthly_rows_are_no_other_steps(tmp_path: Path, frequency: str) -> None:
    with pytest.raises((ConfigError, DataError), match=r"every one month, but frequency says"):
        Lab(tmp_path, frequency=frequency, lags=[1, 12]).node(1)


def test_init_moves_the_keys_of_forecasts(tmp_path: Path) -> None:
    for site, name in enumerate(SITES):
        (tmp_path / name).mkdir()
        TABLES[site].to_csv(tmp_path / name / "t.csv", index=False)
    settings = ["data.name=file", "data.path=t.csv", "data.drop=kind"]
    settings += [f"data.{key}={value}" for key, value in SERIES.items()]
    server, sites = configurations(
        tmp_path, list(SITES), new=list(SITES), settings=settings, secure=False
    )
    samples = server["samples"]
    assert {key: samples[key] for key in SERIES} == SERIES
    assert samples["features"] == FEATURES and samples["shape"] == [3]
    # All tables together give the scaling.
    assert samples["scale_from"]["mean"] == pytest.approx(
        dict(zip(FEATURES, pooled(scale_from=None).transform.mean, strict=True))  # type: ignore[union-attr]
    )
    for content in sites.values():
        assert set(content["data"]) == {"name", "path", "drop"}
        assert content["samples"] == samples
    without = [setting for setting in settings if "test_from" not in setting]
    with pytest.raises(ConfigError, match=r"samples\.test_from: is required for forecasts"):
        files = configurations(
            tmp_path, list(SITES), new=list(SITES), settings=without, secure=False
        )
        check_files(tmp_path, *files)


def peer_values(**data: Any) -> dict[str, Any]:
    given = {"name": "file", "path": "t.csv", **SERIES, **data}
    return {
        "peer": {"name": "p1"},
        "data": {key: value for key, value in given.items() if value is not None},
        "method": {"name": "gossip"},
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"frequency": None}, r"data\.frequency: is required for forecasts"),
        ({"test_from": None}, r"data\.test_from: is required for forecasts"),
        ({"label_scale": "pooled"}, r"data\.label_scale: 'pooled' needs the labels of all clients"),
    ],
)
def test_a_peer_says_what_no_peer_can_know(data: dict[str, Any], message: str) -> None:
    peer.from_dict(peer_values())
    with pytest.raises(ConfigError, match=message):
        peer.from_dict(peer_values(**data))


def test_peers_compare_steps_lags_and_dates() -> None:
    """Each series has another scale, which is no difference between peers."""
    words = [
        scaled_label_words(fk.data.from_pandas(table, **{**SERIES, "drop": ["kind"]}).task_type)
        for table in TABLES
    ]
    assert len(set(words)) == 1
    for change in ({"lags": [1]}, {"test_from": "2019-02"}, {"season": 4}):
        other = fk.data.from_pandas(TABLES[0], **{**SERIES, **change, "drop": ["kind"]})
        assert scaled_label_words(other.task_type) not in words
