"""``fedkin report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run, of seeds or of a comparison.")],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.html", help="The page.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="The pictures too, as PDF, SVG and PNG for a paper.")
    ] = None,
    similarity_map: Annotated[
        bool, typer.Option(help="Train some clients for one epoch, once, to draw who is like whom.")
    ] = True,
) -> None:
    """One page about a run, its seeds or a comparison, finished or not: a file that opens anywhere, without network."""
    with error_exit():
        from fedkin.reporting.report import report

        written = report(folder, out, figures=figures, similarity_map=similarity_map)
        typer.echo(f"report: {written}")
        if figures is not None:
            typer.echo(f"figures: {figures}")
