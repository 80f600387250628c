"""Settings classes of a peer: identity, network and lockstep."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from fedkin.config.schema import Name, NotNegative, Positive, Seconds, settings

ENCRYPTED = ("tls/", "quic/")


def _address(text: str) -> str:
    """Check that a text looks like an address of Zenoh."""
    if "/" not in text:
        raise ValueError("expected an address such as tcp/127.0.0.1:7450")
    return text


def _different(names: list[str]) -> list[str]:
    """Check that a list has at least two names of peers, all different."""
    if len(set(names)) != len(names) or len(names) < 2:
        raise ValueError("expected at least two different names, without repeats")
    return names


Address = Annotated[str, AfterValidator(_address)]


@settings("peer")
class PeerSettings:
    """[peer]: the peer's name, its federation, its client in the data set, and its number of
    rounds."""

    name: Name
    federation: Name = "trial"
    client: NotNegative = 0  # index of the peer's client in the data set
    seed: NotNegative = 0
    folder: str = "."  # folder in which the peer stores its model
    rounds: Positive | None = None  # number of rounds; None: until the peer is stopped
    pause: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0  # seconds between rounds
    save_every: Positive = 1  # rounds from one save to the next


@settings("network.tls")
class TlsSettings:
    """[network.tls]: certificate files in PEM format. ``ca`` is the certificate of the authority;
    peers are refused if their certificates are not from this authority."""

    ca: str
    certificate: str  # its common name is the peer's name
    key: str


@settings("network")
class NetworkSettings:
    """[network]: the address of this peer, and of one or two peers through which it finds the other
    peers."""

    # Addresses of this peer, such as ``tcp/127.0.0.1:7450``; empty: any free port.
    listen: list[Address] = field(default_factory=list)
    connect: list[Address] = field(default_factory=list)
    deadline: Seconds = 5.0  # seconds to wait for a reply
    zenoh: str | None = None  # a JSON5 file with further settings of Zenoh
    tls: TlsSettings | None = None

    @model_validator(mode="after")
    def _tls_addresses(self) -> NetworkSettings:
        """Check that a peer's addresses are encrypted if and only if it has certificates."""
        for key, addresses in (("listen", self.listen), ("connect", self.connect)):
            for address in addresses:
                if self.tls and not address.startswith(ENCRYPTED):
                    raise ValueError(
                        f"{key}: with [network.tls] addresses begin with tls/, got {address!r}"
                    )
                if not self.tls and address.startswith(ENCRYPTED):
                    raise ValueError(f"{key}: {address!r} needs certificates in [network.tls]")
        return self


@settings("lockstep")
class LockstepSettings:
    """[lockstep]: all listed peers finish round t before any of them starts round t + 1. The k-th
    peer of the list has the data set's k-th client."""

    peers: Annotated[list[Name], AfterValidator(_different)]
    deadline: Seconds = 60.0  # seconds to wait for a peer that is behind or offline
