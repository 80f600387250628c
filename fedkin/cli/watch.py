"""The command ``fedkin watch``, and options for the page of ``fedkin deploy status --web``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.cli.live_pages import deployment_page, serve

HOST = "The address at which the page is served."
PORT = "The port at which the page is served; 0 for any free port."


def watch_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run; the run may start later.")
    ],
    host: Annotated[str, typer.Option("--host", metavar="HOST", help=HOST)] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help=PORT)] = 0,
) -> None:
    """Serve a live page of a run or a deployment: rounds, accuracy, clusters, refused sites, and
    the run's report.

    The page is read-only, and available on this machine only, unless --host is given. Ctrl-C ends
    the page, not the run."""
    with error_exit():
        from fedkin.core.errors import ConfigError
        from fedkin.reporting.html.live import LivePage
        from fedkin.run.folder.run_folder import holds_run
        from fedkin.server.deploy import deployment_folder as files

        if (folder / files.SERVER).is_file():
            return serve(deployment_page(folder), host, port)
        if (
            not holds_run(folder)
            and folder.exists()
            and (not folder.is_dir() or any(folder.iterdir()))
        ):
            raise ConfigError(
                f"{folder} is not the folder of a run; a live page shows a single run, so name a "
                "folder that `fedkin run` wrote"
            )
        serve(LivePage(folder), host, port)
