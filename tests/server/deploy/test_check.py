"""Checks of a server and its sites: every check passes once and fails once."""

from __future__ import annotations

import datetime
import http.server
import re
import shutil
import socket
import ssl
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from fedkin.core.errors import ConfigError
from fedkin.run.folder.run_folder import Folder
from fedkin.server.deploy import check, check_network
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.check_keys import SOON, check_server_keys
from fedkin.server.deploy.check_result import CheckResult, any_failed
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.init import init
from tests.free_ports import free_ports
from tests.security.signers import key_of_unknown_curve

pytest.importorskip("cryptography", reason="keys need pip install 'fedkin[flower]'")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return init(tmp_path_factory.mktemp("deploy") / "fed", 2).folder


@pytest.fixture
def fed(written: Path, tmp_path: Path) -> Path:
    """A federation of two sites that a test may damage, at a free port."""
    folder = Path(shutil.copytree(written, tmp_path / "fed"))
    address = Address(port=free_ports(1)[0])
    (folder / files.FLOWER).write_text(files.flower_config(folder, address))
    (folder / files.APP).write_text(files.app_project(folder))
    for name in ("site-0", "site-1"):
        (folder / name / files.ENVIRONMENT).write_text(files.environment_text(address))
    return folder


def server(folder: Path) -> dict[str, CheckResult]:
    return {result.name: result for result in check.check_server(folder)}


def site(folder: Path, name: str = "site-0") -> dict[str, CheckResult]:
    return {result.name: result for result in check.check_site(folder / name, folder)}


def exclude(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def assert_failed(result: CheckResult, *words: str) -> None:
    assert result.mark == "✗" and not [word for word in words if word not in result.detail], result


def assert_only_failed(results: dict[str, CheckResult], what: str, *words: str) -> None:
    assert [name for name, result in results.items() if result.mark == "✗"] == [what], results
    assert_failed(results[what], *words)


def test_a_new_deployment_passes_but_for_the_server_that_does_not_run(fed: Path) -> None:
    table = check.check(fed)
    assert list(table) == ["here", "server", "site-0", "site-1"]
    assert not any(any_failed(results) for results in table.values()), table
    others = {result.name for results in table.values() for result in results if result.mark == "!"}
    assert others == {f"server {files.read_address(fed / files.FLOWER)}"}
    assert (
        server(fed)["model"].detail == "650 parameters"
        and "60 training samples" in site(fed)["data"].detail
    )


def test_only_the_selected_parts_are_checked(fed: Path) -> None:
    assert list(check.check(fed, server=True)) == ["here", "server"]
    assert list(check.check(fed, site="site-1")) == ["here", "site-1"]
    alone = Path(shutil.move(fed / "site-1", fed.parent / "elsewhere"))
    table = check.check(alone)
    assert list(table) == ["here", "elsewhere"] and "agreement" not in {
        f.name for f in table["elsewhere"]
    }


def test_a_folder_without_a_deployment_is_refused(fed: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither server\.toml nor"):
        check.check(tmp_path / "none")
    with pytest.raises(
        ConfigError, match=r"there is no site-7/client\.toml; the sites are: site-0, site-1"
    ):
        check.check(fed, site="site-7")
    with pytest.raises(ConfigError, match=r"there is no server\.toml"):
        check.check(fed / "site-0", server=True)


def test_the_check_of_a_site_in_a_copy_fails_as_its_start_does(fed: Path) -> None:
    copy = Path(shutil.copytree(fed, fed.parent / "copy"))
    assert_failed(site(copy)["folder"], f"is a copy of {fed}", f"fedkin deploy up {fed}")
    assert site(fed)["folder"].mark == "✓"


# --- versions


def test_the_releases_of_flower_are_those_of_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    bound = next(
        Requirement(entry).specifier for entry in extras["flower"] if entry.startswith("flwr")
    )
    oldest = int(check.FLOWER[0].split(".")[1])
    newest = int(check.FLOWER[-1].split(".")[1])
    assert check.FLOWER == tuple(f"1.{minor}" for minor in range(oldest, newest + 1))
    assert [minor for minor in range(60) if f"1.{minor}.3" in bound] == list(
        range(oldest, newest + 1)
    )


@pytest.mark.parametrize("version", ["1.41.0", "1.42.0", "1.42.7"])
def test_releases_of_flower_that_are_allowed(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_installed", lambda package: version)
    result = next(result for result in check.versions() if result.name == "Flower")
    assert result.mark == "✓" and result.detail == version


@pytest.mark.parametrize(
    ("there", "what", "words"),
    [
        ({"flwr": None}, "Flower", "pip install 'fedkin[flower]'"),
        (
            {"flwr": "1.40.2"},
            "Flower",
            "expected 1.41 or 1.42, got 1.40.2: pip install 'fedkin[flower]'",
        ),
        (
            {"flwr": "1.43.0"},
            "Flower",
            "expected 1.41 or 1.42, got 1.43.0: pip install 'fedkin[flower]'",
        ),
        ({"flwr": "1.4.1"}, "Flower", "expected 1.41 or 1.42, got 1.4.1"),
        ({"jax": None}, "jax", "not installed"),
        ({"torch": None}, "torch", "pip install 'fedkin[torch]'"),
    ],
    ids=str,
)
def test_packages(
    there: dict[str, str | None], what: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {"flwr": "1.41.0", "jax": "0.10.2", "torch": "2.13.0"}
    monkeypatch.setattr(check, "_installed", lambda package: {**right, **there}[package])
    assert_only_failed({result.name: result for result in check.versions(torch=True)}, what, words)
    assert not any_failed(check.versions()) or what != "torch"


def test_pytorch_is_required_where_a_file_has_its_model(fed: Path) -> None:
    assert "torch" not in {result.name for result in check.check(fed)["here"]}
    exclude(fed / "site-1/client.toml", 'name = "mclr"', 'name = "torch"\ntorch = "nowhere:net"')
    assert "torch" in {result.name for result in check.check(fed, site="site-1")["here"]}
    assert_failed(site(fed, "site-1")["model"], "nowhere")


# --- the server


def test_an_unreadable_file_hides_no_other_failure(fed: Path) -> None:
    (fed / "server.toml").write_text("[federation")
    found = server(fed)
    assert_only_failed(found, "server.toml", "is not TOML")
    assert found["certificate"].mark == "✓"


def test_an_invalid_model(fed: Path) -> None:
    exclude(fed / "server.toml", 'name = "mclr"', 'name = "rnn"')
    assert_only_failed(server(fed), "model", "model: ")


def test_a_run_folder_that_cannot_be_written(fed: Path) -> None:
    (fed / "run").write_text("a file")
    exclude(fed / "server.toml", 'name = "trial"', 'name = "trial"\nfolder = "run/deep"')
    assert_only_failed(server(fed), "run folder", "no file can be written in")


def test_a_run_that_exists(fed: Path) -> None:
    assert server(fed)["run so far"].detail == "none: it starts from the beginning"
    Folder.create(fed / "run", check.load_server(fed / "server.toml").description())
    assert server(fed)["run so far"].detail == "flexcfl has no round yet"
    exclude(fed / "server.toml", "seed = 0", "seed = 1")
    assert_only_failed(server(fed), "run so far", "run.seed is 0 there and 1 here")


def test_too_few_for_clusters(fed: Path) -> None:
    exclude(fed / "server.toml", "wait_for = 2", "wait_for = 1")
    found = server(fed)["clients at the start"]
    assert found.mark == "!" and "federation.wait_for = 1" in found.detail
    assert "FlexCFL may need 2 clients (clusters = 2)" in found.detail
    assert found.detail.endswith("set federation.wait_for=2 or method.clusters=1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "panm",
            "PANM needs peers, but this federation has a server; run it with ",
        ),
        (
            "oracle",
            "Oracle needs the true clusters of all clients, which only a simulation knows; run it "
            "with ",
        ),
    ],
)
def test_a_method_that_no_server_can_run(fed: Path, name: str, words: str) -> None:
    text = (fed / "server.toml").read_text()
    (fed / "server.toml").write_text(
        re.sub(r"(?m)^\[method\]\n(.+\n)*", f'[method]\nname = "{name}"\n', text)
    )
    assert_only_failed(server(fed), "server.toml", words)


def test_a_folder_that_was_moved(fed: Path) -> None:
    moved = Path(shutil.move(fed, fed.parent / "moved"))
    found = server(moved)
    assert found["folder"].mark == "!" and f"was moved from {fed}" in found["folder"].detail
    assert not any_failed(found.values())
    (moved / "flwr/config.toml").unlink()
    (moved / "app/pyproject.toml").write_text("")
    found = server(moved)
    assert_failed(found["app/pyproject.toml"], "[tool.flwr.app.config]")
    assert_failed(found["flwr/config.toml"], "cannot be read")


# --- keys of the server


def test_certificates_that_expire(fed: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for days, marks in ((0, "✓✓"), (825 - SOON.days + 1, "✓!"), (826, "✓✗"), (3651, "✗")):
        found = check_server_keys(fed, "127.0.0.1", now + datetime.timedelta(days=days))
        shown = [result for result in found if result.name in ("authority", "certificate")]
        assert "".join(result.mark for result in shown) == marks
    assert_failed(
        check_server_keys(fed, "127.0.0.1", now - datetime.timedelta(days=1))[0],
        "check the clock of this machine",
    )


def test_a_certificate_for_another_name(fed: Path) -> None:
    assert_failed(
        check_server_keys(fed, "10.0.0.1")[1],
        "is valid for localhost, 127.0.0.1",
        "sites connect to 10.0.0.1",
    )


def test_a_certificate_of_another_authority(fed: Path, tmp_path: Path) -> None:
    other = init(tmp_path / "other", 1, settings=["method.name=fedavg"]).folder
    shutil.copy(other / "keys/ca.pem", fed / "keys/ca.pem")
    assert_only_failed(server(fed), "certificate", "is not signed by the authority")
    shutil.copy(other / "keys/server.pem", fed / "keys/server.pem")
    assert_only_failed(server(fed), "certificate", "is not the key of")


@pytest.mark.parametrize(
    ("name", "what"),
    [("ca.pem", "authority"), ("server.pem", "certificate"), ("server-key.pem", "certificate")],
)
def test_files_that_are_damaged_or_missing(fed: Path, name: str, what: str) -> None:
    (fed / "keys" / name).write_text("nothing")
    assert_failed(server(fed)[what], name, "is not a")
    (fed / "keys" / name).unlink()
    assert_failed(server(fed)[what], name, "cannot be read: No such file")


def test_a_key_of_an_unknown_curve(fed: Path) -> None:
    (fed / "keys/server-key.pem").write_bytes(key_of_unknown_curve())
    assert_failed(server(fed)["certificate"], "server-key.pem", "not supported", "init again")


@pytest.mark.parametrize("path", ["keys/server-key.pem", "keys/ca-key.pem", "site-0/key"])
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_secrets_that_others_can_read(fed: Path, path: str, mode: int) -> None:
    (fed / path).chmod(mode)
    found = site(fed) if path.startswith("site") else server(fed)
    assert_only_failed(found, f"{Path(path).name} is secret", f"chmod 600 {fed / path}")


# --- a site


def test_data_are_missing(fed: Path) -> None:
    exclude(fed / "site-0/client.toml", 'kind = "label_permutation"', 'kind = "none"')
    assert_only_failed(site(fed), "data", "data: ", "none")


def test_data_that_cannot_be_read_or_have_another_shape(fed: Path) -> None:
    path = fed / "site-0/client.toml"
    before = re.sub(r"clients = \[\s*0,\s*\]\n", "", path.read_text()).partition("[data]")[0]
    path.write_text(before + '[data]\nname = "file"\npath = "mine.npz"\n')
    assert_failed(site(fed)["data"], str(fed / "site-0/mine.npz"))
    np.savez(
        fed / "site-0/mine.npz",
        x=np.ones((20, 63), np.float32),
        y=np.arange(20) % 10,
        client_id=np.zeros(20, int),
    )
    assert_failed(
        site(fed)["data"], "samples have shape [63] and 10 classes, but [samples] says [64] and 10"
    )
    np.savez(
        fed / "site-0/mine.npz",
        x=np.ones((20, 64), np.float32),
        y=np.arange(20) % 10,
        client_id=np.zeros(20, int),
    )
    assert site(fed)["data"] == CheckResult("data", "1 client, 18 training samples")


def test_files_that_do_not_agree(fed: Path) -> None:
    exclude(fed / "site-0/client.toml", 'name = "mclr"', 'name = "mlp"')
    assert_only_failed(site(fed), "agreement", "model is", "mlp", "mclr")
    exclude(fed / "site-1/client.toml", 'federation = "trial"', 'federation = "other"')
    assert_only_failed(
        site(fed, "site-1"), "agreement", "client.federation is 'other' here and 'trial' in"
    )


def test_a_server_file_with_an_error_is_one_error(fed: Path) -> None:
    exclude(fed / "server.toml", "rounds", "rouds")
    assert_failed(server(fed)["server.toml"], "run.rouds", "did you mean 'rounds'?")
    found = site(fed)
    assert (
        found["agreement"].mark == "!"
        and f"deploy check {fed} --server" in found["agreement"].detail
    )
    assert not [result for result in found.values() if result.mark == "✗"]


def test_a_state_folder_that_cannot_be_written(fed: Path) -> None:
    (fed / "site-0/state").write_text("a file")
    assert_only_failed(site(fed), "state folder", "no file can be written in")


def test_keys_of_a_site(fed: Path) -> None:
    path = fed / "site-0/key"
    public = fed / "site-0/key.pub"
    assert site(fed)["node key"].detail.startswith(f"{path}, secp384r1")
    shutil.copy(fed / "site-1/key.pub", public)
    assert_only_failed(site(fed), "node key", "is not the public half of")
    public.unlink()
    assert_only_failed(
        site(fed), "node key", "key.pub cannot be read", f"ssh-keygen -y -f {path} > {public}"
    )
    public.write_text("ssh-rsa nothing")
    assert_only_failed(site(fed), "node key", "expected an OpenSSH key")
    _write_pair(path, ed25519.Ed25519PrivateKey.generate())
    assert_only_failed(
        site(fed),
        "node key",
        "expected an elliptic-curve key",
        "ssh-keygen -t ecdsa -b 384",
    )
    path.write_text("nothing")
    assert_only_failed(site(fed), "node key", "expected an OpenSSH key")
    path.unlink()
    assert_failed(site(fed)["node key"], "cannot be read: No such file")


def _write_pair(path: Path, key: ed25519.Ed25519PrivateKey) -> None:
    s = serialization
    path.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption()))
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    path.with_name("key.pub").write_bytes(public)


def test_a_site_without_keys_is_doubtful(tmp_path: Path) -> None:
    fed = init(tmp_path / "fed", 2, secure=False, port=free_ports(1)[0]).folder
    found = site(fed)
    assert found["keys"].mark == "!" and "all machines on the network" in found["keys"].detail
    assert not any_failed(server(fed).values()) and "certificate" not in server(fed)


def test_a_site_without_its_server_s_address(fed: Path) -> None:
    (fed / "site-0/flower.env").write_text("SUPERLINK=nonsense\n")
    assert_only_failed(site(fed), "server", "SUPERLINK: expected host:port, got 'nonsense'")
    (fed / "site-0/flower.env").unlink()
    assert_only_failed(site(fed), "server", "flower.env: cannot be read")


# --- the network


class _Healthy(http.server.BaseHTTPRequestHandler):
    """Answers as a SuperLink does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


class _Ill(_Healthy):
    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()


@contextmanager
def answering(
    port: int, keys: Path | None = None, kind: type[_Healthy] = _Healthy
) -> Iterator[None]:
    """An HTTP server on the loopback, with TLS where it is given keys."""

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that does not trust it hangs up."""

    with Quiet(("127.0.0.1", port), kind) as http_server:
        if keys is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(keys / "server.pem", keys / "server-key.pem")
            http_server.socket = context.wrap_socket(http_server.socket, server_side=True)
        thread = threading.Thread(target=http_server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            http_server.shutdown()
            thread.join()


def test_a_port_in_use(fed: Path) -> None:
    address = files.read_address(fed / files.FLOWER)
    what = f"port {address.port}"
    assert server(fed)[what] == CheckResult(what, "free")
    with answering(address.port, kind=_Ill):
        assert_only_failed(server(fed), what, "not free", "--port")
    with answering(address.port, fed / "keys"):
        assert server(fed)[what] == CheckResult(what, "a SuperLink runs there")


def test_the_server_answers_or_not(fed: Path, tmp_path: Path) -> None:
    address = files.read_address(fed / files.FLOWER)
    what = f"server {address}"
    ca = fed / "keys/ca.pem"
    assert (
        site(fed)[what].mark == "!"
        and "not reachable (Connection refused)" in site(fed)[what].detail
    )
    with answering(address.port, fed / "keys"):
        assert site(fed)[what] == CheckResult(
            what, "a SuperLink replies, with the right certificate"
        )
        assert_failed(
            check_network.check_superlink(Address(port=address.port, secure=False), ca),
            "not a SuperLink without TLS",
        )
    with answering(address.port):
        assert_only_failed(site(fed), what, "not a SuperLink with TLS")
        assert (
            check_network.check_superlink(Address(port=address.port, secure=False), ca).mark == "✓"
        )
    with answering(address.port, kind=_Ill):
        assert_failed(
            check_network.check_superlink(Address(port=address.port, secure=False), ca),
            "replies 404",
        )
    other = init(tmp_path / "other", 2).folder
    with answering(address.port, other / "keys"):
        assert_only_failed(site(fed), what, "the SuperLink's certificate was not issued by")


def test_an_unknown_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(*arguments: object) -> int:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(check_network, "_health_status", unknown)
    found = check_network.check_superlink(Address("nowhere.example.org", secure=False), tmp_path)
    assert_failed(found, "no machine has the name nowhere.example.org")


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_server_without_a_readable_authority(fed: Path, damage: str) -> None:
    path = fed / "site-0/ca.pem"
    path.unlink()
    if damage == "garbage":
        path.write_text("nothing")
    found = site(fed)
    assert_failed(found["authority"], str(path))
    assert_failed(
        found[f"server {files.read_address(fed / files.FLOWER)}"],
        "not checked without the authority",
    )
