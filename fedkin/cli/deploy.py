"""The commands ``fedkin deploy``: set up, start and watch a federation with a server, on Flower."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import LOOPBACK, command, error_exit
from fedkin.cli.deploy_sites import (
    add_command,
    backup_command,
    remove_command,
    restart_command,
    restore_command,
    rotate_command,
)
from fedkin.cli.live_pages import deployment_page, serve

if TYPE_CHECKING:
    from fedkin.server.deploy.check_result import CheckResult
    from fedkin.server.deploy.status import PartStatus

_STYLES = {"✓": "green", "!": "yellow", "✗": "red"}
_FAILED = 1  # exit status
_SITES = "Number of sites (default: as before; 4 for a new deployment)."

deploy_app = typer.Typer(no_args_is_help=True, help="Deploy a federation with a server, on Flower.")


@deploy_app.command("init")
def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the files of server and sites.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[section.key=value]...", help="Settings for server and sites."),
    ] = None,
    clients: Annotated[int | None, typer.Option("--clients", metavar="N", help=_SITES)] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="HOST", help="Name or address of the server (default: 127.0.0.1)."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port of the server (default: 8000).")
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Use no TLS and no keys; only for a network that you trust."
        ),
    ] = False,
    compose: Annotated[
        bool,
        typer.Option("--compose", help="Write compose.yaml to run all parts as containers."),
    ] = False,
) -> None:
    """Write the files of a federation with trial data, and print how to start it.

    If the command is run again with more clients, it adds sites and keeps existing files."""
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
        new = f"new: {', '.join(deployment.new)}" if deployment.new else "none new"
        typer.echo(
            f"{len(deployment.sites)} sites in {folder} ({new}); the server is at "
            f"{deployment.address}"
        )
        if compose:
            file = shlex.quote(str(folder / "compose.yaml"))
            typer.echo(
                f"start all with one command: docker compose --file {file} up --build --detach"
            )
            user, _ = container_user()
            typer.echo(f"the containers run as user {user}, the owner of the files in {folder}")
            return
        typer.echo(f"start all with one command: {command('deploy', 'up', folder)}")
        typer.echo(f"the commands that start each part by hand: {folder / 'COMMANDS.md'}")


@deploy_app.command("check")
def check_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder that `fedkin deploy init` wrote, or the folder of a site.",
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


_DIR = "The folder of a deployment, or the folder of a site."
_SERVER = "Only the server."
_SITE = "Only this site."


@deploy_app.command("up")
def up_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the run has ended.")] = False,
) -> None:
    """Start the server with its run, and the sites in a folder, in the background.

    Processes that already run are left alone. All processes continue after the terminal is closed.
    If `fedkin deploy check` fails, nothing is started. The exit status is 1 if the server refuses a
    site, or its run has ended with an error."""
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
            f"follow the logs: fedkin deploy logs {where} --follow; stop: fedkin deploy down "
            f"{where}"
        )
        if not all_take_part:
            raise typer.Exit(_FAILED)


@deploy_app.command("down")
def down_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
) -> None:
    """Stop the processes that `fedkin deploy up` has started, and their child processes."""
    with error_exit():
        from fedkin.server.deploy.up import down

        ended = down(folder, server=server, site=site)
        typer.echo(
            f"ended: {', '.join(part.name for part in ended)}" if ended else "no part was running"
        )


@deploy_app.command("status")
def status_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_DIR)],
    server: Annotated[bool, typer.Option("--server", help=_SERVER)] = False,
    site: Annotated[str | None, typer.Option("--site", metavar="NAME", help=_SITE)] = None,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the status as a live page, with the run's report.")
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 for any free port.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the parts as JSON instead.")
    ] = False,
) -> None:
    """Show whether the server and the sites of this machine run, which sites the server refuses and
    why, and the progress of the run.

    The exit status is 1 if the server or a site does not run, a site is refused, or the run has
    ended with an error."""
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
        list[str] | None,
        typer.Argument(
            metavar="[PART]...", help="Parts to show, such as superlink or site-0 (default: all)."
        ),
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Number of last lines of each part.")
    ] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until interrupted.")
    ] = False,
) -> None:
    """Show the logs of the server and the sites."""
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

    This is for systemd and containers. `fedkin deploy up` starts a site in the background."""
    with error_exit():
        from fedkin.server.deploy.site_node import run_site

        run_site(folder)


@deploy_app.command("leave")
def leave_command(
    config: Annotated[
        Path, typer.Argument(metavar="CLIENT.TOML", help="The client.toml of the site.")
    ],
) -> None:
    """Remove a site for good: delete the state and models of its clients, from all runs.

    Stop the site first."""
    with error_exit():
        from fedkin.config.server import load_client
        from fedkin.server.deploy.node_disk import NodeDisk

        site = load_client(config).site
        files = NodeDisk(Path(site.folder)).forget()
        names = "".join(f"\n  {path}" for path in files)
        typer.echo(
            f"{site.name}: there are no files to delete"
            if not files
            else f"{site.name}: deleted {len(files)} files{names}"
        )


deploy_app.command("add")(add_command)
deploy_app.command("remove")(remove_command)
deploy_app.command("rotate")(rotate_command)
deploy_app.command("backup")(backup_command)
deploy_app.command("restore")(restore_command)
deploy_app.command("restart")(restart_command)


def _print_status(lines: Sequence[PartStatus]) -> None:
    """Print a table with a row for the server, each site and the run. Paths, and errors such as the
    reason why the server refuses a site, are printed below it, because narrow columns would wrap
    them."""
    from fedkin.cli.printed_tables import print_rows
    from fedkin.server.deploy.status import place_line, reason_line

    rows = [
        [line.name, line.state, " ".join(map(str, line.processes)), line.detail] for line in lines
    ]
    print_rows(["part", "state", "processes", ""], rows, "")
    for line in lines:
        if line.place:
            typer.echo(place_line(line))
    for line in lines:
        if line.reason:
            typer.echo(reason_line(line))


def _print(table: dict[str, list[CheckResult]]) -> None:
    """Print the results of ``fedkin deploy check`` as a table, grouped by server and site."""
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
