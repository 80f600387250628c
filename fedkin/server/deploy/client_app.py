"""Flower's ClientApp: ``clientapp = "fedkin.server.deploy.client_app:app"`` in pyproject.toml."""

from __future__ import annotations

from fedkin.server.deploy.build_node import node_from_flower_config
from fedkin.server.flower_transport import client_app

app = client_app(node_from_flower_config)
