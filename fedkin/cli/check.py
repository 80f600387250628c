"""The command ``fedkin check``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import error_exit, print_error
from fedkin.core.errors import CheckpointError

if TYPE_CHECKING:
    from fedkin.run.folder.folder_state import FolderState

DAMAGED = 1  # exit status


def check_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a run, of several seeds or of a comparison."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the states as JSON instead.")
    ] = False,
) -> None:
    """Check a run's folder: show its progress, and whether its files are unchanged. The exit status
    is 1 if files are damaged."""
    with error_exit():
        from fedkin.run.folder.folder_state import states_of

        states = [state for run in _runs(folder) for state in states_of(run)]
        if _holds_comparison(folder):
            from fedkin.analysis.compare.comparison_state import comparison_state

            states.append(comparison_state(folder))
        if as_json:
            print(json.dumps([{**vars(state), "path": str(state.path)} for state in states]))
        else:
            _print(states)
        if any(state.problems for state in states):
            raise typer.Exit(DAMAGED)


def _runs(folder: Path) -> list[Path]:
    """The folders of the runs in a folder. These are the folders of a comparison's runs (one for
    each setting, method and seed), the folders of several seeds, or the folder itself if it holds a
    single run."""
    from fedkin.analysis.compare.comparison_folder import CELLS
    from fedkin.analysis.repeated_runs import SEEDS
    from fedkin.run.folder.run_folder import holds_run

    if _holds_comparison(folder):
        runs = [path for path in sorted((folder / CELLS).glob("*/*/*")) if holds_run(path)]
    elif (folder / SEEDS).is_dir():
        runs = [path for path in sorted((folder / SEEDS).glob("*")) if holds_run(path)]
    else:
        runs = [folder] if holds_run(folder) else []
    if not runs and not _holds_comparison(folder):
        raise CheckpointError(
            f"{folder} holds no run, no seeds and no comparison; name the folder of a run"
        )
    return runs


def _holds_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison of methods."""
    from fedkin.analysis.compare.comparison_folder import COMPARISON

    return (folder / COMPARISON).exists()


def _print(states: list[FolderState]) -> None:
    """Print a line for each run on standard output, and one for each problem on standard error."""
    for state in states:
        end = "" if state.problems else "; files are unchanged"
        typer.echo(f"{state.path}: {state.method or 'a run'}, {state.words}{end}")
        for problem in state.problems:
            print_error(problem)
