"""Makes a new deployment: the files of a server and its sites, written on one machine and copied to
the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedkin.config.schema import Values
from fedkin.core.errors import ConfigError
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy import keys
from fedkin.server.deploy.compose import HOST, write_containers
from fedkin.server.deploy.configurations import Files, check_files, configurations
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.own_wheel import own_wheel
from fedkin.server.deploy.removed_sites import removed_sites

NEW_SITES = 4  # number of sites of a new deployment


@dataclass(frozen=True)
class Deployment:
    """A deployment after ``init``: its folder, the server's address, and its sites."""

    folder: Path
    address: Address
    sites: list[str]  # names of all sites
    new: list[str]  # names of the sites that this call has made

    def commands(self) -> str:
        """The commands that start all programs."""
        return files.commands(self.folder, self.address, self.sites)


def init(
    folder: Path,
    clients: int | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
    secure: bool = True,
    settings: Sequence[str] = (),
    compose: bool = False,
) -> Deployment:
    """Write a server's files and a folder for each site.

    Existing files are kept, except COMMANDS.md and the container files, which are written again.

    Args:
        folder: folder of the deployment.
        clients: number of sites; None: as before, or 4.
        host: the host at which sites reach the server; None: as before, or 127.0.0.1.
        port: port of the server; None: as before, or 8000.
        secure: whether to use keys and certificates.
        settings: ``section.key=value`` for server.toml or client.toml, or for both if both have the
            section.
        compose: whether to write compose.yaml and the files of its image too. Without ``host``, the
            server's host is then the name of its container. Files that root wrote are given to the
            ordinary user of the containers.

    Raises:
        ConfigError, DataError, ModelError: settings are invalid, or no wheel can be built. Nothing
            is written.
        StorageError: the folder cannot be written.
        MissingExtra: ``secure``, but cryptography is not installed.
    """
    exists = (folder / files.SERVER).exists()
    if compose and host is None and not (folder / files.FLOWER).exists():
        host = HOST
    address = _address(folder, host, port, secure)
    if compose:
        _refuse_loopback(folder, address)
    existing = [path.parent.name for path in folder.glob(f"*/{files.CLIENT}")]
    names = _names(folder, clients, existing if exists else None)
    if clients is not None or not exists:
        _check_ports(len(names), address)
    if secure:
        keys.require_cryptography()
    new = [name for name in names if name not in existing]
    server, sites = configurations(
        folder=folder,
        names=names,
        new=new,
        settings=settings,
        secure=secure,
    )
    check_files(folder, server, sites)
    wheel = own_wheel() if compose else b""
    with storage_errors(folder):
        _write_server(folder, server, address)
        for name in new:
            write_site(folder, name, sites[name])
            if secure:
                keys.create_site_keys(folder / name, folder / files.CA)
        # Sort by length first, so that site-10 comes after site-9.
        all_sites = sorted({*existing, *names}, key=lambda name: (len(name), name))
        deployed = Deployment(folder, address, all_sites, new)
        write_atomic(folder / files.COMMANDS, files.commands_page(folder, address, deployed.sites))
        if compose:
            write_containers(
                folder=folder, address=address, sites=deployed.sites, server=server, wheel=wheel
            )
    return deployed


def _names(folder: Path, clients: int | None, existing: list[str] | None) -> list[str]:
    """The names of the sites that ``init`` writes, or that exist already.

    Args:
        folder: folder of the deployment.
        clients: number of sites; None: as before, or 4.
        existing: names of the sites of an existing deployment; None if it is new.

    Raises:
        ConfigError: one of the sites was removed.
    """
    if clients is None and existing is not None:
        return existing
    names = [f"site-{k}" for k in range(NEW_SITES if clients is None else clients)]
    for name in names:
        if name in removed_sites(folder) and name not in (existing or []):
            raise ConfigError(
                f"--clients: {name} was removed, and only a command with its name brings it back: "
                f"{files.deploy_command('add', folder, name)}"
            )
    return names


def write_site(folder: Path, name: str, site: Files) -> None:
    """Write the files of a new site that do not exist yet, but no keys.

    Args:
        folder: folder of the deployment.
        name: name of the site.
        site: content of its client.toml, by section.

    Raises:
        StorageError: a file cannot be written.
    """
    address = files.read_address(folder / files.FLOWER)
    # Each SuperNode of this machine needs a port.
    ports = [files.FIRST_PORT - 1]
    for path in folder.glob(f"*/{files.CLIENT}"):
        port = files.read_environment(path.parent).get("SUPERNODE_PORT", "")
        ports.append(int(port) if port.isdecimal() else 0)
    port = max(ports) + 1
    if port == address.port:
        port += 1
    with storage_errors(folder):
        _write(folder / name / files.ENVIRONMENT, files.environment_text(address, port))
        _write(folder / name / files.CLIENT, tomli_w.dumps(site))


def _address(folder: Path, host: str | None, port: int | None, secure: bool) -> Address:
    """The SuperLink's address.

    Raises ConfigError if it differs from the address of an existing deployment.
    """
    before = files.read_address(folder / files.FLOWER) if (folder / files.FLOWER).exists() else None
    default = before or Address()
    address = Address(
        host=default.host if host is None else host,
        port=default.port if port is None else port,
        secure=secure,
    )
    if not files.is_host(address.host):
        raise ConfigError(
            f"--host: expected a host name or an address such as 10.0.0.1, got {address.host!r}"
        )
    if not 1 <= address.port <= 65_535:
        raise ConfigError(f"--port: expected a port from 1 to 65535, got {address.port}")
    # Without flwr/config.toml, existing keys show that the deployment was made with keys.
    was_secure = (folder / files.KEYS).exists() if before is None else before.secure
    if was_secure != secure and (before or was_secure):
        found = "without keys; add --insecure"
        if was_secure:
            found = "with keys; leave out --insecure"
        raise ConfigError(f"{folder} holds a federation {found}, or choose another folder")
    if before and address != before:
        raise ConfigError(
            f"{folder} has its server at {before}; to give it another address, remove "
            f"{files.FLOWER} and {files.CERTIFICATE}, change SUPERLINK in each site's "
            f"{files.ENVIRONMENT}, and run this command again"
        )
    return address


def _refuse_loopback(folder: Path, address: Address) -> None:
    """Raise ConfigError for a loopback address, which containers cannot share."""
    if not address.is_loopback:
        return
    place = folder
    if (folder / files.FLOWER).exists():
        place = folder.absolute().with_name(f"{folder.absolute().name}-containers")
    raise ConfigError(
        f"--compose: the server of {folder} is at {address}, which the sites' containers cannot "
        "reach; make a deployment without --host in a folder that holds none: "
        f"{files.deploy_command('init', place)} --compose"
    )


def _check_ports(clients: int, address: Address) -> None:
    """Raise ConfigError if there are not enough ports, or the server's port is also a site's."""
    last = files.FIRST_PORT + clients - 1
    if clients < 1 or last > 65_535:
        raise ConfigError(
            f"--clients: expected 1 to {65_536 - files.FIRST_PORT} sites, got {clients}"
        )
    if files.FIRST_PORT <= address.port <= last:
        raise ConfigError(
            f"--port: the SuperNodes here use the ports {files.FIRST_PORT} to {last}, so the "
            f"server cannot use {address.port}; choose another port"
        )


def _write_server(folder: Path, server: Values, address: Address) -> None:
    """Write the server's files that do not exist yet."""
    if address.secure:
        federation = server.get("federation", {}).get("name", "trial")
        keys.create_server_certificate(folder, federation, address.host)
    _write(folder / files.FLOWER, files.flower_config(folder, address))
    _write(folder / files.APP, files.app_project(folder))
    _write(folder / files.ENVIRONMENT, files.environment_text())
    _write(folder / files.SERVER, tomli_w.dumps(server))


def _write(path: Path, content: str) -> None:
    """Write a file of the deployment unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
