"""``fedkin advise``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.shell import configured, plainly, show

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.experiment.advise import Advice


def advise_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE.toml [section.key=value]...", help="Data, model and local work."),
    ] = None,
    private_labels: Annotated[
        bool, typer.Option("--private-labels", help="Leave out what needs the clients' label counts.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Draw a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")] = False,
) -> None:
    """Whether clustering helps these clients, with how many clusters and which method, and what it costs. The file is
    that of `fedkin run`; its method, scenario and shift are not looked at."""
    with plainly():
        from fedkin.experiment.advise import of_config

        config = configured(settings or [], None)
        advice = of_config(config, private_labels=private_labels, say=lambda line: print(line, file=sys.stderr))
        paths = _picture(advice, out) if out else []
        if as_json:
            print(json.dumps(advice.summary(), allow_nan=False))
            return
        _tell(advice)
        if paths:
            typer.echo(f"picture: {' and '.join(map(str, paths))}")


def _picture(advice: Advice, out: Path) -> list[Path]:
    from fedkin.experiment.advise import picture

    return picture.save(advice, out)


def _tell(advice: Advice) -> None:
    """The tables, the verdict, and what to paste."""
    kinds = advice.kinds
    show(_written(advice.differences, ".4g"), "how far clients differ, and if the same data were dealt at random")
    show(_written(advice.numbers, ".3g"), f"how many kinds of clients, from {len(kinds.used):,} of {advice.clients:,}")
    typer.echo("; ".join(f"{way}: {number}" for way, number in kinds.votes.items()))
    if advice.pilots is not None:
        show(_written(advice.pilots, ",.1f"), "does clustering help: gains over plain averaging, percentage points")
    typer.echo(f"\n{advice.verdict}: {advice.why}\n\n{advice.toml()}", nl=False)


def _written(table: pd.DataFrame, form: str) -> pd.DataFrame:
    """Numbers as people read them; a dash for what cannot be said."""
    written = table.map(lambda value: "-" if value != value else format(value, form))
    return written.reset_index().map(str)
