"""The page of a method: its idea in one picture, formulas, when to use it, a command, its cost, and
its options.

Formulas, commands and advice stand in one file for each module of ``fedkin.methods``:
``methods/MODULE.toml``. All else comes from the module: its docstring, ``about``, ``requirements``
and the comments of its options.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import tomllib
import typing
from pathlib import Path
from typing import NamedTuple

from fedkin.config import key_meanings, keys
from fedkin.config.registry import method_rows

HERE = Path(__file__).parent
formulas = importlib.import_module("formulas")
method_costs = importlib.import_module("method_costs")
method_schemes = importlib.import_module("method_schemes")

STEPS = """::: {}
    options:
      heading_level: 4
      show_root_heading: false
      show_root_toc_entry: false
"""
COSTS = (
    "{about} [What each method costs](../benchmarks-methods.md) has the times, and how they were "
    "measured. A dash: the method needs other data or another model."
)


class Words(NamedTuple):
    """The content of ``methods/MODULE.toml``."""

    formulas: list[list[str]]  # left side, right side, place in the paper
    symbols: str
    use: str
    commands: list[str]
    paper: str = ""  # address of the paper; empty: the arXiv number of the docstring, if it has one
    picture: str = ""  # name of a picture in ``images``; empty: ``idea-MODULE``, or a scheme


def words(module: str) -> Words:
    """The formulas, commands and advice of a module of ``fedkin.methods``.

    Args:
        module: the module's name, without its packages.
    """
    return Words(**tomllib.loads((HERE / "methods" / f"{module}.toml").read_text()))


def page(module: str, methods: dict[str, type]) -> str:
    """The page of the methods of one module.

    Args:
        module: the module, with its packages.
        methods: its methods, by their names in configurations.
    """
    name = module.rsplit(".", 1)[1]
    told = words(name)
    first, paper, details = header(inspect.getdoc(sys.modules[module]) or "", told.paper)
    parts = [
        f"# {', '.join(method.__name__ for method in methods.values())}",
        first,
        paper,
        "## The idea in one picture",
        picture(name, told, methods),
        "## Formulas",
        formulas.block(told.formulas),
        formulas.paragraph(told.symbols),
        "## When to use it",
        told.use,
        "## Try it",
        "```sh\n" + "\n".join(told.commands) + "\n```",
        "## Cost",
        method_costs.table(list(methods), method_costs.stored(), method_costs.times()),
        COSTS.format(about=method_costs.ABOUT),
    ]
    for key, method in methods.items():
        parts += [
            f"## Options of {method.__name__}",
            f'`method.name = "{key}"` in a configuration, `fk.{method.__name__}` in Python.',
            options(method),
        ]
    parts += ["## Details and differences", details] if details else []
    parts += [
        "## The code",
        f"All of it stands in `{module.replace('.', '/')}.py`, with the paper's lines as comments.",
    ]
    for method in methods.values():
        parts += [f"### {method.__name__}", STEPS.format(f"{module}.{method.__name__}")]
    return "\n\n".join(part for part in parts if part) + "\n"


def header(docstring: str, paper: str) -> tuple[str, str, str]:
    """The parts of a module's docstring: first paragraph, the paper with a link, and the rest.

    Args:
        docstring: the module's docstring.
        paper: the address of the paper; empty: the arXiv number in the docstring, if it has one.
    """
    first, _, rest = docstring.partition("\n\n")
    source, _, details = rest.partition("\n\n")
    found = re.search(r"arXiv\s+(\d{4}\.\d{5})", source)
    if not paper and found:
        paper = f"https://arxiv.org/abs/{found[1]}"
    link = f" [Read the paper]({paper})." if paper else ""
    return with_lists(first), with_lists(source) + link, with_lists(details)


def with_lists(text: str) -> str:
    """Put the empty line before and after each list that Markdown needs."""
    text = re.sub(r"(?m)^((?:[*-] |  ).*)\n(?=[^\s*-])", r"\1\n\n", text)
    return re.sub(r"(?m)^(?!\s*[*-] |\s*$|  )(.+)\n(?=[*-] )", r"\1\n\n", text)


def picture(name: str, told: Words, methods: dict[str, type]) -> str:
    """The picture of a page: a drawn one of a paper's idea, or the scheme of its first method."""
    drawn = told.picture or f"idea-{name}"
    if (HERE / "images" / f"{drawn}.svg").exists():
        paper = drawn.removeprefix("idea-")
        return (
            f"![the idea of {name}, measured](../images/{drawn}.svg)\n\n"
            f"[The page of the paper](../papers/{paper}.md) explains the picture."
        )
    method = next(iter(methods.values()))
    return f"![{method_schemes.words(method())}]({name}-scheme.svg)"


def schemes(modules: dict[str, dict[str, type]]) -> dict[str, str]:
    """The schemes of all pages that show one, by the address of the file.

    Args:
        modules: the methods of each module.
    """
    summaries = {row.name: row.summary for row in method_rows()}
    found = {}
    for module, methods in modules.items():
        name = module.rsplit(".", 1)[1]
        key, method = next(iter(methods.items()))
        if "-scheme.svg" in picture(name, words(name), methods):
            found[f"methods/{name}-scheme.svg"] = method_schemes.scheme(method(), summaries[key])
    return found


def options(method: type) -> str:
    """The fields of a method in a table: name, meaning, type and default."""
    rows = []
    hints = typing.get_type_hints(method)
    for field in dataclasses.fields(method):
        home = next(
            kind for kind in method.__mro__ if field.name in vars(kind).get("__annotations__", {})
        )
        _, comment = key_meanings.field_source(home, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        words = keys.value_words(default)
        rows.append(
            f"| `{field.name}` | {key_meanings.sentence(comment)} | "
            f"{keys.type_words(hints[field.name])} | {f'`{words}`' if words else '-'} |"
        )
    head = ["| option | meaning | type | default |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else "It has no options."
