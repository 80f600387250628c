"""``fedkin reproduce``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import INTERRUPTED, error_exit
from fedkin.core.errors import ConfigError

if TYPE_CHECKING:
    from papers.table_request import Wish


def reproduce_command(
    table: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A table, such as flexcfl-table3. None: list all.")
    ] = None,
    rows: Annotated[
        list[str] | None, typer.Option("--rows", metavar="ROW,...", help="Only these rows, by how their names begin.")
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option("--columns", metavar="COLUMN,...", help="Only these columns (methods).")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Seeds 0 to N-1, instead of the recipe's.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Keep the runs here (default: papers/results in a checkout, else results)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")] = False,
) -> None:
    """Repeat a table or a figure of the papers, and see it beside the published numbers. Runs that were kept are not
    run again; --out with a new folder runs all. With no argument: what there is, and how long it takes."""
    with error_exit():
        if out is not None and out.exists() and not out.is_dir():
            raise ConfigError(f"--out: expected a folder, {out} is a file")
        if table is None:
            if rows or columns or seeds is not None:
                raise ConfigError("--rows, --columns and --seeds need a table: fedkin reproduce NAME --rows ...")
            return _list(out, as_json)
        from papers.table_request import wish

        asked = wish(table, rows or (), columns or (), seeds, out)
        _close(asked, _run(asked), as_json)


def _list(out: Path | None, as_json: bool) -> None:
    """Everything that can be repeated."""
    from rich.console import Console

    from papers import table_request as selection
    from papers import terminal_tables as terminal

    offers = selection.offers(out)
    if as_json:
        print(json.dumps([terminal.offer_as_json(offer) for offer in offers]))
    else:
        Console().print(terminal.listed(offers))


def _run(asked: Wish) -> int:
    """Run what the store lacks; how many runs that were."""
    from papers.result_store import carry_out
    from papers.terminal_tables import Line

    todo, done = asked.todo(), 0
    if not todo:
        return 0
    line = Line(todo, asked.seconds())
    try:
        with line:
            line.begin(*todo[0])
            for _ in carry_out(todo, asked.store):
                line.end(*todo[done])
                done += 1
                if done < len(todo):
                    line.begin(*todo[done])
    except KeyboardInterrupt:
        kept = f"{done} of {len(todo)} runs are kept in {asked.store}"
        print(f"interrupted; {kept}, and the same command goes on", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    return done


def _close(asked: Wish, ran: int, as_json: bool) -> None:
    """Ours beside the paper's."""
    from rich.console import Console

    from papers import terminal_tables as terminal

    numbers = asked.compared()
    if as_json:
        print(json.dumps(terminal.as_json(asked, numbers, ran)), flush=True)
    else:
        Console().print(terminal.compared(asked, numbers))
