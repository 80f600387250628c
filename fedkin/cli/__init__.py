"""The command-line program ``fedkin``. Heavy imports are deferred to the commands, so that ``fedkin
--help`` is fast."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkin import __version__
from fedkin.cli.advise import advise_command
from fedkin.cli.audit import audit_command
from fedkin.cli.check import check_command
from fedkin.cli.common import OneLineErrors, error_exit
from fedkin.cli.compare import compare_command
from fedkin.cli.config import config_app
from fedkin.cli.data import data_app
from fedkin.cli.deploy import deploy_app
from fedkin.cli.egress import egress_app
from fedkin.cli.eps import eps_command
from fedkin.cli.evaluate import evaluate_command
from fedkin.cli.export import export_command
from fedkin.cli.forget import forget_command
from fedkin.cli.methods import methods_command
from fedkin.cli.peer import peer_app
from fedkin.cli.place import place_command
from fedkin.cli.predict import predict_command
from fedkin.cli.report import report_command
from fedkin.cli.reproduce import reproduce_command
from fedkin.cli.run import run_command
from fedkin.cli.serve import serve_command
from fedkin.cli.serve_choice import serve_choice_command
from fedkin.cli.watch import watch_command
from fedkin.tracking.json_log import chosen_format, log_as

app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",  # ``OneLineErrors`` escapes help texts, such as "[privacy]"
)
app.add_typer(data_app, name="data")
app.add_typer(peer_app, name="peer")
app.add_typer(deploy_app, name="deploy")
app.add_typer(config_app, name="config")
app.add_typer(egress_app, name="egress")
app.command("run")(run_command)
app.command("advise")(advise_command)
app.command("compare")(compare_command)
app.command("methods")(methods_command)
app.command("reproduce")(reproduce_command)
app.command("report")(report_command)
app.command("watch")(watch_command)
app.command("check")(check_command)
app.command("audit")(audit_command)
app.command("eps")(eps_command)
app.command("evaluate")(evaluate_command)
app.command("export")(export_command)
app.command("forget")(forget_command)
app.command("predict")(predict_command)
app.command("place")(place_command)
app.command("serve")(serve_command)
app.command("serve-choice")(serve_choice_command)


def main() -> None:
    """Run the command-line program."""
    app()


def _version(value: bool) -> bool:
    """Print the version and exit if ``--version`` was given."""
    if value:
        typer.echo(f"fedkin {__version__}")
        raise typer.Exit
    return value


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="text|json",
            help="Format of logs, also of the programs that a command starts (default: "
            "$FEDKIN_LOG_FORMAT, or text).",
        ),
    ] = None,
) -> None:
    """Clustered federated learning: group clients with similar data, and train one model per
    cluster."""
    with error_exit():
        log_as(log_format or chosen_format())
