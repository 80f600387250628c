"""Flower clients whose model and data come from Python code, not from a file.

Example: ``app = fk.torch_client(Net, loaders)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedkin.config.server_settings import SiteSettings
from fedkin.core.errors import ConfigError, DataError, FedkinError, MissingExtra
from fedkin.data.federated import FederatedData
from fedkin.server.deploy.build_node import build_node
from fedkin.server.egress_ledger import SiteLedger
from fedkin.server.egress_outbox import Outbox
from fedkin.server.node import Node

ClientApp = Any  # flwr.clientapp.ClientApp: Flower is imported when an app is made
AnyModel = Any  # a Model, a TorchModel, or a function that makes a model
# FederatedData, (train, test), or a function from the node's configuration to one of these.
Source = Any


def jax_client(model: AnyModel, data: Source) -> ClientApp:
    """A Flower client that trains a JAX model as the simulator does.

    Args:
        model: a model as for ``simulate``, or a function that makes it from the data, such as
            ``fk.models.mclr``.
        data: FederatedData with the clients of this node, or a function from the node's
            configuration (a dict) to FederatedData. ``flower-supernode --node-config`` gives the
            configuration: ``name`` (required), ``folder`` where the client stores its files
            (``state``), and any other entries.

    Raises:
        MissingExtra: Flower is not installed.

    Examples:
        >>> import fedkin as fk
        >>> data = fk.data.digits(clients=6)
        >>> app = fk.jax_client(fk.models.mclr, data)
        >>> type(app).__name__
        'ClientApp'
    """

    def make(node: dict[str, Any], run: dict[str, Any]) -> Node:
        of_node = _node_data(data, node)
        if not isinstance(of_node, FederatedData):
            raise DataError(f"a client's data must be FederatedData, got {type(of_node).__name__}")
        return build_node(model(of_node) if callable(model) else model, of_node, site(node))

    return _app(make)


def torch_client(module: Any, loaders: Source, *, classes: int | None = None) -> ClientApp:
    """A Flower client that trains a PyTorch module.

    Args:
        module: an ``nn.Module``, a function that makes one, or a ``TorchModel``.
        loaders: a pair (train, test) of data sets or loaders of pairs (x, y); or FederatedData; or
            a function of the node's configuration that returns one of these, as for ``jax_client``.
            A loader's data set is read again for every message. Its order and batches are not used,
            because all clients draw batches from the run's seed.
        classes: number of classes C; default: the number of outputs of the module. A detector
            needs this argument, because it has one output (a score), whatever C is.

    Raises:
        MissingExtra: Flower or PyTorch is not installed.

    Examples:
        >>> import fedkin as fk
        >>> from torch import nn
        >>> data = fk.data.digits(clients=6)
        >>> app = fk.torch_client(lambda: nn.Linear(64, 10), data)
        >>> type(app).__name__
        'ClientApp'
    """
    from fedkin.simulation.torch import torch_model

    def make(node: dict[str, Any], run: dict[str, Any]) -> Node:
        settings = site(node)
        of_node = _node_data(loaders, node)
        # Only a TorchModel has workers; a module, or a function that makes one, becomes a model.
        if isinstance(of_node, FederatedData):
            model = module if hasattr(module, "workers") else torch_model(module, of_node)
            return build_node(model, of_node, settings)
        model = module if hasattr(module, "workers") else torch_model(module)
        data = _from_loaders(of_node, model, classes, settings.name)
        return build_node(model, data, settings)

    return _app(make)


def site(node: dict[str, Any]) -> SiteSettings:
    """A node's settings from its configuration. Raises ConfigError if it has no name."""
    if not isinstance(node.get("name"), str):
        raise ConfigError("this node has no name: start it with --node-config 'name=\"berlin\"'")
    return SiteSettings(node["name"], "", str(node.get("folder", "state")))


def _node_data(data: Source, node: dict[str, Any]) -> Any:
    """The node's data: ``data`` itself, or what the user's function returns for the node's
    configuration."""
    if not callable(data) or isinstance(data, FederatedData):
        return data
    try:
        return data(node)
    except FedkinError:
        raise
    # Any error of the user's code.
    except Exception as error:
        raise DataError(
            f"the function that returns the client's data failed: {type(error).__name__}: {error}"
        ) from error


def _from_loaders(pair: Any, model: AnyModel, classes: int | None, name: str) -> FederatedData:
    """The data of a client from its pair of loaders.

    Args:
        pair: the pair (train, test).
        model: the model, whose outputs are counted if the number of classes is not given.
        classes: number of classes; None if unknown.
        name: name of the client.
    """
    from fedkin.simulation.torch.client_loaders import client_data

    if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
        raise DataError(
            "loaders must be a pair (train, test), FederatedData or a function, got "
            f"{type(pair).__name__}"
        )
    train, test = pair
    if classes is None and model.spec.detects:
        raise ConfigError("torch_client: a detector gives one score, so classes must be given")
    # Without a number of classes any label is accepted, until the outputs are counted.
    data = client_data(train, test, classes or 2**31, name)
    if classes:
        return data
    return dataclasses.replace(data, classes=int(model.scores(data).shape[-1]))


def _app(make: Callable[[dict[str, Any], dict[str, Any]], Node]) -> ClientApp:
    """A ClientApp whose node ``make`` returns. Raises MissingExtra if Flower is not installed."""
    try:
        from fedkin.server.flower_transport import client_app
    except ImportError as error:
        raise MissingExtra(
            "a real federation needs Flower, which is not installed: pip install 'fedkin[flower]'"
        ) from error
    return client_app(make, _outbox)


def _outbox(node: dict[str, Any]) -> Outbox | None:
    """The outbox of a node, whose ledger is in the node's folder; None for a node without a name,
    which cannot take part."""
    try:
        settings = site(node)
    except ConfigError:
        return None
    return Outbox(SiteLedger(Path(settings.folder)), settings.name)
