"""The command ``fedkin eps``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit, load_config, print_cost_of_looking
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
        from fedkin.reporting.style import check_figure

        check_figure(out)
        config = load_config(settings or [], None)
        study = eps_study.of_config(config)
        paths = eps_figure.save(study, out)
        print_cost_of_looking(config, to_stderr=as_json)
        if as_json:
            print(json_text(study.summary()))
            return
        print_table(
            study.table(), f"{config.data.name}, {config.model.name}: clusters found by DBSCAN"
        )
        typer.echo(f"suggested: method.eps={study.suggested:.3g}")
        typer.echo(f"figure: {' and '.join(map(str, paths))}")
