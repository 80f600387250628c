"""The command ``fedkin report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.core.errors import ConfigError


def report_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a run, of several seeds or of a comparison."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.html",
            help="Write the page to this file (default: DIR/report.html).",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            metavar="DIR",
            help="Also write the charts as PDF, SVG and PNG, one column wide.",
        ),
    ] = None,
    similarity: Annotated[
        bool,
        typer.Option(
            "--similarity",
            help="Train up to 200 clients for one epoch, once, and show their similarity.",
        ),
    ] = False,
    portrait: Annotated[bool | None, typer.Option("--portrait/--no-portrait", hidden=True)] = None,
) -> None:
    """Write an HTML report on a run, on several seeds or on a comparison, finished or not. The page
    needs no network."""
    with error_exit():
        if portrait is not None:
            was = "--portrait" if portrait else "--no-portrait"
            raise ConfigError(
                f"{was} was removed, since a report trains clients only with --similarity; leave "
                f"{was} out, or give --similarity to show how similar the clients are"
            )

        from fedkin.reporting.html.report import report

        path = report(folder, out, figures=figures, similarity=similarity)
        typer.echo(f"report: {path}")
        if figures is not None:
            typer.echo(f"figures: {figures}")
