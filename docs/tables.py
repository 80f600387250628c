"""Tables of all methods, data sets and shifts.

``generate_pages.py`` puts them on the pages of the site. They come from what methods, data sets and
shifts say of themselves (``about``, ``requirements``, docstrings), so that a new one needs no line
here. What a method's ``about`` says is held against its declarations by
``tests/docs/test_method_map.py``.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from fedkin.config.registry import method_rows
from fedkin.core.errors import FedkinError
from fedkin.core.requirements import Separation, requirements_of
from fedkin.data import DATASETS
from fedkin.data.about import AboutData
from fedkin.methods.about import About
from fedkin.methods.ifca import IFCA
from fedkin.options.privacy import private
from fedkin.options.secret import secret_sums
from fedkin.options.secret.secret_sums import SecretSums
from fedkin.scenarios.shifts import SHIFTS

HEADS = (
    "comparison",
    "when",
    "membership",
    "who decides",
    "K",
    "what leaves a client for it",
)
# What a replay without a client trains again, by ``Separation.models``.
REPLAYED = {
    "unknown": "everything",
    "one": "the one model, from the first round of the client",
    "by_choice": "the client's clusters, if the models of all rounds are stored",
    "by_cluster": "the client's clusters",
}
# Values of options that may make the models of a method more or less separate.
OTHER_VALUES = {
    "eta_g": (0.0, 0.01),
    "newcomers": ("loss", "latest"),
    "migration": ("loss",),
    "averaging": ("gradients",),
    "shared_base": (True,),
}
# Methods with options that change the answer of their defaults.
BY_EXAMPLES = {"IFCA(weighting='examples')": IFCA(weighting="examples")}


def page(methods: dict[str, type]) -> str:
    """The map as a page.

    Args:
        methods: the methods that there are, by name.
    """
    head = [
        "# A map of the field",
        "",
        "Every method but `local` sends the update of local training; the last column has what "
        "else leaves a client.",
        "",
        f"| method | {' | '.join(HEADS)} |",
        f"|{'---|' * (len(HEADS) + 1)}",
    ]
    rows = [f"| `{name}` | {' | '.join(cells(method.about))} |" for name, method in methods.items()]
    return "\n".join([*head, *rows]) + "\n"


def cells(about: About) -> tuple[str, ...]:
    """What a method says of itself, in the order of ``HEADS``."""
    return (about.compares, about.when, about.membership, about.decides, about.count, about.leaves)


def table_of_papers(page_of: Callable[[str], str]) -> str:
    """All methods with their classes, what they do, and their papers.

    Args:
        page_of: the address of a method's page, by its name, from the page that the table is on.
    """
    rows = [
        f"| `{row.name}` | [`{row.title}`]({page_of(row.name)}) | {cell(row.summary)} | "
        f"{row.paper} |"
        for row in method_rows()
    ]
    return _table("name | class | what it does | paper", rows)


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("\n", " ").replace("|", "\\|")


def _table(heads: str, rows: list[str]) -> str:
    rule = "|---" * len(heads.split(" | ")) + "|"
    return "\n".join([f"| {heads} |", rule, *rows]) + "\n"


def table_of_data_sets() -> str:
    """All named data sets."""
    rows = []
    for name, make in DATASETS.items():
        about: AboutData = make.about  # type: ignore[attr-defined]
        rows.append(f"| `{name}` | {about.clients:,} | {about.samples} | {cell(about.content)} |")
    return _table("name | clients | samples | what it is", rows)


def table_of_shifts() -> str:
    """All shifts with their options: the attributes that their classes describe."""
    rows = []
    for name, shift in SHIFTS.items():
        summary = cell((inspect.getdoc(shift) or "").split("\n\n")[0])
        heads = [f"`{name}`", summary]
        for field in dataclasses.fields(shift):
            value = list(field.default) if isinstance(field.default, tuple) else field.default
            row = [
                *heads,
                f"`{field.name}`",
                f"`{json.dumps(value)}`",
                cell(_description(shift, field.name)),
            ]
            rows.append(f"| {' | '.join(row)} |")
            heads = ["", ""]  # the next rows go on with the same shift
    return _table("`name` | what happens | option | default | what it is", rows)


def _description(shift: type, option: str) -> str:
    """What the docstring of a class, or of one that it extends, says of an option."""
    for kind in shift.__mro__:
        attributes = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
        found = re.search(rf"^ {{4}}{option}: (.+(?:\n {{5,}}.+)*)", attributes, re.MULTILINE)
        if found:
            return re.sub(r"\s+", " ", found[1])
    return ""


def privacy_table(methods: dict[str, type]) -> str:
    """Which methods noisy sums are enough for, by the methods' declarations, and why not."""
    return _answers("private?", methods, _answer_of_privacy)


def secret_table(methods: dict[str, type]) -> str:
    """Which methods secret sums are enough for, by the methods' declarations, and why not."""
    return _answers("with secret sums?", methods, _answer_of_secret_sums)


def _answers(question: str, methods: dict[str, type], answer: Callable[[Any], str]) -> str:
    """A row for each method with its defaults, and for options that change the answer."""
    made = {method.__name__: method() for method in methods.values()} | BY_EXAMPLES
    rows = [
        f"| `{name}` | {answer(method).replace('|', '/')} |\n"
        for name, method in sorted(made.items())
    ]
    return f"| method | {question} |\n|---|---|\n" + "".join(rows)


def _answer_of_privacy(method: Any) -> str:
    refusal = private.refusal(method)
    if not refusal:
        return "yes"
    reason = refusal.partition("; privacy.")[0]
    return "no: " + reason.partition(" ")[2]  # without the method's name


def _answer_of_secret_sums(method: Any) -> str:
    refusal = secret_sums.refusal(method, SecretSums())
    if not refusal:
        return (
            "yes, with `hide_choice`: its clients choose as they train"
            if isinstance(method, IFCA)
            else "yes"
        )
    reason = refusal.partition(", and secret sums")[0].partition("; secret.")[0]
    return "no: " + reason.partition(" ")[2]


def forget_table(methods: dict[str, type]) -> str:
    """What ``fk.forget`` trains again, by the methods' declarations. Methods that mix all models
    with all their options share the last row."""
    rows = []
    others = []
    for name, kind in sorted(methods.items()):
        default = _separation(kind)
        variants = list(_variants(kind, default))
        if default.models == "unknown" and not variants:
            others.append(f"`{name}`")
            continue
        changed = "; ".join(f"`{option}`: {REPLAYED[models]}" for option, models in variants)
        rows.append(f"| `{name}` | {REPLAYED[default.models]} | {changed} |\n")
    last = f"| {', '.join(others)} | {REPLAYED['unknown']} | |\n"
    head = "| method | trained again | with other options |\n|---|---|---|\n"
    return head + "".join(rows) + last


def _separation(kind: Callable[..., Any], **options: Any) -> Separation:
    """How far a client's updates spread among the models of a method with these options."""
    return requirements_of(kind(**options)).separation


def _variants(kind: type, default: Separation) -> Iterator[tuple[str, str]]:
    """Options of a method that make its models more or less separate, as ``option = value``, with
    the answer."""
    fields = {field.name for field in dataclasses.fields(kind)}
    for option, values in OTHER_VALUES.items():
        for value in values if option in fields else ():
            try:
                found = _separation(kind, **{option: value})
            except FedkinError:  # the method has not this value
                continue
            if found.models != default.models:
                yield f"{option} = {json.dumps(value)}", found.models
