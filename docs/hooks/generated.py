"""Pages that nobody types: one for each method, with all of them in a table, and the reference of the public names.

They are made from ``fedkin.methods.METHODS`` and ``fedkin.__all__``, so that what is new is there without a line here.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections import defaultdict
from typing import Any

import fedkin
from fedkin.methods import METHODS

SECTIONS = {  # which part of the package is about what, in the order of the page
    "fedkin.run": "Running",
    "fedkin.data": "Data",
    "fedkin.models": "Models",
    "fedkin.simulation.torch": "Models in PyTorch",
    "fedkin.analysis": "Repeating, comparing, advising",
    "fedkin.reporting": "ShiftReports",
    "fedkin.scenarios": "Scenarios: who comes and goes, whose data move",
    "fedkin.core.world": "What a method may ask: the world",
    "fedkin.core.method": "What a method is",
    "fedkin.simulation": "The simulator",
    "fedkin.core.randomness": "Randomness",
    "fedkin.core.errors": "Errors",
}
OTHERS = "PeerClient"
STEPS = """::: {}
    options:
      heading_level: 3
      show_root_heading: false
      show_root_toc_entry: false
"""


def on_config(config: Any) -> Any:
    """Put the pages of the methods into the navigation."""
    for entry in config.nav:
        if "Methods" in entry:
            entry["Methods"] = ["methods/index.md", *({titles(kinds): page(m)} for m, kinds in by_module().items())]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    pages = {"methods/index.md": index(), "reference.md": reference()}
    pages |= {page(module): method_page(module, kinds) for module, kinds in by_module().items()}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def by_module() -> dict[str, dict[str, type]]:
    """The methods of each file, by the names that configurations give them."""
    found: dict[str, dict[str, type]] = defaultdict(dict)
    for name, method in METHODS.items():
        found[method.__module__][name] = method
    return dict(found)


def titles(kinds: dict[str, type]) -> str:
    return ", ".join(kind.__name__ for kind in kinds.values())


def page(module: str) -> str:
    return f"methods/{module.rsplit('.', 1)[1]}.md"


def method_page(module: str, kinds: dict[str, type]) -> str:
    """What the file says at its top, its hyper-parameters, and its steps."""
    said = inspect.getdoc(sys.modules[module]) or ""
    path = module.replace(".", "/") + ".py"
    parts = [f"# {titles(kinds)}", with_lists(said), f"It is one file, `{path}`."]
    for name, kind in kinds.items():
        named = f'`method.name = "{name}"` in a configuration, `fk.{kind.__name__}` in Python.'
        parts += [f"## {kind.__name__}", named, hyper_parameters(kind), STEPS.format(f"{module}.{kind.__name__}")]
    return "\n\n".join(parts) + "\n"


def with_lists(text: str) -> str:
    """Markdown wants an empty line before a list, and after it."""
    text = re.sub(r"(?m)^((?:[*-] |  ).*)\n(?=[^\s*-])", r"\1\n\n", text)
    return re.sub(r"(?m)^(?!\s*[*-] |\s*$|  )(.+)\n(?=[*-] )", r"\1\n\n", text)


def hyper_parameters(method: type) -> str:
    """The fields of a method in a table: name, default, and the comment beside them."""
    rows = []
    for field in dataclasses.fields(method):
        home = next(kind for kind in method.__mro__ if field.name in vars(kind).get("__annotations__", {}))
        found = re.search(rf"(?m)^    {field.name}: (.+?) = [^#\n]+(?:# (.+))?$", inspect.getsource(home))
        kind, comment = (found[1], found[2] or "") if found else (str(field.type), "")
        # a bar in code needs no escape here, and would show one
        told = comment.replace("|", "\\|")
        rows.append(f"| `{field.name}` | `{kind}` | `{field.default!r}` | {told} |")
    head = ["| hyper-parameter | type | default | |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else "It has no hyper-parameters."


def index() -> str:
    """All methods in a table."""
    rows = [
        f"| `{name}` | [{method.__name__}]({page(module).removeprefix('methods/')}) | {one_line(method)} |"
        for module, kinds in by_module().items()
        for name, method in kinds.items()
    ]
    head = ["# Methods", "", "One paper, one file. `method.name` in a configuration, the class of `fk` in Python.", ""]
    return "\n".join([*head, "| name | class | what it does |", "|---|---|---|", *rows]) + "\n"


def one_line(method: type) -> str:
    return (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def reference() -> str:
    """The public names, by part of the package; methods have pages of their own."""
    sections: dict[str, list[str]] = defaultdict(list)
    for name in fedkin.__all__:
        home = fedkin._HOME.get(name, f"fedkin.{name}")
        if home != "fedkin.methods" and name != "__version__":
            sections[next((title for part, title in SECTIONS.items() if home.startswith(part)), OTHERS)].append(name)
    said = "`import fedkin as fk`; everything here is `fk.NAME`. [Methods](methods/index.md) have pages of their own."
    parts = ["# Reference", said]
    for title in (*SECTIONS.values(), OTHERS):
        if sections[title]:
            named = [one for name in sections[title] for one in entries(name)]
            parts += [f"## {title}", *(f"::: {one}" for one in dict.fromkeys(named))]  # each once
    return "\n\n".join(parts) + "\n"


def entries(name: str) -> list[str]:
    """Where a class or function is; of a module, where the functions are that it offers."""
    value = getattr(fedkin, name)
    offered = [v for k, v in vars(value).items() if not k.startswith("_")] if inspect.ismodule(value) else [value]
    offered = [inspect.unwrap(one) for one in offered if callable(one)]
    wanted = [one for one in offered if one is value or inspect.isfunction(one)]
    return [f"{one.__module__}.{one.__qualname__}" for one in wanted]
