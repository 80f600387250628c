"""A server computes the scaling of its sites' tables from sums of all sites, before the first
round. The sites then use it as if it had been given."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import fedkin as fk
from fedkin.config.server import load_client, load_server
from fedkin.config.server_settings import SiteSettings
from fedkin.core.columns import ColumnSummary, CommonScaling
from fedkin.core.errors import CheckpointError, ConfigError, DataError
from fedkin.data.column_statistics import column_statistics
from fedkin.data.column_summaries import summarised_transform
from fedkin.export import load as load_export
from fedkin.export.predict_table import predict_file
from fedkin.models import mclr
from fedkin.run.run import Run
from fedkin.server.column_messages import scaling_arrays, scaling_in
from fedkin.server.column_summaries import column_summaries
from fedkin.server.deploy import run_server as serving
from fedkin.server.deploy.build_node import build_node, node_from_config
from fedkin.server.deploy.configurations import configurations
from fedkin.server.deploy.export_site import export_site
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.simulation.engine import SimulatedWorld
from tests.server.memory_transport import MemoryTransport

COLUMNS = ["age", "time", "kids", "same"]
# The number of training rows of each site; the last site has one row, so all its columns are
# constant.
ROWS = (40, 70, 25, 1)
# A column names the client, since a partition would change the order of the rows.
DATA: dict[str, Any] = {"name": "file", "path": "t.csv"}


def table(site: int, rows: int, tests: int = 6) -> pd.DataFrame:
    """The table of a site. Ages differ between sites, times have a mean that float32 cannot hold to
    the second, and half of all incomes are 0."""
    rng = np.random.default_rng(site)
    count = rows + tests
    y = np.arange(count) % 2
    return pd.DataFrame(
        {
            "age": (30 + 20 * site + 5 * y + rng.normal(size=count)).round(1),
            "time": 1.7e9 + 2 * y + rng.normal(size=count),
            "kids": rng.integers(0, 4, count) + y,
            "same": 0.1,
            "y": y,
            "split": np.where(np.arange(count) < rows, "train", "test"),
        }
    )


TABLES = [table(site, rows) for site, rows in enumerate(ROWS)]


class Lab:
    """A server's file, an engine, and sites with tables."""

    def __init__(self, folder: Path, scale: str) -> None:
        self.folder = folder
        self.samples: dict[str, Any] = {
            "shape": [4],
            "classes": 2,
            "features": COLUMNS,
            "scale": scale,
        }
        self.transport = MemoryTransport()

    def client(self, site: int, **data: Any) -> Path:
        """The configuration of a site, whose table is written, too."""
        folder = self.folder / f"site-{site}"
        folder.mkdir(exist_ok=True)
        TABLES[site].assign(client_id=f"site-{site}").to_csv(folder / "t.csv", index=False)
        content = {
            "client": {"name": f"site-{site}", "federation": "trial", "folder": "state"},
            "samples": self.samples,
            "model": {"name": "mclr"},
            "data": {**DATA, **data},
        }
        path = folder / "client.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def join(self, *sites: int, **how: Any) -> None:
        for site in sites:
            node = node_from_config(load_client(self.client(site)))
            self.transport.join(100 - site, node, **how)

    def server(self, wait_for: int = len(ROWS), **sections: Any) -> Path:
        content = {
            "federation": {"name": "trial", "capacity": len(ROWS), "wait_for": wait_for},
            "samples": self.samples,
            "model": {"name": "mclr"},
            "method": {"name": "fedavg"},
            "local": {"epochs": 2, "batch_size": 10, "lr": 0.1},
            "run": {"rounds": 2, "cohort": wait_for, "seed": 0},
            **sections,
        }
        path = self.folder / "server.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def serve(self, **settings: Any) -> Run:
        clock = self.transport.clock
        return serving.serve(
            load_server(self.server(**settings)), self.transport, clock.time, clock.sleep
        )


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path, "standard")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Run]:
    """A finished run, which tests do not change."""
    lab = Lab(tmp_path_factory.mktemp("finished"), "standard")
    lab.join(*range(4))
    return lab, lab.serve(run={"rounds": 2, "cohort": 4, "seed": 0, "against": ["fedprox"]})


def pooled(folder: Path, scale: str) -> fk.data.FederatedData:
    """The tables of all sites on one machine."""
    path = folder / "all.csv"
    tables = [frame.assign(client_id=f"site-{site}") for site, frame in enumerate(TABLES)]
    pd.concat(tables).to_csv(path, index=False)
    return fk.data.load(path, scale=scale)


def transform_of(run: Run) -> dict[str, Any]:
    assert run.folder is not None
    return json.loads((run.folder / "transform.json").read_text())


@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_a_deployed_run_is_the_simulated_one(tmp_path: Path, scale: str) -> None:
    lab = Lab(tmp_path, scale)
    lab.join(*range(4))
    far = lab.serve()
    data = pooled(tmp_path, scale)
    work = fk.LocalTraining(epochs=2, batch_size=10, lr=0.1)
    near = fk.simulate(fk.FedAvg(), data, mclr(data), rounds=2, cohort=4, local=work)
    assert data.transform is not None
    found = transform_of(far)
    assert found["kind"] == "given" and found["columns"] == COLUMNS
    np.testing.assert_allclose(found["mean"], data.transform.mean, rtol=1e-12)
    np.testing.assert_allclose(found["scale"], data.transform.scale, rtol=1e-9)
    np.testing.assert_allclose(far.state.models, near.state.models, rtol=1e-4, atol=1e-6)
    # A float32 mean of times would be off by a minute, and unscaled columns by their units.
    assert abs(near.state.models).max() < 10


def test_a_site_uses_the_numbers_as_if_they_were_given(lab: Lab) -> None:
    mean = np.array([50, 1.7e9, 1, 0.1])
    scale = np.array([12.0, 2.0, 0.5, 1.0])
    scaling = CommonScaling(mean, scale)
    node = node_from_config(load_client(lab.client(1)))
    assert node.scaled_world is not None
    got: Any = node.scaled_world(np.arange(1), scaling)
    lab.samples = {key: value for key, value in lab.samples.items() if key != "scale"}
    assert scaling.mean is not None and scaling.scale is not None
    lab.samples["scale_from"] = {"mean": scaling.mean.tolist(), "scale": scaling.scale.tolist()}
    given: Any = node_from_config(load_client(lab.client(1))).world(np.arange(1))
    np.testing.assert_array_equal(got.data.x, given.data.x)
    assert got.data.transform == given.data.transform


def test_only_sums_leave_a_site_and_the_ledger_counts_them(finished: tuple[Lab, Run]) -> None:
    lab, run = finished
    assert lab.transport.operations(0)[:3] == ["column_sums", "column_sums", "evaluate"]
    counted = run.records[0]["bytes_by_operation"]
    # Twice to four clients: a number for each column down, and four up; four bytes each.
    assert counted["column_sums"] == [2 * 4 * 4 * 4, 2 * 4 * 16 * 4]
    assert counted["scaled_columns"] == [4 * 8 * 4, 0]
    # Each client is counted once in the whole run.
    assert run.records[-1]["bytes_by_operation"]["scaled_columns"] == [4 * 8 * 4, 0]


def test_a_simulated_world_summarises_the_raw_columns(tmp_path: Path) -> None:
    data = pooled(tmp_path, "standard")
    found = column_summaries(SimulatedWorld(data, mclr(data)), COLUMNS, quartiles=True)
    assert data.transform is not None
    raw = data.transform.undo(data.x[data.train.rows])
    facts = column_statistics(raw, np.ones(len(raw), bool))
    assert [column.name for column in found] == COLUMNS
    assert [column.count for column in found] == [sum(ROWS)] * 4
    np.testing.assert_allclose([column.mean for column in found], facts.mean, rtol=1e-12)
    np.testing.assert_allclose([column.deviation for column in found], facts.deviation, rtol=1e-9)
    middle = [column.quartiles[1] for column in found if column.quartiles]
    np.testing.assert_allclose(middle, np.quantile(raw, 0.5, axis=0, method="inverted_cdf"))


def test_a_column_that_is_constant_everywhere_is_named(caplog: pytest.LogCaptureFixture) -> None:
    columns = [
        ColumnSummary("age", count=9, mean=50.0, deviation=2.0),
        ColumnSummary("same", count=9, mean=0.1, deviation=0.0),
    ]
    found = summarised_transform("standard", columns)
    assert "training samples of all sites: same; nothing can be learned" in caplog.text
    assert found.mean == (50.0, 0.1) and found.scale == (2.0, 1.0)


def test_a_column_without_interquartile_range_has_its_standard_deviation() -> None:
    columns = [
        ColumnSummary("income", count=9, mean=5.0, deviation=2.0, quartiles=(0.0, 0.0, 0.0)),
        ColumnSummary("age", count=9, mean=5.0, deviation=2.0, quartiles=(1.0, 3.0, 4.5)),
    ]
    found = summarised_transform("robust", columns)
    assert found.mean == (0.0, 3.0) and found.scale == (2.0, 3.5)


def test_a_resumed_run_keeps_its_scaling(lab: Lab) -> None:
    lab.join(*range(4))
    before = transform_of(lab.serve())
    sent = len(lab.transport.calls)
    more = {"rounds": 3, "cohort": 4, "seed": 0}
    run = lab.serve(run=more)
    operations = [operation for _, operation in lab.transport.calls[sent:]]
    assert run.records[-1]["round"] == 3 and "column_sums" not in operations
    assert transform_of(run) == before
    last: RpcMessage = lab.transport.stations[100].requests[-1]
    np.testing.assert_array_equal(last.arrays["columns.mean"], before["mean"])
    # Other numbers than those of the checkpoint would spoil the models.
    path = Path(str(run.folder)) / "transform.json"
    path.write_text(json.dumps({**before, "mean": [0, 0, 0, 0]}))
    with pytest.raises(CheckpointError, match="scaled by other numbers when the checkpoint"):
        lab.serve(run={**more, "rounds": 4})
    path.unlink()
    with pytest.raises(CheckpointError, match=r"has no transform\.json .* restore it from a copy"):
        lab.serve(run={**more, "rounds": 4})


def test_a_site_that_joins_later_gets_the_numbers(lab: Lab) -> None:
    lab.join(0, 1, 2)

    def joined(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if request.header["operation"] == "train" and 97 not in lab.transport.stations:
            lab.join(3)
        return reply

    lab.transport.stations[100].tamper = joined
    run = lab.serve(wait_for=3, run={"rounds": 4, "cohort": 3, "seed": 0})
    found = transform_of(run)
    late = [message for message in lab.transport.stations[97].requests if message.arrays]
    assert late and "column_sums" not in [message.header["operation"] for message in late]
    for message in late:
        np.testing.assert_array_equal(message.arrays["columns.scale"], found["scale"])
    counted = [record["bytes_by_operation"]["scaled_columns"] for record in run.records]
    assert counted[0] == [3 * 8 * 4, 0] and counted[-1] == [4 * 8 * 4, 0]


FAILED = RpcMessage({"failed": "the table cannot be read"})


@pytest.mark.parametrize("change", [None, {"squares": -np.ones(4)}, {"total": np.full(4, np.nan)}])
def test_a_site_without_a_usable_reply_is_left_out_of_the_numbers(
    lab: Lab, change: dict[str, np.ndarray] | None, caplog: pytest.LogCaptureFixture
) -> None:
    def silent(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        if request.header["operation"] != "column_sums":
            return reply
        return FAILED if change is None else RpcMessage(reply.header, reply.arrays | change)

    lab.join(0, 1, 3)
    lab.join(2, tamper=silent)
    run = lab.serve(run={"rounds": 1, "cohort": 4, "seed": 0})
    assert "column_sums: no usable reply of site-2, so the scaling" in caplog.text
    train = pd.concat([TABLES[site][: ROWS[site]] for site in (0, 1, 3)])
    np.testing.assert_allclose(transform_of(run)["mean"], train[COLUMNS].mean(), rtol=1e-12)
    # The site takes part nevertheless.
    assert len(run.clients) == 4


def test_no_numbers_without_any_reply(lab: Lab) -> None:
    def silent(request: RpcMessage, reply: RpcMessage) -> RpcMessage:
        operation = request.header["operation"]
        return reply if operation == "hello" else RpcMessage({"failed": "no"})

    lab.join(*range(4), tamper=silent)
    with pytest.raises(ConfigError, match="no client has replied to column_sums"):
        lab.serve()
    assert not (lab.folder / "run" / "config.toml").exists()


def test_a_site_without_a_column_is_refused_by_its_name(lab: Lab) -> None:
    path = lab.client(0)
    pd.read_csv(path.parent / "t.csv").drop(columns="time").to_csv(
        path.parent / "t.csv", index=False
    )
    with pytest.raises(DataError, match=r"has no column time.*give the table the columns"):
        node_from_config(load_client(path))


def test_an_identifier_is_named_at_the_site(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.samples["features"] = ["row", "time", "kids", "same"]
    path = lab.client(1)
    own = pd.read_csv(path.parent / "t.csv").drop(columns="age")
    own.insert(0, "row", np.arange(len(own)))
    own.to_csv(path.parent / "t.csv", index=False)
    node_from_config(load_client(path))
    assert "column row has a different whole number in every training sample" in caplog.text
    assert "column same" not in caplog.text


def test_methods_that_are_compared_share_the_numbers(finished: tuple[Lab, Run]) -> None:
    lab, run = finished
    assert transform_of(run.against["fedprox"]) == transform_of(run)
    assert [name for _, name in lab.transport.calls].count("column_sums") == 2


def test_the_scaling_travels_with_exports(finished: tuple[Lab, Run], tmp_path: Path) -> None:
    lab, run = finished
    found = transform_of(run)
    config = load_client(lab.folder / "site-1" / "client.toml")
    export_site(config, tmp_path / "of-site", "safetensors")
    run.export(tmp_path / "of-server")
    raw = TABLES[1][COLUMNS].to_numpy()
    scaled = (raw - found["mean"]) / found["scale"]
    for name in ("of-site", "of-server"):
        export = load_export(tmp_path / name)
        assert export.samples.transform is not None
        assert list(export.samples.transform.mean) == found["mean"]

    def scores(vector: np.ndarray) -> np.ndarray:
        return scaled @ vector[: 4 * 2].reshape(2, 4).T + vector[4 * 2 :]

    # The site has the models of the last method.
    last = run.against["fedprox"].state.models[0]
    model = load_export(tmp_path / "of-site").model("cluster")
    np.testing.assert_allclose(model(TABLES[1]), scores(last), atol=1e-4)
    expected = scores(run.state.models[0])
    predicted = predict_file(
        load_export(tmp_path / "of-server"), lab.folder / "site-1" / "t.csv", client="site-1"
    )
    assert (predicted.table["prediction"].to_numpy() == expected.argmax(axis=1)).all()
    # A run that is loaded from its folder predicts from raw values, too.
    loaded = fk.Run.load(Path(str(run.folder)))
    np.testing.assert_array_equal(
        loaded.predict(TABLES[1][COLUMNS], cluster=0), expected.argmax(axis=1)
    )


def test_samples_of_a_program_are_scaled_in_the_same_way(tmp_path: Path) -> None:
    data = pooled(tmp_path, "none")
    site = SiteSettings(name="own", folder=str(tmp_path / "state"))
    node = build_node(mclr(data), data, site)
    mean = np.array([50, 1.7e9, 1, 0.1])
    scale = np.array([12.0, 2.0, 0.5, 1.0])
    scaling = CommonScaling(mean, scale)
    assert node.scaled_world is not None
    world: Any = node.scaled_world(np.arange(4), scaling)
    np.testing.assert_array_equal(
        world.data.x, ((data.x.astype(np.float64) - mean) / scale).astype("f4")
    )
    with pytest.raises(InvalidMessageError, match=r"scales 1 columns, but .* the shape"):
        node.scaled_world(np.arange(4), CommonScaling(np.zeros(1), np.ones(1)))
    tiny = scaling._replace(scale=np.full(4, 1e-300))
    with pytest.raises(DataError, match="sample 0 holds NaN or an infinite feature"):
        node.scaled_world(np.arange(4), tiny)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": np.zeros(2)}, "each scale must be positive"),
        ({"mean": np.array([0, np.nan])}, "finite numbers"),
        ({"mean": np.zeros(3)}, "a mean and a scale of each column"),
    ],
)
def test_a_damaged_scaling_is_refused(change: dict[str, Any], message: str) -> None:
    arrays = scaling_arrays(CommonScaling(np.zeros(2), np.ones(2))._replace(**change))
    with pytest.raises(InvalidMessageError, match=message):
        scaling_in(arrays)


def test_a_node_that_cannot_scale_says_so(finished: tuple[Lab, Run]) -> None:
    lab, _ = finished
    request = lab.transport.stations[100].requests[-1]
    node = replace(
        node_from_config(load_client(lab.folder / "site-0" / "client.toml")), scaled_world=None
    )
    with pytest.raises(InvalidMessageError, match="site-0 cannot scale its data; remove scale"):
        node.handle(request)


SECRET = {"name": "sums"}
PRIVACY = {"name": "client_dp", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("sections", "samples", "message"),
    [
        ({"secret": SECRET}, {}, r"samples\.scale: secret sums add up trained models only"),
        ({"secret": SECRET, "privacy": PRIVACY}, {}, r"samples\.scale: the sums of .* get no nois"),
        ({}, {"features": None}, "scale: needs the names of the columns too"),
        ({}, {"shape": [2, 2], "features": ["a", "b"]}, "samples have the shape"),
        ({}, {"scale": "minmax"}, "standard"),
        ({}, {"scale_from": {"mean": [0] * 4, "scale": [1] * 4}}, "but scale_from gives them"),
    ],
)
def test_what_contradicts_the_scaling_is_refused(
    lab: Lab, sections: dict[str, Any], samples: dict[str, Any], message: str
) -> None:
    changed = {**lab.samples, **samples}
    lab.samples = {key: value for key, value in changed.items() if value is not None}
    with pytest.raises(ConfigError, match=message):
        load_server(lab.server(**sections))


def test_a_site_that_decides_for_itself_is_refused(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.scale: \[samples\] scale scales .* remove it"):
        node_from_config(load_client(lab.client(0, scale="none")))
    path = lab.client(0, path=str(tmp_path / "site-0" / "t.npz"))
    with pytest.raises(ConfigError, match="this site's data are no table file; name one"):
        node_from_config(load_client(path))


def test_a_new_deployment_asks_for_the_sums_if_the_tables_are_on_the_sites(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ["data.name=file", "data.path=t.csv", "data.partition=iid", "data.clients=1"]
    settings += ["samples.shape=[2]", "samples.classes=2"]
    named = [*settings, 'samples.features=["age", "weight"]']
    server, sites = configurations(tmp_path, ["a", "b"], ["a", "b"], named, secure=False)
    assert server["samples"]["scale"] == "standard" and not caplog.records
    assert sites["a"]["samples"] == server["samples"]
    for given, why in ((settings, "features names no columns"), ([*named, "secret.name=sums"], "")):
        caplog.clear()
        server, _ = configurations(tmp_path, ["a", "b"], ["a", "b"], given, secure=False)
        assert "scale" not in server["samples"]
        assert "are not scaled" in caplog.text and why in caplog.text
    decided = [*named, "samples.scale=none"]
    server, _ = configurations(tmp_path, ["a", "b"], ["a", "b"], decided, secure=False)
    assert server["samples"]["scale"] == "none"
