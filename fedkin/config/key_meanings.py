"""Meanings of the keys of configurations, from the docstrings and comments of the code that reads
them. A key whose code has a comment or docstring needs no line in ``MEANINGS``."""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

# Short words at the start of a meaning. Other short ones are symbols, such as "k".
_SHORT_WORDS = ("a", "an", "as", "in")
# Meanings of keys that their code leaves to their names.
MEANINGS = {
    "alpha": "concentration of the partition `dirichlet`; not set: 0.5",
    "ca": "certificate of the authority that signs the peers' certificates",
    "classes": "number of classes",
    "classes_per_client": "classes of each client, in the partitions `power_law`, `shards` and "
    "`blocks` (not set: 2) and `ditto` (not set: 5)",
    "connect": "addresses of one or two peers through which this peer finds the others",
    "data": "data sets to compare on: tables of keys of [data], or of other sections, laid over "
    "the file; `label` names one",
    "epochs": "passes over a client's training samples in a round",
    "batch_size": "samples of a mini-batch",
    "federation": "name of the federation; a message from another one is refused",
    "features_file": "file (.npz) that keeps the inputs of `features_layer`; a later run with the "
    "same texts and backbone reads it; not set: they are computed in each run",
    "features_layer": "the samples are the inputs of this layer of the backbone in `tokenizer`, "
    "which are computed once; not set: token numbers",
    "features": "names of a table's columns, in the same order at all sites",
    "grid": "lists of values by `section.key`; each value is tried with each. With `trials`, "
    "values are drawn from the lists, or from distributions such as `log(0.01, 0.3)`",
    "key": "private key of the certificate",
    "labels": "names of the classes, in the same order at all sites",
    "lr": "learning rate",
    "methods": "methods to compare: names, or tables with options and a `label`",
    "name": "its name, which the other members of the federation see",
    "optimizer": "`sgd`, `adam` or `adamw`",
    "partition": "how samples are divided among clients: `power_law`, `dirichlet`, `shards`, "
    "`iid`, `blocks`, `writer` (mnist) or `ditto` (fashion_mnist)",
    "peers": "names of all peers, in the order of the data set's clients",
    "scale_from": "mean and scale of each of a table's columns, by which it is scaled; not set: "
    "statistics of the training samples",
    "scenarios": "scenarios to compare in: tables of keys of [scenario], or of other sections, "
    "laid over the file; `label` names one",
    "seed": "seed of all random draws",
    "seeds": "number of seeds; not set: 3",
    "shape": "shape of one sample",
    "tls": "table of the files for encrypted connections, [network.tls]",
    "validation": "share of each client's training samples that become validation samples; not "
    "set: the validation split of the file, if it has one",
    "words": "size of the vocabulary, if samples are sequences of word indices",
}


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
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text.replace("``", "`"))
    text = re.sub(r"\bNone(?: for|:| to) ", "not set: ", text).replace(". not set", ". Not set")
    text = text.replace('"end" (also None)', '"end" (also not set)')
    text = re.sub(r"\bFalse:", "false:", text)
    if text.count(". ") == 0:
        text = text.removesuffix(".")
    first = text.split(" ")[0]
    is_word = first in _SHORT_WORDS or (len(first) > 2 and first.isalpha())
    return text[:1].upper() + text[1:] if is_word else text


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
    source, fields, comments = _source_of(home)
    field = fields[name]
    annotation = ast.get_source_segment(source, field.annotation) or ""
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


@cache
def _source_of(home: type) -> tuple[str, dict[str, ast.AnnAssign], dict[int, tuple[bool, str]]]:
    """The source of a class, its fields by name, and its comments by line."""
    source = textwrap.dedent(inspect.getsource(home))
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    annotated = [node for node in body if isinstance(node, ast.AnnAssign)]
    fields = {ast.unparse(node.target): node for node in annotated}
    return source, fields, _comments(source)


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
