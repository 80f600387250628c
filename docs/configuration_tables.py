"""Tables of the sections and keys of configurations, from the code that reads them.

``generate_pages.py`` puts them on ``reference-configuration.md``. Types and defaults come from the
signatures that validate a section, meanings from docstrings and comments of fields, so that a new
key needs no line here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import json
import re
import textwrap
import tokenize
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedkin.config import registry
from fedkin.config.comparison import CompareSection
from fedkin.config.peer_settings import (
    LockstepSettings,
    NetworkSettings,
    PeerSettings,
    TlsSettings,
)
from fedkin.config.plan import RunSettings
from fedkin.config.run import LocalSection
from fedkin.config.schema import options_schema
from fedkin.config.server import SamplesSection
from fedkin.config.server_settings import ServerSettings, SiteSettings
from fedkin.core.training import LocalTraining
from fedkin.options import SECTIONS
from fedkin.scenarios.population import Population

HEAD = "| key | type | default | meaning |\n|---|---|---|---|\n"
NAMED_HEAD = "| name | key | type | default | meaning |\n|---|---|---|---|---|\n"
# Keys of [run] that a reader looks for first.
FIRST = ("rounds", "cohort", "selection", "seed", "seeds", "against")
# Meanings of keys that their code leaves to their names.
MEANINGS = {
    "alpha": "concentration of the partition `dirichlet`; not set: 0.5",
    "ca": "certificate of the authority that signs the peers' certificates",
    "classes": "number of classes",
    "classes_per_client": "classes of each client, in the partitions `power_law`, `shards` and "
    "`blocks` (not set: 2) and `ditto` (not set: 5)",
    "connect": "addresses of one or two peers through which this peer finds the others",
    "data": "data sets to compare on: sections laid over those of the file, with a `label`",
    "epochs": "passes over a client's training samples in a round",
    "batch_size": "samples of a mini-batch",
    "federation": "name of the federation; a message from another one is refused",
    "features": "names of a table's columns, in the same order at all sites",
    "grid": "lists of values by `section.key`; each value is tried with each",
    "key": "private key of the certificate",
    "labels": "names of the classes, in the same order at all sites",
    "lr": "learning rate",
    "methods": "methods to compare: names, or tables with options and a `label`",
    "name": "its name, which the other members of the federation see",
    "optimizer": "`sgd`, `adam` or `adamw`",
    "partition": "how samples are divided among clients: `power_law`, `dirichlet`, `shards`, "
    "`iid`, `blocks`, `writer` (mnist) or `ditto` (fashion_mnist)",
    "peers": "names of all peers, in the order of the data set's clients",
    "scenarios": "scenarios to compare in: sections laid over those of the file, with a `label`",
    "seed": "seed of all random draws",
    "seeds": "number of seeds; not set: 3",
    "shape": "shape of one sample",
    "trials": "number of trials of a random search, which draws from the grid; not set: no search",
    "tls": "table of the files for encrypted connections, [network.tls]",
    "words": "size of the vocabulary, if samples are sequences of word indices",
}
_WORDS: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "true or false",
    dict: "table",
    list: "list",
    tuple: "list",
}


class Key(typing.NamedTuple):
    """A key of a section."""

    name: str
    type: str
    default: str
    meaning: str


def all_tables() -> dict[str, str]:
    """The tables of the page, by the names in its marks."""
    return {
        "section run": table(keys(RunSettings)),
        "section local": table(keys(LocalSection, LocalTraining)),
        "section scenario": table(keys(Population)),
        "section compare": table(keys(CompareSection)),
        "sections of options": named(
            {f"[{section}] {name}": kind for section, name, kind in _options()}
        ),
        "data set options": named(_without_validation(registry.datasets())),
        "model options": named(registry.models()),
        "section federation": table(keys(ServerSettings)),
        "section client": table(keys(SiteSettings)),
        "section samples": table(keys(SamplesSection)),
        "sections of peers": named(
            {
                "[peer]": PeerSettings,
                "[network]": NetworkSettings,
                "[network.tls]": TlsSettings,
                "[lockstep]": LockstepSettings,
            }
        ),
    }


def _options() -> list[tuple[str, str, type]]:
    """Section, name and class of each option."""
    return [
        (section, name, kind)
        for section, option in SECTIONS.items()
        for name, kind in option.classes().items()
    ]


def _without_validation(
    datasets: Mapping[str, Callable[..., Any]],
) -> dict[str, Callable[..., Any]]:
    """The functions that make data sets, without the key that all of them have."""
    return {name: inspect.unwrap(make) for name, make in datasets.items()}


def table(section: Iterable[Key]) -> str:
    """The keys of one section.

    Args:
        section: its keys.
    """
    rows = sorted(section, key=lambda key: FIRST.index(key.name) if key.name in FIRST else 99)
    return HEAD + "".join(
        f"| `{key.name}` | {key.type} | {key.default} | {key.meaning} |\n" for key in rows
    )


def named(kinds: Mapping[str, Callable[..., Any]]) -> str:
    """The keys of several sections, or of the entries that a section can name.

    Args:
        kinds: what reads the keys, by the name in the first column.
    """
    rows = []
    for name, kind in kinds.items():
        shown = f"`{name}`"
        for key in keys(kind):
            rows.append(
                f"| {shown} | `{key.name}` | {key.type} | {key.default} | {key.meaning} |\n"
            )
            shown = ""  # the next rows belong to the same name
    return NAMED_HEAD + "".join(rows)


def keys(kind: Callable[..., Any], *sources: type) -> list[Key]:
    """The keys of a section, with types, defaults and meanings.

    Args:
        kind: a class or function whose signature validates the section.
        sources: classes whose fields of the same names say what a key means.
    """
    fields = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        fields = options_schema(kind, registry.NOT_OPTIONS).model_fields
    return [
        Key(
            name,
            type_words(field.annotation),
            default_words(field.get_default(call_default_factory=True), field.is_required()),
            meaning((kind, *sources), name),
        )
        for name, field in fields.items()
    ]


def type_words(annotation: Any) -> str:
    """An annotation in words: ``int | None`` is an integer."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return type_words(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        words = [type_words(part) for part in arguments if part is not type(None)]
        return " or ".join(dict.fromkeys(words))
    if origin is not None and inspect.isclass(origin):
        return "table" if issubclass(origin, Mapping) else "list"
    if dataclasses.is_dataclass(annotation):
        return "table"
    return _WORDS.get(annotation, "text")


def default_words(value: Any, required: bool) -> str:
    """A default as TOML has it; a dash where none is set."""
    if required:
        return "required"
    if value is None or value in ({}, [], (), ""):
        return "-"
    return f"`{json.dumps(value, default=str)}`"


def meaning(kinds: Iterable[Callable[..., Any]], name: str) -> str:
    """The meaning of a key, by the docstrings and comments of classes and functions.

    The first that says it is taken: ``kinds`` in their order, their module, then ``MEANINGS``.

    Args:
        kinds: classes or functions that have the key.
        name: of the key.
    """
    homes: list[Callable[..., Any]] = []
    for kind in kinds:
        homes += (
            [base for base in kind.__mro__ if base is not object]
            if inspect.isclass(kind)
            else [kind]
        )
    for home in homes:
        found = _described(home, name) or _commented(home, name)
        if found and "described in the module" not in found:
            return sentence(found)
    listed = "" if name in MEANINGS else _listed_in_module(homes[0], name)
    return sentence(listed or MEANINGS.get(name, ""))


def sentence(text: str) -> str:
    """A meaning as a cell: TOML's words for Python's, and a capital letter at its start."""
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text.replace("``", "`").replace("|", "\\|"))
    text = re.sub(r"\bNone(?: for|:| to) ", "not set: ", text).replace(". not set", ". Not set")
    text = text.replace('"end" (also None)', '"end" (also not set)')
    text = re.sub(r"\bFalse:", "false:", text)
    if text.count(". ") == 0:
        text = text.removesuffix(".")
    first = text.split(" ")[0]
    return text[:1].upper() + text[1:] if len(first) > 2 and first.isalpha() else text


def _listed_in_module(home: Callable[..., Any], name: str) -> str:
    """The entry of a list of options in the docstring of a module."""
    text = inspect.getdoc(inspect.getmodule(home)) or ""
    found = re.search(rf"^\* ``{name}``: (.+(?:\n  +.+)*)", text, re.MULTILINE)
    return re.sub(r"\s+", " ", found[1]) if found else ""


def _described(home: Callable[..., Any], name: str) -> str:
    """The entry of a docstring; one entry may describe several arguments."""
    texts = [inspect.getdoc(home) or ""]
    if inspect.isclass(home) and "__init__" in vars(home):
        texts.append(inspect.getdoc(vars(home)["__init__"]) or "")
    for text in texts:
        for block in re.findall(r"(?:Args|Attributes):\n((?: {4}.*\n?|\n)+)", text):
            for names, words in re.findall(r"^ {4}(\w[\w, ]*): (.+(?:\n {5,}.+)*)", block, re.M):
                if name in re.split(r",\s*", names):
                    return re.sub(r"\s+", " ", words)
    return ""


def _commented(home: Callable[..., Any], name: str) -> str:
    """The comment of a field; empty if the class does not declare it."""
    if not inspect.isclass(home) or name not in vars(home).get("__annotations__", {}):
        return ""
    return field_source(home, name)[1]


def field_source(home: type, name: str) -> tuple[str, str]:
    """The annotation of a field as the source has it, and its comment: at the end of its lines, or
    on the lines above it.

    Args:
        home: the class that declares the field.
        name: of the field.
    """
    source = textwrap.dedent(inspect.getsource(home))
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    fields = [node for node in body if isinstance(node, ast.AnnAssign)]
    field = next(node for node in fields if ast.unparse(node.target) == name)
    annotation = ast.get_source_segment(source, field.annotation) or ""
    comments = _comments(source)
    last = field.end_lineno or field.lineno
    at_end = [comments[line][1] for line in range(field.lineno, last + 1) if line in comments]
    if at_end:
        return annotation, " ".join(at_end)
    above: list[str] = []
    line = field.lineno - 1
    while line in comments and comments[line][0]:
        above.insert(0, comments[line][1])
        line -= 1
    return annotation, " ".join(above)


def _comments(source: str) -> dict[int, tuple[bool, str]]:
    """The comments of a source by line: whether the line has nothing else, and the text."""
    found: dict[int, tuple[bool, str]] = {}
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            alone = lines[line - 1].lstrip().startswith("#")
            found[line] = (alone, token.string.removeprefix("#").strip())
    return found
