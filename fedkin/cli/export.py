"""The command ``fedkin export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.core.object_repr import shell_command


def export_command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The folder of a run, or the client.toml of a deployed site."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A new folder for the files.")],
    format: Annotated[
        str, typer.Option("--format", help="safetensors, torch or onnx.")
    ] = "safetensors",
    last_checkpoint: Annotated[
        bool,
        typer.Option(
            "--checkpoint", help="Export the models of the last checkpoint of an unfinished run."
        ),
    ] = False,
) -> None:
    """Write trained models as files that work without fedkin: one for each cluster, and a card that
    lists the clients of each model."""
    with error_exit():
        if run.suffix == ".toml":
            from fedkin.config.server import load_client
            from fedkin.server.deploy.export_site import export_site

            card = export_site(load_client(run), out, format)
        else:
            from fedkin.run.export_folder import export_folder

            card = export_folder(run, out, format, last_checkpoint)
        for entry in json.loads(card.read_text())["models"]:
            accuracy = entry.get("test_accuracy")
            scored = "" if accuracy is None else f", test accuracy {accuracy:.3f}"
            typer.echo(
                f"{entry['name']}: {card.parent / entry['file']}, for {len(entry['clients'])} "
                f"clients{scored}"
            )
        typer.echo(f"card: {card}")
        typer.echo(f"predict: {shell_command('fedkin', 'predict', card.parent, 'DATA.csv')}")
