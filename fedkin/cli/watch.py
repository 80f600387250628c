"""``fedkin watch``, and the page of ``fedkin deploy status --web``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit

if TYPE_CHECKING:
    from fedkin.reporting.html.live import LivePage

HOST, PORT = "Where to serve the page.", "Likewise; 0 for any that is free."


def watch_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run; it may not have begun.")],
    host: Annotated[str, typer.Option("--host", metavar="HOST", help=HOST)] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help=PORT)] = 0,
) -> None:
    """Serve a live page of a run: rounds, accuracy, clusters, and its report. Read only; for this machine only, unless
    --host serves it to others.

    Ctrl-C ends the page, not the run."""
    with error_exit():
        from fedkin.core.errors import ConfigError
        from fedkin.reporting.html.live import LivePage
        from fedkin.run.run_folder import holds_run

        if not holds_run(folder) and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(
                f"{folder} is not the folder of a run; a live page is of one run, as fedkin run writes it"
            )
        serve(LivePage(folder), host, port)


def serve(page: LivePage, host: str, port: int) -> None:
    """Serve a live page until Ctrl-C.

    Args:
        page: what is shown.
        host: where to listen.
        port: likewise.
    """
    from fedkin.reporting.html.live_server import LiveServer

    with LiveServer(page, host, port) as server:
        typer.echo(f"live page: {server.address}  (only who has this address sees it; Ctrl-C ends the page)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("the page has ended")
