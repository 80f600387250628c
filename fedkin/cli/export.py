"""The command ``fedkin export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkin.cli.common import Backbone, error_exit
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
        str,
        typer.Option(
            "--format", help="safetensors, torch, onnx or mlflow; for adapters peft or merged."
        ),
    ] = "safetensors",
    last_checkpoint: Annotated[
        bool,
        typer.Option(
            "--checkpoint", help="Export the models of the last checkpoint of an unfinished run."
        ),
    ] = False,
    with_backbone: Annotated[
        bool,
        typer.Option("--with-backbone", help="Copy the backbone of adapters into the folder."),
    ] = False,
    backbone: Backbone = None,
    license: Annotated[
        str, typer.Option("--license", metavar="ID", help="Licence of the models, for the cards.")
    ] = "",
    card_clients: Annotated[
        str,
        typer.Option(
            "--card-clients",
            metavar="FORM",
            help="How cards tell which clients use a model: count, hash or name.",
        ),
    ] = "count",
) -> None:
    """Write trained models as files that work without fedkin: one for each cluster, a card of each
    for readers (README.md), and card.json, which lists the clients of each model."""
    with error_exit():
        from fedkin.export.model_card import CardOptions

        options = CardOptions(license, card_clients)
        if run.suffix == ".toml":
            from fedkin.config.server import load_client
            from fedkin.core.errors import ConfigError
            from fedkin.server.deploy.export_site import export_site

            if backbone is not None:
                raise ConfigError("--backbone applies to runs; a site's client.toml names its own")
            card = export_site(
                load_client(run), out, format, with_backbone=with_backbone, options=options
            )
        else:
            from fedkin.run.export_folder import export_folder

            card = export_folder(
                run,
                out,
                format=format,
                last_checkpoint=last_checkpoint,
                with_backbone=with_backbone,
                backbone=backbone,
                options=options,
            )
        described = json.loads(card.read_text())
        for entry in described["models"]:
            typer.echo(
                f"{entry['name']}: {card.parent / entry['file']}, for {len(entry['clients'])} "
                f"clients{_scored(entry)}"
            )
        typer.echo(f"card: {card}")
        if format == "mlflow":
            typer.echo(f"mlflow: mlflow.pyfunc.load_model({str(out)!r}).predict(x, params=...)")
        if described["format"] in ("peft", "merged"):
            typer.echo("use: the README.md of each model has the lines")
            return
        command = shell_command("fedkin", "predict", card.parent, "DATA.csv")
        if "backbone" in described and not with_backbone:
            command += " --backbone FOLDER"
        typer.echo(f"predict: {command}")


def _scored(entry: dict[str, Any]) -> str:
    """The first test score of a model as text; empty if its clients were not evaluated.

    Args:
        entry: the model's entry in ``card.json``.
    """
    from fedkin.export.model_card import scores_of_entry

    scores = scores_of_entry(entry)
    if not scores:
        return ""
    measure, score = next(iter(scores.items()))
    return f", test {measure.replace('_', ' ')} {score:.3f}"
