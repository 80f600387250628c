"""Builds a real peer (one that uses a network) from its configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedkin.config import peer, registry
from fedkin.config.schema import error_context
from fedkin.p2p.peer import Peer, check_peer
from fedkin.p2p.peer_folder import PeerFolder
from fedkin.p2p.zenoh_transport import ZenohTransport
from fedkin.security.signatures import FileKeys, Signer
from fedkin.simulation.engine import SimulatedWorld

TLS_KEYS = FileKeys(
    authority="network.tls.ca",
    certificate="network.tls.certificate",
    private="network.tls.key",
    cure="fedkin peer init --tls makes it if it is missing",
)


def build_peer(
    config: peer.PeerConfig, on_round: Callable[[dict[str, Any]], Any] | None = None
) -> Peer:
    """Build a peer: first its data, model and folder, then its network connection. The connection
    is open when this function returns.

    Args:
        config: configuration of the peer.
        on_round: called with the record of every round.

    Raises:
        ConfigError, DataError, ModelError, StorageError, CheckpointError, MissingExtra: the data,
            the model, the folder or the connection cannot be used.
    """
    with error_context("data"):
        data = registry.make_site_data(config.data)
    with error_context("model"):
        model = config.model.make(data)
    settings = config.peer
    network = config.network
    tls = config.network.tls
    world = SimulatedWorld(data, model, config.work, devices=1)
    check_peer(settings, world, config.lockstep)
    storage = PeerFolder(Path(settings.folder), settings)
    memory = storage.restore(world.spec.parameters)
    signer = None
    if tls:
        signer = Signer(
            name=settings.name,
            authority=Path(tls.ca),
            certificate=Path(tls.certificate),
            key=Path(tls.key),
            keys=TLS_KEYS,
        )
    method = config.method.made
    transport = ZenohTransport(settings.federation, settings.name, network, world.spec.parameters)
    try:
        return Peer(
            settings=settings,
            method=method,
            world=world,
            transport=transport,
            storage=storage,
            memory=memory,
            lockstep=config.lockstep,
            timeout=network.deadline,
            signer=signer,
            on_round=on_round,
        )
    except BaseException:
        # An open session would keep the process running.
        transport.close()
        raise
