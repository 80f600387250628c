"""The command ``fedkin reproduce``: reproduces the papers' tables, from the folder papers/ of a
checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import ending_on_signals, error_exit
from fedkin.core.errors import ConfigError
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    from papers.table_request import TableRequest

# The root of a checkout.
_ROOT = Path(__file__).resolve().parents[2]


def reproduce_command(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A table, such as flexcfl-table3, or a claim of docs/results.md, such as "
            "fedgroup-1 (default: list all).",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            "--rows", metavar="ROW,...", help="Only rows whose names begin with one of these."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="COLUMN,...", help="Only these columns (methods)."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="Seeds 0 to N-1 (default: those of the recipe)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder of the stored runs (default: papers/results, or else results).",
        ),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Show only stored runs, without running any.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON instead.")
    ] = False,
) -> None:
    """Reproduce a table or a figure of the papers, next to the published numbers.

    Stored runs are not repeated; use --out with a new folder to repeat all. Without arguments, the
    command lists all tables and the time that each takes."""
    with error_exit():
        _find_papers()
        if out is not None and out.exists() and not out.is_dir():
            raise ConfigError(f"--out must be a folder, but {out} is a file")
        if stored and out is not None and not out.is_dir():
            raise ConfigError(
                f"--out: there is no folder {out}, and --stored shows only the runs stored in a "
                "folder"
            )
        if table is None:
            if rows or columns or seeds is not None or stored:
                options = "--rows, --columns, --seeds and --stored"
                raise ConfigError(
                    f"{options} need a table of the papers: fedkin reproduce NAME --rows ..."
                )
            return _list_tables(out, as_json)
        from papers import claims

        request = claims.request(
            table, rows=rows or (), columns=columns or (), seeds=seeds, folder=out
        )
        _print_numbers(request, 0 if stored else _run_missing(request), as_json)


def _find_papers() -> None:
    """Make the folder papers/ importable from the root of a checkout, or from the working
    directory.

    Raises:
        ConfigError: the folder is in neither place.
    """
    for root in (_ROOT, Path.cwd()):
        if (root / "papers" / "catalogue.py").is_file():
            if str(root) not in sys.path:
                sys.path.append(str(root))
            return
    raise ConfigError(
        "the recipes of the papers' tables and their stored results are in the folder papers/ of "
        "fedkin's repository, which an installed package does not have. To read the results, open "
        "docs/results.md of the repository. To reproduce them: clone the repository, run `make "
        "demo` there (it installs into .venv), then `.venv/bin/fedkin reproduce`; in a clone that "
        "you have, run `fedkin reproduce` in its folder"
    )


def _list_tables(out: Path | None, as_json: bool) -> None:
    """Print the list of all tables of the papers that can be reproduced."""
    from rich.console import Console

    from papers import table_request, terminal_tables

    summaries = table_request.summaries(out)
    if as_json:
        print(json_text([terminal_tables.summary_as_json(summary) for summary in summaries]))
    else:
        Console().print(terminal_tables.overview(summaries))


def _run_missing(request: TableRequest) -> int:
    """Execute the runs that are missing in the store. Returns the number of these runs."""
    from fedkin.run.interruption import exit_status, raise_if_interrupted
    from papers.result_store import carry_out
    from papers.terminal_tables import Progress

    missing = request.missing()
    done = 0
    if not missing:
        return 0
    progress = Progress(missing, request.seconds())
    try:
        with progress, ending_on_signals():
            progress.start_run(*missing[0])
            for _ in carry_out(missing, request.store):
                progress.end_run(*missing[done])
                done += 1
                raise_if_interrupted()
                if done < len(missing):
                    progress.start_run(*missing[done])
    except KeyboardInterrupt as error:
        stored = f"{done} of {len(missing)} runs are stored in {request.store}"
        print(f"interrupted; {stored}, and the same command continues", file=sys.stderr)
        raise typer.Exit(exit_status(error)) from None
    return done


def _print_numbers(request: TableRequest, runs: int, as_json: bool) -> None:
    """Print the reproduced numbers next to those of the paper, and below them some sentences about
    what the table shows. ``runs``: the number of runs that this command executed."""
    from rich.console import Console

    from papers import terminal_tables

    numbers = request.numbers()
    if as_json:
        print(json_text(terminal_tables.numbers_as_json(request, numbers, runs)), flush=True)
    else:
        console = Console()
        sentences = terminal_tables.claims_of(request)
        console.print(terminal_tables.comparison(request, numbers))
        if sentences:
            console.print()
            console.print(terminal_tables.claims_below(sentences))
