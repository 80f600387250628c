"""``fedkin report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.core.errors import ConfigError


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run, of seeds or of a comparison.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="File of the page; report.html in DIR.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write the charts as PDF, SVG and PNG for a paper.")
    ] = None,
    similarity: Annotated[
        bool,
        typer.Option("--similarity", help="Train up to 200 clients for one epoch, once, to show how similar they are."),
    ] = False,
    portrait: Annotated[bool | None, typer.Option("--portrait/--no-portrait", hidden=True)] = None,
) -> None:
    """Write one page about a run, its seeds or a comparison, finished or not: a file that opens without network."""
    with error_exit():
        if portrait is not None:
            was = "--portrait" if portrait else "--no-portrait"
            raise ConfigError(f"{was} was replaced: a report trains no clients any more, unless --similarity is given")

        from fedkin.reporting.html.report import report

        path = report(folder, out, figures=figures, similarity=similarity)
        typer.echo(f"report: {path}")
        if figures is not None:
            typer.echo(f"figures: {figures}")
