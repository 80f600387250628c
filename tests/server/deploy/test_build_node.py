"""A site's own table: its classes and columns must stand in the order that all sites have agreed
upon."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from fedkin.config.server import load_client
from fedkin.core.errors import ConfigError, DataError
from fedkin.security.certificates import Authority
from fedkin.server.deploy.build_node import node_from_config
from tests.security.signers import certified

COLUMNS = ["age", "pulse"]
LABELS = ["ill", "well"]


def site(folder: Path, lines: str, samples: dict | None = None, **data: object) -> Path:
    """A site's file, in the folder of its table."""
    (folder / "mine.csv").write_text(lines)
    described = {
        "shape": [2],
        "classes": 2,
        **({"labels": LABELS, "features": COLUMNS} if samples is None else samples),
    }
    content = {
        "client": {"name": "berlin", "federation": "trial", "folder": "state", "clients": [0]},
        "samples": described,
        "model": {"name": "mclr"},
        "data": {"name": "file", "path": "mine.csv", **data},
    }
    path = folder / "client.toml"
    path.write_text(tomli_w.dumps(content))
    return path


def table(columns: str, *labels: str) -> str:
    return "".join(
        f"{line}\n"
        for line in (columns, *(f"{k},{k + 10},{label},0" for k, label in enumerate(labels)))
    )


def labels_of(path: Path) -> np.ndarray:
    """As the node numbers them."""
    world = node_from_config(load_client(path)).world(np.arange(1))
    return np.sort(world.data.y)  # type: ignore[attr-defined]


def test_a_site_without_a_class_numbers_the_other_as_all_do(tmp_path: Path) -> None:
    path = site(tmp_path, table("age,pulse,y,client_id", *["well"] * 10))
    assert labels_of(path).tolist() == [1] * 10  # by itself it would number them 0


def test_columns_in_another_order_are_refused_and_the_cure_orders_them(tmp_path: Path) -> None:
    lines = table("pulse,age,y,client_id", *["ill", "well"] * 5)
    with pytest.raises(
        DataError,
        match=r"features are pulse, age, but \[samples\] says age, pulse; set data.features",
    ):
        node_from_config(load_client(site(tmp_path, lines)))
    world = node_from_config(load_client(site(tmp_path, lines, features=COLUMNS))).world(
        np.arange(1)
    )
    assert world.data.x[0, 0] == world.data.x[0, 1] + 10  # type: ignore[attr-defined]


def test_labels_in_another_order_are_refused(tmp_path: Path) -> None:
    lines = table("age,pulse,y,client_id", *["ill", "well"] * 5)
    with pytest.raises(DataError, match=r"labels are well, ill, but \[samples\] says ill, well"):
        node_from_config(load_client(site(tmp_path, lines, label_names=LABELS[::-1])))


@pytest.mark.parametrize(
    ("missing", "cure"), [("labels", '["ill", "well"]'), ("features", '["age", "pulse"]')]
)
def test_names_without_an_agreed_order_are_refused_with_the_line_to_write(
    missing: str, cure: str, tmp_path: Path
) -> None:
    declared = {"labels": LABELS, "features": COLUMNS}
    del declared[missing]
    lines = table("age,pulse,y,client_id", *["ill", "well"] * 5)
    with pytest.raises(DataError) as error:
        node_from_config(load_client(site(tmp_path, lines, declared)))
    assert f"{missing} = {cure}" in str(error.value)


def test_so_many_labels_as_classes(tmp_path: Path) -> None:
    lines = table("age,pulse,y,client_id", "ill", "well")
    for labels in (["ill"], ["ill", "ill"]):
        with pytest.raises(ConfigError, match="labels must be 2 different names"):
            load_client(site(tmp_path, lines, {"labels": labels, "features": COLUMNS}))


SIGN = {"sign_ca": "ca.pem", "sign_certificate": "berlin.pem", "sign_key": "berlin-key.pem"}


def test_a_site_signs_with_the_certificate_that_its_file_names(tmp_path: Path) -> None:
    path = site(tmp_path, table("age,pulse,y,client_id", *["ill", "well"] * 5))
    world = node_from_config(load_client(path)).world(np.arange(1))
    assert world.identity is None  # type: ignore[attr-defined]
    certified(tmp_path, Authority.new("trial"), "berlin")
    content = tomllib.loads(path.read_text())
    content["client"] |= SIGN
    path.write_text(tomli_w.dumps(content))
    world = node_from_config(load_client(path)).world(np.arange(1))
    assert world.identity.name == "berlin"  # type: ignore[attr-defined]
    content["client"]["name"] = "paris"
    path.write_text(tomli_w.dumps(content))
    with pytest.raises(
        ConfigError, match=r"client\.sign_certificate: .*berlin\.pem does not belong to 'paris'"
    ):
        node_from_config(load_client(path))
    (tmp_path / "berlin-key.pem").unlink()
    with pytest.raises(
        ConfigError, match=r"client\.sign_key: .* cannot be read: .*; see docs/secret-sums\.md"
    ):
        node_from_config(load_client(path))
    del content["client"]["sign_ca"]
    path.write_text(tomli_w.dumps(content))
    with pytest.raises(
        ConfigError, match="set all of sign_ca, sign_certificate, sign_key, or none"
    ):
        load_client(path)
