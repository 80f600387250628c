"""The peers that ``fedkin peer init`` describes."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedkin.config import peer
from fedkin.core.errors import ConfigError
from fedkin.p2p.init_federation import init_federation
from fedkin.p2p.launch import TLS_KEYS
from fedkin.security.signatures import Signer
from tests.every_write import after_each_fault, operations


def test_init_writes_a_peer_each_that_finds_the_others_through_two(tmp_path: Path) -> None:
    configs = init_federation(
        tmp_path, 4, federation="mine", port=8000, settings=["method.name=gossip", "local.lr=0.5"]
    )
    assert configs == [tmp_path / f"peer-{k}" / "peer.toml" for k in range(4)]
    for k, path in enumerate(configs):
        config = peer.load(path)
        assert (config.peer.name, config.peer.client, config.peer.federation) == (
            f"peer-{k}",
            k,
            "mine",
        )
        assert config.network.listen == [f"tcp/127.0.0.1:{8000 + k}"]
        assert config.network.connect == [
            f"tcp/127.0.0.1:{port}" for port in (8000, 8001) if port != 8000 + k
        ]
        assert config.data.values["clients"] == 4 and config.method.values == {
            "name": "gossip",
            "neighbours": 3,
        }
        assert config.local.lr == 0.5 and config.peer.folder == str(path.parent)


def test_init_again_adds_peers_and_leaves_others_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    configs = init_federation(tmp_path, 2, tls=True)
    configs[0].write_text(configs[0].read_text().replace("seed = 0", "seed = 9"))
    own_rules = tmp_path / "peer-1" / "access.json5"
    own_rules.write_text(
        json.dumps({**json.loads(own_rules.read_text()), "metadata": {"room": "7"}})
    )
    kept = {
        path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.name != "access.json5"
    }
    init_federation(tmp_path, 3, tls=True)
    assert {path: path.read_bytes() for path in kept} == kept
    for k in range(3):
        own = tmp_path / f"peer-{k}"
        assert stat.S_IMODE((own / "key.pem").stat().st_mode) == 0o600
        assert (own / "ca.pem").read_bytes() == (tmp_path / "ca.pem").read_bytes()
        rules = json.loads((own / "access.json5").read_text())["access_control"]
        assert [subject["id"] for subject in rules["subjects"]] == ["peer-0", "peer-1", "peer-2"]
        network = tomllib.loads((own / "peer.toml").read_text())["network"]
        assert network["zenoh"] == "access.json5" and network["listen"][0].startswith("tls/")
    # What a peer also tells Zenoh.
    assert json.loads(own_rules.read_text())["metadata"] == {"room": "7"}
    with pytest.raises(ConfigError, match="holds peers with certificates"):
        init_federation(tmp_path, 3)


@pytest.mark.parametrize(
    "settings",
    [
        ["method.neighbours=5", "method.name=gossip"],
        ["method.name=gossip", "method.neighbours=5"],
    ],
)
def test_settings_have_no_order(tmp_path: Path, settings: list[str]) -> None:
    (path,) = init_federation(tmp_path, 1, settings=settings)
    assert peer.load(path).method.values == {"name": "gossip", "neighbours": 5}


@pytest.mark.parametrize("rules", ['{"a": 1, // room 7\n}', "[]"])
def test_options_that_would_be_lost_are_an_error(tmp_path: Path, rules: str) -> None:
    pytest.importorskip("cryptography")
    init_federation(tmp_path, 2, tls=True)
    (tmp_path / "peer-1" / "access.json5").write_text(rules)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(ConfigError, match=r"peer-1/access\.json5.* remove it"):
        init_federation(tmp_path, 3, tls=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_init_again_repairs_what_a_kill_left(tmp_path: Path) -> None:
    """The second call completes the files, at whatever operation the first one was killed."""
    pytest.importorskip("cryptography")

    def write(folder: Path) -> None:
        init_federation(folder, 1, tls=True)

    last = operations(tmp_path / "whole", write)
    assert last > 10
    for _, folder in after_each_fault("kill", tmp_path, last, write):
        write(folder)
        own = folder / "peer-0"
        signer = Signer(
            name="peer-0",
            authority=own / "ca.pem",
            certificate=own / "certificate.pem",
            key=own / "key.pem",
            keys=TLS_KEYS,
        )
        signer.check("peer-0", signer.certificate, signer.sign(b"content"), b"content")
        assert peer.load(own / "peer.toml").network.tls
        assert json.loads((own / "access.json5").read_text())["access_control"]["enabled"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"peers": 0}, "at least one peer"),
        ({"peers": 3, "port": 65_535}, "ports up to 65535"),
        ({"peers": 2, "federation": "a b"}, "peer.federation: expected 1 to 64"),
        ({"peers": 2, "settings": ["method.nieghbours=1"]}, "did you mean 'neighbours'"),
    ],
)
def test_init_refuses_invalid_values_and_writes_nothing(
    tmp_path: Path, arguments: Any, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        init_federation(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_the_model_follows_from_the_labels_of_the_users_data(tmp_path: Path) -> None:
    """The trial's model is for its digits; patients have the Cox model, as in a run."""
    data = ["data.name=file", "data.path=p.csv", "data.label=months"]
    (of_patients,) = init_federation(tmp_path / "p", 1, settings=[*data, "data.event=died"])
    assert peer.load(of_patients).model.values["name"] == "cox"
    (of_classes,) = init_federation(tmp_path / "c", 1, settings=data)
    assert peer.load(of_classes).model.values["name"] == "mclr"
    (given,) = init_federation(tmp_path / "g", 1, settings=[*data, "model.name=mlp"])
    assert peer.load(given).model.values["name"] == "mlp"
    (trial,) = init_federation(tmp_path / "t", 1)
    assert peer.load(trial).model.values["name"] == "mclr"
