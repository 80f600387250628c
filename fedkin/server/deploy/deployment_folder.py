"""The folder of a deployment: its files, and the commands that start its programs.

server.toml           the run and the federation
app/pyproject.toml    the app for Flower: its programs, and the path of server.toml
flwr/config.toml      the SuperLink's address for Flower's commands
keys/                 certificate authority (ca.pem, ca-key.pem); the server's certificate and key
site-K/               files of site K: client.toml, flower.env, ca.pem, and its key, with key.pub
COMMANDS.md           the commands that start all programs
server.log            the server's log of the run
"""

from __future__ import annotations

import ipaddress
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedkin import __version__
from fedkin.core.errors import ConfigError
from fedkin.core.object_repr import shell_command

SERVER = "server.toml"
CLIENT = "client.toml"
COMMANDS = "COMMANDS.md"
ENVIRONMENT = "flower.env"
APP = Path("app/pyproject.toml")
FLOWER = Path("flwr/config.toml")
KEYS = Path("keys")
CA = KEYS / "ca.pem"
CA_KEY = KEYS / "ca-key.pem"
CERTIFICATE = KEYS / "server.pem"
SERVER_KEY = KEYS / "server-key.pem"
SITE_CA = "ca.pem"
NODE_KEY = "key"
NODE_PUBLIC = "key.pub"
DATABASE = "state.db"  # of the SuperLink
SERVER_LOG = "server.log"  # of the run
CONNECTION = "fedkin"  # name of the SuperLink in Flower's commands
FIRST_PORT = 9094  # port of a machine's first SuperNode, Flower's default

# Turn off telemetry and the check for updates, poll at short intervals, and let Python store
# compiled code. A server's program polls for runs to start, a site's program for messages.
VARIABLES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Address:
    """The address of the SuperLink (Flower's server) for sites and for Flower's commands, and
    whether the SuperLink uses TLS."""

    host: str = "127.0.0.1"
    port: int = 8000
    secure: bool = True

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def bind_host(self) -> str:
        """The host that the SuperLink binds: all interfaces, unless the address is a loopback
        address."""
        return self.host if self.is_loopback else "0.0.0.0"

    @property
    def is_loopback(self) -> bool:
        """Whether the address is a loopback address."""
        return self.host == "localhost" or self.host.startswith("127.")

    @classmethod
    def parse(cls, text: str, secure: bool, where: str) -> Address:
        """Parse an address ``host:port``.

        Args:
            text: text of the address.
            secure: whether the SuperLink has a certificate.
            where: place of the text, for the message of a ConfigError.
        """
        host, _, port = text.rpartition(":")
        if not (is_host(host) and port.isdecimal() and 1 <= int(port) <= 65_535):
            raise ConfigError(f"{where}: expected host:port, got {text!r}")
        return cls(host, int(port), secure)


def is_host(text: str) -> bool:
    """Whether a text is a host name or an IPv4 address."""
    if re.fullmatch(r"[\d.]+", text):
        try:
            return ipaddress.ip_address(text).version == 4
        except ValueError:
            return False
    return len(text) < 254 and all(
        re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", part) for part in text.split(".")
    )


def read_address(path: Path) -> Address:
    """The SuperLink's address in ``flwr/config.toml``. Raises ConfigError if the file has none."""
    try:
        entry = tomllib.loads(path.read_text())["superlink"][CONNECTION]
        secure = not entry.get("insecure", False)
        return Address.parse(str(entry["address"]), secure, f"{path}: address")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path}: cannot be read ({error}); remove it, and fedkin deploy init writes a new one"
        ) from error


def read_environment(folder: Path) -> dict[str, str]:
    """The variables of a site's ``flower.env``. Raises ConfigError if it cannot be read."""
    path = folder / ENVIRONMENT
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read ({error}); it must have a line SUPERLINK=host:port"
        ) from error
    entries = [line.partition("=") for line in lines if not line.startswith("#")]
    return {name.strip(): value.strip() for name, equals, value in entries if equals}


def flower_config(folder: Path, address: Address) -> str:
    """Content of ``flwr/config.toml``. Flower needs the absolute path of the authority's
    certificate."""
    connection: dict[str, object] = {"address": str(address)}
    if address.secure:
        connection["root-certificates"] = str(folder.absolute() / CA)
    else:
        connection["insecure"] = True
    return tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}})


def app_project(folder: Path) -> str:
    """Content of ``app/pyproject.toml``, the only file that is sent to sites.

    It only names programs that are already installed at the sites.
    """
    package = "fedkin.server.deploy"
    project = {
        "name": "fedkin-app",
        "version": __version__,
        "dependencies": [],
        "description": "Clustered federated learning with fedkin.",
        "license": "Apache-2.0",
    }
    flower = {
        "publisher": "fedkin",
        "components": {
            "serverapp": f"{package}.server_app:app",
            "clientapp": f"{package}.client_app:app",
        },
        "config": {"config": str(folder.absolute() / SERVER)},
    }
    return tomli_w.dumps({"project": project, "tool": {"flwr": {"app": flower}}})


def environment_text(address: Address | None = None, port: int = FIRST_PORT) -> str:
    """Content of ``flower.env``, for shells, systemd and Docker.

    With an address it is the file of a site, otherwise the file of the server.
    """
    variables = dict(VARIABLES)
    if address:
        site = {"SUPERLINK": str(address), "SUPERNODE_PORT": str(port)}
        variables = {**site, **VARIABLES, "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2"}
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def commands(folder: Path, address: Address, sites: list[str]) -> str:
    """The shell commands that start all programs on this machine.

    Args:
        folder: folder of the deployment.
        address: address of the SuperLink.
        sites: names of the sites' folders.
    """
    root = shlex.quote(str(folder.absolute()))
    programs = shlex.quote(str(Path(sys.executable).parent))
    each = f"for site in {' '.join(sites)}; do"
    register = f'flwr supernode register "$site/{NODE_PUBLIC}" {CONNECTION} --name "$site"'
    parts = {
        "In every new shell": [
            f"cd {root}",
            f'export PATH={programs}:"$PATH" FLWR_HOME="$PWD/flwr"',
            _SOURCE,
        ],
        "The SuperLink": [superlink(address), _WAIT],
    }
    if address.secure:
        parts["Register the sites, once for each"] = [f"{each} {register}; done"]
    parts |= {
        "A SuperNode for each site": [each, f"  ({supernode(address.secure)}) &", "done"],
        "A run; the same command resumes a stopped one": [f"flwr run app {CONNECTION} --stream"],
        "The report": ["fedkin report run"],
        "Stop all programs of this shell": ["kill $(jobs -p)"],
    }
    paragraphs = ["\n".join([f"# {title}", *lines]) for title, lines in parts.items()]
    return "\n\n".join(paragraphs) + "\n"


def commands_page(folder: Path, address: Address, sites: list[str]) -> str:
    """Content of ``COMMANDS.md``: the commands that start all programs.

    Args:
        folder: folder of the deployment.
        address: address of the SuperLink.
        sites: names of the sites' folders.
    """
    head = "# Written by `fedkin deploy init` each time that it runs\n\n"
    return f"{head}```sh\n{commands(folder, address, sites)}```\n"


def deploy_command(verb: str, *words: object) -> str:
    """A command of ``fedkin deploy`` as typed into a shell.

    Args:
        verb: the command, such as ``up``.
        words: its arguments and options.
    """
    return shell_command("fedkin", "deploy", verb, *words)


def new_key_command(key: Path) -> str:
    """The command that replaces a site's key by a new key.

    Args:
        key: path of the site's private key.
    """
    quoted = shlex.quote(str(key))
    return f'rm {quoted} {quoted}.pub && ssh-keygen -t ecdsa -b 384 -N "" -f {quoted}'


_SOURCE = f"set -a && . ./{ENVIRONMENT} && set +a"
_WAIT = f"until flwr list {CONNECTION} > /dev/null 2>&1; do sleep 1; done"


def superlink_options(address: Address) -> list[list[str]]:
    """The options of the SuperLink, which starts in the deployment's folder.

    Each inner list becomes one line of the command in COMMANDS.md.
    """
    tls = [
        "--ssl-ca-certfile",
        str(CA),
        "--ssl-certfile",
        str(CERTIFICATE),
        "--ssl-keyfile",
        str(SERVER_KEY),
    ]
    return [
        ["--host", address.bind_host, "--port", str(address.port), "--database", DATABASE],
        ["--isolation", "subprocess", "--disable-runtime-dependency-installation"],
        *([tls, ["--enable-supernode-auth"]] if address.secure else [["--insecure"]]),
    ]


def superlink(address: Address) -> str:
    """The command that starts the SuperLink."""
    lines = ["flower-superlink", *map(shlex.join, superlink_options(address))]
    return " \\\n  ".join(lines) + " > superlink.log 2>&1 &"


def supernode(secure: bool) -> str:
    """The command that starts a SuperNode in its site's folder (the shell variable ``site``)."""
    how = "--insecure"
    if secure:
        how = f"--root-certificates {SITE_CA} --auth-supernode-private-key {NODE_KEY}"
    where = (
        """--superlink "$SUPERLINK" --port "$SUPERNODE_PORT" --node-config 'config="client.toml"'"""
    )
    ready = f'cd "$site" && {_SOURCE} && export FLWR_HOME="$PWD/flwr"'
    return f"{ready} &&\n    exec flower-supernode {where} \\\n      {how} > supernode.log 2>&1"


def supernode_options(secure: bool, variables: Mapping[str, str]) -> list[str]:
    """The options of a SuperNode, which starts in its site's folder.

    Args:
        secure: whether to use keys and certificates.
        variables: variables of the site's flower.env.
    """
    keys = ["--insecure"]
    if secure:
        keys = ["--root-certificates", SITE_CA, "--auth-supernode-private-key", NODE_KEY]
    where = [
        "--superlink",
        variables.get("SUPERLINK", ""),
        "--port",
        variables.get("SUPERNODE_PORT", str(FIRST_PORT)),
    ]
    return [*where, "--node-config", f'config="{CLIENT}"', *keys]
