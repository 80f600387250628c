"""The compose file of a deployment: its server and its sites as containers on one machine, none of them root.

Every folder has the same path inside as outside, because the files name some of them in full; of the others' folders a
container sees nothing. JSON strings are YAML strings, so that no path or name can be read as anything else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from fedkin import __version__
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.processes import MARK

COMPOSE, HOST = "compose.yaml", "server"  # HOST: name of the server's container, which sites connect to
_HEALTH = {"interval": "15s", "timeout": "10s", "retries": 3, "start_period": "60s"}
_SECURITY = {"security_opt": ["no-new-privileges:true"], "cap_drop": ["ALL"], "init": True, "restart": "unless-stopped"}


def compose_text(folder: Path, address: Address, sites: list[str]) -> str:
    """Content of ``compose.yaml``.

    Args:
        folder: of the deployment.
        address: of the SuperLink.
        sites: names of their folders.
    """
    root = folder.resolve()
    services = {
        HOST: _server(root, address, sites),
        "run": _run(root, address, sites),
        **{name: _site(root, name) for name in sites},
    }
    head = "# Written by `fedkin deploy init --compose` each time that it runs. No port is open to the outside.\n"
    return head + "services:\n" + "".join(_service(name, entries) for name, entries in services.items())


def _server(root: Path, address: Address, sites: list[str]) -> dict[str, object]:
    options = [word for line in files.superlink_options(address) for word in line]
    return {
        **_common(root, root, "superlink"),
        "command": ["flower-superlink", *options],
        "volumes": [f"{root}:{root}"],
        "tmpfs": [str(root / name) for name in sites],  # their keys and data are none of its business
        "healthcheck": {"test": ["CMD", "python", "-c", _health_program(address)], **_HEALTH},
    }


def _run(root: Path, address: Address, sites: list[str]) -> dict[str, object]:
    """Registers the sites' keys and starts the run, once the server replies; then it has done its part."""
    keys = [root / files.CA, *(root / name / files.NODE_PUBLIC for name in sites)] if address.secure else []
    own = [root / files.APP.parent, root / files.FLOWER.parent]
    register = ["--register", *sites] if address.secure else []
    return {
        **_common(root, root, "starter"),
        "command": ["python", "-m", "fedkin.server.deploy.flower_commands", "--run", *register],
        "volumes": [*(f"{path}:{path}" for path in own), *(f"{path}:{path}:ro" for path in keys)],
        "depends_on": {HOST: {"condition": "service_healthy"}},
        "restart": "no",
    }


def _site(root: Path, name: str) -> dict[str, object]:
    folder = root / name
    return {
        **_common(root, folder, "site"),
        "command": ["fedkin", "deploy", "node", str(folder)],
        "volumes": [f"{folder}:{folder}"],
        "depends_on": {HOST: {"condition": "service_healthy"}},
        "healthcheck": {"test": ["CMD", "fedkin", "deploy", "status", str(folder)], **_HEALTH},
    }


def _common(root: Path, folder: Path, kind: str) -> dict[str, object]:
    """What all have: the image, which is built with no file but the app's, the user, and the folder's variables."""
    return {
        "image": f"fedkin-flower:{__version__}",
        "build": {"context": str(root / files.APP.parent), **_IMAGE},
        "user": f"{os.getuid()}:{os.getgid()}",
        "working_dir": str(folder),
        "env_file": [str(folder / files.ENVIRONMENT)],
        "environment": {"FLWR_HOME": str(folder / "flwr"), "HOME": "/tmp", MARK: f"{folder}:{kind}"},
        **_SECURITY,
    }


_IMAGE = {"dockerfile_inline": f"FROM python:3.12-slim\nRUN pip install 'fedkin[flower]=={__version__}'\n"}


def _health_program(address: Address) -> str:
    """Whether the SuperLink replies, with its certificate, as a program of the standard library."""
    scheme = "https" if address.secure else "http"
    trusted = f", context=ssl.create_default_context(cafile={str(files.CA)!r})" if address.secure else ""
    url = f"{scheme}://localhost:{address.port}/health"
    return f"import ssl, urllib.request; urllib.request.urlopen({url!r}, timeout=4{trusted})"


def _service(name: str, entries: dict[str, object]) -> str:
    values = {key: json.dumps(value).replace("$", "$$") for key, value in entries.items()}  # no variable of a shell
    lines = "".join(f"    {key}: {value}\n" for key, value in values.items())
    return f"  {json.dumps(name)}:\n{lines}"
