"""``fedkin eps``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import configured, plainly, show


def eps_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE.toml [section.key=value]...", help="A study, as for `fedkin run`."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture.")] = Path("eps.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")] = False,
) -> None:
    """Which eps makes which clusters of the clients, for methods hierarchical and athena: one clustering round is
    run, and nothing is trained after it."""
    with plainly():
        from fedkin.analysis import dbscan_eps

        config = configured(settings or [], None)
        study = dbscan_eps.of_config(config)
        paths = dbscan_eps.save(study, out)
        if as_json:
            print(json.dumps(study.summary()))
            return
        show(study.table(), f"{config.data['name']}, {config.model['name']}: what DBSCAN finds")
        typer.echo(f"suggested: method.eps={study.suggested:.3g}")
        typer.echo(f"picture: {' and '.join(map(str, paths))}")
