"""The containers of a deployment without Docker: their image is an environment with nothing of
fedkin but the wheel.

The commands are those of the Dockerfile and of compose.yaml, in their folders and with their
variables. Libraries other than fedkin are those of the tests, so that nothing is downloaded.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="a deployment needs pip install 'fedkin[flower]'")
import yaml

from fedkin.server.deploy import compose
from fedkin.server.deploy.init import init
from tests.free_ports import free_ports, until

if not Path("/proc/self/environ").is_file():
    pytest.skip(
        f"processes are found in /proc, which {sys.platform} has not", allow_module_level=True
    )
SETTINGS = [
    "run.rounds=1",
    "run.against=[]",
    "local.epochs=1",
    "federation.deadline=300",
    "run.cohort=2",
]
PATIENCE = 240  # seconds; every process takes many on a busy machine
# The folder of compiled programs, which the services would make again, and one thread for each
# product of matrices.
QUICK = {
    name: value
    for name, value in os.environ.items()
    if name.startswith("JAX_") or name.endswith("_NUM_THREADS")
}


@pytest.fixture
def deployment(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment whose path on this machine is the one in the containers."""
    folder = short_path / "fed"
    monkeypatch.setattr(compose, "INSIDE", str(folder))
    # The services are processes of this machine, so the loopback address reaches the server.
    monkeypatch.setattr("fedkin.server.deploy.init._refuse_loopback", lambda folder, address: None)
    init(folder, 2, host="127.0.0.1", port=free_ports(1)[0], settings=SETTINGS, compose=True)
    return folder


@pytest.fixture
def image(deployment: Path, tmp_path: Path) -> Path:
    """The programs of an environment that was built by the commands of the Dockerfile."""
    environment = tmp_path / "image"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    programs = environment / "bin"
    packages = next((environment / "lib").glob("python*")) / "site-packages"
    (packages / "libraries.pth").write_text(f"{libraries(tmp_path / 'libraries')}\n")
    for program in Path(sys.executable).parent.glob("fl*w*r*"):
        text = program.read_text().partition("\n")[2]
        copy = programs / program.name
        copy.write_text(f"#!{programs / 'python'}\n{text}")
        copy.chmod(0o755)
    pip = [str(programs / "python"), "-m", "pip", "install", "--no-index", "--quiet"]
    folder = deployment / compose.DOCKERFILE.parent
    for words in run_lines(deployment / compose.DOCKERFILE):
        assert words[:2] == ["pip", "install"]
        arguments = [word.replace("/tmp/", f"{folder}/") for word in words[2:]]
        done = subprocess.run([*pip, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return programs


def libraries(folder: Path) -> Path:
    """A folder with links to all installed packages but fedkin."""
    folder.mkdir()
    for entry in sys.path:
        if not entry.endswith("site-packages"):
            continue
        for path in Path(entry).iterdir():
            link = folder / path.name
            if "fedkin" not in path.name and path.suffix != ".pth" and not link.exists():
                link.symlink_to(path)
    return folder


def run_lines(dockerfile: Path) -> list[list[str]]:
    """The words of the commands by which an image is built."""
    lines = re.findall(r"^RUN (.*)$", dockerfile.read_text(), re.MULTILINE)
    assert lines
    return [shlex.split(line) for line in lines]


class Containers:
    """The services of a compose file, each a process."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.programs = programs
        self.services: dict[str, Any] = yaml.safe_load((folder / compose.COMPOSE).read_text())[
            "services"
        ]
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> subprocess.Popen[bytes]:
        """Start a service by its command."""
        service = self.services[name]
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                service["command"],
                cwd=service["working_dir"],
                env=self.variables(name),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.started.append(process)
        return process

    def is_healthy(self, name: str) -> bool:
        """Whether the health check of a service succeeds."""
        service = self.services[name]
        command = service["healthcheck"]["test"]
        assert command[0] == "CMD"
        done = subprocess.run(
            command[1:],
            cwd=service["working_dir"],
            env=self.variables(name),
            capture_output=True,
        )
        return done.returncode == 0

    def variables(self, name: str) -> dict[str, str]:
        """The variables of a service: of its files, and its own; of this process only those that
        save time."""
        service = self.services[name]
        lines = [
            line
            for file in service["env_file"]
            for line in (self.folder / file).read_text().splitlines()
        ]
        given = dict(line.split("=", 1) for line in lines if "=" in line)
        path = f"{self.programs}:/usr/bin:/bin"
        return {**QUICK, "PATH": path, **given, **service["environment"]}

    def log(self, name: str) -> Path:
        """The file of a service's output."""
        return self.folder.parent / f"{name}.log"

    def stop(self) -> None:
        """End all services, the last one first."""
        for process in reversed(self.started):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def containers(deployment: Path, image: Path) -> Iterator[Containers]:
    services = Containers(deployment, image)
    yield services
    services.stop()


def test_the_services_of_the_compose_file_do_a_run(containers: Containers, tmp_path: Path) -> None:
    program = [str(containers.programs / "python"), "-c", "import fedkin; print(fedkin.__file__)"]
    place = subprocess.run(
        program, cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert place.stdout.startswith(str(containers.programs.parent))

    containers.start("server")
    assert until(lambda: containers.is_healthy("server"), PATIENCE), containers.log(
        "server"
    ).read_text()
    sites = [containers.start(name) for name in ("site-0", "site-1")]
    starter = containers.start("run")
    assert starter.wait(PATIENCE) == 0, containers.log("run").read_text()
    summary = containers.folder / "run/summary.json"
    assert until(summary.exists, PATIENCE), containers.log("server").read_text()[-3000:]
    assert all(site.poll() is None for site in sites)
    assert containers.is_healthy("site-0")
    containers.stop()
    assert not containers.is_healthy("site-0")


def test_no_file_of_the_deployment_is_of_root(deployment: Path) -> None:
    """Where the tests run as root, all files were given away."""
    owners = {path.lstat().st_uid for path in (deployment, *deployment.rglob("*"))}
    assert owners == {compose.container_user()[0]} and owners != {0}
