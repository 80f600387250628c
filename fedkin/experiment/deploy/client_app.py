"""Flower's ClientApp: ``clientapp = "fedkin.experiment.deploy.client_app:app"`` in pyproject.toml."""

from __future__ import annotations

from fedkin.experiment.deploy.nodes import configured
from fedkin.federation.flower import client_app

app = client_app(configured)
