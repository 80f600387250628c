"""Whether a server or a site is ready, before anything is started. Nothing is changed, and nothing is raised for what
is not as it should be: every check is a line."""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.config import registry
from fedkin.config.loader import read_toml
from fedkin.config.schema import error_context, toml_values
from fedkin.config.server import ClientConfig, ServerConfig, load_client, load_server, methods
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.world import ModelSpec
from fedkin.run import checkpoint
from fedkin.run.fingerprint import fingerprint
from fedkin.run.loop import check as check_plan
from fedkin.run.loop import check_kind
from fedkin.run.run_folder import AGAINST, CHECKPOINTS, Folder, holds_run
from fedkin.server.deploy import project
from fedkin.server.deploy.build_node import of_config
from fedkin.server.deploy.check_keys import server_keys, site_keys
from fedkin.server.deploy.check_network import port, reach
from fedkin.server.deploy.check_result import CheckResult, doubtful, tried, wrong
from fedkin.server.deploy.project import Address
from fedkin.server.handshake import make_handshake
from fedkin.simulation.workers import check_samples

FLOWER = "1.41.0"  # the one that is asked for in pyproject.toml
Table = dict[str, list[CheckResult]]  # by where: the machine, the server, each site


def check(folder: Path, *, server: bool = False, site: str | None = None) -> Table:
    """Check what is in a folder: all, or the server alone, or one site alone. A site's own folder will do too.

    Raises ConfigError where there is nothing of the kind.
    """
    sites = {path.name: path for path in _sites(folder)}
    has_server = (folder / project.SERVER).exists()
    if server and not has_server:
        raise ConfigError(f"{folder}: there is no {project.SERVER}; fedkin deploy init writes one")
    if site is not None and site not in sites:
        raise ConfigError(f"{folder}: there is no {site}/{project.CLIENT}; there is: {', '.join(sites) or 'none'}")
    if not (has_server or sites):
        raise ConfigError(f"{folder}: there is neither {project.SERVER} nor a site's {project.CLIENT}")
    asked = {} if server else sites if site is None else {site: sites[site]}
    table: Table = {"here": versions(_needs_torch([*([folder] if has_server else []), *asked.values()]))}
    if has_server and site is None:
        table["server"] = check_server(folder)
    table |= {name: check_site(path, folder if has_server else None) for name, path in asked.items()}
    return table


def versions(torch: bool = False) -> list[CheckResult]:
    """Python, and the packages that a federation needs in the same version everywhere."""
    flower = _installed("flwr")
    found = [CheckResult("Python", platform.python_version()), CheckResult("fedkin", __version__)]
    if flower is None:
        found.append(wrong("Flower", "not installed: pip install 'fedkin[flower]'"))
    elif flower != FLOWER:
        found.append(wrong("Flower", f"expected {FLOWER} everywhere, got {flower}: pip install 'fedkin[flower]'"))
    else:
        found.append(CheckResult("Flower", flower))
    for package, extra in (("jax", ""), *((("torch", "[torch]"),) if torch else ())):
        version = _installed(package)
        missing = wrong(package, f"not installed: pip install 'fedkin{extra}'")
        found.append(missing if version is None else CheckResult(package, version))
    return found


def check_server(folder: Path) -> list[CheckResult]:
    """server.toml, its model and methods, its run folder, Flower's files, keys, and the port."""
    read: list[ServerConfig] = []
    found = [tried(project.SERVER, lambda: _load(read, load_server, folder / project.SERVER))]
    if read:
        config = read[0]
        found.append(tried("model", lambda: f"{trained(config).parameters:,} parameters"))
        found.append(_writable("run folder", Path(config.federation.folder)))
        found += [] if found[1].mark == "✗" else [tried("run so far", lambda: _so_far(config))]
        found += _enough(config)
    found.append(tried(str(project.APP), lambda: _app(folder)))
    try:
        address = project.connection(folder / project.FLOWER)
    except ConfigError as error:
        return [*found, wrong(str(project.FLOWER), str(error))]
    found.append(tried(str(project.FLOWER), lambda: _connection(folder, address)))
    if address.secure:
        found += server_keys(folder, address.host)
    return [*found, port(address, folder / project.CA)]


def check_site(folder: Path, server: Path | None = None) -> list[CheckResult]:
    """client.toml, its model and data, whether the server's file says the same, its folder, keys, and the server."""
    read: list[ClientConfig] = []
    found = [tried(project.CLIENT, lambda: _load(read, load_client, folder / project.CLIENT))]
    if read:
        config = read[0]
        with_model = tried("model", lambda: f"{_model(config).parameters:,} parameters")
        found.append(with_model)
        found += [] if with_model.mark == "✗" else [tried("data", lambda: _data(config))]
        found += [] if server is None else [tried("agreement", lambda: _agree(config, server))]
        found.append(_writable("state folder", Path(config.site.folder)))
    secure = any((folder / name).exists() for name in (project.SITE_CA, project.NODE_KEY))
    found += site_keys(folder) if secure else [doubtful("keys", "none: anybody on the way can read and change models")]
    return [*found, tried("server", lambda: _server_of(folder, secure))]


def trained(config: ServerConfig) -> ModelSpec:
    """The model that a server's configuration asks for, tried with its methods, as the server does when it begins.

    Raises ConfigError or ModelError where they cannot be together.
    """
    described: Any = config.data_description()
    with error_context("model"):
        spec = check_samples(registry.make(registry.models(), config.model, described), described)
    for entry in (config.method, *config.against):
        place = "method" if entry is config.method else f"run.against: {entry['name']}"
        method = registry.make(methods(), entry)
        check_plan(config.plan, method, config.federation.capacity, place)
        check_kind(method, spec, place)
    return spec


def _sites(folder: Path) -> list[Path]:
    if (folder / project.CLIENT).exists():
        return [folder.absolute()]
    paths = [path.parent for path in folder.glob(f"*/{project.CLIENT}")]
    return sorted(paths, key=lambda path: (len(path.name), path.name))


def _needs_torch(folders: list[Path]) -> bool:
    """Whether a file asks for PyTorch, as far as it can be read."""
    for path in (folder / name for folder in folders for name in (project.SERVER, project.CLIENT)):
        try:
            model = tomllib.loads(path.read_text()).get("model", {})
            if isinstance(model, dict) and "torch" in model:
                return True
        except (OSError, ValueError):
            continue
    return False


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _load(read: list, load: Callable[[Path], ServerConfig | ClientConfig], path: Path) -> str:
    read.append(load(path))
    return str(path)


def _writable(what: str, folder: Path) -> CheckResult:
    """Whether files can be made in a folder, or in what it would be made in."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        return wrong(what, f"no file can be made in {there}: {error.strerror}; change its owner, or folder = ...")
    return CheckResult(what, str(folder))


def _so_far(config: ServerConfig) -> str:
    """How far the run in the run folder is. Raises CheckpointError where it is another."""
    description, out, told = config.description(), Path(config.federation.folder), []
    spec = trained(config)
    layout = make_handshake("", "", spec, (), 0).layout
    places = [(config.method, out), *((entry, out / AGAINST / entry["name"]) for entry in config.against)]
    for entry, place in places:
        if not holds_run(place):
            continue
        described = {**description, "method": entry}
        Folder.reopen(place, described)
        known_by = fingerprint(described, layout)
        found = checkpoint.load(place / CHECKPOINTS, known_by, config.federation.capacity, spec.parameters)
        told.append(f"{entry['name']} {f'goes on after round {found.round}' if found else 'has no round yet'}")
    return ", ".join(told) or "none: it begins anew"


def _enough(config: ServerConfig) -> list[CheckResult]:
    """Whether those that are waited for are enough to find clusters among them."""
    clusters, there = config.method.get("clusters", 1), config.federation.wait_for
    if clusters <= there:
        return []
    said = f"method.clusters = {clusters} may need as many clients at the start, and federation.wait_for = {there}"
    return [doubtful("clients at the start", said)]


def _app(folder: Path) -> str:
    """Whether what is handed to Flower names this folder's server.toml."""
    path, own = folder / project.APP, folder.absolute() / project.SERVER
    config = read_toml(path).get("tool", {}).get("flwr", {}).get("app", {}).get("config", {}).get("config")
    if not isinstance(config, str) or not config:
        raise ConfigError(f'{path}: [tool.flwr.app.config] must say config = "{own}"')
    if Path(config).resolve() != own.resolve():
        raise ConfigError(f"{path}: config is {config!r}, and the file here is {own}; was the folder moved?")
    return config


def _connection(folder: Path, address: Address) -> str:
    """Whether Flower's commands find the authority, whose place is written out in full."""
    path = folder / project.FLOWER
    ca = read_toml(path)["superlink"][project.CONNECTION].get("root-certificates")
    if address.secure and not (isinstance(ca, str) and Path(ca).exists()):
        own = folder.absolute() / project.CA
        raise ConfigError(f'{path}: root-certificates is {ca!r}, expected "{own}"; was the folder moved?')
    return str(address)


def _model(config: ClientConfig) -> ModelSpec:
    described: Any = config.data_description()
    return check_samples(registry.make(registry.models(), config.model, described), described)


def _data(config: ClientConfig) -> str:
    """What the node says of its own data, when it has read them."""
    node = of_config(config)
    clients, samples = len(node.samples), int(node.samples.sum())
    if not node.samples.all():
        raise DataError(f"data: client {int(np.argmin(node.samples))} of this site has no training samples")
    return f"{clients} client{'s' * (clients > 1)}, {samples:,} training samples"


def _agree(config: ClientConfig, server: Path) -> str | CheckResult:
    """Whether the server's file says the same of federation, samples and model."""
    try:
        theirs = load_server(server / project.SERVER)
    except ConfigError:  # said once, under the server
        return doubtful("agreement", f"not compared: see fedkin deploy check {server} --server")
    mine, other = toml_values(config.samples), toml_values(theirs.samples)
    pairs = {
        "client.federation": (config.site.federation, theirs.federation.name),
        "samples": (mine, other),
        "model": (config.model, theirs.model),
    }
    for key, (here, there) in pairs.items():
        if here != there:
            raise ConfigError(f"{key} is {here!r} here and {there!r} in {server / project.SERVER}")
    return f"digest {config.shared_digest}, as in {project.SERVER}"


def _server_of(folder: Path, secure: bool) -> CheckResult:
    path = folder / project.ENVIRONMENT
    address = Address.parse(project.environment(folder).get("SUPERLINK", ""), secure, f"{path}: SUPERLINK")
    return reach(address, folder / project.SITE_CA)
