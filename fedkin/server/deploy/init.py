"""A federation with a server to try out on one machine, whose folders can then be copied to many."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedkin.config import registry
from fedkin.config.loader import parse_override, read_toml
from fedkin.config.registry import resolve
from fedkin.config.schema import Values, error_context
from fedkin.config.server import CLIENT, SERVER, load_client, load_server
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.storage import storing, write_atomic
from fedkin.server.deploy import keys, project
from fedkin.server.deploy.build_node import of_config
from fedkin.server.deploy.check import trained
from fedkin.server.deploy.project import Address

# Handwritten digits of two kinds of sites, each of which calls the digits by names of its own.
TRIAL: dict[str, Values] = {
    "data": {"name": "planted", "base": "digits", "kind": "label_permutation", "clusters": 2, "samples": 60, "seed": 3},
    "model": {"name": "mclr"},
    "method": {"name": "flexcfl", "clusters": 2},
    "local": {"epochs": 5, "batch_size": 10, "lr": 0.1},
    "run": {"rounds": 5, "seed": 0, "checkpoint_every": 1, "against": ["fedavg"]},
}
_CHOICES = ("data", "model", "method")  # sections that name one of several things
_OWN = ("name", "federation", "clients")  # of [client]: what init itself decides
Files = dict[str, Values]  # by section


@dataclass(frozen=True)
class Written:
    """What is there after ``init``: where the server is, all sites, and those that are new."""

    folder: Path
    address: Address
    sites: list[str]
    new: list[str]

    def commands(self) -> str:
        """How to start it all."""
        return project.commands(self.folder, self.address, self.sites)


def init(
    folder: Path,
    clients: int = 4,
    *,
    host: str | None = None,
    port: int | None = None,
    secure: bool = True,
    settings: Sequence[str] = (),
) -> Written:
    """Write a server's files and a folder for each of ``clients`` sites, with keys and certificates unless not
    ``secure``. What is there already stays as it is; only COMMANDS.md is written anew.

    ``settings`` are ``section.key=value`` for server.toml, client.toml or, where both have the section, for both.

    Raises ConfigError, DataError or ModelError for what cannot be, before anything is written; StorageError where it
    cannot be written; MissingExtra without cryptography.
    """
    begun = (folder / project.SERVER).exists()
    address = _address(folder, host, port, secure)
    names = [f"site-{k}" for k in range(clients)]
    _check_ports(clients, address)
    if secure:
        keys.require_cryptography()
    server, sites = _described(folder, names, settings, begun, secure)
    there = [path.parent.name for path in folder.glob(f"*/{project.CLIENT}")]
    new = [name for name in names if name not in there]
    _check(folder, server, {name: sites[name] for name in new})
    with storing(folder):
        _write_server(folder, server, address)
        for k, name in enumerate(names):
            if name in new:
                _write_site(folder / name, sites[name], project.variables(address, project.FIRST_PORT + k))
            if name in new and secure:
                keys.equip_site(folder / name, folder / project.CA)
        written = Written(folder, address, sorted({*there, *names}, key=lambda name: (len(name), name)), new)
        text = f"# Written by `fedkin deploy init`, anew each time\n\n```sh\n{written.commands()}```\n"
        write_atomic(folder / project.COMMANDS, text)
    return written


def _address(folder: Path, host: str | None, port: int | None, secure: bool) -> Address:
    """Where the SuperLink is to be; where it was said before, nobody may say otherwise."""
    before = project.connection(folder / project.FLOWER) if (folder / project.FLOWER).exists() else None
    known = before or Address()
    wanted = Address(known.host if host is None else host, known.port if port is None else port, secure)
    if not project.is_host(wanted.host):
        raise ConfigError(f"--host: expected a machine's name or a number such as 10.0.0.1, got {wanted.host!r}")
    if not 1 <= wanted.port <= 65_535:
        raise ConfigError(f"--port: expected a port from 1 to 65535, got {wanted.port}")
    was_secure = (folder / project.KEYS).exists() if before is None else before.secure
    if was_secure != secure and (before or was_secure):
        what, how = ("with", "leave out --insecure") if was_secure else ("without", "say --insecure too")
        raise ConfigError(f"{folder} holds a federation {what} keys; {how}, or choose another folder")
    if before and wanted != before:
        raise ConfigError(
            f"{folder} has its server at {before}; to move it, remove {project.FLOWER} and {project.CERTIFICATE}, and "
            f"change SUPERLINK in each site's {project.ENVIRONMENT}"
        )
    return wanted


def _check_ports(clients: int, address: Address) -> None:
    last = project.FIRST_PORT + clients - 1
    if clients < 1 or last > 65_535:
        raise ConfigError(f"--clients: expected 1 to {65_536 - project.FIRST_PORT} sites, got {clients}")
    if project.FIRST_PORT <= address.port <= last:
        raise ConfigError(f"--port: the SuperNodes here have ports {project.FIRST_PORT} to {last}, got {address.port}")


def _described(
    folder: Path, names: list[str], settings: Sequence[str], begun: bool, secure: bool
) -> tuple[Files, dict[str, Files]]:
    """What server.toml and the client.toml of each site say."""
    given = _given(settings, begun)
    base = copy.deepcopy(TRIAL)
    base["federation"] = {"name": "trial", "capacity": max(8, 2 * len(names)), "wait_for": len(names)}
    base["federation"] |= {"registered": True} if secure else {}
    base["data"]["clients"] = base["federation"]["capacity"]
    base["run"]["cohort"] = len(names)
    chosen = {name: _chosen(name, base.get(name, {}), given.get(name, {})) for name in (*SERVER, *CLIENT)}
    if begun:
        server = _server_there(folder, len(names))
        chosen["data"] = chosen["data"] if "data" in given else _data_of_others(folder) or chosen["data"]
    else:
        server = {name: chosen[name] for name in SERVER}
        server["samples"] = _samples(chosen["data"], folder / names[0], chosen["samples"])
    shared = {name: server[name] for name in ("samples", "model") if name in server}
    federation = server.get("federation", {}).get("name", "trial")
    sites = {}
    for k, name in enumerate(names):
        own = {"name": name, "federation": federation, "folder": "state"}
        own |= {} if _is_own(chosen["data"]) else {"clients": [k]}
        sites[name] = {"client": own | chosen["client"], **shared, "data": chosen["data"]}
    return server, sites


def _server_there(folder: Path, sites: int) -> Files:
    """What server.toml says that is there already. Raises ConfigError where it has too little room."""
    path = folder / project.SERVER
    room = load_server(path).federation.capacity
    if sites > room:
        raise ConfigError(
            f"{path}: federation.capacity is {room}, too few for {sites} sites; raise it there first (its run then "
            "begins anew, in another folder)"
        )
    return read_toml(path)


def _given(settings: Sequence[str], begun: bool) -> dict[str, Values]:
    """The settings by section. Raises ConfigError for a section that is not known, or whose files are there already."""
    given: dict[str, Values] = {}
    for text in settings:
        section, key, value = parse_override(text)
        known = (*SERVER, *(name for name in CLIENT if name not in SERVER))
        if section not in known:
            raise ConfigError(f"{section}: {unknown('section', section, known)}")
        if section == "client" and key in _OWN:
            raise ConfigError(f"client.{key}: each site has its own; change it in its client.toml")
        if begun and section in SERVER:
            raise ConfigError(f"{section}.{key}: {project.SERVER} is there already and stays as it is; change it there")
        given.setdefault(section, {})[key] = value
    return given


def _chosen(section: str, base: Values, given: Values) -> Values:
    """Settings on top of a section; the options of another choice mean nothing to this one."""
    if section == "model" and "torch" in given:
        given = {"name": "torch"} | given
    other = section in _CHOICES and given.get("name", base["name"]) != base["name"]
    return {**({} if other else base), **given}


def _is_own(data: Values) -> bool:
    """Whether the data are a file that each site has in its own folder."""
    return data.get("name") == "file" and not Path(str(data.get("path", ""))).is_absolute()


def _data_of_others(folder: Path) -> Values:
    """[data] of a site that is there already."""
    paths = sorted(folder.glob(f"*/{project.CLIENT}"))
    return dict(read_toml(paths[0]).get("data", {})) if paths else {}


def _samples(data: Values, site: Path, given: Values) -> Values:
    """[samples], from the data themselves unless all is said."""
    if {"shape", "classes"} <= given.keys():
        return given
    if _is_own(data) and not (site / str(data.get("path", ""))).exists():
        raise ConfigError(
            f"data.path: {site / str(data.get('path', ''))} is not there; where the data are elsewhere, say what they "
            "look like: samples.shape=[30] samples.classes=2"
        )
    values = {**data, "path": str(site.absolute() / str(data["path"]))} if "path" in data else data
    values = resolve("data set", registry.datasets(), values, lambda key: f"data.{key}")
    with error_context("data"):
        made = registry.make(registry.datasets(), values)
    words = {} if made.vocabulary is None else {"words": len(made.vocabulary)}
    return {"shape": list(made.x.shape[1:]), "classes": made.classes, **words} | given


def _check(folder: Path, server: Values, sites: dict[str, Files]) -> None:
    """Read all back as the programs will, from a place of its own. Raises what they would."""
    with tempfile.TemporaryDirectory() as place:
        paths = {Path(place) / project.SERVER: server}
        paths |= {Path(place) / name / project.CLIENT: site for name, site in sites.items()}
        try:
            for path, content in paths.items():
                path.parent.mkdir(exist_ok=True)
                path.write_text(tomli_w.dumps(content))
            trained(load_server(Path(place) / project.SERVER))
            configs = [load_client(Path(place) / name / project.CLIENT) for name in sites]
            if configs and _is_here(configs[-1].data):
                of_config(configs[-1])
        except FedkinError as error:  # of a file that will be elsewhere
            raise type(error)(str(error).replace(f"{place}/", f"{folder}/")) from error


def _is_here(data: Values) -> bool:
    """Whether data can be made on this machine."""
    return data.get("name") != "file" or Path(str(data["path"])).exists()


def _write_server(folder: Path, server: Values, address: Address) -> None:
    """What is not there yet of the server's files."""
    if address.secure:
        keys.certify_server(folder, server.get("federation", {}).get("name", "trial"), address.host)
    _write(folder / project.FLOWER, project.flower_config(folder, address))
    _write(folder / project.APP, project.app_project(folder))
    _write(folder / project.ENVIRONMENT, project.variables())
    _write(folder / project.SERVER, tomli_w.dumps(server))


def _write_site(folder: Path, site: Files, variables: str) -> None:
    _write(folder / project.ENVIRONMENT, variables)
    _write(folder / project.CLIENT, tomli_w.dumps(site))


def _write(path: Path, content: str) -> None:
    """A file, where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content)
