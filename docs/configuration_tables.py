"""Tables of the sections and keys of configurations, as Markdown.

``generate_pages.py`` puts them on ``reference-configuration.md``. The rows are those that ``fedkin
config`` prints, so that a new key needs no line here.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedkin.config import reference
from fedkin.config.key_examples import toml_line
from fedkin.config.keys import Key
from fedkin.config.reference import KeyRow
from fedkin.options import SECTIONS as OPTIONS

HEAD = "| key | type | default | meaning, and an example |\n|---|---|---|---|\n"
NAMED_HEAD = "| name | key | type | default | meaning, and an example |\n|---|---|---|---|---|\n"
BREAK = "<br>"  # between a meaning and its example
# Sections that have one class, each with a table of its name.
PLAIN = (
    "run",
    "local",
    "scenario",
    "compare",
    "metrics",
    "federation",
    "client",
    "disclosure",
    "samples",
    "peer",
    "network",
    "network.tls",
    "lockstep",
)


def all_tables() -> dict[str, str]:
    """The tables of the page, by the names in its marks."""
    return {
        **{f"section {name.replace('.', ' ')}": table(reference.rows(name)) for name in PLAIN},
        "sections of options": NAMED_HEAD
        + "".join(
            lines(key_rows, f"[{section}] {name}")
            for section in OPTIONS
            for name, key_rows in reference.entries(section).items()
        ),
        "data set options": entries_table("data"),
        "model options": entries_table("model"),
        "method options": entries_table("method"),
        "shift options": entries_table("shift"),
    }


def table(rows: Iterable[KeyRow]) -> str:
    """The keys of one section.

    Args:
        rows: its keys.
    """
    return HEAD + "".join(f"| {' | '.join(cells(row.key))} |\n" for row in rows)


def entries_table(section: str) -> str:
    """The keys of a section that names an entry: first those of all entries, then those of each.

    Args:
        section: name of the section.
    """
    shared = [row.key for row in reference.rows(section) if not row.names]
    text = lines(shared, "all")
    for name, listed in reference.entries(section).items():
        text += lines([key for key in listed if key not in shared], name)
    return NAMED_HEAD + text


def lines(listed: Iterable[Key], name: str) -> str:
    """Lines of a table of several names. The name is shown once.

    Args:
        listed: the keys.
        name: of the entry that has them.
    """
    text = ""
    shown = f"`{name}`"
    for key in listed:
        text += f"| {shown} | {' | '.join(cells(key))} |\n"
        shown = ""
    return text


def cells(key: Key) -> list[str]:
    """The cells of a key: name, type, default, and meaning with example; a dash where no value is
    set."""
    default = {"": "-", "required": "required"}.get(key.default, f"`{key.default}`")
    meaning = key.meaning.replace("|", "\\|")
    example = f"`{toml_line(key.name, key.example)}`"
    return [f"`{key.name}`", key.type, default, f"{meaning}{BREAK}{example}"]
