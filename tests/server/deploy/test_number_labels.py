"""Sites whose labels are numbers or counts: the server computes their statistics from sums of all
sites, and the deployed run is the simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import fedkin as fk
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import CheckpointError, ConfigError
from fedkin.data.label_tasks import task_type_of
from fedkin.export import load
from fedkin.run.run import Run
from fedkin.server.column_summaries import label_statistics
from fedkin.server.deploy import run_server as serving
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.configurations import configurations
from fedkin.simulation.engine import SimulatedWorld
from tests.server.memory_transport import MemoryTransport

ROWS = (30, 45, 25)
SITES = len(ROWS)
TASKS: dict[str, dict[str, Any]] = {
    "regression": {"task": "regression"},
    "absolute": {"loss": "absolute_error"},
    "quantile": {"quantiles": [0.1, 0.5, 0.9]},
    "count": {"task": "count"},
}


def table(site: int) -> pd.DataFrame:
    """The table of a site: scores of other levels, counts over exposures, and weights."""
    rng = np.random.default_rng(site)
    rows = ROWS[site] + 8
    x = rng.normal(size=(rows, 2)).round(3)
    years = rng.integers(1, 5, rows) / 2
    return pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "score": (50 + 9 * site + 6 * x[:, 0] + rng.normal(size=rows)).round(2),
            "events": rng.poisson(years * np.exp(0.5 * x[:, 1] + 0.4 * site)),
            "years": years,
            "size": rng.integers(1, 4, rows),
            "split": np.where(np.arange(rows) < ROWS[site], "train", "test"),
            "client_id": f"site-{site}",
        }
    )


TABLES = [table(site) for site in range(SITES)]


def columns_of(task: str) -> dict[str, Any]:
    """The keys of [data] at a site."""
    if task == "count":
        return {"label": "events", "exposure": "years", "weight": "size"}
    return {"label": "score"}


class Lab:
    """A server's file, an engine, and sites with tables."""

    def __init__(self, folder: Path, task: str, **samples: Any) -> None:
        self.folder = folder
        self.task = task
        self.samples: dict[str, Any] = {
            "shape": [2],
            "features": ["a", "b"],
            **TASKS[task],
            **samples,
        }
        self.transport = MemoryTransport()

    def client(self, site: int, samples: dict[str, Any] | None = None, **data: Any) -> Path:
        folder = self.folder / f"site-{site}"
        folder.mkdir(exist_ok=True)
        TABLES[site].to_csv(folder / "t.csv", index=False)
        used = {"name": "file", "path": "t.csv", "features": ["a", "b"], "scale": "none"}
        content = {
            "client": {"name": f"site-{site}", "federation": "trial", "folder": "state"},
            "samples": samples or self.samples,
            "model": {"name": "mclr"},
            "data": {**used, **columns_of(self.task), **data},
        }
        path = folder / "client.toml"
        path.write_text(tomli_w.dumps(content))
        return path

    def join(self, site: int, **how: Any) -> None:
        node = node_from_config(load_client(self.client(site, **how)))
        self.transport.join(100 - site, node)

    def serve(self, rounds: int = 3, wait_for: int = SITES, **sections: Any) -> Run:
        content = {
            "federation": {"name": "trial", "capacity": SITES, "wait_for": wait_for},
            "samples": self.samples,
            "model": {"name": "mclr"},
            "method": {"name": "fedavg"},
            "local": {"epochs": 2, "batch_size": 10, "lr": 0.05},
            "run": {"rounds": rounds, "cohort": wait_for, "seed": 0},
            **sections,
        }
        path = self.folder / "server.toml"
        path.write_text(tomli_w.dumps(content))
        clock = self.transport.clock
        return serving.serve(load_server(path), self.transport, clock.time, clock.sleep)


def pooled(folder: Path, task: str, **how: Any) -> fk.data.FederatedData:
    """The tables of all sites on one machine."""
    path = folder / "all.csv"
    pd.concat(TABLES).to_csv(path, index=False)
    return fk.data.load(
        path, features=["a", "b"], scale="none", **columns_of(task), **TASKS[task], **how
    )


def simulated(data: fk.data.FederatedData, rounds: int = 3) -> Run:
    local = fk.LocalTraining(epochs=2, batch_size=10, lr=0.05)
    model = fk.models.mclr(data)
    return fk.simulate(fk.FedAvg(), data, model, rounds=rounds, cohort=SITES, local=local)


@pytest.mark.parametrize("task", TASKS)
def test_a_deployed_run_is_the_simulated_one(tmp_path: Path, task: str) -> None:
    lab = Lab(tmp_path, task)
    for site in range(SITES):
        lab.join(site)
    far = lab.serve()
    data = pooled(tmp_path, task)
    near = simulated(data)
    np.testing.assert_array_equal(far.state.models, near.state.models)
    score = data.task_type.names.score
    # The constant is the median of other ranks, where the number of labels is even.
    for name in (score, *data.task_type.measures[:1]):
        for mine, other in zip(far.records, near.records, strict=True):
            assert mine[name] == pytest.approx(other[name], rel=1e-12), name
    gain = data.task_type.measures[-1]
    assert far.records[-1][gain] == pytest.approx(near.records[-1][gain], rel=0.02)


@pytest.mark.parametrize("task", TASKS)
def test_an_export_of_a_deployed_run_predicts_in_units_of_the_label(
    tmp_path: Path, task: str
) -> None:
    lab = Lab(tmp_path, task)
    for site in range(SITES):
        lab.join(site)
    folder = Path(str(lab.serve().folder))
    near = simulated(pooled(tmp_path, task))
    # A server does not know the column of the exposure, so exports predict for an exposure of 1.
    table = TABLES[1].assign(years=1.0)
    expected = near.predict(table, client="site-1")
    assert np.ptp(expected) > 1  # in scaled units they would be small
    for number, run in enumerate((Run.load(folder), near)):
        out = tmp_path / f"export-{number}"
        run.export(out)
        found = load(out).model(cluster=0).predict(table)
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_sums_give_the_pooled_statistics(tmp_path: Path, task: str) -> None:
    data = pooled(tmp_path, task)
    bare = task_type_of(TASKS[task].get("task"), *map(TASKS[task].get, ("loss", "quantiles")))
    assert bare is not None
    found = label_statistics(SimulatedWorld(data, fk.models.mclr(data)), bare)
    np.testing.assert_allclose(found.statistics[:4], data.task_type.statistics[:4], rtol=1e-5)
    np.testing.assert_allclose(found.constant, data.task_type.constant, atol=0.05)


def test_sums_of_equal_counts_with_different_exposures() -> None:
    x = np.arange(40, dtype=np.float32)[:, None]
    years = np.linspace(0.5, 2, 40)
    weight = np.linspace(1, 9, 40)
    data = fk.data.from_arrays(
        x,
        np.ones(40),
        clients=np.arange(40) % 4,
        task="count",
        exposure=years,
        weight=weight,
        test=0,
    )
    bare = task_type_of("count")
    assert bare is not None
    found = label_statistics(SimulatedWorld(data, fk.models.mclr(data)), bare)
    np.testing.assert_allclose(found.rate, 40 / years.sum(), rtol=1e-6)
    assert found.deviation == 1.0


def test_given_statistics_need_no_sums(tmp_path: Path) -> None:
    given = {"mean": 55.0, "scale": 10.0}
    lab = Lab(tmp_path, "regression", label_scale_from=given)
    for site in range(SITES):
        lab.join(site)
    far = lab.serve()
    assert "label_sums" not in lab.transport.operations(0)
    near = simulated(pooled(tmp_path, "regression", label_scale_from=given))
    np.testing.assert_array_equal(far.state.models, near.state.models)


def test_a_resumed_run_keeps_its_statistics(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "count")
    for site in range(SITES):
        lab.join(site)
    run = lab.serve(rounds=2)
    sent = len(lab.transport.calls)
    lab.serve(rounds=3)
    operations = [operation for _, operation in lab.transport.calls[sent:]]
    assert "train" in operations and "label_sums" not in operations
    (Path(str(run.folder)) / "labels.json").unlink()
    with pytest.raises(CheckpointError, match=r"labels\.json: .* restore the file from a copy"):
        lab.serve(rounds=4)


OTHERS = {
    "task": ({"shape": [2], "features": ["a", "b"], "task": "count"}, {"label": "events"}),
    "loss": ({"shape": [2], "features": ["a", "b"], "loss": "huber"}, {}),
    "scale": (
        {
            "shape": [2],
            "features": ["a", "b"],
            "task": "regression",
            "label_scale_from": {"mean": 1.0, "scale": 2.0},
        },
        {},
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_site_with_other_labels_is_refused_with_one_line(tmp_path: Path, other: str) -> None:
    lab = Lab(tmp_path, "regression")
    samples, data = OTHERS[other]
    lab.join(0)
    lab.join(1, samples=samples, **data)
    state: dict[str, str] = {}

    def remember(self: Any, found: Any) -> None:
        state.update(found.refused)

    original = serving.StateWriter._write
    serving.StateWriter._write = remember  # type: ignore[method-assign]
    try:
        lab.serve(wait_for=1)
    finally:
        serving.StateWriter._write = original  # type: ignore[method-assign]
    (reason,) = set(state.values())
    assert "\n" not in reason
    assert reason.startswith("the task type, the loss and the label scale are '")
    assert "'regression, squared_error, scaled by the server' at the server" in reason
    assert "give client.toml the [samples] and [model] of server.toml" in reason


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"secret": {"name": "sums"}}, r"samples\.task: secret sums .* samples\.label_scale_from"),
    ],
)
def test_secret_sums_need_given_statistics(
    tmp_path: Path, section: dict[str, Any], message: str
) -> None:
    lab = Lab(tmp_path, "regression")
    with pytest.raises(ConfigError, match=message):
        lab.serve(**section)


def test_a_site_does_not_say_itself_what_labels_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "regression")
    with pytest.raises(ConfigError, match=r"data\.task: \[samples\] says what the labels"):
        node_from_config(load_client(lab.client(0, task="regression")))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"classes": 3}, r"1 output\(s\) for loss = 'squared_error', got 3; remove classes"),
        ({"label_scale_from": {"mean": 1.0}}, r"\{mean = 50\.0, scale = 12\.0\}"),
        ({"label_scale_from": {"mean": 1.0, "scale": 0.0}}, "scale must be a number above 0"),
    ],
)
def test_impossible_samples(tmp_path: Path, samples: dict[str, Any], message: str) -> None:
    lab = Lab(tmp_path, "regression", **samples)
    with pytest.raises(ConfigError, match=message):
        load_client(lab.client(0))


def test_init_needs_no_file_if_the_samples_are_described(tmp_path: Path) -> None:
    settings = [
        *("data.name=file", "data.path=t.csv", "data.label=events", "data.task=count"),
        *("samples.shape=[2]", 'samples.features=["a", "b"]'),
    ]
    server, _ = configurations(tmp_path, ["site-1"], ["site-1"], settings, secure=False)
    assert server["samples"]["task"] == "count" and "classes" not in server["samples"]


@pytest.mark.parametrize("label", ["task=regression", "quantiles=[0.1, 0.9]"])
def test_init_reads_labels_that_are_numbers(tmp_path: Path, label: str) -> None:
    """The files of all sites are on this machine, so init computes the scaling from them."""
    names = ["site-0", "site-1"]
    pooled = []
    for site, name in enumerate(names):
        folder = tmp_path / name
        folder.mkdir()
        TABLES[site][["a", "b", "score", "split"]].to_csv(folder / "t.csv", index=False)
        pooled.append(TABLES[site][TABLES[site]["split"] == "train"][["a", "b"]])
    settings = ["data.name=file", "data.path=t.csv", "data.label=score", f"data.{label}"]
    settings += ["data.partition=iid", "data.clients=1"]
    server, sites = configurations(tmp_path, names, new=names, settings=settings, secure=False)
    found = server["samples"]
    assert found["shape"] == [2] and found["features"] == ["a", "b"]
    mean = pd.concat(pooled).mean()
    assert found["scale_from"]["mean"] == pytest.approx({"a": mean["a"], "b": mean["b"]})
    for content in sites.values():
        assert content["samples"] == found
        assert "task" not in content["data"] and "quantiles" not in content["data"]


def test_init_says_where_a_relative_path_starts(tmp_path: Path) -> None:
    settings = ["data.name=file", "data.path=t.csv", "data.label=score", "data.task=regression"]
    settings += ["data.partition=iid", "data.clients=1"]
    names = ["site-0"]
    wrong = (
        r"site-0/t.csv does not exist, and a relative path starts in each site's folder; copy the "
        r"files there.*absolute path.*samples.shape=\[30\] samples.task=regression"
    )
    with pytest.raises(ConfigError, match=wrong):
        configurations(tmp_path, names, new=names, settings=settings, secure=False)


def test_init_moves_the_task_to_the_samples(tmp_path: Path) -> None:
    (tmp_path / "site-1").mkdir()
    TABLES[0].to_csv(tmp_path / "site-1" / "t.csv", index=False)
    settings = [
        "data.name=file",
        "data.path=t.csv",
        "data.label=events",
        "data.task=count",
        "data.exposure=years",
        'data.features=["a", "b"]',
    ]
    server, sites = configurations(tmp_path, ["site-1"], ["site-1"], settings, secure=False)
    assert server["samples"]["task"] == "count" and server["samples"]["classes"] == 1
    data = sites["site-1"]["data"]
    assert "task" not in data and data["exposure"] == "years"
