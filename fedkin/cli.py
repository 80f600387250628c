"""The command line. Everything heavy is imported when a command runs, so that ``fedkin --help`` is quick."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedkin import __version__
from fedkin.errors import ConfigError, FedkinError

if TYPE_CHECKING:
    from fedkin.data.federated import FederatedData
    from fedkin.experiment.config import Config
    from fedkin.experiment.repeat import Repeated
    from fedkin.experiment.results import Run

BAD_INPUT, INTERRUPTED = 2, 130


class _Plain(TyperGroup):
    """Usage errors end as one line and status 2, as all other bad input does."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        try:
            status = super().main(*arguments, **{**options, "standalone_mode": False})
        except Exception as error:
            told = getattr(error, "format_message", None)  # the parser's errors; their class has moved between versions
            if told is None:
                raise
            message, status = told(), BAD_INPUT
            if message:  # there is none where help was printed instead
                _complain(f"{message} (see: fedkin --help)")
        sys.exit(status or 0)


app = typer.Typer(cls=_Plain, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
data_app = typer.Typer(no_args_is_help=True, help="What data there are, and who has what.")
app.add_typer(data_app, name="data")


def main() -> None:
    """The entry point."""
    app()


def _complain(message: str) -> None:
    """One line on standard error, whatever the message holds."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"fedkin {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Clustered federated learning: find which clients are kin, and train one model per kind."""


@app.command("run")
def run_command(
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.toml] [section.key=value]...", help="What to run, and changes to it."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Keep the run in this new folder.")] = None,
    resume: Annotated[Path | None, typer.Option("--resume", metavar="DIR", help="Go on with the run in DIR.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, last line of stdout.")] = False,
) -> None:
    """Run a method, and others beside it. With no argument: FedGroup beside FedAvg on handwritten digits."""
    with _plainly():
        if out and resume:
            raise ConfigError("--out and --resume exclude each other: a resumed run stays in its folder")
        config = _configured(settings or [], resume)
        folder = resume or out or _new_folder(config)
        if config.run.seeds:
            with _resumable(folder):
                repeated = _execute_seeds(config, folder, resume is not None)
            return _close_seeds(repeated, folder, as_json)
        with _resumable(folder):
            run = _execute(config, folder, resume is not None)
        _close(run, folder, as_json)


@data_app.command("list")
def list_command() -> None:
    """All named data sets, and where they are found."""
    with _plainly():
        from fedkin.data.describe import available

        _show(available(), "data sets")
        typer.echo("also: file (path=..., your own file or folder in LEAF's layout) and planted (a known true cluster)")


@data_app.command("describe")
def describe_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set: see `fedkin data list`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[key=value]...", help="Its options.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The picture; data-NAME.png.")] = None,
) -> None:
    """A table and a picture of who has what."""
    with _plainly():
        from fedkin.data.describe import picture, table

        data = _dataset(name, options or [])
        _show(table(data).reset_index(), data.name)
        paths = picture(data, out or Path(f"data-{name}.png"))
        typer.echo(f"picture: {' and '.join(map(str, paths))}")


@data_app.command("pni")
def pni_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set: see `fedkin data list`.")],
    options: Annotated[list[str] | None, typer.Argument(metavar="[key=value]...", help="Its options.")] = None,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="What the random models look like.")] = "mclr",
    models: Annotated[int, typer.Option("--models", metavar="D", help="Random models to average over.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the first random model; the next have the next.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead.")] = False,
) -> None:
    """How far the clients differ: FedSim's privacy-preserving non-IID index. Compare like with like only."""
    with _plainly():
        from fedkin.experiment import choices, config, heterogeneity

        chosen = config.named("model", choices.models(), {"name": model}, lambda _: "--model")
        data = _dataset(name, options or [])
        made = choices.make(choices.models(), chosen, data)
        found = heterogeneity.non_iid_index(data, made, models=models, seed=seed)
        if as_json:
            print(json.dumps({"data": data.name, "model": made.name, "seed": seed, **found.summary()}))
            return
        _show(heterogeneity.figures(found).reset_index(), f"{data.name}, {made.name}")
        _show(heterogeneity.extremes(found, data), "clients by their index")


def _dataset(name: str, options: list[str]) -> FederatedData:
    """A named data set with ``key=value`` options."""
    from fedkin.experiment import choices, config

    values = {"name": name, **dict(_option(text) for text in options)}
    return choices.make(choices.datasets(), config.named("data set", choices.datasets(), values, str))


def _configured(settings: list[str], resume: Path | None) -> Config:
    """The configuration that the arguments name."""
    from fedkin.experiment import config, folder

    files = [text for text in settings if "=" not in text or text.endswith(".toml")]
    overrides = [text for text in settings if text not in files]
    for text in files:
        if not text.endswith(".toml"):
            raise ConfigError(f"expected FILE.toml or section.key=value, got {text!r}")
    if len(files) > 1:
        raise ConfigError(f"expected at most one file, got {' and '.join(files)}; changes look like section.key=value")
    if resume is None:
        return config.load(Path(files[0]) if files else None, overrides)
    if files:
        raise ConfigError(f"--resume takes its configuration from {resume}, not from {files[0]}")
    if "python" in folder.read_config(resume):
        raise ConfigError(
            f"{resume} was started from Python; go on with simulate(..., out={str(resume)!r}, resume=True)"
        )
    return config.load(resume / folder.CONFIG, overrides)


def _execute(config: Config, folder: Path, resume: bool) -> Run:
    from fedkin.experiment.progress import Display
    from fedkin.experiment.simulate import execute

    with Display(config.run.rounds) as display:
        return execute(config, out=folder, resume=resume, on_round=display)


def _execute_seeds(config: Config, folder: Path, resume: bool) -> Repeated:
    from fedkin.experiment.progress import Display
    from fedkin.experiment.repeat import execute_seeds

    with Display(config.run.rounds, config.run.seeds or 1) as display:
        return execute_seeds(config, out=folder, resume=resume, on_round=display, on_seed=display.begin)


def _close_seeds(repeated: Repeated, folder: Path, as_json: bool) -> None:
    """What the seeds say together, and where it is kept."""
    from rich.console import Console

    from fedkin.experiment.progress import compared, seeds_table

    summary, console = repeated.summary(), Console(stderr=as_json)
    console.print(seeds_table(summary))
    if summary["comparisons"]:
        console.print(compared(summary))
    console.print(f"figure: {folder / 'figure.png'}\nruns: {folder}", soft_wrap=True, highlight=False)
    if as_json:
        print(json.dumps({**summary, "out": str(folder)}), flush=True)


def _close(run: Run, folder: Path, as_json: bool) -> None:
    """The closing table, where things are, and the summary for machines."""
    from rich.console import Console

    from fedkin.experiment.progress import table

    summaries = {name: other.summary() for name, other in run.against.items()}
    console = Console(stderr=as_json)
    console.print(table([run.summary(), *summaries.values()]))
    console.print(f"figure: {folder / 'figure.png'}\nrun: {folder}", soft_wrap=True, highlight=False)
    if as_json:
        print(json.dumps({**run.summary(), "out": str(folder), "against": summaries}), flush=True)


def _new_folder(config: Config) -> Path:
    """A name that is not taken: runs/<data>-<method>-<time>."""
    from datetime import datetime

    stem = f"{config.data['name']}-{config.method['name']}-{datetime.now():%Y%m%d-%H%M%S}"
    names = [stem, *(f"{stem}-{i}" for i in range(2, 100))]
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())


def _option(text: str) -> tuple[str, Any]:
    from fedkin.experiment.config import parse_value

    key, equals, value = text.partition("=")
    if not (equals and key):
        raise ConfigError(f"expected key=value, got {text!r}")
    return key, parse_value(value)


def _show(frame: Any, title: str) -> None:
    """A DataFrame as a table."""
    from rich.console import Console
    from rich.table import Table

    out = Table(title=title)
    for column in frame.columns:
        out.add_column(str(column), overflow="fold")
    for row in frame.itertuples(index=False):
        out.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row))
    Console().print(out)


@contextmanager
def _plainly() -> Iterator[None]:
    """Errors that fedkin raises on purpose, and too little memory, end as one line and status 2, not as a traceback."""
    try:
        yield
    except FedkinError as error:
        _complain(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except Exception as error:
        if not _of_the_machine(error):
            raise
        reason = next(iter(str(error).splitlines()), "no more memory")
        _complain(f"the machine cannot do this: {reason}; try fewer or smaller clients, or run.clients_per_batch=1")
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _of_the_machine(error: Exception) -> bool:
    """Whether memory ran out, or a device gave up."""
    jax = sys.modules.get("jax")
    return isinstance(error, MemoryError) or (jax is not None and isinstance(error, jax.errors.JaxRuntimeError))


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Ctrl-C during a run says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        from fedkin.experiment.folder import holds_run

        how = f"go on with: fedkin run --resume {folder}" if holds_run(folder) else "nothing was written yet"
        print(f"interrupted; {how}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
