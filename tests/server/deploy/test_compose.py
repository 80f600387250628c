"""The containers of a deployment: server and sites, none as root,
none with the files of another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedkin.core.errors import ConfigError
from fedkin.server.deploy import compose, own_wheel
from fedkin.server.deploy.init import init

yaml = pytest.importorskip("yaml", reason="a deployment needs pip install 'fedkin[flower]'")
# All that Compose's specification has for a service, as far as it is used here.
SERVICE_KEYS = {
    *(
        "build",
        "cap_drop",
        "command",
        "depends_on",
        "env_file",
        "environment",
        "healthcheck",
        "image",
        "init",
    ),
    *("restart", "security_opt", "tmpfs", "user", "volumes", "working_dir"),
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period"}
ODD_NAMES = ['a "quoted" one', "a # hash", "ünï", "a $dollar: and a colon"]


def services(folder: Path, **options: Any) -> dict[str, Any]:
    """The services of a new deployment with two sites."""
    init(folder, 2, compose=True, **options)
    return yaml.safe_load((folder / "compose.yaml").read_text())["services"]


def compose_program() -> tuple[list[str], str] | None:
    """The command of Docker Compose and its version, as a plugin or by itself; it needs no engine
    to read a file."""
    commands = [["docker", "compose"], ["docker-compose"]]
    for command in commands:
        if shutil.which(command[0]):
            done = subprocess.run([*command, "version"], capture_output=True, text=True)
            if done.returncode == 0:
                return command, done.stdout
    return None


def test_server_run_and_sites_are_services_without_root(tmp_path: Path) -> None:
    found = services(tmp_path / "fed")
    assert [*found] == ["server", "run", "site-0", "site-1"]
    for name, service in found.items():
        user = int(service["user"].split(":")[0])
        assert user > 0
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == [
            "no-new-privileges:true"
        ]
        assert ("healthcheck" in service) == (name != "run")
    assert found["site-1"]["depends_on"] == {"server": {"condition": "service_healthy"}}
    assert found["site-1"]["command"] == ["fedkin", "deploy", "node", "/fed/site-1"]
    assert found["site-1"]["healthcheck"]["test"][1:] == [
        "fedkin",
        "deploy",
        "status",
        "/fed/site-1",
    ]
    assert found["run"]["command"][-3:] == ["--register", "site-0", "site-1"]


@pytest.mark.parametrize("name", ["fed", *ODD_NAMES])
def test_every_service_has_the_keys_and_types_of_the_specification(
    tmp_path: Path, name: str
) -> None:
    for service in services(tmp_path / name, secure=False).values():
        assert service.keys() <= SERVICE_KEYS
        assert service.get("healthcheck", {}).keys() <= HEALTH_KEYS
        assert all(isinstance(word, str) for word in service["command"])
        assert all(isinstance(value, str) for value in service["environment"].values())
        for volume in service["volumes"]:
            assert re.fullmatch(r"\.(/[\w./-]+)?:/fed(/[\w./-]+)?(:ro)?", volume)


@pytest.mark.parametrize("name", ["fed", *ODD_NAMES])
def test_docker_compose_reads_the_file(tmp_path: Path, name: str) -> None:
    """What Compose makes of it; the test above stands in where Compose is not installed."""
    program = compose_program()
    if program is None:
        pytest.skip("neither docker compose nor docker-compose is installed")
    command, version = program
    if ":" in name and "version 1." in version:
        pytest.skip("Compose 1 cannot read volumes of a folder with a colon in its name")
    written = services(tmp_path / name)
    file = str(tmp_path / name / "compose.yaml")
    done = subprocess.run([*command, "--file", file, "config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = yaml.safe_load(done.stdout)["services"]
    assert read.keys() == written.keys()
    for service, entries in read.items():
        assert entries["command"] == written[service]["command"]
        assert entries["user"] == written[service]["user"]
        assert "FLWR_TELEMETRY_ENABLED" in entries["environment"]
        context = entries["build"]["context"].replace("$$", "$")
        assert Path(context) == tmp_path / name / "containers"


def test_a_file_of_root_belongs_to_the_user_of_the_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Path] = []
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(
        os, "chown", lambda path, user, group, **_: given.append(path) or check(user, group)
    )
    monkeypatch.setattr(
        Path, "lstat", lambda path: os.stat_result((0o600, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    )

    def check(user: int, group: int) -> None:
        assert user == group == compose.USER

    for name in ("database/main.db", "site-0/notes.txt"):  # they were there before
        (tmp_path / "fed" / name).parent.mkdir(parents=True)
        (tmp_path / "fed" / name).touch()
    found = services(tmp_path / "fed")
    assert {service["user"] for service in found.values()} == {"10001:10001"}
    names = {path.relative_to(tmp_path).as_posix() for path in given}
    written = {path for path in (tmp_path / "fed").rglob("*") if not path.match("database*/**")}
    written = {path.relative_to(tmp_path).as_posix() for path in written}
    foreign = {"fed/database", "fed/database/main.db", "fed/site-0/notes.txt"}
    assert names == ({"fed"} | written) - foreign


@pytest.mark.parametrize("host", [None, "127.0.0.1", "localhost"])
def test_a_server_at_a_loopback_address_is_refused(tmp_path: Path, host: str | None) -> None:
    """None: of a deployment that was made without containers."""
    folder = tmp_path / "my fed"
    if host is None:
        init(folder, 2)
    with pytest.raises(ConfigError) as refused:
        init(folder, 2, compose=True, host=host)
    place = folder if host else f"{folder}-containers"
    assert f"fedkin deploy init '{place}' --compose" in str(refused.value)
    assert "--compose: the server of" in str(refused.value) and "without --host" in str(
        refused.value
    )
    assert not (folder / "compose.yaml").exists()


def test_another_user_runs_the_containers_and_keeps_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setattr(os, "getgid", lambda: 99)
    monkeypatch.setattr(os, "chown", lambda *_, **__: pytest.fail("a file was given away"))
    found = services(tmp_path / "fed")
    assert {service["user"] for service in found.values()} == {"1234:99"}


def test_all_paths_of_the_machine_are_relative(tmp_path: Path) -> None:
    """The folder can be moved: only the path in the containers is absolute, and it is always the
    same."""
    found = services(tmp_path / "fed")
    assert str(tmp_path) not in (tmp_path / "fed/compose.yaml").read_text()
    assert str(tmp_path) not in (tmp_path / "fed/containers/flwr/config.toml").read_text()
    shutil.move(tmp_path / "fed", tmp_path / "moved")
    for service in found.values():
        sources = [volume.split(":")[0] for volume in service["volumes"]]
        for path in [*sources, *service["env_file"], service["build"]["context"]]:
            assert path.startswith(".") and (tmp_path / "moved" / path).exists()


def test_no_container_has_the_private_files_of_another(tmp_path: Path) -> None:
    found = services(tmp_path / "fed")
    assert found["site-0"]["volumes"] == ["./site-0:/fed/site-0"]
    assert found["server"]["volumes"] == [".:/fed"]
    assert set(found["server"]["tmpfs"]) == {"/fed/site-0", "/fed/site-1"}
    mounted = [entry.split(":")[0] for entry in found["run"]["volumes"]]
    assert {Path(path).name for path in mounted} == {
        "app",
        "flwr",
        "ca.pem",
        "key.pub",
        "client.toml",
    }
    for service in found.values():
        assert "ports" not in service and "privileged" not in service


def test_sites_find_the_server_by_its_containers_name(tmp_path: Path) -> None:
    services(tmp_path / "fed", port=8123)
    assert "SUPERLINK=server:8123\n" in (tmp_path / "fed/site-0/flower.env").read_text()
    assert 'address = "server:8123"' in (tmp_path / "fed/containers/flwr/config.toml").read_text()
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((tmp_path / "fed/keys/server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "server" in names.get_values_for_type(x509.DNSName)
    services(tmp_path / "fed")  # again: the address stays
    assert "SUPERLINK=server:8123\n" in (tmp_path / "fed/site-0/flower.env").read_text()


def test_the_health_check_is_a_program_that_fails_where_nothing_replies(tmp_path: Path) -> None:
    test = services(tmp_path / "fed", port=1, secure=False)["server"]["healthcheck"]["test"]
    assert test[:3] == ["CMD", "python", "-c"]
    done = subprocess.run([sys.executable, "-c", test[3]], capture_output=True, text=True)
    assert done.returncode == 1 and "URLError" in done.stderr


@pytest.mark.parametrize(
    ("settings", "extras"),
    [
        ([], "flower"),
        (["model.torch=torch.nn:Identity"], "flower,torch"),
        (["secret.least=3"], "flower,secret"),
    ],
    ids=["jax", "torch", "secret sums"],
)
def test_the_image_has_the_wheel_with_the_extras_of_the_run(
    settings: list[str], extras: str
) -> None:
    server: dict[str, dict[str, Any]] = {}
    for text in settings:
        section, _, rest = text.partition(".")
        key, _, value = rest.partition("=")
        server[section] = {key: value}
    lines = compose.dockerfile_text({"secret": {}, "privacy": {}, **server}).splitlines()
    wheel = compose.wheel_name()
    assert f"COPY {wheel} /tmp/" in lines
    assert f"RUN pip install --no-cache-dir '/tmp/{wheel}[{extras}]'" in lines
    assert lines[-1] == "USER 10001"


def test_nothing_is_written_where_no_wheel_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_wheel, "distribution", lambda name: SimpleNamespace(version="0.0.9"))
    with pytest.raises(ConfigError, match=r"0\.0\.9.*install fedkin again"):
        init(tmp_path / "fed", 2, compose=True)
    assert not (tmp_path / "fed").exists()


def test_an_older_wheel_is_replaced(tmp_path: Path) -> None:
    services(tmp_path / "fed")
    old = tmp_path / "fed/containers/fedkin-0.1.0-py3-none-any.whl"
    old.touch()
    services(tmp_path / "fed")
    wheels = [path.name for path in old.parent.glob("*.whl")]
    assert wheels == [compose.wheel_name()]


def test_values_are_json_in_which_no_variable_is_read(tmp_path: Path) -> None:
    init(tmp_path / "fed", 2, compose=True, secure=False)
    lines = (tmp_path / "fed/compose.yaml").read_text().splitlines()
    values = [line.partition(": ")[2] for line in lines if line.startswith("    ")]
    assert len(values) > 20
    for value in values:
        json.loads(value)
        assert "$" not in value.replace("$$", "")
