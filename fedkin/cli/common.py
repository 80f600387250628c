"""What all commands share: arguments, tables, and errors as one line with status 2."""

from __future__ import annotations

import codecs
import errno
import io
import os
import shutil
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedkin.core.display import shell_command
from fedkin.core.errors import ConfigError, FedkinError

if TYPE_CHECKING:
    from fedkin.config.run import RunConfig

BAD_INPUT = 2
FAILED = 3
_NO_OUTPUT = (
    errno.ENOSPC,
    errno.EPIPE,
    errno.EIO,
)  # a full device, a reader or a terminal that has gone
_SHOW_CURSOR = b"\x1b[?25h"
_ANY_TEXT = "fedkin-any-text"  # name of a way to write characters that an encoding lacks
_WHOLE = 16  # characters of a first column that are not broken

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="So many runs (seeds, cells) at a time, on one core each.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ray[:ADDRESS]",
        help="Runs go to a Ray cluster: one on each core, or --jobs at a time.",
    ),
]


def print_cost_of_looking(config: RunConfig, to_stderr: bool = False) -> None:
    """Say of a configuration with privacy that a command looks at clients without noise.

    Args:
        config: that it was given.
        to_stderr: not to mix with JSON.
    """
    if "privacy" in config.options:
        typer.echo(
            "privacy: this looked at clients' data and updates without noise. That is not "
            "charged: the epsilon of a run with [privacy] does not cover what is shown here, nor "
            "settings that are chosen by it",
            err=to_stderr,
        )


def escape_help(command: Any) -> None:
    """Escape the help texts of a command and of all below it, as rich would take "[privacy]" for
    markup.

    Args:
        command: of the parser.
    """
    from rich.markup import escape

    command.help = escape(command.help or "")
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = escape(parameter.help)
    for below in getattr(command, "commands", {}).values():
        escape_help(below)


class OneLineErrors(TyperGroup):
    """Usage errors end as one line and status 2, as all other bad input does. Help texts are shown
    as they are."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        escape_help(self)

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        write_any_text()
        expanded = [home_expanded(text) for text in (sys.argv[1:] if args is None else args)]
        try:
            status = super().main(expanded, *arguments, **{**options, "standalone_mode": False})
            sys.stdout.flush()
        except OSError as error:
            if error.errno not in _NO_OUTPUT:
                raise
            status = _output_lost(error)
        except Exception as error:
            # the parser's errors: their class has moved between versions
            format_message = getattr(error, "format_message", None)
            if format_message is None:
                raise
            message = format_message()
            status = BAD_INPUT
            if message:  # there is none where help was printed instead
                print_error(f"{message} (see: {_command(error)} --help)")
        sys.exit(status or 0)


def write_any_text() -> None:
    """Let both output streams take any text: what their encoding lacks is written as an escape,
    such as \\u03b1, and the bytes of file names that are not UTF-8 as they are."""
    codecs.register_error(_ANY_TEXT, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ANY_TEXT)


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for a character that an encoding lacks, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if (
        "\udc80" <= character <= "\udcff"
    ):  # how Python writes a byte of a file name that is not UTF-8
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return character.encode("ascii", "backslashreplace"), error.start + 1


def print_text(text: str) -> None:
    """Print the content of a file: in UTF-8, as the file would be, unless a terminal shows it."""
    if sys.stdout.isatty() or not isinstance(sys.stdout, io.TextIOWrapper):
        typer.echo(text, nl=False)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def home_expanded(argument: str) -> str:
    """An argument with ``~`` at its beginning, or at that of an option's value, as the home folder:
    a shell leaves it in ``--out=~/run``."""
    option, equals, value = argument.partition("=")
    if argument.startswith("--") and equals:
        return f"{option}={os.path.expanduser(value)}"
    return os.path.expanduser(argument)


def _command(error: Exception) -> str:
    """The command whose arguments are wrong."""
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    return " ".join(["fedkin", *path.split()[1:]])


def _output_lost(error: OSError) -> int:
    """Standard output takes no more: say so, and keep Python from trying again at its end."""
    if error.errno == errno.ENOSPC:
        print_error(
            "standard output cannot be written: No space left on device; what was run is in its "
            "folder"
        )
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BAD_INPUT


def print_error(message: str) -> None:
    """One line on standard error, whatever the message holds."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def error_exit() -> Iterator[None]:
    """Errors that fedkin raises on purpose, and too little memory, end as one line and status 2,
    not as a traceback."""
    try:
        Path.cwd()
    except FileNotFoundError:
        print_error("the present folder was deleted; change into another one")
        raise typer.Exit(BAD_INPUT) from None
    try:
        yield
    except FedkinError as error:
        print_error(str(error))
        raise typer.Exit(BAD_INPUT) from None
    except Exception as error:
        if not _is_machine_error(error):
            raise
        reason = next(iter(str(error).splitlines()), "no more memory")
        print_error(
            f"the machine cannot do this: {reason}; try fewer or smaller clients, or "
            "run.clients_per_batch=1"
        )
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt as error:
        from fedkin.run.interruption import exit_status

        print("interrupted", file=sys.stderr)
        raise typer.Exit(exit_status(error)) from None


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Context in which a signal ends a run after its round, and a second one the process.

    Raises:
        KeyboardInterrupt: of the first signal, after the round.
    """
    from fedkin.run.interruption import interruptible

    with interruptible(first=_say_stopping, again=_leave):
        yield


def _say_stopping(_: int) -> None:
    for descriptor, words in (
        (1, b""),
        (2, b"\nstopping after this round; once more to stop at once\n"),
    ):
        try:
            os.write(descriptor, words)
        except (
            OSError
        ):  # the terminal has gone: a run's last words must not keep it from ending well
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _leave(number: int) -> None:
    """End this process at once, whatever holds it; those of ``--jobs`` end with it."""
    from fedkin.run.interruption import SIGNALLED

    if os.isatty(2):
        os.write(2, _SHOW_CURSOR)  # which a live display hides
    os._exit(SIGNALLED + number)


def _is_machine_error(error: Exception) -> bool:
    """Whether memory ran out, or a device gave up."""
    jax = sys.modules.get("jax")
    return isinstance(error, MemoryError) or (
        jax is not None and isinstance(error, jax.errors.JaxRuntimeError)
    )


def command(*words: object) -> str:
    """A command of this program, as it is typed from here: by its path, where it is not on PATH.

    Args:
        words: the command and its arguments.
    """
    called = Path(sys.argv[0])
    on_path = shutil.which("fedkin") or called.name != "fedkin"
    return shell_command("fedkin" if on_path else os.path.relpath(called), *words)


def split_arguments(settings: list[str]) -> tuple[Path | None, list[str]]:
    """The configuration file among the arguments, if there is one, and the changes to it."""
    files = [text for text in settings if "=" not in text or text.endswith(".toml")]
    for text in files:
        if not text.endswith(".toml"):
            raise ConfigError(f"expected FILE.toml or section.key=value, got {text!r}")
    if len(files) > 1:
        raise ConfigError(
            f"expected at most one file, got {' and '.join(files)}; changes look like "
            "section.key=value"
        )
    return Path(files[0]) if files else None, [text for text in settings if text not in files]


def load_config(settings: list[str], resume: Path | None) -> RunConfig:
    """The configuration that the arguments name."""
    from fedkin.config import run
    from fedkin.run.folder import run_folder
    from fedkin.run.folder.resuming import how_to_resume

    file, overrides = split_arguments(settings)
    if resume is None:
        return run.load(file, overrides)
    if file:
        raise ConfigError(f"--resume takes its configuration from {resume}, not from {file}")
    config = run_folder.read_config(resume)
    if config.of_federation:
        raise ConfigError(
            f"{resume} is the run of a federation with real sites; {how_to_resume(resume, config)}"
        )
    if config.from_python:
        raise ConfigError(
            f"{resume} was started from Python; go on with simulate(..., out={str(resume)!r}, "
            "resume=True)"
        )
    return run.load(resume / run_folder.CONFIG, overrides)


def check_out(out: Path | None) -> None:
    """Refuse the present folder where anything is in it, before data are loaded: an empty ``--out``
    means it, too.

    Raises StorageError.
    """
    from fedkin.run.folder.run_folder import refuse_others

    if out is not None:
        refuse_others(out, ())


def new_run_folder(prefix: str) -> Path:
    """A name that is not taken: runs/<prefix>-<time>."""
    from datetime import datetime

    stem = f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}"
    names = [stem, *(f"{stem}-{i}" for i in range(2, 100))]
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())


def parse_option(text: str) -> tuple[str, Any]:
    """``key=value`` as a key and a typed value."""
    from fedkin.config.loader import parse_value

    key, equals, value = text.partition("=")
    if not (equals and key):
        raise ConfigError(f"expected key=value, got {text!r}")
    return key, parse_value(value)


def print_table(frame: Any, title: str) -> None:
    """Print a DataFrame."""
    print_rows(frame.columns, frame.itertuples(index=False), title)


def print_rows(
    columns: Iterable[Any], rows: Iterable[Iterable[Any]], title: str, unbroken: Container[Any] = ()
) -> None:
    """Print a table.

    Args:
        columns: their heads.
        rows: a value for each column; whole numbers are grouped by thousands.
        title: stands above it.
        unbroken: columns whose lines are as they are given, however narrow the terminal is.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from fedkin.reporting.terminal import plain_console

    out = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    cells = [
        [f"{value:,}" if isinstance(value, int) else str(value) for value in row] for row in rows
    ]
    longest = max((len(row[0]) for row in cells if row), default=0)
    for number, column in enumerate(columns):
        whole = (
            min(longest, _WHOLE) if number == 0 else None
        )  # a name broken in two is hard to read
        out.add_column(str(column), overflow="fold", min_width=whole, no_wrap=column in unbroken)
    for row in cells:
        out.add_row(*row)
    plain_console().print(out)
