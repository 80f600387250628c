"""The command ``fedkin compare``."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkin.cli.common import (
    BAD_INPUT,
    Engine,
    Jobs,
    Rounds,
    check_out,
    command,
    ending_on_signals,
    error_exit,
    new_run_folder,
    split_arguments,
    with_lengths,
)
from fedkin.core.errors import ConfigError
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    from fedkin.analysis.compare.comparison import Comparison, Key
    from fedkin.analysis.compare.comparison_folder import Cell
    from fedkin.config.comparison_grid import ComparisonGrid
    from fedkin.reporting.comparison_progress import ComparisonDisplay

# Tables that the closing line names.
_FURTHER_TABLES = ("runs.csv", "means.tex", "sweep.tex", "importance.csv", "ranks.tex", "ranks.png")

MethodNames = Annotated[
    str | None,
    typer.Option(
        "--methods",
        metavar="A,B,...",
        help="Methods to compare, in place of those of the file.",
    ),
]
SeedCount = Annotated[
    int | None,
    typer.Option("--seeds", metavar="N", min=1, help="Number of seeds (default: 3)."),
]
GridValues = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="section.key=A,B,...",
        help="Run every method with each of these values; may be repeated. With --trials: draw "
        "from them, or from log(A,B), uniform(A,B), int(A,B).",
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        "--trials",
        metavar="N",
        min=1,
        help="Random search: draw N trials of the grid, the same for every method.",
    ),
]
ByMeasure = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="MEASURE",
        help="Compare by final, best, bottom (10% of clients) or validation accuracy, "
        "or by one of the run's measures.",
    ),
]


def compare_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.toml] [section.key=value]...",
            help="A configuration, and settings that replace those of the file.",
        ),
    ] = None,
    methods: MethodNames = None,
    seeds: SeedCount = None,
    rounds: Rounds = None,
    grid: GridValues = None,
    trials: Trials = None,
    by: ByMeasure = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write all results to this new folder (default: a new one in runs/).",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", help="Resume the comparison in this folder."),
    ] = None,
    jobs: Jobs = None,
    engine: Engine = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, in the last line of stdout.")
    ] = False,
) -> None:
    """Compare methods on the same data, scenarios and seeds, and test which differences are
    significant."""
    with error_exit():
        from fedkin.analysis.compare import comparison_folder

        given = with_lengths(settings or [], rounds)
        if resume and (given or methods is not None or grid or trials or out):
            raise ConfigError(
                f"--resume takes its grid from {resume} (methods, settings); {_WITH_RESUME}"
            )
        check_out(out)
        if resume:
            checked = comparison_folder.reopen(resume, seeds, by)
        else:
            checked = _grid(
                settings=given,
                methods=methods,
                seeds=seeds,
                sweeps=grid or [],
                trials=trials,
                by=by,
            )
        _carry_out(
            grid=checked,
            folder=resume or out or new_run_folder("compare"),
            new=resume is None,
            jobs=jobs,
            engine=engine,
            as_json=as_json,
        )


_WITH_RESUME = "only --seeds, --by, --jobs, --engine and --json can be combined with it"


def _carry_out(
    grid: ComparisonGrid,
    folder: Path,
    new: bool,
    jobs: int | None,
    engine: str | None,
    as_json: bool,
) -> None:
    """Run the comparison, write and print its results, and end the command with an exit status."""
    from fedkin.analysis.compare import comparison_folder
    from fedkin.analysis.jobs import check_jobs
    from fedkin.run.folder.lock import folder_lock

    check_jobs(jobs, [setting.config(method) for setting, method in grid.cells], engine)
    with folder_lock(folder):
        created = comparison_folder.create(folder, grid) if new else None
        comparison, refused, interruption = _run(
            grid=grid, folder=folder, created=created, jobs=jobs, engine=engine
        )
        _close(comparison, refused, folder, as_json, interrupted=interruption is not None)
    _exit_status(comparison, interruption, folder)


def _exit_status(
    comparison: Comparison, interruption: KeyboardInterrupt | None, folder: Path
) -> None:
    """Exit with an error status if the comparison was interrupted or a run failed."""
    if interruption:
        from fedkin.run.interruption import exit_status

        print(f"interrupted; go on with: {command('compare', '--resume', folder)}", file=sys.stderr)
        raise typer.Exit(exit_status(interruption))
    if comparison.failed:
        raise typer.Exit(BAD_INPUT)


def _grid(
    settings: list[str],
    methods: str | None,
    seeds: int | None,
    sweeps: list[str],
    trials: int | None,
    by: str | None,
) -> ComparisonGrid:
    """The grid of settings, methods and seeds from the command's arguments."""
    from fedkin.config import comparison

    file, overrides = split_arguments(settings)
    named = None
    if methods is not None:
        named = [name.strip() for name in methods.split(",") if name.strip()]
    grid = comparison.load(
        file, overrides, methods=named, seeds=seeds, sweeps=sweeps, trials=trials
    )
    return dataclasses.replace(grid, by=by or "final")


def _run(
    grid: ComparisonGrid,
    folder: Path,
    created: list[Path] | None,
    jobs: int | None,
    engine: str | None,
) -> tuple[Comparison, set[Key], KeyboardInterrupt | None]:
    """Run the comparison. Returns its results, the keys (setting, method and seed) of the runs that
    failed the checks before the first run, and the interruption (None without one)."""
    from fedkin.analysis.compare.comparison import Comparison
    from fedkin.analysis.jobs import several
    from fedkin.reporting.comparison_progress import ComparisonDisplay

    refused: set[Key] = set()
    opening = f"kept in {folder}"
    with ComparisonDisplay(grid, several(jobs, engine), opening) as display:
        try:
            with ending_on_signals():
                comparison = _run_cells(
                    grid=grid,
                    folder=folder,
                    display=display,
                    refused=refused,
                    created=created,
                    jobs=jobs,
                    engine=engine,
                )
                return comparison, refused, None
        except KeyboardInterrupt as error:
            interruption = error
    return Comparison.load(folder), refused, interruption


def _run_cells(
    grid: ComparisonGrid,
    folder: Path,
    display: ComparisonDisplay,
    refused: set[Key],
    created: list[Path] | None,
    jobs: int | None,
    engine: str | None,
) -> Comparison:
    """Run all cells of the comparison (each a method in a setting with a seed) and show their
    progress. The keys of cells that fail the checks before the first run are added to
    ``refused``."""
    from fedkin.analysis.compare.runner import run

    def leave_out(cell: Cell) -> None:
        refused.add(cell.key)
        display.leave_out(cell)

    return run(
        grid,
        folder,
        on_cell=display.cell,
        on_round=display.round,
        created=created,
        jobs=jobs,
        engine=engine,
        on_refused=leave_out,
    )


def _close(
    comparison: Comparison, refused: set[Key], folder: Path, as_json: bool, interrupted: bool
) -> None:
    """Write the results, and print the final tables, the significant differences, and the commands
    that may follow. An interrupted comparison has no findings yet."""
    from fedkin.reporting import comparison_tables
    from fedkin.reporting.comparison_findings import findings
    from fedkin.reporting.comparison_progress import notes, tables
    from fedkin.reporting.ended_runs import unfinished_note
    from fedkin.reporting.terminal import plain_console

    comparison.write(folder)
    comparison_tables.write(comparison, folder)
    console = plain_console(stderr=as_json)
    if comparison.finished or comparison.failed:
        for table in tables(comparison, console=console, unfinished=interrupted):
            console.print(table)
    if interrupted:
        lines = [unfinished_note(comparison)]
    else:
        lines = [*findings(comparison), *notes(comparison)]
    for line in lines:
        console.print(line, soft_wrap=True)
    # Refused runs are left out, because they would be refused again.
    if set(comparison.failed) - refused:
        again = command("compare", "--resume", folder)
        console.print(f"to retry the failed runs: {again}", soft_wrap=True)
    further = [name for name in _FURTHER_TABLES if (folder / name).exists()]
    shown = ", ".join(["comparison.csv, .md, .tex", *further])
    console.print(f"tables: {folder}/{shown}", soft_wrap=True)
    if (folder / "figure.png").exists():
        console.print(f"figure: {folder}/figure.png", soft_wrap=True)
    if not interrupted:
        console.print(f"next: {command('report', folder)}", soft_wrap=True)
    if as_json:
        print(json_text({**comparison.summary(), "out": str(folder)}), flush=True)
