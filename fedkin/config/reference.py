"""The reference of all sections and keys of configuration files, which ``fedkin config`` prints.

Sections and keys come from the declarations that validate the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from fedkin.config import comparison, peer, run, server
from fedkin.config.declarations import Declared, one_class
from fedkin.config.key_examples import toml_value
from fedkin.config.keys import Key, keys
from fedkin.config.peer_settings import TlsSettings
from fedkin.core.errors import ConfigError, unknown
from fedkin.options import SECTIONS as OPTIONS

# What declares the sections of each kind of file.
FILES: dict[str, Mapping[str, Declared]] = {
    "run": run.DECLARED,
    "comparison": comparison.DECLARED,
    "server": server.SERVER_DECLARED,
    "site": server.CLIENT_DECLARED,
    "peer": {**peer.DECLARED, "network.tls": one_class(TlsSettings)},
}
# What each section holds.
CONTENTS = {
    "data": "a data set by `name`, or your own file by `path`",
    "model": "a model by `name`, your PyTorch module by `torch`, or adapters of a `backbone`",
    "method": "a method by `name`, and its options",
    "local": "local training of a client",
    "scenario": "clients that drop out, straggle, arrive or leave",
    "shift": "how data shift, by `name`",
    **{name: f"{section.words}, for all methods" for name, section in OPTIONS.items()},
    "run": "length, cohorts, seed, evaluation, computation",
    "metrics": "numbers for Prometheus, as a text file or a page with health checks",
    "compare": "methods, data, scenarios and seeds of `fedkin compare`",
    "federation": "the server: clients, deadlines, limits",
    "samples": "shape of a sample and classes, equal in all files of a federation",
    "client": "the site: its name, federation and folder",
    "disclosure": "floors below which nothing leaves the site; without the section there are none",
    "peer": "the peer: its name, federation, rounds",
    "network": "addresses of this peer and of others",
    "network.tls": "certificates of encrypted connections",
    "lockstep": "peers that finish each round together",
}
# All sections, in the order of ``CONTENTS``. Of a section in several files, the first counts.
SECTIONS: dict[str, Declared] = {
    name: next(sections[name] for sections in FILES.values() if name in sections)
    for name in CONTENTS
}
# Keys that a reader looks for first.
FIRST = ("name", "path", "rounds", "cohort", "selection", "seed", "seeds", "against")
# A word that stands for an entry of [data].
_FORMATS = {"csv": "file", "tsv": "file", "npz": "file", "parquet": "file"}


class KeyRow(NamedTuple):
    """A key of a section, and the entries that have it.

    Attributes:
        section: name of the section.
        names: entries of the section that have the key, such as data sets; empty: all.
        key: the key.
    """

    section: str
    names: tuple[str, ...]
    key: Key

    @property
    def setting(self) -> str:
        """The key with its section: ``local.lr``."""
        return f"{self.section}.{self.key.name}"


def files_of(section: str) -> list[str]:
    """The kinds of files that may have a section."""
    return [kind for kind, sections in FILES.items() if section in sections]


@cache
def entries(section: str) -> dict[str, list[Key]]:
    """The keys of a section, by the entries that it can name; one entry without a name if it names
    none."""
    declared = SECTIONS[section]
    return {name: keys(kind, *declared.sources) for name, kind in declared.kinds().items()}


def rows(section: str, name: str | None = None) -> list[KeyRow]:
    """The keys of a section. Equal keys of several entries are one row.

    Args:
        section: name of the section.
        name: only the keys of this entry, such as ``flexcfl`` in [method]; None: of all.

    Raises:
        ConfigError: the section or the entry is unknown.
    """
    if section not in SECTIONS:
        raise ConfigError(unknown("section", section, SECTIONS))
    found = entries(section)
    named = SECTIONS[section].named
    if name is not None and not named:
        raise ConfigError(
            f"[{section}] has no entries with names; for a key, write {section}.{name}"
        )
    if name is not None:
        name = _FORMATS.get(name, name) if section == "data" else name
        if name not in found:
            raise ConfigError(f"[{section}]: {unknown(SECTIONS[section].word, name, found)}")
        found = {name: found[name]}
    merged: dict[tuple[str, ...], tuple[list[str], Key]] = {}
    for entry, listed in found.items():
        for key in listed:
            same = (key.name, key.type, key.default, key.meaning, toml_value(key.example))
            merged.setdefault(same, ([], key))[0].append(entry)
    out = [name_row(section, name)] if named else []
    for names, key in merged.values():
        shown = () if not named or len(names) == len(found) else tuple(names)
        out.append(KeyRow(section, shown, key))
    return in_order(out)


def in_order(listed: Iterable[KeyRow]) -> list[KeyRow]:
    """Rows in the order of a table: first keys first, equal names next to each other."""
    listed = list(listed)
    names = [*FIRST, *dict.fromkeys(row.key.name for row in listed)]
    return sorted(listed, key=lambda row: names.index(row.key.name))


def name_row(section: str, name: str | None = None) -> KeyRow:
    """The row of the key ``name``, which names the entry of a section.

    ``name`` is the entry of the example; None: the default, or the first entry.
    """
    declared = SECTIONS[section]
    known = list(entries(section))
    default = declared.default({})
    meaning = f"The {declared.word}: {', '.join(f'`{entry}`' for entry in known)}"
    key = Key(
        name="name",
        type="text",
        default=toml_value(default) if default else "required",
        meaning=meaning,
        example=name or default or known[0],
    )
    return KeyRow(section, (), key)


def search(word: str) -> list[KeyRow]:
    """The keys whose names or meanings have a word: names first.

    Args:
        word: the word, in any case.
    """
    word = word.casefold()
    all_rows = [row for section in SECTIONS for row in rows(section)]
    in_names = [row for row in all_rows if word in row.key.name.casefold()]
    in_names.sort(key=lambda row: row.key.name.casefold() != word)
    in_meanings = [
        row for row in all_rows if row not in in_names and word in row.key.meaning.casefold()
    ]
    return [*in_names, *in_meanings]
