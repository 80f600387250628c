"""The command ``fedkin eps``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import (
    check_figure_writable,
    error_exit,
    load_config,
    print_cost_of_looking,
)
from fedkin.cli.printed_tables import print_table
from fedkin.core.strict_json import json_text


def eps_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.toml [section.key=value]...", help="A configuration, as for `fedkin run`."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="Write the figure to this file, as PNG and SVG."
        ),
    ] = Path("eps.png"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON instead.")
    ] = False,
) -> None:
    """Suggest DBSCAN's parameter eps for the methods hierarchical and athena.

    The command runs a single clustering round. For several ranges of eps, it shows the number of
    clusters, and the number of clients that DBSCAN leaves without a cluster (noise points)."""
    with error_exit():
        from fedkin.analysis import eps_study
        from fedkin.reporting import eps_figure

        check_figure_writable(out, "eps.png")
        config = load_config(settings or [], None)
        study = eps_study.of_config(config)
        print_cost_of_looking(config, to_stderr=as_json)
        if as_json:
            print(json_text(study.summary()))
        else:
            title = f"{config.data.name}, {config.model.name}: clusters found by DBSCAN"
            print_table(study.table(), title)
            typer.echo(f"suggested: method.eps={study.suggested:.3g}")
        # Draw the figure last, so that the numbers are printed even if drawing fails.
        paths = eps_figure.save(study, out)
        typer.echo(f"figure: {' and '.join(map(str, paths))}", err=as_json)
