"""The commands ``fedkin egress``: what left a site, from the site's ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkin.cli.common import error_exit
from fedkin.core.strict_json import json_text

_FAULTY = 1  # exit status
_SITE = "The folder of the site, with its client.toml and egress.jsonl."
_AS_JSON = "Print JSON instead."
# Headings of the printed columns, by the entry of a line.
_HEADINGS = {
    "seq": "line",
    "time": "time",
    "round": "round",
    "operation": "operation",
    "kind": "kind",
    "bytes": "bytes",
    "subjects": "subjects",
    "refused_by": "refused by",
}

egress_app = typer.Typer(
    no_args_is_help=True,
    help="Check, show and sign the ledger of a site: one line for each message that left it.",
)


@egress_app.command("verify")
def verify_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help=_SITE)],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="RUN",
            help="The run's folder at the server, or the deployment: compare its receipts.",
        ),
    ] = None,
    statement: Annotated[
        Path | None,
        typer.Option("--statement", metavar="FILE", help="A file of `fedkin egress sign`."),
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option("--public-key", metavar="FILE", help="The signer's public key."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help=_AS_JSON)] = False,
) -> None:
    """Check that no line of a site's ledger was changed, removed, added or moved.

    With --against, the lines must also explain every byte that the server has received from the
    site. The exit status is 1 if the check finds a fault."""
    with error_exit():
        from dataclasses import asdict

        from fedkin.core.errors import ConfigError
        from fedkin.server.deploy import egress_report

        if (statement is None) != (public_key is None):
            raise ConfigError(
                "--statement and --public-key belong together: name the file of the statement and "
                "the signer's public key"
            )
        check, run_bytes = egress_report.verify(site, against)
        signed = None
        if statement is not None and public_key is not None:
            signed = egress_report.verify_statement(site, statement, public_key)
        if as_json:
            result = {
                **asdict(check),
                "is_sound": check.is_sound,
                "run_bytes": None if run_bytes is None else run_bytes._asdict(),
                "statement": None if signed is None else signed.predicate,
            }
            print(json_text(result))
        else:
            for line in egress_report.sentences(check):
                typer.echo(line)
            if run_bytes is not None:
                typer.echo(run_bytes.sentence())
            if signed is not None:
                typer.echo(f"the statement is right: the first {signed.predicate['entries']} lines")
        if not check.is_sound:
            raise typer.Exit(_FAULTY)


@egress_app.command("show")
def show_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help=_SITE)],
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="Only from a time on: 2026-11-27, or 7d up to now."
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help=_AS_JSON)] = False,
) -> None:
    """Print the messages that left a site: when, for which task, how many bytes, and from how many
    subjects."""
    with error_exit():
        from fedkin.cli.printed_tables import print_rows
        from fedkin.server.deploy import egress_report

        lines = list(egress_report.shown_lines(site, since))
        if as_json:
            print(json_text(lines))
            return
        rows = [[line.get(name, "") for name in _HEADINGS] for line in lines]
        print_rows(tuple(_HEADINGS.values()), rows, f"{len(lines)} messages of {site}")


@egress_app.command("sign")
def sign_command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help=_SITE)],
    key: Annotated[
        Path,
        typer.Option("--key", metavar="KEY", help="A private Ed25519 key, in PEM or OpenSSH form."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="The new file; default: SITE/egress-statement.json."
        ),
    ] = None,
) -> None:
    """Sign a statement about a site's ledger: its head, its lines and its bytes until now."""
    with error_exit():
        from fedkin.server.deploy import egress_report

        path = egress_report.sign(site, key, out)
        typer.echo(f"{path}: signed; keep a copy where the site cannot change it")
