"""Makes a new deployment: the files of a server and its sites, written on one machine and copied to
the others."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedkin.config import registry
from fedkin.config.list_values import with_lists
from fedkin.config.loader import parse_override, read_toml
from fedkin.config.registry import resolve
from fedkin.config.schema import Values, error_context
from fedkin.config.server import (
    CLIENT,
    CLIENT_DECLARED,
    SERVER,
    SERVER_DECLARED,
    load_client,
    load_server,
)
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.object_repr import shell_command
from fedkin.core.storage import storage_errors, write_atomic
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy import keys
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.check import checked_model
from fedkin.server.deploy.compose import HOST, write_containers
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.own_wheel import own_wheel
from fedkin.server.deploy.site_scaling import common_scaling

# The trial: handwritten digits in two clusters of sites, with different permutations of the labels.
TRIAL: dict[str, Values] = {
    "data": {
        "name": "planted",
        "base": "digits",
        "kind": "label_permutation",
        "clusters": 2,
        "samples": 60,
        "seed": 3,
    },
    "model": {"name": "mclr"},
    "method": {"name": "flexcfl", "clusters": 2},
    "local": {"epochs": 5, "batch_size": 10, "lr": 0.1},
    "run": {"rounds": 5, "seed": 0, "checkpoint_every": 1, "against": ["fedavg"]},
}
_CHOICES = ("data", "model", "method")  # sections in which ``name`` decides the other keys
_PER_SITE = ("name", "federation", "clients")  # keys of [client] that init sets itself
Files = dict[str, Values]  # content of a file by section


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
    clients: int = 4,
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
        clients: number of sites.
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
    names = [f"site-{k}" for k in range(clients)]
    _check_ports(clients, address)
    if secure:
        keys.require_cryptography()
    server, sites = _configurations(
        folder=folder,
        names=names,
        settings=settings,
        exists=exists,
        secure=secure,
    )
    existing = [path.parent.name for path in folder.glob(f"*/{files.CLIENT}")]
    new = [name for name in names if name not in existing]
    _check(folder, server, {name: sites[name] for name in new})
    wheel = own_wheel() if compose else b""
    with storage_errors(folder):
        _write_server(folder, server, address)
        for k, name in enumerate(names):
            if name in new:
                variables = files.environment_text(address, files.FIRST_PORT + k)
                _write_site(folder / name, sites[name], variables)
            if name in new and secure:
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
        f"{shell_command('fedkin', 'deploy', 'init', place)} --compose"
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


def _configurations(
    folder: Path, names: list[str], settings: Sequence[str], exists: bool, secure: bool
) -> tuple[Files, dict[str, Files]]:
    """The content of server.toml and of each client.toml.

    The content comes from the settings of the trial (``TRIAL``), which the user's settings
    override. An existing server.toml is kept as it is.
    """
    changes = _by_section(settings, exists)
    base = copy.deepcopy(TRIAL)
    base["federation"] = {
        "name": "trial",
        "capacity": max(8, 2 * len(names)),
        "wait_for": len(names),
    }
    if secure:
        base["federation"]["registered"] = True
    base["data"]["clients"] = base["federation"]["capacity"]
    base["run"]["cohort"] = len(names)
    values = {
        name: _with_settings(name, base.get(name, {}), changes.get(name, {}))
        for name in (*SERVER, *CLIENT)
    }
    if exists:
        # A later call adds sites: the server keeps its files, and new sites get the data of the
        # others.
        server = _existing_server(folder, len(names))
        if "data" not in changes:
            values["data"] = _existing_data(folder) or values["data"]
    else:
        server = {name: values[name] for name in SERVER}
        data = values["data"]
        scaling = values["samples"].get("scale_from")
        if scaling is None:
            scaling = common_scaling(data, [folder / name for name in names])
        if scaling is not None:
            data = {**data, "scale_from": scaling}
            values["samples"]["scale_from"] = scaling
        server["samples"] = _samples(data, folder / names[0], values["samples"])
    shared = {name: server[name] for name in ("samples", "model") if name in server}
    federation = server.get("federation", {}).get("name", "trial")
    sites = {}
    for k, name in enumerate(names):
        client: Values = {"name": name, "federation": federation, "folder": "state"}
        if not _is_per_site(values["data"]):
            client["clients"] = [k]
        sites[name] = {"client": client | values["client"], **shared, "data": values["data"]}
    return server, sites


def _existing_server(folder: Path, sites: int) -> Files:
    """The content of an existing server.toml. Raises ConfigError if ``federation.capacity`` is too
    small for the sites."""
    path = folder / files.SERVER
    capacity = load_server(path).federation.capacity
    if sites > capacity:
        raise ConfigError(
            f"{path}: federation.capacity is {capacity}, too small for {sites} sites; raise it in "
            "that file, and set another federation.folder for a new run, because a run cannot be "
            "resumed with another capacity"
        )
    return read_toml(path)


def _by_section(settings: Sequence[str], exists: bool) -> dict[str, Values]:
    """The settings by section.

    Raises ConfigError for an unknown section, a key that differs between sites, and a section of
    server.toml if that file exists already.
    """
    changes: dict[str, Values] = {}
    given: list[tuple[str, str]] = []
    for text in settings:
        section, key, value = parse_override(text)
        sections = (*SERVER, *(name for name in CLIENT if name not in SERVER))
        if section not in sections:
            raise ConfigError(f"{section}: {unknown('section', section, sections)}")
        if section == "client" and key in _PER_SITE:
            raise ConfigError(
                f"client.{key}: each site has its own value; change it in the site's client.toml"
            )
        if exists and section in SERVER:
            raise ConfigError(
                f"{section}.{key}: {files.SERVER} exists already and is not changed; change it in "
                "that file"
            )
        changes.setdefault(section, {})[key] = value
        given.append((section, key))
    return with_lists(changes, given, {**CLIENT_DECLARED, **SERVER_DECLARED})


def _with_settings(section: str, base: Values, changes: Values) -> Values:
    """The values of a section: its defaults ``base``, replaced by the user's ``changes``.

    If the changes give the section another ``name`` (e.g. of a method), the defaults are dropped,
    because they belong to the former name.
    """
    if section == "model" and "torch" in changes:
        changes = {"name": "torch"} | changes
    if section in _CHOICES and changes.get("name", base["name"]) != base["name"]:
        return dict(changes)
    return {**base, **changes}


def _is_per_site(data: Values) -> bool:
    """Whether [data] names a file in the site's own folder (a relative path)."""
    return data.get("name") == "file" and not Path(str(data.get("path", ""))).is_absolute()


def _existing_data(folder: Path) -> Values:
    """[data] in the client.toml of a site that exists already; empty if there is no site."""
    paths = sorted(folder.glob(f"*/{files.CLIENT}"))
    return dict(read_toml(paths[0]).get("data", {})) if paths else {}


def _samples(data: Values, site: Path, changes: Values) -> Values:
    """The section [samples], computed from the data unless the settings give the whole section."""
    if {"shape", "classes"} <= changes.keys():
        return changes
    if _is_per_site(data) and not (site / str(data.get("path", ""))).exists():
        raise ConfigError(
            f"data.path: {site / str(data.get('path', ''))} does not exist; if the data are on "
            "another machine, describe their samples: samples.shape=[30] samples.classes=2"
        )
    values = data
    # A path in [data] is relative to the site's folder.
    if "path" in data:
        values = {**data, "path": str(site.absolute() / str(data["path"]))}
    entry = resolve("data set", registry.datasets(), values, lambda key: f"data.{key}")
    with error_context("data"):
        loaded = registry.make_site_data(entry)
    samples: Values = {"shape": list(loaded.x.shape[1:]), "classes": loaded.classes}
    if loaded.vocabulary is not None:
        samples["words"] = len(loaded.vocabulary)
    if loaded.label_names is not None:
        samples["labels"] = list(loaded.label_names)
    if loaded.feature_names is not None:
        samples["features"] = list(loaded.feature_names)
    return samples | changes


def _check(folder: Path, server: Values, sites: dict[str, Files]) -> None:
    """Check all files by loading them from a temporary folder, as the programs will.

    Raises the errors that the programs would raise.
    """
    with tempfile.TemporaryDirectory() as place:
        paths = {Path(place) / files.SERVER: server}
        paths |= {Path(place) / name / files.CLIENT: site for name, site in sites.items()}
        try:
            for path, content in paths.items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(tomli_w.dumps(content))
            checked_model(load_server(Path(place) / files.SERVER))
            configs = [load_client(Path(place) / name / files.CLIENT) for name in sites]
            # One site is enough, since all have the same model and data. The last one has the
            # largest client number, which the data must have.
            if configs and _is_available(configs[-1].data_values):
                node_from_config(configs[-1])
        except FedkinError as error:
            # The message has the path in the temporary folder.
            raise type(error)(str(error).replace(f"{place}/", f"{folder}/")) from error


def _is_available(data: Values) -> bool:
    """Whether the data that [data] names can be loaded on this machine."""
    return data.get("name") != "file" or Path(str(data["path"])).exists()


def _write_server(folder: Path, server: Values, address: Address) -> None:
    """Write the server's files that do not exist yet."""
    if address.secure:
        federation = server.get("federation", {}).get("name", "trial")
        keys.create_server_certificate(folder, federation, address.host)
    _write(folder / files.FLOWER, files.flower_config(folder, address))
    _write(folder / files.APP, files.app_project(folder))
    _write(folder / files.ENVIRONMENT, files.environment_text())
    _write(folder / files.SERVER, tomli_w.dumps(server))


def _write_site(folder: Path, site: Files, variables: str) -> None:
    """Write a site's files that do not exist yet."""
    _write(folder / files.ENVIRONMENT, variables)
    _write(folder / files.CLIENT, tomli_w.dumps(site))


def _write(path: Path, content: str) -> None:
    """Write a file of the deployment unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
