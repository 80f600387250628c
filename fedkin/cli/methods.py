"""The command ``fedkin methods``: a list of the library's methods."""

from __future__ import annotations

import typer

from fedkin.cli.common import error_exit
from fedkin.cli.printed_tables import print_rows


def methods_command() -> None:
    """List all methods of the library with a summary and the paper."""
    with error_exit():
        from fedkin.config.registry import method_rows

        print_rows(
            ("name", "class", "summary", "paper"),
            method_rows(),
            "methods",
            unbroken=("class",),
        )
        typer.echo(
            "for a method's options and defaults see its class: python -c 'import fedkin; "
            "help(fedkin.IFCA)'"
        )
