"""Sites scale their tables by the same given numbers. A new deployment computes them from the files
that it has."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import fedkin as fk
from fedkin.config import registry
from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, DataError
from fedkin.export import load
from fedkin.export.predict_table import predict_file
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.export_site import export_site
from fedkin.server.deploy.init import init
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.deploy.site_scaling import samples_scaling

RNG = np.random.default_rng(0)
DATA: dict[str, Any] = {"name": "file", "path": "t.csv", "partition": "iid", "clients": 1}
NUMBERS = {"mean": {"age": 50.0, "time": 1.7e9}, "scale": {"age": 12.0, "time": 2.0}}


def table(samples: int, age: float) -> pd.DataFrame:
    """The table of a site."""
    return pd.DataFrame(
        {
            "age": age + RNG.normal(size=samples),
            "time": 1.7e9 + RNG.normal(size=samples),
            "y": np.arange(samples) % 2,
        }
    )


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    """The folders of two sites of different sizes, each with a table."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, samples, age in zip(folders, (40, 70), (30, 60), strict=True):
        folder.mkdir()
        table(samples, age).to_csv(folder / "t.csv", index=False)
    return folders


def client(folder: Path, data: dict[str, Any], **samples: Any) -> Path:
    """The configuration of a site."""
    content = {
        "client": {"name": "north", "federation": "trial", "folder": "state"},
        "samples": {"shape": [2], "classes": 2, "features": ["age", "time"], **samples},
        "model": {"name": "mclr"},
        "data": data,
    }
    path = folder / "client.toml"
    path.write_text(tomli_w.dumps(content))
    return path


def features(path: Path) -> np.ndarray:
    """The features of a site's node."""
    return node_from_config(load_client(path)).world(np.arange(1)).data.x  # type: ignore[attr-defined]


def test_the_numbers_are_those_of_all_training_samples(sites: list[Path]) -> None:
    found = samples_scaling(DATA, {}, sites)["scale_from"]
    train = []
    for site in sites:
        raw = pd.read_csv(site / "t.csv")[["age", "time"]].to_numpy()
        own = fk.data.load(site / "t.csv", partition="iid", clients=1, scale="none")
        train.append(raw[own.train.rows])
    pooled = np.concatenate(train)
    assert list(found["mean"]) == ["age", "time"]
    np.testing.assert_allclose(list(found["mean"].values()), pooled.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(list(found["scale"].values()), pooled.std(axis=0), rtol=1e-6)


def test_nothing_is_computed_without_all_files_or_against_a_decision(
    sites: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    assert samples_scaling({**DATA, "scale": "none"}, {}, sites) == {}
    assert samples_scaling({**DATA, "scale_from": NUMBERS}, {}, sites) == {}
    assert samples_scaling(DATA, {"scale": "robust"}, sites) == {}
    assert samples_scaling({"name": "digits"}, {}, sites) == {}
    assert not caplog.records
    (sites[1] / "t.csv").unlink()
    assert samples_scaling(DATA, {}, sites) == {}
    assert "is not on this machine" in caplog.text and "samples.scale_from" in caplog.text


def test_tables_with_other_columns_are_refused_and_not_left_unscaled(sites: list[Path]) -> None:
    path = sites[1] / "t.csv"
    good = pd.read_csv(path)
    for changed, why in (
        (good.drop(columns="age"), "it has no column age, as .*a/t.csv has; nothing was written"),
        (good.assign(bmi=20.0), "it has the column bmi, which .*a/t.csv has not"),
        (good[["time", "age", "y"]], r'it has \["time", "age"\], and .* \["age", "time"\]'),
    ):
        changed.to_csv(path, index=False)
        with pytest.raises(ConfigError, match=f"data: {path}: {why}") as refused:
            samples_scaling(DATA, {}, sites)
        assert "data.features=[" in str(refused.value)
    # The cure of the message works: both tables have these columns, in different orders.
    found = samples_scaling({**DATA, "features": ["age", "time"]}, {}, sites)
    assert list(found["scale_from"]["mean"]) == ["age", "time"]
    ages = good["age"].astype(str).tolist()
    good.assign(age=[*ages[:3], "old", *ages[4:]]).to_csv(path, index=False)
    with pytest.raises(ConfigError, match=r"column age, row 3 .* holds 'old'.*nothing was written"):
        samples_scaling(DATA, {}, sites)


def test_a_site_scales_by_the_numbers_of_all(sites: list[Path]) -> None:
    path = client(sites[0], DATA, scale_from=NUMBERS)
    raw = pd.read_csv(sites[0] / "t.csv")[["age", "time"]].to_numpy()
    expected = ((raw - [50, 1.7e9]) / [12, 2]).astype(np.float32)
    assert (features(path) == expected).all()
    own = client(sites[0], {**DATA, "scale_from": NUMBERS})
    assert (features(own) == expected).all()
    assert (features(client(sites[0], DATA)) == raw.astype(np.float32)).all()


def test_statistics_of_one_site_are_refused(sites: list[Path]) -> None:
    for kind in ("standard", "robust"):
        with pytest.raises(ConfigError, match=f"scale = '{kind}' would scale .* this site's"):
            features(client(sites[0], {**DATA, "scale": kind}))
    between_peers = registry.resolve(
        "data set",
        registry.datasets(),
        {**DATA, "path": str(sites[0] / "t.csv"), "scale": "standard"},
        str,
    )
    with pytest.raises(ConfigError, match="this site's samples"):
        registry.make_site_data(between_peers)
    with pytest.raises(ConfigError, match=r"data\.scale: \[samples\] scale_from .* remove it"):
        features(client(sites[0], {**DATA, "scale": "none"}, scale_from=NUMBERS))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({"scale_from": {"mean": {"age": 1.0}, "scale": [1.0, 1.0]}}, "no mean of column 'time'"),
        ({"scale_from": NUMBERS, "features": None}, "scale_from: needs the names of the columns"),
    ],
)
def test_incomplete_numbers_are_refused(
    sites: list[Path], samples: dict[str, Any], message: str
) -> None:
    described = {"shape": [2], "classes": 2, "features": ["age", "time"], **samples}
    described = {name: value for name, value in described.items() if value is not None}
    path = client(sites[0], DATA)
    content = tomllib.loads(path.read_text()) | {"samples": described}
    path.write_text(tomli_w.dumps(content))
    with pytest.raises((ConfigError, DataError), match=message):
        load_client(path)


def test_a_site_and_the_server_export_the_scaling(sites: list[Path], tmp_path: Path) -> None:
    path = client(sites[0], DATA, scale_from=NUMBERS)
    config = load_client(path)
    vector = np.array([1, 0, 0, 1, 0, 0], np.float32)
    NodeDisk(Path(config.site.folder)).save_models("trial-fedavg-1", {"cluster": vector})
    export_site(config, tmp_path / "export", "safetensors")
    export = load(tmp_path / "export")
    raw = pd.read_csv(sites[0] / "t.csv")
    scores = export.model("cluster")(raw)
    expected = (raw[["age", "time"]].to_numpy() - [50, 1.7e9]) / [12, 2]
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert len(predict_file(export, sites[0] / "t.csv", model="cluster").table) == 40
    server = tmp_path / "server.toml"
    content = tomllib.loads(path.read_text())
    server.write_text(
        tomli_w.dumps(
            {
                "federation": {"name": "trial", "capacity": 2},
                "samples": content["samples"],
                "model": content["model"],
                "method": {"name": "fedavg"},
                "run": {"rounds": 1, "cohort": 1},
            }
        )
    )
    described = load_server(server).data_description()
    assert described.transform is not None and described.transform.mean == (50, 1.7e9)
    assert load_server(server).shared_digest == config.shared_digest


def test_private_federations_get_no_sums_of_samples(
    tmp_path: Path, sites: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A private simulation refuses statistics that come from samples, and so does a new deployment
    with the files of all sites. Given numbers are the cure."""
    path = sites[0] / "t.csv"
    settings = [
        *("data.name=file", f"data.path={path}", "data.partition=iid", "data.clients=2"),
        *("model.name=mclr", "method.name=fedavg", "run.cohort=2", "secret.name=sums"),
        *("privacy.name=client_dp", "privacy.noise_multiplier=2", "privacy.delta=1e-3"),
        *("privacy.clip=1.0", "secret.least=3"),
    ]
    folder = tmp_path / "fed"
    with pytest.raises(ConfigError, match=r"privacy: .* no noise.*samples\.scale_from=") as refused:
        init(folder, 2, secure=False, settings=settings)
    assert not folder.exists() and "\n" not in str(refused.value)
    given = "samples.scale_from={mean={age=50, time=1}, scale={age=12, time=2}}"
    means = {}
    for cure in (given, "samples.scale=none"):
        written = init(tmp_path / cure[-5:], 2, secure=False, settings=[*settings, cure]).folder
        samples = load_server(written / "server.toml").samples
        means[cure] = None if samples.scale_from is None else samples.scale_from["mean"]["age"]
    assert means == {given: 50, "samples.scale=none": None}
    # Without privacy, the files of all sites are summed on this machine.
    other = [text for text in settings if not text.startswith("privacy")]
    written = init(tmp_path / "sums", 2, secure=False, settings=other).folder
    summed = load_server(written / "server.toml").samples.scale_from
    assert summed is not None and 25 < summed["mean"]["age"] < 35
