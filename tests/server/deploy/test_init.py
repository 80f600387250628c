"""The folder of a federation with a server: written files, files that stay, and refusals before
anything is written."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkin.config.server import load_client, load_server
from fedkin.core.errors import ConfigError, FedkinError, MissingExtra
from fedkin.server.deploy import init as deploy_init
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.init import Deployment, init

x509 = pytest.importorskip("cryptography.x509", reason="keys need pip install 'fedkin[flower]'")
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

SECRETS = {"ca-key.pem", "server-key.pem", "key"}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Four sites, as init writes them by default."""
    return init(tmp_path_factory.mktemp("deploy") / "fed")


@pytest.fixture
def copied(four: Deployment, tmp_path: Path) -> Path:
    """Four sites that a test may change."""
    return Path(shutil.copytree(four.folder, tmp_path / "fed"))


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_server_and_sites_can_be_read_and_agree(four: Deployment) -> None:
    server = load_server(four.folder / "server.toml")
    assert (server.federation.capacity, server.federation.wait_for, server.run.cohort) == (8, 4, 4)
    assert (server.method.name, server.method.values["clusters"]) == ("flexcfl", 2)
    assert [entry.name for entry in server.against] == ["fedavg"]
    assert four.sites == four.new == [f"site-{k}" for k in range(4)]
    for k, name in enumerate(four.sites):
        client = load_client(four.folder / name / "client.toml")
        assert (client.site.name, client.site.federation, client.site.clients) == (
            name,
            server.federation.name,
            (k,),
        )
        assert client.shared_digest == server.shared_digest
        assert Path(client.site.folder) == four.folder / name / "state"


def test_each_site_has_its_own_data(four: Deployment) -> None:
    configs = [load_client(four.folder / name / "client.toml") for name in four.sites[:2]]
    assert [node_from_config(config).samples.tolist() for config in configs] == [[60], [60]]
    assert configs[0].data == configs[1].data and configs[0].site.clients != configs[1].site.clients


def test_only_the_owner_can_read_secrets(four: Deployment) -> None:
    secret = {path for path in four.folder.rglob("*") if path.name in SECRETS}
    assert len(secret) == 2 + 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}


def test_each_site_has_its_own_key(four: Deployment) -> None:
    publics = []
    for name in four.sites:
        folder = four.folder / name
        key = serialization.load_ssh_private_key((folder / "key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP384R1)
        assert key.public_key() == serialization.load_ssh_public_key(
            (folder / "key.pub").read_bytes()
        )
        publics.append((folder / "key.pub").read_text().split()[1])
        assert {path.name for path in folder.iterdir()} == {
            "client.toml",
            "flower.env",
            "ca.pem",
            "key",
            "key.pub",
        }
    assert len(set(publics)) == 4


@pytest.mark.parametrize("asked", ["127.0.0.1", "localhost", "fed.example.org"])
def test_the_certificate_holds_for_every_name_of_the_server(tmp_path: Path, asked: str) -> None:
    keys = init(tmp_path / "fed", 2, host="fed.example.org").folder / "keys"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys / "server.pem", keys / "server-key.pem")
    client = ssl.create_default_context(cafile=keys / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # as newer versions of Python have it
    assert shaken(client, server, asked) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError, match="elsewhere"):
        shaken(client, server, "elsewhere.example.org")


def shaken(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> str | None:
    """Both sides of a handshake, in memory."""
    up = ssl.MemoryBIO()
    down = ssl.MemoryBIO()
    asks = client.wrap_bio(down, up, server_hostname=name)
    replies = server.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (asks, replies):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return asks.version()


def test_more_sites_later_change_no_existing_file(copied: Path) -> None:
    (copied / "flwr/config.toml").write_text((copied / "flwr/config.toml").read_text() + "# mine\n")
    before = content(copied)
    written = init(copied, 6)
    after = content(copied)
    assert (written.new, len(written.sites)) == (["site-4", "site-5"], 6)
    assert {name: after[name] for name in before if name != "COMMANDS.md"} == {
        name: text for name, text in before.items() if name != "COMMANDS.md"
    }
    assert after["site-5/ca.pem"] == before["keys/ca.pem"]
    assert len({after[f"site-{k}/key"] for k in range(6)}) == 6
    clients = [load_client(copied / f"site-{k}/client.toml") for k in range(6)]
    assert [client.site.clients for client in clients] == [(k,) for k in range(6)]
    assert (
        clients[5].data == clients[0].data and clients[5].shared_digest == clients[0].shared_digest
    )
    assert b"site-5" in after["COMMANDS.md"]


def test_the_same_command_again_adds_nothing(copied: Path) -> None:
    assert init(copied, 4).new == [] and init(copied, 2).sites == [f"site-{k}" for k in range(4)]


def test_more_sites_need_no_key_of_the_authority(copied: Path) -> None:
    (copied / "keys/ca-key.pem").unlink()
    assert init(copied, 5).new == ["site-4"]
    (copied / "keys/server.pem").unlink()
    with pytest.raises(ConfigError, match="is needed to sign the server"):
        init(copied, 5)


def test_a_site_with_half_a_key_keeps_it(copied: Path) -> None:
    (copied / "site-4").mkdir()
    (copied / "site-4/key.pub").write_text("sent by the site")
    init(copied, 5)
    assert (copied / "site-4/key.pub").read_text() == "sent by the site" and not (
        copied / "site-4/key"
    ).exists()


def test_without_keys(tmp_path: Path) -> None:
    written = init(tmp_path / "fed", 2, port=18_000, secure=False)
    assert not [
        path
        for path in written.folder.rglob("*")
        if path.name in SECRETS or path.suffix in (".pem", ".pub")
    ]
    connection = tomllib.loads((written.folder / "flwr/config.toml").read_text())["superlink"][
        "fedkin"
    ]
    assert connection == {"address": "127.0.0.1:18000", "insecure": True}
    assert "--insecure" in written.commands() and "register" not in written.commands()
    assert init(tmp_path / "fed", 3, secure=False).address.port == 18_000
    before = content(written.folder)
    with pytest.raises(ConfigError, match="without keys; add --insecure"):
        init(tmp_path / "fed", 4)
    assert content(written.folder) == before


def test_a_deployment_is_secure_or_insecure_as_a_whole(copied: Path) -> None:
    with pytest.raises(ConfigError, match="with keys; leave out --insecure"):
        init(copied, 5, secure=False)
    (copied / "flwr/config.toml").unlink()
    with pytest.raises(ConfigError, match="with keys"):
        init(copied, 5, secure=False)
    assert not (copied / "site-4").exists()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"clients": 0}, "--clients: expected 1 to"),
        ({"clients": 60_000}, "--clients: expected 1 to"),
        ({"port": 0}, "--port: expected a port from 1 to 65535, got 0"),
        ({"port": 65_536}, "got 65536"),
        ({"port": 9095}, "the SuperNodes here use the ports 9094 to 9097"),
        ({"host": "a b"}, "--host: expected"),
        ({"host": "10.0.0.256"}, "--host: expected"),
        ({"host": "-x.org"}, "--host: expected"),
        ({"host": ""}, "--host: expected"),
        ({"settings": ["nonsense"]}, "section.key=value"),
        ({"settings": ["scenario.dropout=0.1"]}, "unknown section 'scenario'"),
        ({"settings": ["federation.dedline=5"]}, "did you mean 'deadline'"),
        ({"settings": ["federation.wait_for=9"]}, "at most capacity"),
        ({"settings": ["federation.name=a b"]}, "federation.name: expected 1 to 64 letters"),
        ({"settings": ["client.name=me"]}, "client.name: each site has its own"),
        ({"settings": ["client.floder=x"]}, "client.toml: client.floder"),
        (
            {"settings": ["method.name=panm"]},
            "method.name: PANM needs peers, but this",
        ),
        (
            {"settings": ["method.name=oracle"]},
            "method.name: Oracle needs the true clusters of all clients",
        ),
        (
            {"settings": ["run.against=['gossip']"]},
            "run.against: Gossip needs peers",
        ),
        (
            {"settings": ["method.clusters=9"]},
            "(clusters = 9), and there are 8: add clients or set method.clusters=8",
        ),
        ({"settings": ["run.cohort=9"]}, "run.cohort must be at most"),
        ({"settings": ["run.seeds=3"]}, "run.seeds: does not apply to a real federation"),
        ({"settings": ["model.name=mlb"]}, "unknown model 'mlb'"),
        ({"settings": ["model.name=rnn"]}, "model: "),
        ({"settings": ["data.name=digit"]}, "unknown data set 'digit'"),
        ({"settings": ["data.kind=none"]}, "data: "),
        ({"settings": ["samples.shape=[63]", "samples.classes=10"]}, "samples have shape [64]"),
        (
            {"settings": ["data.name=file", "data.path=mine.npz"]},
            "samples.shape=[30] samples.classes=2",
        ),
        ({"clients": 20}, "lower clients, samples or test_samples"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused_and_nothing_is_written(
    tmp_path: Path, how: dict[str, Any], words: str
) -> None:
    with pytest.raises(FedkinError) as caught:
        init(tmp_path / "fed", **how)
    assert words in str(caught.value) and "/tmp" not in str(caught.value).replace(str(tmp_path), "")
    assert not (tmp_path / "fed").exists()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"clients": 9}, "federation.capacity is 8, too small for 9 sites"),
        ({"clients": 5, "host": "10.0.0.1"}, "has its server at 127.0.0.1:8000"),
        ({"clients": 5, "port": 8001}, "to give it another address, remove"),
        ({"clients": 5, "settings": ["run.rounds=3"]}, "server.toml exists already"),
        ({"clients": 5, "settings": ["model.name=mlp"]}, "server.toml exists already"),
        ({"clients": 5, "settings": ["data.name=synthetic"]}, "samples have shape [60]"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_an_existing_deployment_are_refused(
    copied: Path, how: dict[str, Any], words: str
) -> None:
    before = content(copied)
    with pytest.raises(FedkinError) as caught:
        init(copied, **how)
    assert words in str(caught.value) and content(copied) == before


def test_settings_are_written_to_the_files_of_their_sections(tmp_path: Path) -> None:
    settings = [
        "federation.name=north",
        "federation.deadline=60",
        "data.samples=30",
        "model.name=mlp",
        "local.lr=0.2",
    ]
    folder = init(
        tmp_path / "fed", 2, settings=[*settings, "client.folder=own", "method.name=ifca"]
    ).folder
    server = load_server(folder / "server.toml")
    client = load_client(folder / "site-1/client.toml")
    assert (server.federation.name, server.federation.deadline, server.federation.capacity) == (
        "north",
        60,
        8,
    )
    assert (server.model.name, server.local.lr, server.method.name) == ("mlp", 0.2, "ifca")
    assert (client.site.federation, client.data_values["samples"], client.shared_digest) == (
        "north",
        30,
        server.shared_digest,
    )
    assert Path(client.site.folder) == folder / "site-1/own"


def test_data_in_a_file_of_each_site(tmp_path: Path) -> None:
    settings = ["data.name=file", "data.path=mine.npz", "samples.shape=[6]", "samples.classes=2"]
    folder = init(tmp_path / "fed", 2, settings=settings).folder
    client = load_client(folder / "site-1/client.toml")
    assert (
        client.data_values["path"] == str(folder / "site-1/mine.npz")
        and client.site.clients is None
    )


def test_data_in_one_file_for_all_sites(tmp_path: Path) -> None:
    labels = np.arange(40) % 3
    np.savez(
        tmp_path / "all.npz", x=np.ones((40, 6), np.float32), y=labels, client_id=np.arange(40) % 2
    )
    folder = init(
        tmp_path / "fed", 2, settings=["data.name=file", f"data.path={tmp_path / 'all.npz'}"]
    ).folder
    server = load_server(folder / "server.toml")
    client = load_client(folder / "site-1/client.toml")
    assert (server.samples.shape, server.samples.classes, client.site.clients) == ([6], 3, (1,))
    assert node_from_config(client).samples.sum() == 18
    with pytest.raises(ConfigError, match=r"must list at least one number, .* from 0 to 1 \("):
        init(folder, 3)


def test_sites_number_text_labels_alike(tmp_path: Path) -> None:
    labels = np.array(["ill", "well"])[np.arange(40) % 2]
    np.savez(
        tmp_path / "all.npz", x=np.ones((40, 6), np.float32), y=labels, client_id=np.arange(40) % 2
    )
    settings = ["data.name=file", f"data.path={tmp_path / 'all.npz'}"]
    with pytest.raises(
        ConfigError, match=r"data: labels are text.*such as label_names = \['ill', 'well'\]"
    ):
        init(tmp_path / "fed", 2, settings=settings)
    folder = init(
        tmp_path / "fed", 2, settings=[*settings, "data.label_names=['well', 'ill', 'dead']"]
    ).folder
    client = load_client(folder / "site-1/client.toml")
    assert (
        client.data_values["label_names"] == ["well", "ill", "dead"] and client.samples.classes == 3
    )


def test_without_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fedkin\[flower\]'"):
        init(tmp_path / "fed", 2)
    assert not (tmp_path / "fed").exists()
    assert init(tmp_path / "fed", 2, secure=False).new == ["site-0", "site-1"]


def test_commands_are_printed_and_written(four: Deployment) -> None:
    commands = four.commands()
    assert commands in (four.folder / "COMMANDS.md").read_text()
    done = subprocess.run(["sh", "-n"], input=commands, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    for words in (
        "--enable-supernode-auth",
        '--name "$site"',
        "flwr run app fedkin",
        "--host 127.0.0.1",
    ):
        assert words in commands
    assert "--host 0.0.0.0" in deploy_init.files.commands(Path("fed"), _elsewhere(), ["site-0"])


def _elsewhere() -> Any:
    return deploy_init.Address("fed.example.org", 443)


def test_flower_builds_the_app(four: Deployment, tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="building the app needs pip install 'fedkin[flower]'")
    app = shutil.copytree(four.folder / "app", tmp_path / "app")
    quiet = {
        "FLWR_HOME": str(tmp_path / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
    command = [str(Path(sys.executable).parent / "flwr"), "build", "--app", str(app)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **quiet}, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Recommended" not in done.stdout and list(tmp_path.glob("*.fab"))


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: bytes | str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(deploy_init, "write_atomic", full)
    _expect(lambda: init(tmp_path / "fed", 2, secure=False), "No space left")


def _expect(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(FedkinError, match=words):
        call()
