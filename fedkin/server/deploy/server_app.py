"""Flower's ServerApp: ``serverapp = "fedkin.server.deploy.server_app:app"`` in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.reporting.draw import draw
from fedkin.server.deploy.run_server import log_to, serve
from fedkin.server.flower_transport import FlowerTransport

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the run that ``config`` in the run's configuration describes."""
    log_to()
    try:
        path = context.run_config.get("config")
        if not isinstance(path, str):
            raise ConfigError('[tool.flwr.app.config] must name the server\'s file: config = "/path/server.toml"')
        config = load_server(Path(path))
        finished = serve(config, FlowerTransport(grid))
        draw(finished)
    except FedkinError as error:
        raise SystemExit(f"error: {' '.join(str(error).split())}") from None
    print(f"{finished!r} is in {finished.folder}")
