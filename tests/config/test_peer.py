"""peer.toml: what it says, what it may not say, and the peers that ``fedkin peer init`` describes."""

from __future__ import annotations

import json
import logging
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fedkin.config import peer
from fedkin.config.peer_settings import LockstepSettings, NetworkSettings, PeerSettings, TlsSettings
from fedkin.core.errors import ConfigError
from fedkin.p2p.init_federation import init_federation
from fedkin.p2p.launch import build_peer

SMALL = '[peer]\nname = "ada"\nfolder = "state"\n'


def written(folder: Path, text: str = SMALL) -> Path:
    path = folder / "peer.toml"
    path.write_text(text)
    return path


def test_a_name_is_enough(tmp_path: Path) -> None:
    found = peer.load(written(tmp_path))
    assert found.peer == PeerSettings("ada", folder=str(tmp_path / "state"))
    assert found.network == NetworkSettings() and found.lockstep is None
    assert (found.data["name"], found.model["name"], found.method["name"]) == ("digits", "mclr", "panm")


def test_paths_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    text = SMALL + '[network]\nzenoh = "z.json5"\nlisten = ["tls/127.0.0.1:1"]\n'
    text += '[network.tls]\nca = "ca.pem"\ncertificate = "/abs/c.pem"\nkey = "k.pem"\n'
    network = peer.load(written(tmp_path, text)).network
    assert network.zenoh == str(tmp_path / "z.json5")
    assert network.tls == TlsSettings(str(tmp_path / "ca.pem"), "/abs/c.pem", str(tmp_path / "k.pem"))


def test_changes_come_on_top(tmp_path: Path) -> None:
    changes = ["peer.rounds=3", "network.deadline=1", "method.name=pens", "method.top=1", "lockstep.peers=['ada', 'b']"]
    found = peer.load(written(tmp_path), changes)
    assert found.peer.rounds == 3 and found.network.deadline == 1
    assert found.method["name"] == "pens" and found.method["top"] == 1
    assert found.lockstep == LockstepSettings(["ada", "b"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("peer.nam=x", "peer.nam: unknown key 'nam'; did you mean 'name'?"),
        ("pear.name=x", "pear: unknown section 'pear'; did you mean 'peer'?"),
        ("network.conect=[]", "network.conect: unknown key 'conect'; did you mean 'connect'?"),
        ("network.tls={certificat='x'}", "network.tls.certificat: unknown key .* did you mean 'certificate'?"),
        ("network.tls={ca='x'}", "network.tls.certificate: is required"),
        ("network.tls=true", "network.tls: expected a section, got True"),
        ("peer.name='a/b'", "peer.name: expected 1 to 64 letters, .* got 'a/b'"),
        ("peer.name=''", "peer.name: expected 1 to 64 letters"),
        ("peer.federation='*'", "peer.federation: expected 1 to 64"),
        ("peer.rounds=0", "peer.rounds: expected a value greater than or equal to 1, got 0"),
        ("peer.client=1.5", "peer.client: .*1.5"),
        ("peer.pause=-1", "peer.pause: expected a value greater than or equal to 0, got -1"),
        ("network.deadline=0", "network.deadline: expected a value greater than 0, got 0"),
        ("network.listen=['127.0.0.1:7']", "network.listen: expected an address such as tcp/.* got '127.0.0.1:7'"),
        ("network.connect=['tls/h:7']", r"network.connect: 'tls/h:7' needs certificates in \[network.tls\]"),
        ("network.tls={ca='a', certificate='b', key='c'}", None),
        ("method.name=fedavg", "method.name: unknown peer-to-peer method 'fedavg'"),
        ("method.name=oracle", "unknown peer-to-peer method 'oracle'"),
        ("method.alpha=2", r"method: alpha must be a number in \[0, 1\], got 2"),
        ("method.neighbors=2", "method.neighbors: unknown key 'neighbors'; did you mean 'neighbours'?"),
        ("local.lr=0", "local.lr: "),
        ("lockstep.peers=['ada']", "lockstep.peers: expected two names or more"),
        ("lockstep.peers=['ada', 'ada']", "lockstep.peers: expected two names or more, none twice"),
        ("lockstep.deadline=1", "lockstep.peers: is required"),
    ],
)
def test_what_cannot_be_is_told_with_its_place(tmp_path: Path, change: str, words: str | None) -> None:
    if words is None:
        assert peer.load(written(tmp_path), [change]).network.tls is not None
        return
    with pytest.raises(ConfigError, match=words):
        peer.load(written(tmp_path), [change])


def test_in_a_file_the_place_has_the_files_name(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL + "[network]\ndeadline = -1\n")
    with pytest.raises(ConfigError, match=rf"{path}: network\.deadline: expected a value greater than 0, got -1"):
        peer.load(path)
    with pytest.raises(ConfigError, match=r"none\.toml: there is no such file"):
        peer.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"peer\.name: is required"):
        peer.load(written(tmp_path, "[peer]\nclient = 1\n"))


def test_a_built_peer_keeps_its_folder_and_goes_on_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("zenoh")
    (config,) = init_federation(tmp_path / "fed", 1, settings=["data.clusters=1", "data.samples=20", "peer.rounds=2"])
    told: list[dict[str, Any]] = []
    with caplog.at_level(logging.WARNING, "fedkin"):
        for changes in ([], ["peer.rounds=3"]):
            free = [*changes, "network.listen=['tcp/127.0.0.1:0']"]
            build_peer(peer.load(config, free), on_round=told.append).run()
    assert [record["round"] for record in told] == [1, 2, 3]
    assert all("no other peer can be reached" in record.getMessage() for record in caplog.records)
    assert {path.name for path in config.parent.iterdir()} == {"peer.toml", "peer.safetensors", "metrics.jsonl"}


# --- init


def test_init_writes_a_peer_each_that_finds_the_others_through_two(tmp_path: Path) -> None:
    configs = init_federation(
        tmp_path, 4, federation="mine", port=8000, settings=["method.name=gossip", "local.lr=0.5"]
    )
    assert configs == [tmp_path / f"peer-{k}" / "peer.toml" for k in range(4)]
    for k, path in enumerate(configs):
        found = peer.load(path)
        assert (found.peer.name, found.peer.client, found.peer.federation) == (f"peer-{k}", k, "mine")
        assert found.network.listen == [f"tcp/127.0.0.1:{8000 + k}"]
        assert found.network.connect == [f"tcp/127.0.0.1:{port}" for port in (8000, 8001) if port != 8000 + k]
        assert found.data["clients"] == 4 and found.method == {"name": "gossip", "neighbours": 3}
        assert found.local.lr == 0.5 and found.peer.folder == str(path.parent)


def test_init_again_adds_peers_and_leaves_others_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    configs = init_federation(tmp_path, 2, tls=True)
    configs[0].write_text(configs[0].read_text().replace("seed = 0", "seed = 9"))
    own_rules = tmp_path / "peer-1" / "access.json5"
    own_rules.write_text(json.dumps({**json.loads(own_rules.read_text()), "metadata": {"room": "7"}}))
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.name != "access.json5"}
    init_federation(tmp_path, 3, tls=True)
    assert {path: path.read_bytes() for path in kept} == kept
    for k in range(3):
        own = tmp_path / f"peer-{k}"
        assert stat.S_IMODE((own / "key.pem").stat().st_mode) == 0o600
        assert (own / "ca.pem").read_bytes() == (tmp_path / "ca.pem").read_bytes()
        rules = json.loads((own / "access.json5").read_text())["access_control"]
        assert [subject["id"] for subject in rules["subjects"]] == ["peer-0", "peer-1", "peer-2"]
        told = tomllib.loads((own / "peer.toml").read_text())["network"]
        assert told["zenoh"] == "access.json5" and told["listen"][0].startswith("tls/")
    assert json.loads(own_rules.read_text())["metadata"] == {"room": "7"}  # what a peer tells Zenoh besides
    with pytest.raises(ConfigError, match="holds peers with certificates"):
        init_federation(tmp_path, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"peers": 0}, "at least one peer"),
        ({"peers": 3, "port": 65_535}, "ports up to 65535"),
        ({"peers": 2, "federation": "a b"}, "peer.federation: expected 1 to 64"),
        ({"peers": 2, "settings": ["method.nieghbours=1"]}, "did you mean 'neighbours'"),
    ],
)
def test_init_refuses_what_cannot_be_and_writes_nothing(tmp_path: Path, arguments: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        init_federation(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())
