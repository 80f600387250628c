"""``fedkin advise``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit, load_config, print_table
from fedkin.core.errors import StorageError

if TYPE_CHECKING:
    import pandas as pd

    from fedkin.analysis.advise import Advice


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
    with error_exit():
        from fedkin.analysis.advise import of_config

        if out is not None:
            _check_place(out)
        config = load_config(settings or [], None)
        advice = of_config(config, private_labels=private_labels, say=lambda line: print(line, file=sys.stderr))
        if as_json:
            print(json.dumps(advice.summary(), allow_nan=False))
        else:
            _tell(advice)
        for line in _limits(advice, private_labels):
            typer.echo(line, err=as_json)
        if out is not None:  # last: nothing that goes wrong here takes the advice away
            typer.echo(f"picture: {' and '.join(map(str, _picture(advice, out)))}", err=as_json)


def _check_place(out: Path) -> None:
    """Refuse a path that cannot take a picture, before anything is computed."""
    if os.path.isdir(out):
        raise StorageError(f"--out {out}: that is a folder; name a file in it, such as {out / 'advice.png'}")
    try:
        tempfile.TemporaryFile(dir=out.parent).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"--out {out}: no file can be made in {out.parent.absolute()}: {reason}; choose a folder that is there and "
            "can be written"
        ) from error


def _limits(advice: Advice, private_labels: bool) -> list[str]:
    """What the advice does not say."""
    lines = []
    if advice.pilots is not None:
        lines.append(
            "trials: cohorts round robin; 95% intervals over initial models, cohorts, batches; for this federation only"
        )
    if private_labels:
        lines.append("private labels: the advice itself was made by a simulation from data at hand, not over a network")
    return lines


def _picture(advice: Advice, out: Path) -> list[Path]:
    from fedkin.reporting import advice_figure

    return advice_figure.save(advice, out)


def _tell(advice: Advice) -> None:
    """The tables, the verdict, and what to paste."""
    kinds = advice.kinds
    print_table(
        _written(advice.differences, ".4g"), "client differences, compared with an IID split"
    )
    print_table(
        _written(advice.numbers, ".3g"), f"number of clusters, from {len(kinds.used):,} of {advice.clients:,} clients"
    )
    typer.echo("; ".join(f"{way}: {number}" for way, number in kinds.votes.items()))
    if advice.pilots is not None:
        title = f"do {advice.tried_with} clusters help: gains over plain averaging, percentage points"
        print_table(_written(advice.pilots, ",.1f"), title)
    typer.echo(f"\n{advice.verdict}: {advice.why}\n\n{advice.toml()}")


def _written(table: pd.DataFrame, form: str) -> pd.DataFrame:
    """Numbers as people read them; a dash for what cannot be said."""
    written = table.map(lambda value: "-" if value != value else format(value, form))
    return written.reset_index().map(str).rename(columns=lambda name: str(name).replace("_", " "))
