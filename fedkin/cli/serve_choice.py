"""The command ``fedkin serve-choice``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.cli.printed_tables import print_rows
from fedkin.core.strict_json import json_text

Folds = Annotated[
    int,
    typer.Option(
        "--folds",
        metavar="N",
        help="Parts of the training samples that are held out in turn; the training is repeated "
        "for each.",
    ),
]
OwnRounds = Annotated[
    int | None,
    typer.Option(
        "--own-rounds",
        metavar="T",
        help="Largest number of rounds in which clients train alone; by default the run's.",
    ),
]
Rule = Annotated[str, typer.Option("--rule", help="The rule: do_no_harm.")]


def serve_choice_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    rule: Rule = "do_no_harm",
    folds: Folds = 10,
    own_rounds: OwnRounds = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the choice as JSON instead.")
    ] = False,
) -> None:
    """Choose the model that serves each client (its own, or half and half with its cluster's or
    the global one), so that few clients are worse off than alone. The run stays as it is."""
    with error_exit():
        from fedkin.analysis.serving.choice_texts import HEADS, TITLE, cells
        from fedkin.analysis.serving.serve import serve
        from fedkin.run.run import Run

        loaded = Run.load(run)
        served = serve(
            loaded,
            rule,
            folds=folds,
            own_rounds=own_rounds,
            progress=lambda line: typer.echo(line, err=True),
        )
        path = served.save(run)
        if as_json:
            print(json_text(served.summary()))
            return
        print_rows(HEADS, map(cells, served.plain_rows), f"{TITLE} of {run}")
        typer.echo(served.text())
        typer.echo(f"choice: {path}")
