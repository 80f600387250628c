"""The commands of ``fedkin deploy`` by which sites come and go, and a deployment is saved and
restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit

_FAILED = 1  # exit status
_FOLDER = "The folder that `fedkin deploy init` wrote, with the server."
_PUBLIC_KEY = "The site's public key (key.pub), if the site has made its own key pair."


def add_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_FOLDER)],
    site: Annotated[str, typer.Argument(metavar="SITE", help="Name of the new site.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[section.key=value]...",
            help="Settings in [client] or [data]; others are those of the first site.",
        ),
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", metavar="FILE", help=_PUBLIC_KEY)
    ] = None,
) -> None:
    """Add a site: write its folder and keys, and register its key. The server may run meanwhile.

    A removed site comes back with its former folder and client ids, and with a new key."""
    with error_exit():
        from fedkin.server.deploy.sites import add

        add(folder, site, settings or [], public_key=public_key, say=typer.echo)


def remove_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help=_FOLDER)],
    site: Annotated[str, typer.Argument(metavar="SITE", help="Name of the site.")],
) -> None:
    """Remove a site: stop it, revoke its keys at the server, and keep its folder in DIR/removed.

    The run goes on with the other sites, and its records of the site stay."""
    with error_exit():
        from fedkin.server.deploy.sites import remove

        remove(folder, site, say=typer.echo)


def rotate_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help=f"{_FOLDER} Or the site's own folder, on its own machine."
        ),
    ],
    site: Annotated[
        str | None,
        typer.Argument(metavar="[SITE]", help="Name of the site; none in the site's own folder."),
    ] = None,
    server: Annotated[
        bool, typer.Option("--server", help="A new certificate and key for the server.")
    ] = False,
    public_key: Annotated[
        Path | None, typer.Option("--public-key", metavar="FILE", help=_PUBLIC_KEY)
    ] = None,
) -> None:
    """Give a site a new key; the server refuses the former one from then on. Or give the server a
    new certificate."""
    with error_exit():
        from fedkin.core.errors import ConfigError
        from fedkin.server.deploy.sites import rotate, rotate_server

        if server and (site is not None or public_key is not None):
            raise ConfigError(
                "--server cannot be combined with a site or --public-key; leave them out, as in: "
                f"fedkin deploy rotate {folder} --server"
            )
        if server:
            rotate_server(folder, say=typer.echo)
        else:
            rotate(folder, site, public_key=public_key, say=typer.echo)


def backup_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a deployment, or of a site.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive, such as fed.tar.")],
    data: Annotated[
        bool, typer.Option("--data/--no-data", help="Include the sites' files of data.")
    ] = True,
) -> None:
    """Write all that a deployment needs to go on into one file: configuration, keys, certificates,
    and the run at a checkpoint. It may run meanwhile.

    Only its owner can read the file. It holds private keys."""
    with error_exit():
        from fedkin.server.deploy.backup import backup

        backup(folder, file, data=data, say=typer.echo)


def restore_command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `fedkin deploy backup` wrote.")
    ],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A new folder, or the folder of the same federation, stopped."
        ),
    ],
) -> None:
    """Verify a backup and write its files into a folder, all of them or none.

    A former folder of the same federation is kept under another name."""
    with error_exit():
        from fedkin.server.deploy.restore import restore

        restore(file, folder, say=typer.echo)


def restart_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The folder of a deployment, or the folder of a site."),
    ],
    server: Annotated[bool, typer.Option("--server", help="Only the server.")] = False,
    site: Annotated[
        str | None, typer.Option("--site", metavar="NAME", help="Only this site.")
    ] = None,
) -> None:
    """Stop the server and the sites of a folder, and start them again. The run resumes from its
    last checkpoint."""
    with error_exit():
        from fedkin.server.deploy.up import restart

        all_take_part = restart(folder, server=server, site=site, say=typer.echo)
        if not all_take_part:
            raise typer.Exit(_FAILED)
