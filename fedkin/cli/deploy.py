"""``fedkin deploy``: a federation with a server, on Flower: its files, and whether all is ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.core.errors import ConfigError

if TYPE_CHECKING:
    from fedkin.server.deploy.check_result import CheckResult

_STYLES = {"✓": "green", "!": "yellow", "✗": "red"}
_FOUND_WRONG = 1

deploy_app = typer.Typer(no_args_is_help=True, help="A real federation with a server, on Flower.")


@deploy_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder for the server's files and the sites'.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[section.key=value]...", help="Settings for server and sites.")
    ] = None,
    clients: Annotated[int, typer.Option("--clients", metavar="N", help="How many sites.")] = 4,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Where sites find the server; 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", help="Of the server; 8000.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="No keys: for a network that you trust.")] = False,
) -> None:
    """Write all that a federation needs, with data to try it on, and say how to start it. Again with more clients: adds
    sites, and leaves what is there."""
    with error_exit():
        from fedkin.server.deploy.init import init

        more = {"host": host, "port": port, "secure": not insecure, "settings": settings or []}
        written = init(folder, clients, **more)
        new = f"new: {', '.join(written.new)}" if written.new else "nothing is new"
        typer.echo(f"# {len(written.sites)} sites in {folder} ({new}), the server at {written.address}\n")
        typer.echo(written.commands(), nl=False)


@deploy_app.command("check")
def check_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What fedkin deploy init wrote, or a site's folder.")],
    server: Annotated[bool, typer.Option("--server", help="Only the server.")] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help="Only this site.")] = None,
) -> None:
    """Whether all is ready that is in a folder. Status 1 if anything is wrong."""
    with error_exit():
        if server and site is not None:
            raise ConfigError("--server and --site exclude each other; without both, all is checked")
        from fedkin.server.deploy.check import check
        from fedkin.server.deploy.check_result import any_wrong

        table = check(folder, server=server, site=site)
        _tell(table)
        if any(any_wrong(findings) for findings in table.values()):
            raise typer.Exit(_FOUND_WRONG)


def _tell(table: dict[str, list[CheckResult]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in ("where", "", "check", "found"):
        out.add_column(column, overflow="fold")
    for where, findings in table.items():
        for finding in findings:
            mark = Text(finding.mark, _STYLES[finding.mark])
            out.add_row(Text(where), mark, Text(finding.what), Text(finding.said))
        out.add_section()
    Console().print(out)
