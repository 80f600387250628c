"""A node out of its configuration, or out of a model and data that a program has."""

from __future__ import annotations

import dataclasses
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
from fedkin.core.world import ModelSpec
from fedkin.data.federated import FederatedData
from fedkin.server.deploy.node_disk import NodeDisk
from fedkin.server.handshake import Handshake, digest_of, make_handshake
from fedkin.server.node import Node
from fedkin.simulation.engine import SimulatedWorld

FIXED = np.array([1, 2], np.uint32)  # randomness from which both sides make the same initial model


def configured(node_config: dict[str, Any], run_config: dict[str, Any]) -> Node:
    """The node that a client's file describes (``--node-config 'config="/path/client.toml"'``).

    Raises ConfigError, DataError or ModelError, saying what is wrong with it.
    """
    path = node_config.get("config")
    if not isinstance(path, str):
        raise ConfigError(
            """this node has no configuration: start it with --node-config 'config="/path/client.toml"'"""
        )
    return of_config(load_client(Path(path)))


def of_config(config: ClientConfig) -> Node:
    """A node whose data and model are named in its file."""
    with error_context("data"):
        if not config.data:
            raise ConfigError('[data] is required, such as name = "file" and path = "mine.npz"')
        data = registry.make(registry.datasets(), config.data)
        _check_shape(data, config.data_description())
    with error_context("model"):
        model = registry.make(registry.models(), config.model, config.data_description())
    return of_data(model, data, config.site, config.shared_digest)


def of_data(model: Any, data: FederatedData, site: SiteSettings, agreed: str = "") -> Node:
    """A node that plays some clients of ``data`` and trains ``model``."""
    own = shard(data, site.client_numbers(data.clients))

    def introduction(spec: ModelSpec) -> Handshake:
        return make_handshake(site.federation, __version__, spec, own.x.shape[1:], own.classes, agreed)

    def start() -> str:
        return digest_of(model.initial(FIXED))

    def world(ids: Int[np.ndarray, "c"]) -> SimulatedWorld:
        return SimulatedWorld(own, model, ids=ids)

    return Node(site.name, introduction, start, own.train.sizes, world, NodeDisk(Path(site.folder)))


def shard(data: FederatedData, clients: Int[np.ndarray, "c"]) -> FederatedData:
    """Some clients of a federated data set."""
    parts = {"train": data.train.taken(clients), "test": data.test.taken(clients)}
    return dataclasses.replace(data, **parts, true_clusters=None, client_names=None)


def _check_shape(data: FederatedData, told: DataDescription) -> None:
    if data.x.shape[1:] != told.x.shape[1:] or data.classes != told.classes:
        got, said = list(data.x.shape[1:]), list(told.x.shape[1:])
        raise DataError(
            f"{data.name}: samples of shape {got} and {data.classes} classes; [samples] says {said} and {told.classes}"
        )
