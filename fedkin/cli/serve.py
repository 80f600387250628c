"""The command ``fedkin serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import LOOPBACK, error_exit
from fedkin.service.json_body import MOST_BYTES


def serve_command(
    export: Annotated[
        Path, typer.Argument(metavar="EXPORT", help="A folder that `fedkin export` wrote.")
    ],
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; by default this machine only.")
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 for any free port.")
    ] = 8080,
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="BYTES", min=1, help="Largest body of a request.")
    ] = MOST_BYTES,
    backbone: Annotated[
        Path | None,
        typer.Option(
            "--backbone",
            metavar="FOLDER",
            help="The backbone of adapters, if the export has no copy of it.",
        ),
    ] = None,
) -> None:
    """Serve the models of an export over HTTP: POST /predict with a client's name and rows, and the
    Open Inference Protocol at /v2. It has no password.

    `fedkin serve-choice` is another command: it chooses the model that serves each client."""
    with error_exit():
        from fedkin.export import load
        from fedkin.service.app import application, host_in_url, listening, serve, settings_of
        from fedkin.service.models import LoadedModels

        served = LoadedModels(load(export, backbone=backbone))
        # Made before the address is printed, so that no line promises a service that cannot start.
        config = settings_of(application(served, max_body))
        with listening(host, port) as bound:
            address = f"http://{host_in_url(host)}:{bound.getsockname()[1]}"
            typer.echo(f"{len(served.models)} models of {export} at {address}; Ctrl-C ends it")
            serve(config, bound)
