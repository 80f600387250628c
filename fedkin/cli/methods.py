"""``fedkin methods``: the named methods."""

from __future__ import annotations

import typer

from fedkin.cli.common import error_exit, print_rows


def methods_command() -> None:
    """List all named methods: what each does, and its paper."""
    with error_exit():
        from fedkin.config.registry import method_rows

        print_rows(
            ("name", "class", "what it does", "paper"),
            method_rows(),
            "methods",
            unbroken=("class",),
        )
        typer.echo(
            "options of each, with defaults: its class, as in python -c 'import fedkin; "
            "help(fedkin.IFCA)'"
        )
