"""The command ``fedkin watch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import LOOPBACK, RUNS, error_exit
from fedkin.cli.live_pages import deployment_page, serve


def watch_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="The folder of a run or a deployment; the run may start later (default: the "
            "newest run in runs/).",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="The address at which the page is served.")
    ] = LOOPBACK,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="The port at which the page is served; 0 for any free port.",
        ),
    ] = 0,
) -> None:
    """Serve a live page of a run or a deployment: rounds, accuracy, clusters, refused sites, and
    the run's report.

    The page is read-only, and available on this machine only, unless --host is given. Ctrl-C ends
    the page, not the run."""
    with error_exit():
        from fedkin.core.errors import ConfigError
        from fedkin.reporting.html.live import LivePage
        from fedkin.run.folder.run_folder import holds_run
        from fedkin.server.deploy import deployment_folder as files

        if folder is None:
            folder = _newest_run(RUNS)
            typer.echo(f"newest run: {folder}")
        if (folder / files.SERVER).is_file():
            return serve(deployment_page(folder), host, port)
        if (
            not holds_run(folder)
            and folder.exists()
            and (not folder.is_dir() or any(folder.iterdir()))
        ):
            raise ConfigError(
                f"{folder} is not the folder of a run; a live page shows a single run, so name a "
                "folder that `fedkin run` wrote"
            )
        serve(LivePage(folder), host, port)


def _newest_run(folder: Path) -> Path:
    """The run below a folder whose last round is the newest, also one of several seeds or of a
    comparison. Raises ConfigError if there is none."""
    from fedkin.core.errors import ConfigError
    from fedkin.run.folder import run_folder

    written = list(folder.rglob(run_folder.METRICS))
    if not written:
        raise ConfigError(
            f"{folder} has no run yet; start one with `fedkin run`, or name a folder, such as "
            "`fedkin watch study/run-1`"
        )
    newest = max(written, key=lambda path: path.stat().st_mtime).parent
    # The page of a run also shows the methods that it is compared with, in against/NAME.
    return newest.parents[1] if newest.parent.name == run_folder.AGAINST else newest
