"""Checks of a server and its sites before they start.

Checks change nothing. A failed check is a line of output, not an exception.
"""

from __future__ import annotations

import importlib.metadata
import platform
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedkin import __version__
from fedkin.config.loader import read_toml
from fedkin.config.schema import error_context, toml_values
from fedkin.config.server import (
    ClientConfig,
    ServerConfig,
    load_client,
    load_server,
    shared_model,
)
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.requirements import count_and_cure, requirements_of
from fedkin.run.folder import checkpoint
from fedkin.run.folder.fingerprint import fingerprint
from fedkin.run.folder.run_folder import CHECKPOINTS, Folder, against_folder, holds_run
from fedkin.run.method_checks import check_model, check_plan
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.build_node import node_from_config
from fedkin.server.deploy.check_keys import check_server_keys, check_site_keys
from fedkin.server.deploy.check_network import check_port, check_superlink
from fedkin.server.deploy.check_result import CheckResult, doubtful, failed, run_check
from fedkin.server.deploy.deployment_folder import Address
from fedkin.server.deploy.place import check_place, moved_from, original_of
from fedkin.server.deploy.selection import select
from fedkin.server.deploy.worker_link import read_sections, site_name
from fedkin.server.handshake import make_handshake
from fedkin.simulation.workers import check_samples

FLOWER = ("1.41", "1.42")  # the releases that the extra "flower" in pyproject.toml allows
_NO_KEYS = "none: all machines on the network can read and change models"
Table = dict[str, list[CheckResult]]  # results by checked part: this machine, the server, each site


def check(folder: Path, *, server: bool = False, site: str | None = None) -> Table:
    """Check a deployment: all of it, only the server, or only one site.

    Args:
        folder: folder of the deployment, or of one site.
        server: whether to check only the server.
        site: name of the only site to check; None for all.

    Raises:
        ConfigError: the folder does not contain the requested server or site.
    """
    selection = select(folder, server=server, site=site)
    # With --site the server is not checked, but if its files are here, the site is compared with
    # them. So `holds_server` (the files are here) differs from `server` (it is selected).
    server_folder = folder if selection.holds_server else None
    folders = [*selection.sites.values()]
    if server_folder is not None:
        folders.insert(0, server_folder)
    table: Table = {"here": versions(needs_torch(folders))}
    if selection.server:
        table["server"] = check_server(folder)
    # A copy is named once, and not at each of its sites.
    is_named = selection.server and original_of(folder) is not None
    for name, path in selection.sites.items():
        table[name] = check_site(path, server_folder, with_place=not is_named)
    # No two of the selected sites may have the same name or the same key.
    for name, result in check_shared_sites(selection.sites).items():
        table[name].append(result)
    return table


def check_shared_sites(sites: Mapping[str, Path]) -> dict[str, CheckResult]:
    """A failed check for each site with the same name or key as a site before it.

    Only the given sites are compared, by client.name in their client.toml and by their public keys.

    Args:
        sites: folders of the sites, by the folders' names.
    """
    results: dict[str, CheckResult] = {}
    first_by_name: dict[str, Path] = {}
    first_by_key: dict[str, Path] = {}
    for site, folder in sites.items():
        file = folder / files.CLIENT
        name = site_name(file)
        other = first_by_name.setdefault(name, folder)
        if name and other != folder:
            detail = (
                f"client.name is {name!r}, as in {other / files.CLIENT}: change client.name in "
                f"{file}"
            )
            results[site] = failed("name", detail)

        public = folder / files.NODE_PUBLIC
        key = _key_text(public)
        other = first_by_key.setdefault(key, folder)
        if key and other != folder:
            cure = files.new_key_command(folder / files.NODE_KEY)
            results[site] = failed(
                "node key",
                f"{public} is also the key of {other}; make a new key: {cure}",
            )
    return results


def _key_text(path: Path) -> str:
    """A file's public key without its comment; empty if the file cannot be read."""
    try:
        return " ".join(path.read_text(errors="replace").split()[:2])
    except OSError:
        return ""


def versions(torch: bool = False) -> list[CheckResult]:
    """The installed versions of Python, fedkin, Flower and JAX, and with ``torch`` also of PyTorch.

    They should be the same on every machine, but this function sees only this machine.
    """
    results = [
        CheckResult("Python", platform.python_version()),
        CheckResult("fedkin", __version__),
        _flower(),
    ]
    extras = {"jax": ""}
    if torch:
        extras["torch"] = "[torch]"
    for package, extra in extras.items():
        version = _installed(package)
        if version is None:
            results.append(failed(package, f"not installed: pip install 'fedkin{extra}'"))
        else:
            results.append(CheckResult(package, version))
    return results


def check_server(folder: Path) -> list[CheckResult]:
    """Check server.toml, its model and methods, its run folder, Flower's files, keys, and the
    port."""
    loaded: list[ServerConfig] = []
    results = [run_check(files.SERVER, lambda: _load(loaded, load_server, folder / files.SERVER))]
    if loaded:
        config = loaded[0]
        model = run_check("model", lambda: f"{checked_model(config).parameters:,} parameters")
        results.append(model)
        results.append(_writable("run folder", Path(config.federation.folder)))
        # The run's files are compared with the layout of the model, so a model is needed.
        if model.mark != "✗":
            results.append(run_check("run so far", lambda: _progress(config)))
        results += _clients_at_start(config)
    place = check_place(folder)
    results.append(place)
    # The app of a copy names the original, which the check of the folder has said already.
    if place.mark != "✗":
        results.append(run_check(str(files.APP), lambda: _app(folder)))
    try:
        address = files.read_address(folder / files.FLOWER)
    except ConfigError as error:
        return [*results, failed(str(files.FLOWER), str(error))]
    results.append(run_check(str(files.FLOWER), lambda: _connection(folder, address)))
    if address.secure:
        results += check_server_keys(folder, address.host)
    return [*results, check_port(address, folder / files.CA)]


def check_site(
    folder: Path, server: Path | None = None, *, with_place: bool = True
) -> list[CheckResult]:
    """Check a site: client.toml, model and data, agreement with server.toml, the state folder, keys
    and the connection to the server.

    Args:
        folder: folder of the site.
        server: folder of the server; None if it is not on this machine.
        with_place: whether to check that the folder is no copy of another one.
    """
    loaded: list[ClientConfig] = []
    results = [run_check(files.CLIENT, lambda: _load(loaded, load_client, folder / files.CLIENT))]
    if loaded:
        config = loaded[0]
        model = run_check("model", lambda: f"{_model(config).parameters:,} parameters")
        results.append(model)
        if model.mark != "✗":
            results.append(run_check("data", lambda: _data(config)))
        if server is not None:
            results.append(run_check("agreement", lambda: _agree(config, server)))
        results.append(_writable("state folder", Path(config.site.folder)))
    if with_place:
        results.append(check_place(folder))
    # A federation without keys has neither of these files at its sites.
    secure = any((folder / name).exists() for name in (files.SITE_CA, files.NODE_KEY))
    results += check_site_keys(folder) if secure else [doubtful("keys", _NO_KEYS)]
    return [*results, run_check("server", lambda: _reachable_server(folder, secure))]


def checked_model(config: ServerConfig) -> ModelSpec:
    """The model of a server's configuration, checked against its methods as at the server's start.

    Raises:
        ConfigError: a method cannot be used with the run's settings.
        ModelError: a method cannot be used with the model.
    """
    described: Any = config.data_description()
    with error_context("model"):
        spec = check_samples(config.model.make(described), described)
    for entry in config.methods:
        place = "method" if entry is config.method else f"run.against: {entry.name}"
        method = entry.made
        check_plan(config.run, method, config.federation.capacity, place)
        check_model(method, spec, place)
    return spec


def needs_torch(folders: list[Path]) -> bool:
    """Whether server.toml or client.toml in any of these folders has a PyTorch model.

    Files that cannot be read are skipped, because other checks report them.
    """
    paths = [folder / name for folder in folders for name in (files.SERVER, files.CLIENT)]
    for path in paths:
        sections = read_sections(path) or {}
        model = sections.get("model")
        if isinstance(model, dict) and "torch" in model:
            return True
    return False


def _flower() -> CheckResult:
    """Whether Flower is installed, in a release that fedkin was tested with."""
    version = _installed("flwr")
    if version is None:
        return failed("Flower", "not installed: pip install 'fedkin[flower]'")
    release = ".".join(version.split(".")[:2])
    if release not in FLOWER:
        return failed(
            "Flower", f"expected {' or '.join(FLOWER)}, got {version}: pip install 'fedkin[flower]'"
        )
    return CheckResult("Flower", version)


def _installed(package: str) -> str | None:
    """Version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _load(loaded: list, load: Callable[[Path], ServerConfig | ClientConfig], path: Path) -> str:
    """Load a configuration file for ``run_check``, and return its path as the check's result.

    The content is appended to ``loaded``, for the checks that follow.
    """
    loaded.append(load(path))
    return str(path)


def _writable(name: str, folder: Path) -> CheckResult:
    """Whether files can be written in a folder, or if it does not exist, in its nearest parent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        return failed(
            name,
            f"no file can be written in {existing}: {error.strerror}; change its owner, or set "
            "another folder = ...",
        )
    return CheckResult(name, str(folder))


def _progress(config: ServerConfig) -> str:
    """The last round of each run in the run folder.

    Raises CheckpointError if the folder holds another run.
    """
    description = config.description()
    out = Path(config.federation.folder)
    progress = []
    spec = checked_model(config)
    # Only the digests of the model are used, so the other facts can be empty.
    handshake = make_handshake(federation="", version="", spec=spec, shape=(), classes=0)
    runs = [(config.method, out)]
    for entry in config.against:
        runs.append((entry, against_folder(out, entry.name)))
    for entry, run_folder in runs:
        if not holds_run(run_folder):
            continue
        method_description = description.with_sections({"method": entry.values})
        Folder.reopen(run_folder, method_description)
        run_fingerprint = fingerprint(method_description, *handshake.identity())
        state = checkpoint.load(
            run_folder / CHECKPOINTS, run_fingerprint, config.federation.capacity, spec.parameters
        )
        if state:
            progress.append(f"{entry.name} continues after round {state.round}")
        else:
            progress.append(f"{entry.name} has no round yet")
    return ", ".join(progress) or "none: it starts from the beginning"


def _clients_at_start(config: ServerConfig) -> list[CheckResult]:
    """Whether the server waits for as many clients as the method may need for its clustering."""
    method = config.method.made
    clients = config.federation.wait_for
    needs = requirements_of(method)
    if needs.clients.number <= clients:
        return []
    count, cure = count_and_cure(method, needs.clients, clients)
    ways = f"federation.wait_for={needs.clients.number}"
    if cure:
        ways = f"{ways} or {cure}"
    detail = (
        f"{type(method).__name__} may need {count} at the start, but federation.wait_for = "
        f"{clients}: set {ways}"
    )
    return [doubtful("clients at the start", detail)]


def _app(folder: Path) -> str:
    """Whether the app that Flower runs (app/pyproject.toml) names this folder's server.toml."""
    path = folder / files.APP
    expected = folder.absolute() / files.SERVER
    app = read_toml(path).get("tool", {}).get("flwr", {}).get("app", {})
    config = app.get("config", {}).get("config")
    if not isinstance(config, str) or not config:
        raise ConfigError(f'{path}: [tool.flwr.app.config] must have config = "{expected}"')
    if (folder / config).resolve() != expected.resolve() and moved_from(folder) is None:
        raise ConfigError(
            f"{path}: config is {config!r}, which belongs to another deployment; set it to "
            f'"{expected}"'
        )
    return config


def _connection(folder: Path, address: Address) -> str:
    """Whether Flower's commands find the certificate of the certificate authority (CA) at the path
    in flwr/config.toml."""
    path = folder / files.FLOWER
    ca = read_toml(path)["superlink"][files.CONNECTION].get("root-certificates")
    is_there = isinstance(ca, str) and Path(ca).exists()
    if address.secure and moved_from(folder) is None and not is_there:
        expected = folder.absolute() / files.CA
        raise ConfigError(
            f'{path}: root-certificates is {ca!r}; write root-certificates = "{expected}"'
        )
    return str(address)


def _model(config: ClientConfig) -> ModelSpec:
    """The model in a site's client.toml, checked against the samples that the file describes."""
    described: Any = config.data_description()
    return check_samples(config.model.make(described), described)


def _data(config: ClientConfig) -> str:
    """The number of the site's clients and samples, read as the node reads them."""
    node = node_from_config(config)
    clients = len(node.samples)
    samples = int(node.samples.sum())
    if not node.samples.all():
        raise DataError(
            f"data: client {int(np.argmin(node.samples))} of this site (counted from 0) has no "
            "training samples; give it some, or leave it out of client.clients"
        )
    return f"{clients} client{'s' * (clients > 1)}, {samples:,} training samples"


def _agree(config: ClientConfig, server: Path) -> str | CheckResult:
    """Whether the server's file has the same federation, samples and model as the site's file."""
    try:
        theirs = load_server(server / files.SERVER)
    except ConfigError:
        # The error is reported once, under the server.
        return doubtful("agreement", f"not compared: see fedkin deploy check {server} --server")
    pairs = {
        "client.federation": (config.site.federation, theirs.federation.name),
        "samples": (toml_values(config.samples), toml_values(theirs.samples)),
        "model": (shared_model(config.model), shared_model(theirs.model)),
    }
    for key, (site, expected) in pairs.items():
        if site != expected:
            raise ConfigError(
                f"{key} is {site!r} here and {expected!r} in {server / files.SERVER}; give both "
                "files the same value"
            )
    _refuse_other_backbone(config, theirs)
    return f"digest {config.shared_digest}, as in {files.SERVER}"


def _refuse_other_backbone(config: ClientConfig, theirs: ServerConfig) -> None:
    """Raise ConfigError if the backbones of a site's and a server's file have other weights. They
    are compared only if both folders are on this machine."""
    folders = [entry.values.get("backbone") for entry in (config.model, theirs.model)]
    if not all(isinstance(folder, str) and Path(folder).is_dir() for folder in folders):
        return
    described: Any = theirs.data_description()
    expected = check_samples(theirs.model.make(described), described).frozen
    if _model(config).frozen != expected:
        raise ConfigError(
            f"model.backbone: the weights in {folders[0]} are not those in {folders[1]}, which "
            f"{files.SERVER} names; copy the server's backbone to the site"
        )


def _reachable_server(folder: Path, secure: bool) -> CheckResult:
    """Whether the server replies at the address in a site's flower.env."""
    path = folder / files.ENVIRONMENT
    text = files.read_environment(folder).get("SUPERLINK", "")
    address = Address.parse(text, secure, f"{path}: SUPERLINK")
    return check_superlink(address, folder / files.SITE_CA)
