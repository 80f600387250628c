"""The command ``fedkin config``: the reference of all keys, and the check of a file."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fedkin.cli.common import command, error_exit, print_error
from fedkin.cli.printed_tables import print_rows
from fedkin.core.errors import ConfigError, nearest, unknown
from fedkin.core.object_repr import count

if TYPE_CHECKING:
    from fedkin.config.reference import KeyRow

WRONG = 1  # exit status for a file with errors
_SHOW = "show"  # the command of words that name no other command
_WIDEST = 100  # characters of a line on a wide terminal


class ConfigCommands(TyperGroup):
    """Command group in which any other word is a section, a key or a word to search for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Without any, all sections are shown."""
        return super().parse_args(ctx, args or [_SHOW])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names; otherwise ``show`` with all arguments."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            args = [_SHOW, *args]
        return super().resolve_command(ctx, args)


config_app = typer.Typer(
    cls=ConfigCommands,
    subcommand_metavar="[SECTION [NAME] | SECTION.KEY | WORD | check FILE...]",
)


@config_app.callback()
def _group() -> None:
    """Show the sections and keys of configuration files, or check a file.

    Without arguments: all sections. With a section (local), an entry of a section (method flexcfl)
    or a key (local.lr): its keys. With any other word: the keys whose names or meanings have it."""


@config_app.command(_SHOW, hidden=True)
def show_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SECTION [NAME] | SECTION.KEY | WORD]",
            help="A section, an entry of it (method flexcfl), a key (local.lr) or a word.",
        ),
    ] = None,
) -> None:
    """Show keys of configuration files: name, type, default, meaning and an example."""
    with error_exit():
        from fedkin.config import reference

        if not words:
            _print_sections()
            return
        if len(words) > 2:
            raise ConfigError(
                f"expected SECTION [NAME], SECTION.KEY or one WORD, got {' '.join(words)!r}; for "
                f"example {command('config', 'method', 'flexcfl')}"
            )
        word = words[0].strip("[]")
        if len(words) == 2 or word in reference.SECTIONS:
            _print_section(word, words[1] if len(words) == 2 else None)
        elif "." in word:
            _print_key(word)
        else:
            _print_found(word)


@config_app.command("check")
def check_file_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE.toml...", help="Files of runs, comparisons, servers, sites or peers."
        ),
    ],
) -> None:
    """Check configuration files without running anything: show the kind of each, and each error in
    one line. Methods and grid of a comparison are checked once the rest is right. The exit status
    is 1 if a file has errors."""
    with error_exit():
        from fedkin.config.check_file import COMMANDS, check_file

        wrong = False
        for path in files:
            checked = check_file(path)
            kind = f"{path}: a {checked.kind} file ({COMMANDS[checked.kind]})"
            errors = count(len(checked.errors), "error") if checked.errors else "no errors"
            typer.echo(f"{kind}, {errors}")
            for message in checked.errors:
                print_error(message)
            wrong |= bool(checked.errors)
        if wrong:
            raise typer.Exit(WRONG)


def _print_sections() -> None:
    """Print all sections, with the files that may have them."""
    from fedkin.config.reference import CONTENTS, SECTIONS, files_of

    print_rows(
        ("section", "content", "in files"),
        [
            (f"[{name}]", CONTENTS[name].replace("`", ""), ", ".join(files_of(name)))
            for name in SECTIONS
        ],
        "sections of configuration files",
        unbroken=("section",),
    )
    typer.echo(f"keys of a section: {command('config', 'local')}")
    typer.echo(f"keys of a method: {command('config', 'method', 'flexcfl')}")
    typer.echo(f"check a file: {command('config', 'check', 'FILE.toml')}")


def _print_section(section: str, name: str | None) -> None:
    """Print the keys of a section, or of one entry of it."""
    from fedkin.config import reference

    found = reference.rows(section, name)
    files = ", ".join(reference.files_of(section))
    content = reference.CONTENTS[section].replace("`", "")
    _print_wrapped(f"[{section}] {content}; in files: {files}", _width(), indent="")
    typer.echo()
    _print_keys(found)
    if name is None and reference.SECTIONS[section].named:
        example = next(iter(reference.entries(section)))
        typer.echo(f"only the keys of one: {command('config', section, example)}")


def _print_key(dotted: str) -> None:
    """Print one key, with an example in a file and on the command line."""
    from fedkin.config import reference
    from fedkin.config.key_examples import shell_word, toml_line

    section, _, key = dotted.rpartition(".")
    rows = reference.rows(section)
    found = [row for row in rows if row.key.name == key]
    if not found:
        names = [row.key.name for row in rows]
        near = nearest(key, names)
        hint = f" For example {command('config', f'{section}.{near}')}" if near else ""
        raise ConfigError(f"{dotted}: {unknown('key', key, names)}{hint}")
    _print_keys(found)
    value = found[0].key.example
    typer.echo(f"in a file: [{section}]")
    typer.echo(f"           {toml_line(key, value)}")
    if "." not in section:
        typer.echo(f"on the command line: {shell_word(dotted, value)}")


def _print_found(word: str) -> None:
    """Print the keys whose names or meanings have a word."""
    from fedkin.config import reference

    found = reference.search(word)
    if not found:
        known = {row.key.name for section in reference.SECTIONS for row in reference.rows(section)}
        near = nearest(word, [*reference.SECTIONS, *sorted(known)])
        hint = f"all sections: {command('config')}"
        if near:
            hint = f"did you mean {near!r}? For example {command('config', near)}"
        raise ConfigError(f"no section is called {word!r}, and no key has this word; {hint}")
    _print_keys(found, with_section=True)


def _print_keys(rows: Sequence[KeyRow], with_section: bool = False) -> None:
    """Print keys: name, type and default in a line, and below it the meaning and an example.

    Args:
        rows: the keys.
        with_section: whether to print each key with its section.
    """
    from fedkin.config.key_examples import toml_line

    width = _width()
    for row in rows:
        key = row.key
        default = {"": "not set", "required": "required"}.get(key.default, f"default {key.default}")
        name = row.setting if with_section else key.name
        names = f"({', '.join(row.names)}) " if row.names else ""
        _print_wrapped(f"{name}: {key.type.replace('`', '')}; {default}", width, indent="")
        _print_wrapped(f"{names}{key.meaning}", width, indent="    ")
        _print_wrapped(f"example: {toml_line(key.name, key.example)}", width, indent="    ")
        typer.echo()


def _width() -> int:
    """Characters of a printed line."""
    from fedkin.reporting.terminal import plain_console

    return min(plain_console().width, _WIDEST)


def _print_wrapped(text: str, width: int, indent: str) -> None:
    """Print a text in lines of at most ``width`` characters.

    Args:
        text: the text.
        width: of a line, in characters.
        indent: blanks before each line.
    """
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent or "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    typer.echo("\n".join(lines))
