"""The command ``fedkin run``."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkin.cli.common import (
    FAILED,
    Engine,
    Jobs,
    Rounds,
    check_out,
    command,
    ending_on_signals,
    error_exit,
    load_config,
    new_run_folder,
    print_error,
    with_lengths,
)
from fedkin.core.errors import ConfigError
from fedkin.core.strict_json import json_text

if TYPE_CHECKING:
    from rich.console import Console

    from fedkin.analysis.repeated_runs import RepeatedRuns
    from fedkin.config.run import RunConfig
    from fedkin.run.run import Run


Trackers = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME",
        help="Log every round to tensorboard, mlflow or wandb; may be repeated.",
    ),
]


def run_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.toml] [section.key=value]...",
            help="A configuration, and settings that replace those of the file.",
        ),
    ] = None,
    rounds: Rounds = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", min=1, help="Number of seeds, as run.seeds=N."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write the run to this new folder (default: a new one in runs/).",
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="DIR", help="Resume the run in this folder.")
    ] = None,
    track: Trackers = None,
    jobs: Jobs = None,
    engine: Engine = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, in the last line of stdout.")
    ] = False,
) -> None:
    """Run a method, and the methods to compare it with (run.against).

    Without arguments: FedGroup and FedAvg on handwritten digits."""
    # Imports and compilations make many objects that stay. Looking through them again and again
    # took a sixth of a short run.
    gc.set_threshold(100_000, 20, 50)
    with error_exit():
        if out and resume:
            raise ConfigError(
                "--out and --resume exclude each other, because a resumed run stays in its folder"
            )
        check_out(out)
        given = with_lengths(settings or [], rounds, seeds)
        config = load_config(given, resume)
        if not config.run.seeds:
            _refuse_parallel(jobs, engine)
        method = config.method.name.rpartition(":")[2]
        folder = resume or out or new_run_folder(f"{config.description().data_title}-{method}")
        if config.run.seeds:
            with _resumable(folder):
                repeated = _execute_seeds(
                    config=config,
                    folder=folder,
                    resume=resume is not None,
                    track=track or [],
                    jobs=jobs,
                    engine=engine,
                )
            return _show_seeds(repeated, folder, as_json)
        with _resumable(folder):
            run = _execute(config, folder, resume is not None, track or [])
        _show(run, folder, as_json, config, demo=not (given or resume))


def _refuse_parallel(jobs: int | None, engine: str | None) -> None:
    """Raise ConfigError for options that run several seeds in parallel, if there is one run."""
    if jobs not in (None, 1) or engine:
        raise ConfigError(
            "--jobs and --engine run several seeds in parallel; set the number of seeds, such as "
            "run.seeds=4, or leave out --jobs and --engine (run.engine=ray computes the clients of "
            "one run on a cluster)"
        )


def _execute(config: RunConfig, folder: Path, resume: bool, track: list[str]) -> Run:
    """Run the configuration's methods with one seed, and show the progress."""
    from fedkin.reporting.progress import ProgressDisplay
    from fedkin.run.simulate import execute

    opening = f"kept in {folder}; live page: {command('watch', folder)}"
    with ProgressDisplay(config.run.rounds, opening=opening) as display:
        return execute(config, out=folder, resume=resume, on_round=display, track=track)


def _execute_seeds(
    config: RunConfig,
    folder: Path,
    resume: bool,
    track: list[str],
    jobs: int | None,
    engine: str | None,
) -> RepeatedRuns:
    """Run the configuration's methods with each seed, and show the progress."""
    from fedkin.analysis.repeat import execute_seeds
    from fedkin.reporting.progress import ProgressDisplay

    opening = f"kept in {folder}"
    with ProgressDisplay(config.run.rounds, config.run.seeds or 1, opening) as display:
        return execute_seeds(
            config,
            out=folder,
            resume=resume,
            track=track,
            jobs=jobs,
            engine=engine,
            on_round=display,
            on_seed=display.begin,
        )


def _show_seeds(repeated: RepeatedRuns, folder: Path, as_json: bool) -> None:
    """Print the tables over all seeds, draw the figure, and print the summary as JSON if
    requested."""
    from fedkin.reporting.seeds_tables import compared, seeds_table
    from fedkin.reporting.terminal import plain_console

    summary = repeated.summary()
    console = plain_console(stderr=as_json)
    console.print(seeds_table(summary, repeated.measures))
    if summary["comparisons"]:
        console.print(compared(summary))
    _draw(repeated, folder, console)
    console.print(f"runs: {folder}", soft_wrap=True)
    _suggest(folder, console)
    if as_json:
        print(json_text({**summary, "out": str(folder)}), flush=True)
    runs = [run for method in repeated.methods for run in repeated.of(method)]
    _exit_of_failed([run.summary() for run in runs])


def _show(run: Run, folder: Path, as_json: bool, config: RunConfig, demo: bool) -> None:
    """Print the table of methods and the next commands, draw the figure, and print the summary as
    JSON if requested."""
    from fedkin.reporting.narrow_tables import fit
    from fedkin.reporting.progress import LESS_NEEDED, table
    from fedkin.reporting.scoring_share import scoring_note
    from fedkin.reporting.terminal import plain_console
    from fedkin.run.folder.run_folder import TIMINGS, read_records
    from fedkin.run.run_repr import names_by_position

    against = {name: other.summary() for name, other in run.against.items()}
    summaries = [run.summary(), *against.values()]
    console = plain_console(stderr=as_json)
    methods = table(summaries, names_by_position(run.client_columns), run.measures)
    console.print(fit(methods, console, LESS_NEEDED))
    if note := scoring_note(read_records(folder, TIMINGS), config.run, len(run.assignment)):
        console.print(f"note: {note}", soft_wrap=True)
    _draw(run, folder, console)
    console.print(f"run: {folder}", soft_wrap=True)
    _suggest(folder, console, demo)
    if as_json:
        print(json_text({**run.summary(), "out": str(folder), "against": against}), flush=True)
    _exit_of_failed(summaries)


def _exit_of_failed(summaries: Sequence[dict[str, Any]]) -> None:
    """Exit with a message and status FAILED if in the last rounds of a run no client sent a usable
    (finite) update."""
    failed = [summary for summary in summaries if "failed" in summary]
    for summary in failed:
        print_error(
            f"{summary['method']}: {summary['failed']}; use a smaller local.lr or local.clip_norm "
            "to keep models finite"
        )
    if failed:
        raise typer.Exit(FAILED)


def _draw(result: Run | RepeatedRuns, folder: Path, console: Console) -> None:
    """Draw the figures of a run or of several seeds, and print their paths."""
    from fedkin.reporting.draw import draw

    console.print(f"figure: {draw(result, folder)}", soft_wrap=True)


def _suggest(folder: Path, console: Console, demo: bool = False) -> None:
    """Print the command that the user can call next: ``fedkin report``. After the demo (``fedkin
    run`` without arguments), also print a ``fedkin compare`` command."""
    console.print(f"next: {command('report', folder)}", soft_wrap=True)
    if demo:
        comparison = command("compare", "--methods", "fedavg,ifca,flexcfl")
        console.print(f"then: {comparison}", soft_wrap=True)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Context manager that prints after a signal how to resume the run."""
    from fedkin.run.interruption import exit_status

    try:
        with ending_on_signals():
            yield
    except KeyboardInterrupt as error:
        from fedkin.run.folder.run_folder import holds_run

        what_next = "no file was written yet"
        if holds_run(folder):
            what_next = f"go on with: {command('run', '--resume', folder)}"
        print(f"interrupted; {what_next}", file=sys.stderr)
        raise typer.Exit(exit_status(error)) from None
