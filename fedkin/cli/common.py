"""Functions that the commands share. They parse arguments, print tables, and print errors as one
line with exit status 2."""

from __future__ import annotations

import codecs
import errno
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedkin.core.errors import ConfigError, FedkinError, StorageError
from fedkin.core.object_repr import shell_command

if TYPE_CHECKING:
    from fedkin.config.run import RunConfig

BAD_INPUT = 2
FAILED = 3
# Error numbers of a write to standard output whose device is full, or whose reader or terminal is
# closed.
_NO_OUTPUT = (errno.ENOSPC, errno.EPIPE, errno.EIO)
_SHOW_CURSOR = b"\x1b[?25h"
# Name of the codec error handler for characters that an encoding does not have.
_ANY_TEXT = "fedkin-any-text"

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        min=1,
        help="Number of parallel runs (seeds, cells), each on one core.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ray[:ADDRESS]",
        help="Run on a Ray cluster: one run on each core, or --jobs runs at a time.",
    ),
]

Backbone = Annotated[
    Path | None,
    typer.Option(
        "--backbone",
        metavar="FOLDER",
        help="The backbone of adapters, if it is not where the run had it.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", min=1, help="Number of rounds, as run.rounds=N."),
]


def print_cost_of_looking(config: RunConfig, to_stderr: bool = False) -> None:
    """If a configuration has [privacy], warn that this command has read clients' data without
    noise.

    Args:
        config: the command's configuration.
        to_stderr: whether to print to standard error, so that JSON on standard output stays valid.
    """
    if "privacy" in config.options:
        typer.echo(
            "privacy: this command read clients' data and updates without noise, at no privacy "
            "cost. The epsilon of a run with [privacy] covers neither this output nor settings "
            "that are chosen by it",
            err=to_stderr,
        )


def escape_help(command: Any) -> None:
    """Prepare the help texts of a command and its subcommands for rich: "[privacy]" is no markup,
    and a paragraph is one line, which rich wraps at the width of the terminal.

    Args:
        command: a command or command group of typer.
    """
    from rich.markup import escape

    paragraphs = (command.help or "").split("\n\n")
    joined = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    command.help = escape(joined)
    for parameter in command.params:
        if getattr(parameter, "help", None):
            parameter.help = escape(parameter.help)
    for below in getattr(command, "commands", {}).values():
        escape_help(below)


class OneLineErrors(TyperGroup):
    """Command group that reports usage errors as one line with exit status 2, like other bad input.

    It escapes help texts, so that rich does not read them as markup.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        escape_help(self)

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        """Run the command that the arguments name, and exit with the command's status."""
        write_any_text()
        if args is None:
            args = sys.argv[1:]
        expanded = [home_expanded(text) for text in args]
        # In its standalone mode, typer would print errors in its own form and exit.
        options["standalone_mode"] = False
        try:
            status = super().main(expanded, *arguments, **options)
            sys.stdout.flush()
        except OSError as error:
            if error.errno not in _NO_OUTPUT:
                raise
            status = _output_lost(error)
        except Exception as error:
            # Parser errors are recognised by this method, because their class differs between
            # versions.
            format_message = getattr(error, "format_message", None)
            if format_message is None:
                raise
            message = format_message()
            status = BAD_INPUT
            # The message is empty if help was printed instead.
            if message:
                print_error(f"{message} (see: {_command(error)} --help)")
        sys.exit(status or 0)


def write_any_text() -> None:
    """Make standard output and standard error accept any text.

    Characters that an encoding does not have are written as escapes, such as \\u03b1. Bytes of file
    names that are not UTF-8 are written unchanged.
    """
    codecs.register_error(_ANY_TEXT, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ANY_TEXT)


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """Error handler of a codec: returns the replacement of the character that the encoding does not
    have, and the position at which encoding continues."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    # Python decodes each non-UTF-8 byte of a file name to one of these characters.
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return character.encode("ascii", "backslashreplace"), error.start + 1


def print_text(text: str) -> None:
    """Print the content of a file. The content is written in UTF-8 unless standard output is a
    terminal."""
    if sys.stdout.isatty() or not isinstance(sys.stdout, io.TextIOWrapper):
        typer.echo(text, nl=False)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def home_expanded(argument: str) -> str:
    """Replace ``~`` at the start of an argument or of its value by the home folder.

    A shell does not replace the ``~`` in ``--out=~/run``.
    """
    option, equals, value = argument.partition("=")
    if argument.startswith("--") and equals:
        return f"{option}={os.path.expanduser(value)}"
    return os.path.expanduser(argument)


def _command(error: Exception) -> str:
    """The name of the command to which a usage error belongs."""
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    return " ".join(["fedkin", *path.split()[1:]])


def _output_lost(error: OSError) -> int:
    """Report that standard output cannot be written. Returns the exit status.

    Standard output is redirected to the null device, because Python would try to write the rest of
    its buffer at exit, and fail again.
    """
    if error.errno == errno.ENOSPC:
        print_error(
            "standard output cannot be written: No space left on device; finished rounds are in "
            "the run's folder"
        )
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BAD_INPUT


def print_error(message: str) -> None:
    """Print a message as one line on standard error."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def error_exit() -> Iterator[None]:
    """Context manager in which errors of fedkin and lack of memory end the command with one line
    and status 2."""
    try:
        Path.cwd()
    except FileNotFoundError:
        print_error("the current folder was deleted; change into another one")
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
            f"the machine has too little memory, or a device failed: {reason}; try fewer or "
            "smaller clients, or run.clients_per_batch=1"
        )
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt as error:
        from fedkin.run.interruption import exit_status

        print("interrupted", file=sys.stderr)
        raise typer.Exit(exit_status(error)) from None


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Context manager in which the first signal ends a run after its round, and a second signal
    ends the process.

    Raises:
        KeyboardInterrupt: after the round in which the first signal came.
    """
    from fedkin.run.interruption import interruptible

    with interruptible(first=_say_stopping, again=_leave):
        yield


def _say_stopping(_: int) -> None:
    """Print, when the first signal comes, that the run stops after this round."""
    # The empty write only tests whether standard output is closed.
    for descriptor, words in (
        (1, b""),
        (2, b"\nstopping after this round; interrupt again to stop at once\n"),
    ):
        try:
            os.write(descriptor, words)
        except OSError:
            # The terminal is closed. Later output must not fail, so that the run ends normally.
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _leave(number: int) -> None:
    """End this process at once, when a second signal comes. The parallel processes of ``--jobs``
    also end."""
    from fedkin.run.interruption import SIGNALLED

    if os.isatty(2):
        # A live display hides the cursor.
        os.write(2, _SHOW_CURSOR)
    os._exit(SIGNALLED + number)


def _is_machine_error(error: Exception) -> bool:
    """Whether an error means that memory is used up, or that a device failed."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(error, jax.errors.JaxRuntimeError):
        return True
    return isinstance(error, MemoryError)


def command(*words: object) -> str:
    """A command line of fedkin that a message suggests. It begins with the program's path if fedkin
    is not on PATH.

    Args:
        words: the command and its arguments.
    """
    called = Path(sys.argv[0])
    on_path = shutil.which("fedkin") or called.name != "fedkin"
    return shell_command("fedkin" if on_path else os.path.relpath(called), *words)


def split_arguments(settings: list[str]) -> tuple[Path | None, list[str]]:
    """Split arguments into the configuration file (or None) and the overrides
    ``section.key=value``."""
    # A file's name may contain an equals sign.
    files = [text for text in settings if "=" not in text or text.endswith(".toml")]
    for text in files:
        if not text.endswith(".toml"):
            raise ConfigError(f"expected FILE.toml or section.key=value, got {text!r}")
    if len(files) > 1:
        raise ConfigError(
            f"expected at most one file, got {' and '.join(files)}; settings have the form "
            "section.key=value"
        )
    return Path(files[0]) if files else None, [text for text in settings if text not in files]


def with_lengths(
    settings: list[str], rounds: int | None = None, seeds: int | None = None
) -> list[str]:
    """Settings of a command, with its options ``--rounds`` and ``--seeds`` as settings.

    Args:
        settings: the arguments ``FILE.toml`` and ``section.key=value``.
        rounds: number of rounds; None: not given.
        seeds: number of seeds; None: not given.

    Raises:
        ConfigError: an option and a setting give the same key.
    """
    out = list(settings)
    for key, value in (("rounds", rounds), ("seeds", seeds)):
        if value is None:
            continue
        for text in settings:
            if text.partition("=")[0].strip() == f"run.{key}":
                raise ConfigError(
                    f"--{key} {value} and {text} give the same key; leave out one of them"
                )
        out.append(f"run.{key}={value}")
    return out


def load_config(settings: list[str], resume: Path | None) -> RunConfig:
    """Load the configuration from the arguments, or from the folder of the run to resume."""
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
            f"{resume} was started from Python; resume it with simulate(..., out={str(resume)!r}, "
            "resume=True)"
        )
    return run.load(resume / run_folder.CONFIG, overrides)


def check_out(out: Path | None) -> None:
    """Check before data are loaded that ``--out`` is not the current folder with files in it. An
    empty ``--out`` means the current folder.

    Raises:
        StorageError: ``--out`` is the current folder, which has files in it.
    """
    from fedkin.run.folder.run_folder import refuse_others

    if out is not None:
        refuse_others(out, ())


LOOPBACK = "127.0.0.1"  # the address of this machine that no other machine reaches
RUNS = Path("runs")  # where the commands keep their runs


def check_figure_writable(out: Path, example: str) -> None:
    """Raise StorageError before any computation if the figure cannot be written to a path.

    Args:
        out: the path, given by ``--out``.
        example: name of a file, for the message about a folder.
    """
    if out.is_dir():
        raise StorageError(f"--out {out} is a folder; name a file in it, such as {out / example}")
    from fedkin.reporting.style import check_figure

    check_figure(out)
    try:
        tempfile.TemporaryFile(dir=out.parent).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"--out {out}: no file can be created in {out.parent.absolute()}: {reason}; choose an "
            "existing folder that can be written"
        ) from error


def new_run_folder(prefix: str) -> Path:
    """A path for a new run: runs/<prefix>-<time>, with a number appended if this path exists."""
    from datetime import datetime

    stem = f"{prefix}-{datetime.now():%Y%m%d-%H%M%S}"
    names = [stem, *(f"{stem}-{i}" for i in range(2, 100))]
    paths = [RUNS / name for name in names]
    return next(path for path in paths if not path.exists())


def parse_option(text: str) -> tuple[str, Any]:
    """Split a text ``key=value`` into the key and a typed value."""
    from fedkin.config.value_texts import parse_value

    key, equals, value = text.partition("=")
    if not (equals and key):
        raise ConfigError(f"expected key=value, got {text!r}")
    return key, parse_value(value)


def column_options(texts: list[str]) -> dict[str, Any]:
    """Options of external data, ``key=value``. ``features=age,weight`` is a list."""
    from fedkin.config.list_values import listed

    options = dict(parse_option(text) for text in texts)
    if "features" in options:
        options["features"] = listed(options["features"], Any)
    return options
