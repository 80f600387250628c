"""peer.toml: its settings, and its refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkin.config import peer
from fedkin.config.peer_settings import LockstepSettings, NetworkSettings, PeerSettings, TlsSettings
from fedkin.core.errors import ConfigError

SMALL = '[peer]\nname = "ada"\nfolder = "state"\n'


def written(folder: Path, text: str = SMALL) -> Path:
    path = folder / "peer.toml"
    path.write_text(text)
    return path


def test_a_name_is_enough(tmp_path: Path) -> None:
    config = peer.load(written(tmp_path))
    assert config.peer == PeerSettings("ada", folder=str(tmp_path / "state"))
    assert config.network == NetworkSettings() and config.lockstep is None
    assert (config.data.name, config.model.name, config.method.name) == ("digits", "mclr", "panm")


def test_paths_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    text = SMALL + '[network]\nzenoh = "z.json5"\nlisten = ["tls/127.0.0.1:1"]\n'
    text += '[network.tls]\nca = "ca.pem"\ncertificate = "/abs/c.pem"\nkey = "k.pem"\n'
    network = peer.load(written(tmp_path, text)).network
    assert network.zenoh == str(tmp_path / "z.json5")
    assert network.tls == TlsSettings(
        str(tmp_path / "ca.pem"), "/abs/c.pem", str(tmp_path / "k.pem")
    )


def test_changes_come_on_top(tmp_path: Path) -> None:
    changes = [
        "peer.rounds=3",
        "network.deadline=1",
        "method.name=pens",
        "method.top=1",
        "lockstep.peers=['ada', 'b']",
    ]
    config = peer.load(written(tmp_path), changes)
    assert config.peer.rounds == 3 and config.network.deadline == 1
    assert config.method.values["name"] == "pens" and config.method.values["top"] == 1
    assert config.lockstep == LockstepSettings(["ada", "b"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("peer.nam=x", "peer.nam: unknown key 'nam'; did you mean 'name'?"),
        ("pear.name=x", "pear: unknown section 'pear'; did you mean 'peer'?"),
        ("network.conect=[]", "network.conect: unknown key 'conect'; did you mean 'connect'?"),
        (
            "network.tls={certificat='x'}",
            "network.tls.certificat: unknown key .* did you mean 'certificate'?",
        ),
        ("network.tls={ca='x'}", "network.tls.certificate: is required"),
        ("network.tls=true", "network.tls: expected a section, got True"),
        ("peer.name='a/b'", "peer.name: expected 1 to 64 letters, .* got 'a/b'"),
        ("peer.name=''", "peer.name: expected 1 to 64 letters"),
        ("peer.federation='*'", "peer.federation: expected 1 to 64"),
        ("peer.rounds=0", "peer.rounds: expected a value greater than or equal to 1, got 0"),
        ("peer.client=1.5", "peer.client: .*1.5"),
        ("peer.pause=-1", "peer.pause: expected a value greater than or equal to 0, got -1"),
        ("network.deadline=0", "network.deadline: expected a value greater than 0, got 0"),
        (
            "network.listen=['127.0.0.1:7']",
            "network.listen: expected an address such as tcp/.* got '127.0.0.1:7'",
        ),
        (
            "network.connect=['tls/h:7']",
            r"network.connect: 'tls/h:7' needs certificates in \[network.tls\]",
        ),
        ("network.tls={ca='a', certificate='b', key='c'}", None),
        (
            "method.name=fedavg",
            "method.name: FedAvg needs a server, .* fedkin deploy, or use a method between peers",
        ),
        (
            "method.name=oracle",
            "method.name: Oracle needs the true clusters .* fedkin run, or use another",
        ),
        ("method.name=panmm", "method.name: unknown method 'panmm'; did you mean 'panm'"),
        ("method.alpha=2", r"method: alpha must be a number in \[0, 1\], got 2"),
        (
            "method.neighbors=2",
            "method.neighbors: unknown key 'neighbors'; did you mean 'neighbours'?",
        ),
        ("local.lr=0", "local.lr: "),
        ("lockstep.peers=['ada']", "lockstep.peers: expected at least two different names"),
        ("lockstep.peers=['ada', 'ada']", "lockstep.peers: expected at least two different names"),
        ("lockstep.deadline=1", "lockstep.peers: is required"),
    ],
)
def test_invalid_values_are_refused_with_their_place(
    tmp_path: Path, change: str, words: str | None
) -> None:
    if words is None:
        assert peer.load(written(tmp_path), [change]).network.tls is not None
        return
    with pytest.raises(ConfigError, match=words):
        peer.load(written(tmp_path), [change])


def test_in_a_file_the_place_has_the_files_name(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL + "[network]\ndeadline = -1\n")
    with pytest.raises(
        ConfigError, match=rf"{path}: network\.deadline: expected a value greater than 0, got -1"
    ):
        peer.load(path)
    with pytest.raises(ConfigError, match=r"none\.toml: there is no such file"):
        peer.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"peer\.name: is required"):
        peer.load(written(tmp_path, "[peer]\nclient = 1\n"))
