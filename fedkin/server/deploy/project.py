"""The folder of a federation with a server: what lies where, and how its programs are started.

server.toml           what is run
app/pyproject.toml    what is handed to Flower: which programs, and where server.toml is
flwr/config.toml      where Flower's own commands find the SuperLink
keys/                 the authority (ca.pem, ca-key.pem), and the server's certificate and key
site-K/               all that site K needs: client.toml, flower.env, ca.pem, and its own key, with key.pub
COMMANDS.md           how to start it all
"""

from __future__ import annotations

import ipaddress
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedkin import __version__
from fedkin.core.errors import ConfigError

SERVER, CLIENT, COMMANDS, ENVIRONMENT = "server.toml", "client.toml", "COMMANDS.md", "flower.env"
APP, FLOWER, KEYS = Path("app/pyproject.toml"), Path("flwr/config.toml"), Path("keys")
CA, CA_KEY, CERTIFICATE, SERVER_KEY = (KEYS / name for name in ("ca.pem", "ca-key.pem", "server.pem", "server-key.pem"))
SITE_CA, NODE_KEY, NODE_PUBLIC = "ca.pem", "key", "key.pub"
CONNECTION = "fedkin"  # what Flower's commands know the SuperLink by
FIRST_PORT = 9094  # of the first SuperNode of a machine, as Flower has it

# Nobody outside is asked, work is looked for often, and Python keeps what it has compiled.
VARIABLES = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "PYTHONDONTWRITEBYTECODE": "",
}


@dataclass(frozen=True)
class Address:
    """Where the SuperLink is, for sites and for Flower's commands, and whether it has a certificate."""

    host: str = "127.0.0.1"
    port: int = 8000
    secure: bool = True

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def listens(self) -> str:
        """Where the SuperLink itself is bound: one that is for others listens everywhere."""
        return self.host if self.host == "localhost" or self.host.startswith("127.") else "0.0.0.0"

    @classmethod
    def parse(cls, text: str, secure: bool, where: str) -> Address:
        """``host:port``. Raises ConfigError for anything else; ``where`` is its place."""
        host, _, port = text.rpartition(":")
        if not (is_host(host) and port.isdecimal() and 1 <= int(port) <= 65_535):
            raise ConfigError(f"{where}: expected host:port, got {text!r}")
        return cls(host, int(port), secure)


def is_host(text: str) -> bool:
    """Whether text is the name of a machine, or a number of four parts."""
    if re.fullmatch(r"[\d.]+", text):
        try:
            return ipaddress.ip_address(text).version == 4
        except ValueError:
            return False
    return len(text) < 254 and all(re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", part) for part in text.split("."))


def connection(path: Path) -> Address:
    """Where ``flwr/config.toml`` says that the SuperLink is. Raises ConfigError where it does not."""
    try:
        entry = tomllib.loads(path.read_text())["superlink"][CONNECTION]
        return Address.parse(str(entry["address"]), not entry.get("insecure", False), f"{path}: address")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path}: cannot be read ({error}); without it, fedkin deploy init writes a new one"
        ) from error


def environment(folder: Path) -> dict[str, str]:
    """What a site's ``flower.env`` says. Raises ConfigError where it cannot be read."""
    path = folder / ENVIRONMENT
    try:
        lines = [line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#")]
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); it says SUPERLINK=host:port") from error
    return {name.strip(): value.strip() for name, equals, value in lines if equals}


def flower_config(folder: Path, address: Address) -> str:
    """``flwr/config.toml``; Flower wants the place of the authority in full."""
    secure = {"root-certificates": str(folder.absolute() / CA)} if address.secure else {"insecure": True}
    return tomli_w.dumps(
        {"superlink": {"default": CONNECTION, CONNECTION: {"address": str(address), **secure}}},
    )


def app_project(folder: Path) -> str:
    """``app/pyproject.toml``: all the code that travels to sites is this file, which names what is installed there."""
    ours = "fedkin.server.deploy"
    project = {"name": "fedkin-app", "version": __version__, "dependencies": []}
    project |= {"description": "Clustered federated learning with fedkin.", "license": "Apache-2.0"}
    flower = {
        "publisher": "fedkin",
        "components": {"serverapp": f"{ours}.server_app:app", "clientapp": f"{ours}.client_app:app"},
        "config": {"config": str(folder.absolute() / SERVER)},
    }
    return tomli_w.dumps({"project": project, "tool": {"flwr": {"app": flower}}})


def variables(address: Address | None = None, port: int = FIRST_PORT) -> str:
    """``flower.env``, of a site where an address is given: for shells, systemd (EnvironmentFile=) and Docker."""
    own = {"SUPERLINK": str(address), "SUPERNODE_PORT": str(port)} if address else {}
    return "".join(f"{name}={value}\n" for name, value in {**own, **VARIABLES}.items())


def commands(folder: Path, address: Address, sites: list[str]) -> str:
    """How to start all on this machine, to paste into a shell."""
    here, programs = shlex.quote(str(folder.absolute())), shlex.quote(str(Path(sys.executable).parent))
    each = f"for site in {' '.join(sites)}; do"
    keys = [f'{each} flwr supernode register "$site/{NODE_PUBLIC}" {CONNECTION} --name "$site"; done']
    parts = {
        "In every new shell": [f"cd {here}", f'export PATH={programs}:"$PATH" FLWR_HOME="$PWD/flwr"', _READ],
        "The SuperLink": [superlink(address), _UNTIL],
        **({"Who may take part: once for each site": keys} if address.secure else {}),
        "A SuperNode for each site": [each, f"  ({supernode(address.secure)}) &", "done"],
        "A run; after a stop the same again goes on": [f"flwr run app {CONNECTION} --stream"],
        "What came of it": ["fedkin report run"],
        "Stop all that this shell has started": ["kill $(jobs -p)"],
    }
    return "\n\n".join("\n".join([f"# {title}", *lines]) for title, lines in parts.items()) + "\n"


_READ = f"set -a && . ./{ENVIRONMENT} && set +a"
_UNTIL = f"until flwr list {CONNECTION} > /dev/null 2>&1; do sleep 1; done"


def superlink(address: Address) -> str:
    """The command of the SuperLink."""
    shown = f"--ssl-ca-certfile {CA} --ssl-certfile {CERTIFICATE} --ssl-keyfile {SERVER_KEY}"
    how = f"{shown} \\\n  --enable-supernode-auth" if address.secure else "--insecure"
    where = f"--host {address.listens} --port {address.port} --database state.db"
    what = "--isolation subprocess --disable-runtime-dependency-installation"
    return f"flower-superlink {where} \\\n  {what} \\\n  {how} > superlink.log 2>&1 &"


def supernode(secure: bool) -> str:
    """The command of a SuperNode, which runs in its site's folder, ``$site``."""
    how = f"--root-certificates {SITE_CA} --auth-supernode-private-key {NODE_KEY}" if secure else "--insecure"
    where = """--superlink "$SUPERLINK" --port "$SUPERNODE_PORT" --node-config 'config="client.toml"'"""
    ready = f'cd "$site" && {_READ} && export FLWR_HOME="$PWD/flwr"'
    return f"{ready} &&\n    exec flower-supernode {where} \\\n      {how} > supernode.log 2>&1"
