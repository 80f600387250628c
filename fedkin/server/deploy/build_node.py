"""A node from its configuration, or from a model and data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin import __version__
from fedkin.config import registry
from fedkin.config.schema import error_context
from fedkin.config.server import ClientConfig, DataDescription, load_client
from fedkin.config.server_settings import SiteSettings
from fedkin.core.errors import ConfigError, DataError
from fedkin.core.layout import ModelSpec
from fedkin.data.federated import FederatedData
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.handshake import Handshake, make_handshake, model_digest
from fedkin.server.node import Node
from fedkin.simulation.engine import SimulatedWorld

HANDSHAKE_SEED = np.array([1, 2], np.uint32)  # from which both sides make the initial model that they compare


def node_from_flower_config(node_config: dict[str, Any], run_config: dict[str, Any]) -> Node:
    """The node that a client's file describes (``--node-config 'config="/path/client.toml"'``).

    Raises ConfigError, DataError or ModelError.
    """
    path = node_config.get("config")
    if not isinstance(path, str):
        raise ConfigError(
            """this node has no configuration: start it with --node-config 'config="/path/client.toml"'"""
        )
    return node_from_config(load_client(Path(path)))


def node_from_config(config: ClientConfig) -> Node:
    """A node whose data and model are named in its file."""
    with error_context("data"):
        if not config.data:
            raise ConfigError('[data] is required, such as name = "file" and path = "mine.npz"')
        data = registry.make_site_data(config.data)
        _check_shape(data, config.data_description())
    with error_context("model"):
        model = registry.make(registry.models(), config.model, config.data_description())
    return build_node(model, data, config.site, config.shared_digest)


def build_node(model: Any, data: FederatedData, site: SiteSettings, config_digest: str = "") -> Node:
    """A node that runs some clients of a data set.

    Args:
        model: what it trains.
        data: with the node's clients and perhaps others.
        site: its name, folder and clients.
        config_digest: of the configuration that server and node share; empty where a program makes the node.
    """
    own = data.select(site.client_numbers(data.clients))

    def handshake(spec: ModelSpec) -> Handshake:
        return make_handshake(site.federation, __version__, spec, own.x.shape[1:], own.classes, config_digest)

    def start() -> str:
        return model_digest(model.initial(HANDSHAKE_SEED))

    def world(ids: Int[np.ndarray, "c"]) -> SimulatedWorld:
        return SimulatedWorld(own, model, ids=ids)

    return Node(site.name, handshake, start, own.train.sizes, world, NodeDisk(Path(site.folder)))


def _check_shape(data: FederatedData, expected: DataDescription) -> None:
    if data.x.shape[1:] != expected.x.shape[1:] or data.classes != expected.classes:
        actual, shape = list(data.x.shape[1:]), list(expected.x.shape[1:])
        raise DataError(
            f"{data.name}: samples of shape {actual} and {data.classes} classes; "
            f"[samples] says {shape} and {expected.classes}"
        )
