"""Containers of a deployment on one machine: a compose file, and the files that build the image.

compose.yaml               the server, the sites, and a container that starts the run
containers/Dockerfile      image of all containers, with fedkin's wheel
containers/fedkin-*.whl    wheel of the fedkin version that wrote these files
containers/flwr/           the server's address for Flower's commands inside the containers

The paths on the machine are relative to compose.yaml, so that the folder can be moved. Every
container has the deployment at the same path (``/fed``), but cannot see the folders of other
containers. Paths and names are written as JSON strings, which are also valid in YAML.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkin import __version__
from fedkin.core.storage import write_atomic
from fedkin.options import SECTIONS
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.own_wheel import wheel_name
from fedkin.server.deploy.processes import MARK

COMPOSE = "compose.yaml"
HOST = "server"  # name of the server's container, to which sites connect
INSIDE = "/fed"  # path of the deployment in every container
DOCKERFILE = Path("containers/Dockerfile")
FLOWER = Path("containers/flwr/config.toml")
# User that owns files which root wrote, because no container runs as root.
USER = 10_001
_HEALTH = {"interval": "15s", "timeout": "10s", "retries": 3, "start_period": "60s"}
_SECURITY = {
    "security_opt": ["no-new-privileges:true"],
    "cap_drop": ["ALL"],
    "init": True,
    "restart": "unless-stopped",
}
_SITE_FILES = (files.CLIENT, files.ENVIRONMENT, files.SITE_CA, files.NODE_KEY, files.NODE_PUBLIC)


def write_containers(
    folder: Path,
    address: Address,
    sites: list[str],
    server: Mapping[str, Mapping[str, Any]],
    wheel: bytes,
) -> None:
    """Write the compose file and the files that it needs.

    Files that ``init`` wrote as root get an ordinary user as their owner.

    Args:
        folder: folder of the deployment.
        address: address of the SuperLink.
        sites: names of the sites' folders.
        server: content of server.toml.
        wheel: content of fedkin's wheel.

    Raises OSError if a file cannot be written.
    """
    (folder / FLOWER).parent.mkdir(parents=True, exist_ok=True)
    for old in (folder / DOCKERFILE).parent.glob("fedkin-*.whl"):
        old.unlink()
    write_atomic((folder / DOCKERFILE).parent / wheel_name(), wheel)
    write_atomic(folder / DOCKERFILE, dockerfile_text(server))
    write_atomic(folder / FLOWER, _flower_config(address))
    write_atomic(folder / COMPOSE, compose_text(address, sites))
    if os.getuid() == 0:
        _give_away(folder, sites)


def container_user() -> tuple[int, int]:
    """User and group of all containers: this process's, or an ordinary user's if it runs as
    root."""
    if os.getuid() == 0:
        return USER, USER
    return os.getuid(), os.getgid()


def dockerfile_text(server: Mapping[str, Mapping[str, Any]]) -> str:
    """Content of the Dockerfile.

    It installs the extras that ``server``, the content of server.toml, needs.
    """
    of_options = [kind.extra for section, kind in SECTIONS.items() if server.get(section)]
    extras = ["flower", *filter(None, of_options)]
    if "torch" in server.get("model", {}):
        extras.append("torch")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        "# Written by `fedkin deploy init --compose` each time that it runs\n"
        f"FROM python:{python}-slim\n"
        f"COPY {wheel_name()} /tmp/\n"
        f"RUN pip install --no-cache-dir '/tmp/{wheel_name()}[{','.join(extras)}]'\n"
        f"USER {USER}\n"
    )


def compose_text(address: Address, sites: list[str]) -> str:
    """Content of ``compose.yaml``.

    Args:
        address: address of the SuperLink.
        sites: names of the sites' folders.
    """
    services = {HOST: _server(address, sites), "run": _run(address, sites)}
    for name in sites:
        services[name] = _site(name)
    head = (
        "# Written by `fedkin deploy init --compose` each time that it runs. No port is open to "
        "the outside.\n"
    )
    lines = [_service(name, entries) for name, entries in services.items()]
    return "".join([head, "services:\n", *lines])


def _flower_config(address: Address) -> str:
    """Content of ``containers/flwr/config.toml``, with paths in a container."""
    return files.flower_config(Path(INSIDE), address)


def _server(address: Address, sites: list[str]) -> dict[str, object]:
    """The entries of the server's container (Flower's SuperLink) in compose.yaml."""
    options = [word for line in files.superlink_options(address) for word in line]
    return {
        **_common("", "superlink"),
        "command": ["flower-superlink", *options],
        "volumes": [f".:{INSIDE}"],
        # The keys and the data of the sites are hidden from the server.
        "tmpfs": [f"{INSIDE}/{name}" for name in sites],
        "healthcheck": {"test": ["CMD", "python", "-c", _health_program(address)], **_HEALTH},
    }


def _run(address: Address, sites: list[str]) -> dict[str, object]:
    """The entries of the container that starts the run.

    It waits for the server, registers the sites' keys, starts the run, and exits.
    """
    volumes = [
        _mount(str(files.APP.parent)),
        f"./{FLOWER.parent}:{INSIDE}/{files.FLOWER.parent}",
    ]
    register = []
    if address.secure:
        # A site is registered under the name in its client.toml.
        of_sites = [
            f"{name}/{file}" for name in sites for file in (files.NODE_PUBLIC, files.CLIENT)
        ]
        volumes += [f"{_mount(path)}:ro" for path in (str(files.CA), *of_sites)]
        register = ["--register", *sites]
    start = ["python", "-m", "fedkin.server.deploy.flower_commands", "--run"]
    config = ["--server", f"{INSIDE}/{files.SERVER}"]
    return {
        **_common("", "starter"),
        "command": [*start, *config, *register],
        "volumes": volumes,
        "depends_on": {HOST: {"condition": "service_healthy"}},
        "restart": "no",
    }


def _site(name: str) -> dict[str, object]:
    """The entries of a site's container in compose.yaml."""
    folder = f"{INSIDE}/{name}"
    return {
        **_common(name, "site"),
        "command": ["fedkin", "deploy", "node", folder],
        "volumes": [_mount(name)],
        "depends_on": {HOST: {"condition": "service_healthy"}},
        "healthcheck": {"test": ["CMD", "fedkin", "deploy", "status", folder], **_HEALTH},
    }


def _common(name: str, kind: str) -> dict[str, object]:
    """The entries that every container has: image, user, and environment variables.

    Args:
        name: name of the site's folder; empty for the server's container, and for the container
            that starts the run.
        kind: kind of the container's program. It is part of an environment variable
            (``processes.MARK``), by which fedkin finds the program's processes.
    """
    folder = f"{INSIDE}/{name}" if name else INSIDE
    user, group = container_user()
    return {
        "image": f"fedkin-flower:{__version__}",
        "build": {"context": f"./{DOCKERFILE.parent}"},
        "user": f"{user}:{group}",
        "working_dir": folder,
        "env_file": [f"./{Path(name, files.ENVIRONMENT)}"],
        "environment": {"FLWR_HOME": f"{folder}/flwr", "HOME": "/tmp", MARK: f"{folder}:{kind}"},
        **_SECURITY,
    }


def _mount(path: str) -> str:
    """A volume: a file or folder of the deployment, at the same relative path in a container."""
    return f"./{path}:{INSIDE}/{path}"


def _give_away(folder: Path, sites: list[str]) -> None:
    """Give files that ``init`` wrote as root to the containers' user, since no container runs as
    root.

    Links are not followed: the folder may contain links that other users made.

    Args:
        folder: folder of the deployment; it may contain files of other users.
        sites: names of the sites' folders.
    """
    written = [
        *(files.APP, files.FLOWER, files.SERVER, files.ENVIRONMENT, files.COMMANDS),
        *(files.CA, files.CA_KEY, files.CERTIFICATE, files.SERVER_KEY),
        *(COMPOSE, DOCKERFILE, DOCKERFILE.parent / wheel_name(), FLOWER),
        *(f"{name}/{file}" for name in sites for file in _SITE_FILES),
    ]
    paths = [folder / name for name in written]
    # The folders of these files, up to the deployment's folder.
    folders = []
    for path in paths:
        folders += [
            parent for parent in path.parents if parent == folder or folder in parent.parents
        ]
    for path in dict.fromkeys([*folders, *paths]):
        if os.path.lexists(path) and path.lstat().st_uid == 0:
            os.chown(path, USER, USER, follow_symlinks=False)


def _health_program(address: Address) -> str:
    """A Python program that exits with an error unless the SuperLink replies.

    If the federation uses TLS, the SuperLink must also show a certificate of the federation's
    authority. The program needs only the standard library.
    """
    scheme = "https" if address.secure else "http"
    context = f"ssl.create_default_context(cafile={str(files.CA)!r})"
    trusted = f", context={context}" if address.secure else ""
    url = f"{scheme}://localhost:{address.port}/health"
    return f"import ssl, urllib.request; urllib.request.urlopen({url!r}, timeout=4{trusted})"


def _service(name: str, entries: dict[str, object]) -> str:
    """The lines of a container in compose.yaml.

    Dollar signs are escaped, because compose would read them as variables.
    """
    values = {key: json.dumps(value).replace("$", "$$") for key, value in entries.items()}
    lines = "".join(f"    {key}: {value}\n" for key, value in values.items())
    return f"  {json.dumps(name)}:\n{lines}"
