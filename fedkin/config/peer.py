"""The configuration of a peer: ``peer.toml`` with overrides ``section.key=value``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedkin.config import registry, run
from fedkin.config.declarations import one_class
from fedkin.config.deployment_checks import check_between_peers
from fedkin.config.loader import Sections, check_table, read
from fedkin.config.peer_settings import LockstepSettings, NetworkSettings, PeerSettings, TlsSettings
from fedkin.config.registry import Entry, resolve_model
from fedkin.config.run import LocalSection
from fedkin.config.schema import Place, validate
from fedkin.config.score_goals import known_task_type
from fedkin.config.series_keys import check_series_of_peer
from fedkin.core.storage import user_path
from fedkin.core.training import LocalTraining

SECTIONS = ("peer", "network", "data", "model", "method", "local", "lockstep")
METHOD = "panm"  # name of the method if the file has none
# What declares the keys of each section.
DECLARED = {
    "peer": one_class(PeerSettings),
    "network": one_class(NetworkSettings),
    **{name: run.DECLARED[name] for name in ("data", "model", "method", "local")},
    "method": run.DECLARED["method"]._replace(default=lambda _: METHOD),
    "lockstep": one_class(LockstepSettings),
}


@dataclass(frozen=True)
class PeerConfig:
    """The validated configuration of a peer, with absolute paths. The sections [data], [model],
    [method] and [local] have the same keys as for a run."""

    peer: PeerSettings
    network: NetworkSettings
    data: Entry
    model: Entry
    method: Entry
    local: LocalSection
    lockstep: LockstepSettings | None = None

    @property
    def work(self) -> LocalTraining:
        """The settings of local training."""
        return self.local.work


def load(path: Path, overrides: Sequence[str] = ()) -> PeerConfig:
    """Read a peer's TOML file and apply overrides ``section.key=value``. Relative paths in [peer]
    and [network] start at the file's folder.

    Raises ConfigError if the file is missing or not TOML, a section or key is unknown, or a value
    has the wrong type or range.
    """
    return _with_absolute_paths(
        from_dict(*read(path, overrides, declared=DECLARED)), path.parent.absolute()
    )


def from_dict(raw: dict[str, Any], place: Place = str) -> PeerConfig:
    """Validate the sections of a peer's configuration. ``place`` turns ``section.key`` into its
    name in messages, such as ``FILE: section.key``."""
    sections = Sections(raw, SECTIONS, place)
    if "tls" in sections["network"]:
        tls = sections["network"]["tls"]
        check_table(tls, place("network.tls"))
        validate(TlsSettings, tls, sections.place_in("network.tls"))
    data = sections.resolve(
        "data", "data set", registry.datasets(), registry.default_dataset(sections["data"])
    )
    config = PeerConfig(
        peer=sections.validate("peer", PeerSettings),
        network=sections.validate("network", NetworkSettings),
        data=data,
        model=resolve_model(sections["model"], sections.place_in("model"), known_task_type(data)),
        method=sections.resolve("method", "method", registry.methods(), METHOD),
        local=sections.validate("local", LocalSection),
        lockstep=sections.validate("lockstep", LockstepSettings)
        if "lockstep" in sections
        else None,
    )
    registry.refuse_simulated_only(config.data.values, place)
    check_series_of_peer(config.data.values, place)
    sections.construct("local", lambda: config.work, LocalSection)
    sections.construct("method", lambda: config.method.made)
    check_between_peers(config.method, place)
    return config


def _with_absolute_paths(config: PeerConfig, base: Path) -> PeerConfig:
    """A peer's configuration with absolute paths. Relative paths start at ``base``, the folder of
    its file."""

    def at(path: str) -> str:
        return str(base / user_path(path))

    peer = config.peer
    network = config.network
    tls = network.tls and TlsSettings(
        at(network.tls.ca), at(network.tls.certificate), at(network.tls.key)
    )
    network = replace(network, zenoh=network.zenoh and at(network.zenoh), tls=tls)
    return replace(config, peer=replace(peer, folder=at(peer.folder)), network=network)
