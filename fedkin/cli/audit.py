"""The command ``fedkin audit``."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from fedkin.cli.common import error_exit, load_config
from fedkin.core.strict_json import json_text

CONTRADICTED = 1  # exit status


def audit_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.toml] [section.key=value]...",
            help="A configuration with [privacy], as for `fedkin run`.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON instead.")
    ] = False,
) -> None:
    """Test a run's privacy claim: compute a lower bound of epsilon by an attack with canary
    clients.

    Canaries are drawn in each round with the run's probability, and their updates are clipped and
    noised as in the run. The attack guesses from the noisy sums which canaries took part. No model
    is trained. The exit status is 1 if the bound contradicts the claimed epsilon."""
    with error_exit():
        from fedkin.analysis.private_audit import audit_of_config

        result = audit_of_config(load_config(settings or [], None))
        if as_json:
            print(json_text(dataclasses.asdict(result)))
        else:
            typer.echo(
                f"claimed: epsilon {result.claim:.3g} after {result.rounds:,} rounds\nlower bound "
                f"by {result.canaries:,} canaries: epsilon {result.lower_bound:.3g} or more "
                f"({result.correct} of {result.guesses} guesses right, 95% confidence)\n"
                + (
                    "the claim is not contradicted"
                    if result.holds
                    else "THE CLAIM IS WRONG: the true epsilon is higher"
                )
            )
        if not result.holds:
            raise typer.Exit(CONTRADICTED)
