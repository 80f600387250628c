"""What a peer is told: who it is, where the others are, and whether it keeps step with them. Values, not files."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedkin.core.errors import ConfigError
from fedkin.core.names import is_name

ENCRYPTED = ("tls/", "quic/")


@dataclass(frozen=True)
class PeerSettings:
    """[peer]: who this is, and how long it goes on."""

    name: str
    federation: str = "trial"
    client: int = 0  # which client of the data set it is
    seed: int = 0
    folder: str = "."  # of its model on disk
    rounds: int | None = None  # None: until it is stopped
    pause: float | int = 0.0  # seconds between rounds
    save_every: int = 1  # rounds

    def __post_init__(self) -> None:
        for key in ("name", "federation"):
            if not is_name(getattr(self, key)):
                raise ConfigError(
                    f"peer.{key} must be 1 to 64 letters, digits, '_', '.' or '-', and begin with a letter or digit, "
                    f"got {getattr(self, key)!r}"
                )
        for key, least in (("client", 0), ("seed", 0), ("save_every", 1), ("rounds", 1)):
            value = getattr(self, key)
            if value is not None and value < least:
                raise ConfigError(f"peer.{key} must be an integer of at least {least}, got {value}")
        if not 0 <= self.pause < np.inf:
            raise ConfigError(f"peer.pause must be seconds from 0 up, got {self.pause}")


@dataclass(frozen=True)
class TlsSettings:
    """[network.tls]: files in PEM. Who has none of this CA gets nothing."""

    ca: str
    certificate: str  # its common name is the peer's name
    key: str


@dataclass(frozen=True)
class NetworkSettings:
    """[network]: where this peer listens, and one or two others that it finds the rest through."""

    listen: list[str] = field(default_factory=list)  # such as tcp/127.0.0.1:7450; empty: any free port
    connect: list[str] = field(default_factory=list)
    deadline: float | int = 5.0  # seconds for an answer
    zenoh: str | None = None  # a JSON5 file with whatever else Zenoh can be told
    tls: TlsSettings | None = None

    def __post_init__(self) -> None:
        if not 0 < self.deadline < np.inf:
            raise ConfigError(f"network.deadline must be seconds above 0, got {self.deadline}")
        for key in ("listen", "connect"):
            for address in getattr(self, key):
                if "/" not in address:
                    raise ConfigError(f"network.{key}: expected an address such as tcp/127.0.0.1:7450, got {address!r}")
                if self.tls and not address.startswith(ENCRYPTED):
                    raise ConfigError(f"network.{key}: with [network.tls] addresses begin with tls/, got {address!r}")
                if not self.tls and address.startswith(ENCRYPTED):
                    raise ConfigError(f"network.{key}: {address!r} needs certificates in [network.tls]")


@dataclass(frozen=True)
class LockstepSettings:
    """[lockstep]: all of these do round t before any does t + 1. Their order is that of the data set's clients."""

    peers: list[str]
    deadline: float | int = 60.0  # seconds to wait for one that is behind, or gone

    def __post_init__(self) -> None:
        if len(set(self.peers)) != len(self.peers) or len(self.peers) < 2:
            raise ConfigError(f"lockstep.peers must be two names or more, none twice, got {self.peers}")
        for name in self.peers:
            if not is_name(name):
                raise ConfigError(f"lockstep.peers: {name!r} cannot be a peer's name")
        if not 0 < self.deadline < np.inf:
            raise ConfigError(f"lockstep.deadline must be seconds above 0, got {self.deadline}")
