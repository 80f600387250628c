"""Live pages for ``fedkin watch`` and ``fedkin deploy status --web``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from fedkin.reporting.html.live import LivePage


def deployment_page(folder: Path) -> LivePage:
    """The live page of a deployment.

    Args:
        folder: the folder of the deployment, with its server.toml.
    """
    from fedkin.config.server import load_server
    from fedkin.reporting.html.live import DeploymentLines, LivePage
    from fedkin.server.deploy import deployment_folder as files
    from fedkin.server.deploy.status import RUN, UP, log_lines, reason_line, status

    # The page calls this function each time it is refreshed.
    def lines() -> DeploymentLines:
        found = status(folder)
        return DeploymentLines(
            parts=[
                (line.name, line.state, ", ".join(filter(None, (line.detail, line.place))))
                for line in found
            ],
            log=list(log_lines(folder, [RUN], 400, follow=False)),
            problems=[reason_line(line) for line in found if line.reason],
            run_is_up=any(line.name == RUN and line.state == UP for line in found),
        )

    return LivePage(Path(load_server(folder / files.SERVER).federation.folder), lines)


def serve(page: LivePage, host: str, port: int) -> None:
    """Serve a live page until Ctrl-C.

    Args:
        page: the live page.
        host: address on which to listen.
        port: port on which to listen; 0 for any free port.
    """
    from fedkin.reporting.html.live_server import LiveServer

    with LiveServer(page, host, port) as server:
        typer.echo(
            f"live page: {server.address}  (keep this address secret, since it gives access; "
            "Ctrl-C ends the page)"
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("the page has ended")
