"""The configuration of one real peer: ``peer.toml``, ``section.key=value`` on top, and the peer that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedkin.config import registry
from fedkin.config.peer_settings import LockstepSettings, NetworkSettings, PeerSettings, TlsSettings
from fedkin.config.run import Local, named, named_model, override, read_toml
from fedkin.config.schema import Values, checked, error_context, made, schema, told
from fedkin.core.errors import ConfigError, FedkinError, unknown
from fedkin.core.world import LocalTraining
from fedkin.methods.decentralized import PeerMethod
from fedkin.p2p.peer import Peer, check
from fedkin.p2p.peer_folder import PeerFolder
from fedkin.p2p.zenoh_transport import ZenohNetwork
from fedkin.security.signatures import Signer
from fedkin.simulation.engine import SimulatedWorld

SECTIONS = ("peer", "network", "data", "model", "method", "local", "lockstep")
Where = Callable[[str], str]


@dataclass(frozen=True)
class PeerConfig:
    """A checked configuration. Paths are absolute; [data], [model], [method] and [local] are those of experiments."""

    about: PeerSettings
    links: NetworkSettings
    data: Values
    model: Values
    method: Values
    local: Local
    lockstep: LockstepSettings | None = None

    @property
    def work(self) -> LocalTraining:
        return LocalTraining(**self.local.model_dump())


def methods() -> registry.Registry:
    """The methods that real peers can run: those without a server, but for the oracle, whom nobody can ask there."""
    return {
        name: made
        for name, made in registry.methods().items()
        if isinstance(made, type) and issubclass(made, PeerMethod) and name != "oracle"
    }


def load(path: Path, overrides: Sequence[str] = ()) -> PeerConfig:
    """Read a peer's TOML file with ``section.key=value`` on top. Paths in [peer] and [network] start at its folder.

    Raises ConfigError: no such file, not TOML, unknown section or key, wrong type or value; always with its place.
    """
    raw = read_toml(path)
    ours = override(raw, overrides, path)
    found = from_dict(raw, lambda dotted: dotted if dotted in ours else f"{path}: {dotted}")
    return _placed(found, path.parent.absolute())


def from_dict(raw: dict[str, Any], where: Where = str) -> PeerConfig:
    """Check a configuration that was read already; ``where`` turns ``section.key`` into a place."""
    for name, entries in raw.items():
        if name not in SECTIONS:
            raise ConfigError(f"{where(name)}: {unknown('section', name, SECTIONS)}")
        if not isinstance(entries, dict):
            raise ConfigError(f"{where(name)}: expected a section, got {entries!r}")

    def place(name: str) -> Where:
        return lambda key: where(f"{name}.{key}")

    section = {name: raw.get(name, {}) for name in SECTIONS}
    config = PeerConfig(
        about=made(PeerSettings, section["peer"], place("peer")),
        links=_links(section["network"], place("network")),
        data=named("data set", registry.datasets(), {"name": "digits"} | section["data"], place("data")),
        model=named_model(section["model"], place("model")),
        method=named("peer-to-peer method", methods(), {"name": "panm"} | section["method"], place("method")),
        local=checked(Local, section["local"], place("local")),
        lockstep=made(LockstepSettings, section["lockstep"], place("lockstep")) if "lockstep" in raw else None,
    )
    for name, make in {"local": lambda: config.work, "method": lambda: registry.make(methods(), config.method)}.items():
        try:
            make()
        except FedkinError as error:
            raise ConfigError(f"{where(name)}: {error}") from error
    return config


def build(config: PeerConfig, on_round: Callable[[dict[str, Any]], Any] | None = None) -> Peer:
    """The peer: its data, its model, its folder, and an open network, in this order.

    Raises what these raise: ConfigError, DataError, ModelError, StorageError, CheckpointError, MissingExtra.
    """
    with error_context("data"):
        data = registry.make(registry.datasets(), config.data)
    with error_context("model"):
        model = registry.make(registry.models(), config.model, data)
    about, links, tls = config.about, config.links, config.links.tls
    world = SimulatedWorld(data, model, config.work, devices=1)
    check(about, world, config.lockstep)
    disk = PeerFolder(Path(about.folder), about)
    memory = disk.restore(world.spec.parameters)
    seal = Signer(about.name, Path(tls.ca), Path(tls.certificate), Path(tls.key)) if tls else None
    method = registry.make(methods(), config.method)
    network = ZenohNetwork(about.federation, about.name, links, world.spec.parameters)
    options = {"lockstep": config.lockstep, "deadline": links.deadline, "seal": seal, "on_round": on_round}
    try:
        return Peer(about, method, world, network, disk, memory, **options)
    except BaseException:
        network.close()  # an open session keeps a process from ending
        raise


def _links(values: Values, where: Where) -> NetworkSettings:
    """[network] and, in it, [network.tls]."""
    rest = {key: value for key, value in values.items() if key != "tls"}
    section = checked(schema(NetworkSettings, ["tls"]), rest, where, ["tls"])
    tls = values.get("tls")
    if tls is not None and not isinstance(tls, dict):
        raise ConfigError(f"{where('tls')}: expected a section, got {tls!r}")
    files = None if tls is None else made(TlsSettings, tls, lambda key: where(f"tls.{key}"))
    return told(where, NetworkSettings, {**dict(section), "tls": files})


def _placed(config: PeerConfig, base: Path) -> PeerConfig:
    """With paths that start at the folder of the file."""

    def at(path: str) -> str:
        return str(base / path)

    links = config.links
    tls = links.tls and TlsSettings(at(links.tls.ca), at(links.tls.certificate), at(links.tls.key))
    links = replace(links, zenoh=links.zenoh and at(links.zenoh), tls=tls)
    return replace(config, about=replace(config.about, folder=at(config.about.folder)), links=links)
