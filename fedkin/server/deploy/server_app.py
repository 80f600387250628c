"""Flower's ServerApp: ``serverapp = "fedkin.server.deploy.server_app:app"`` in pyproject.toml."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkin.config.server import load_server
from fedkin.core.errors import ConfigError, FedkinError
from fedkin.run.run import Run
from fedkin.server.deploy import deployment_folder as files
from fedkin.server.deploy.log_files import log_to, log_to_file
from fedkin.server.deploy.removed_sites import removed_names
from fedkin.server.deploy.run_server import error_line, serve
from fedkin.server.deploy.server_metrics import deployment_checks
from fedkin.server.flower_transport import FlowerTransport

_log = logging.getLogger("fedkin")
app = ServerApp()


class RunFailedError(Exception):
    """The server refused or aborted a run, for the reason in the text.

    It is not a SystemExit, because Flower does not report SystemExit.
    """


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Serve the run of a server.toml.

    Flower's configuration of the run (``context.run_config``) has the file's path as its entry
    ``config``. Raises RunFailedError for an error of fedkin. Every error is logged first.
    """
    log_to(service="fedkin-server")
    try:
        finished = _serve(grid, context)
    except FedkinError as error:
        _log.error("the run has ended: %s", error_line(error))
        raise RunFailedError(error_line(error)) from None
    except Exception:
        _log.exception("an error in the program has ended the run")
        raise
    _log.info("the run is finished: %s", " ".join(repr(finished).split()))


def _serve(grid: Grid, context: Context) -> Run:
    """Serve the run, and return it when it has ended.

    The log goes to a file, because Flower drops the standard output of a server's process.
    """
    path = context.run_config.get("config")
    if not isinstance(path, str):
        raise ConfigError(
            '[tool.flwr.app.config] must name the server\'s file: config = "/path/server.toml"'
        )
    log_to_file(Path(path).parent / files.SERVER_LOG)
    folder = Path(path).parent
    finished = serve(
        load_server(Path(path)),
        FlowerTransport(grid),
        removed=partial(removed_names, folder),
        checks=deployment_checks(folder),
    )
    # Imports matplotlib and pandas, which a run that has not ended does without.
    from fedkin.reporting.draw import draw

    draw(finished)
    return finished
