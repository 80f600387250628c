"""``fedkin deploy``: write and check the files of a federation with a server, on Flower."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.cli.live_pages import deployment_page, serve

if TYPE_CHECKING:
    from fedkin.server.deploy.check_result import CheckResult
    from fedkin.server.deploy.status import PartStatus

_STYLES = {"✓": "green", "!": "yellow", "✗": "red"}
_FAILED = 1  # exit status
LOOPBACK = "127.0.0.1"

deploy_app = typer.Typer(no_args_is_help=True, help="Deploy a federation with a server, on Flower.")


@deploy_app.command("init")
def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the server's files and the sites'.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[section.key=value]...", help="Settings for server and sites."),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", metavar="N", help="Number of sites.")] = 4,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Host name or address of the server (default: 127.0.0.1).",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port of the server (default: 8000).")
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="No TLS and no keys: only for a network that you trust."),
    ] = False,
    compose: Annotated[
        bool,
        typer.Option(
            "--compose", help="Write compose.yaml, which runs server and sites as containers."
        ),
    ] = False,
) -> None:
    """Write the files of a federation with trial data, and print how to start it.

    Run again with more clients, it adds sites and keeps existing files."""
    with error_exit():
        from fedkin.server.deploy.compose import container_user
        from fedkin.server.deploy.init import init

        deployment = init(
            folder,
            clients,
            host=host,
            port=port,
            secure=not insecure,
            settings=settings or [],
            compose=compose,
        )
        new = f"new: {', '.join(deployment.new)}" if deployment.new else "none is new"
        typer.echo(
            f"# {len(deployment.sites)} sites in {folder} ({new}), the server at "
            f"{deployment.address}"
        )
        if compose:
            file = shlex.quote(str(folder / "compose.yaml"))
            typer.echo(f"# all in one command: docker compose --file {file} up --build --detach")
            user, _ = container_user()
            typer.echo(f"# the containers run as user {user}, who owns the files in {folder}")
            return
        typer.echo(f"# all in one command: fedkin deploy up {folder}; or one by one:\n")
        typer.echo(deployment.commands(), nl=False)


@deploy_app.command("check")
def check_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder that `fedkin deploy init` wrote, or that of a site."
        ),
    ],
    server: Annotated[bool, typer.Option("--server", help="Check the server only.")] = False,
    site: Annotated[
        str | None, typer.Option("--site", metavar="NAME", help="Check this site only.")
    ] = None,
) -> None:
    """Check whether a server and its sites are ready to start.

    The exit status is 1 if a check fails."""
    with error_exit():
        from fedkin.server.deploy.check import check
        from fedkin.server.deploy.check_result import any_failed

        table = check(folder, server=server, site=site)
        _print(table)
        if any(any_failed(results) for results in table.values()):
            raise typer.Exit(_FAILED)


_DIR = "The folder of a deployment, or that of a site."
_SERVER = "The server only."
_SITE = "This site only."


@deploy_app.command("up")
def up_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the run has ended.")] = False,
) -> None:
    """Start what a folder holds, in the background: the server with its run, sites, or all of a
    trial.

    What runs already is left alone. The parts go on after the terminal is closed. Nothing is
    started where fedkin deploy check fails. The exit status is 1 if the server refuses a site, or
    its run has ended by an error."""
    with error_exit():
        from fedkin.server.deploy.status import log_size, wait_for_run
        from fedkin.server.deploy.up import up

        logged = log_size(folder)
        all_take_part = up(folder, server=server, site=site, say=typer.echo)
        if wait:
            finished = wait_for_run(folder, typer.echo, logged)
            if not finished:
                raise typer.Exit(_FAILED)
        where = shlex.quote(str(folder))
        typer.echo(
            f"follow it: fedkin deploy logs {where} --follow; end it: fedkin deploy down {where}"
        )
        if not all_take_part:
            raise typer.Exit(_FAILED)


@deploy_app.command("down")
def down_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
) -> None:
    """End what `fedkin deploy up` has started, and all that it has started itself."""
    with error_exit():
        from fedkin.server.deploy.up import down

        ended = down(folder, server=server, site=site)
        typer.echo(
            f"ended: {', '.join(part.name for part in ended)}" if ended else "nothing was up"
        )


@deploy_app.command("status")
def status_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Serve it as a live page, with the run's report.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of the page; 0 for any that is free.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the parts as JSON instead.")
    ] = False,
) -> None:
    """Show which parts run on this machine, which sites are refused and why, and how far the run
    is.

    The exit status is 1 if a part does not run, a site is refused, or the run has ended by an
    error."""
    with error_exit():
        from fedkin.server.deploy.status import DOWN, RUN, status

        if web:
            return serve(deployment_page(folder), LOOPBACK, port)
        lines = status(folder, server=server, site=site)
        if as_json:
            typer.echo(json.dumps({"parts": [asdict(line) for line in lines]}))
        else:
            _print_status(lines)
        if any(line.reason or (line.state == DOWN and line.name != RUN) for line in lines):
            raise typer.Exit(_FAILED)


@deploy_app.command("logs")
def logs_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    parts: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]...", help="Such as superlink, site-0.")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Of each part.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until interrupted.")
    ] = False,
) -> None:
    """Show what the parts have written."""
    with error_exit():
        from fedkin.server.deploy.status import log_lines

        for line in log_lines(folder, parts or [], lines, follow):
            typer.echo(line)


@deploy_app.command("node")
def node_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a site, with its client.toml.")
    ],
) -> None:
    """Run a site in the foreground: its worker, and its connection to the server.

    For systemd and containers; `fedkin deploy up` starts it in the background."""
    with error_exit():
        from fedkin.server.deploy.site_node import run_site

        run_site(folder)


@deploy_app.command("leave")
def leave_command(
    config: Annotated[
        Path, typer.Argument(metavar="CLIENT.TOML", help="The client.toml of the site.")
    ],
) -> None:
    """Remove a site for good: delete the state and the models that its clients keep, of all runs.

    Stop the site first."""
    with error_exit():
        from fedkin.config.server import load_client
        from fedkin.server.deploy.node_disk import NodeDisk

        site = load_client(config).site
        files = NodeDisk(Path(site.folder)).forget()
        names = "".join(f"\n  {path}" for path in files)
        typer.echo(
            f"{site.name}: nothing is kept"
            if not files
            else f"{site.name}: deleted {len(files)} files{names}"
        )


def _print_status(lines: Sequence[PartStatus]) -> None:
    """Print the parts as a table, and each refusal as a line that no table breaks."""
    from fedkin.cli.common import print_rows
    from fedkin.server.deploy.status import reason_line

    rows = [
        [line.name, line.state, " ".join(map(str, line.processes)), line.detail] for line in lines
    ]
    print_rows(["part", "state", "processes", ""], rows, "")
    for line in lines:
        if line.reason:
            typer.echo(reason_line(line))


def _print(table: dict[str, list[CheckResult]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in ("where", "", "check", "result"):
        out.add_column(column, overflow="fold")
    for where, results in table.items():
        for result in results:
            mark = Text(result.mark, _STYLES[result.mark])
            out.add_row(Text(where), mark, Text(result.name), Text(result.detail))
        out.add_section()
    Console().print(out)
