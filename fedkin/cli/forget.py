"""The command ``fedkin forget``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import check_out, command, ending_on_signals, error_exit
from fedkin.core.errors import ConfigError

if TYPE_CHECKING:
    from fedkin.removal.plan import ReplayPlan
    from fedkin.run.run import Run


def forget_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    site: Annotated[
        list[str] | None,
        typer.Option(
            "--site", metavar="S", help="Name or number of a client to remove; may be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="A new folder for the run (default: RUN-without-S)."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the new run in the place of RUN, and delete RUN.")
    ] = False,
    every_cluster: Annotated[
        bool, typer.Option("--every-cluster", help="Train every cluster and every round again.")
    ] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Only print what would be trained again, and its cost.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON, in the last line of stdout.")
    ] = False,
) -> None:
    """Remove a site from a finished simulated run: train the affected models again without it.

    The cost is printed before the training starts. RUN is kept unless --replace is given."""
    with error_exit(), ending_on_signals():
        from fedkin.removal.forget import client_names, prepare, recorded_run
        from fedkin.run.folder.run_folder import folder_name

        if not site:
            raise ConfigError("--site names the client to remove, such as --site 3")
        if out and replace:
            raise ConfigError("--out and --replace exclude each other")
        if plan_only and as_json:
            raise ConfigError("--plan has no JSON; leave out --json")
        check_out(out)
        loaded = recorded_run(run)
        if plan_only:
            _, plan = prepare(loaded, site, every_cluster)
            _say(plan, client_names(loaded, plan))
            return
        names = "-".join(folder_name(name) for name in site)
        target = None if replace else out or run.with_name(f"{run.resolve().name}-without-{names}")
        _forget(loaded, site, target, every_cluster=every_cluster, as_json=as_json)


def _forget(
    loaded: Run, site: list[str], target: Path | None, every_cluster: bool, as_json: bool
) -> None:
    """Remove clients from a run, with a display of the progress, and print the result. A run
    without a target is replaced."""
    from fedkin.removal.cost_text import result_text
    from fedkin.removal.forget import client_names, forget
    from fedkin.reporting.progress import ProgressDisplay

    def say(plan: ReplayPlan) -> None:
        _say(plan, client_names(loaded, plan))

    with ProgressDisplay(loaded.config.rounds or loaded.records[-1]["round"]) as display:
        done = forget(
            loaded,
            site,
            out=target,
            replace=target is None,
            every_cluster=every_cluster,
            on_plan=say,
            on_round=display,
        )
    names = loaded.trained.parts.data.client_names
    lines = result_text(done.record, names)
    lines += [f"run: {done.run.folder}", f"next: {command('check', done.run.folder)}"]
    print("\n".join(lines), file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps({**done.record, "out": str(done.run.folder)}), flush=True)


def _say(plan: ReplayPlan, names: list[str]) -> None:
    """Print the plan of a replay before it starts, on standard error."""
    from fedkin.removal.cost_text import plan_text

    for line in plan_text(plan, names):
        print(line, file=sys.stderr)
