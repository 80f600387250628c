"""The generated pages: one for each method, a table of all methods, a map of the field, and the
reference of the public names. Tables of all methods, data sets and shifts are put into pages that
are written by hand, where these have a mark such as ``<!-- table: methods -->``. The tour of
the code gets the source of each function that it names.

mkdocs-gen-files runs this file when the site is built. The pages come from
``fedkin.methods.METHODS``, ``fedkin.data.DATASETS``, ``fedkin.__all__`` and what ``fedkin.tasks``
offers for a user's own tasks, so that a new name needs no line here.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import mkdocs_gen_files

import fedkin
import fedkin.tasks
from fedkin.core.schema import Array
from fedkin.methods import METHODS

TASKS = "fedkin.tasks"
# Pages of the reference. Each has packages and their headings, in the order of the page.
REFERENCE = {
    "Running": {
        "fedkin.run": "Running",
        "fedkin.removal": "Removing a client from a run",
        "fedkin.config.plan": "How a run is scored and computed",
        "fedkin.core.progress": "Progress",
        "fedkin.core.training": "Local training",
        "fedkin.core.schedule": "Learning-rate schedules",
        "fedkin.options": "Options of all methods",
        "fedkin.scenarios": "Scenarios: client availability and shifting data",
        "fedkin.tracking": "Tracking",
        "fedkin.estimator": "A classifier of scikit-learn",
    },
    "Data and models": {
        "fedkin.data": "Data",
        "fedkin.models": "Models",
        "fedkin.simulation.torch": "Models in PyTorch",
        "fedkin.core.model_spec": "The layout of a model",
    },
    "Analysis and reports": {
        "fedkin.analysis": "Repeating, comparing, advising",
        "fedkin.reporting": "Reports and figures",
        "fedkin.measures": "Measures",
    },
    "Your own methods and tasks": {
        "fedkin.core.method": "The protocol of methods",
        "fedkin.core.requirements": "What a method needs",
        "fedkin.core.world": "The world: clients as a method sees them",
        TASKS: "Client work: tasks, and what they are made of",
        "fedkin.simulation": "The simulator",
        "fedkin.core.randomness": "Randomness",
        "fedkin.core.ledger": "Communication",
    },
    "Federations and errors": {
        "fedkin.server": "Clients of a federation with a server",
        "fedkin.core.errors": "Errors",
    },
}


def by_module() -> dict[str, dict[str, type]]:
    """The methods of each file, by the names that configurations give them."""
    modules: dict[str, dict[str, type]] = defaultdict(dict)
    for name, method in METHODS.items():
        modules[method.__module__][name] = method
    return dict(modules)


def titles(methods: dict[str, type]) -> str:
    return ", ".join(method.__name__ for method in methods.values())


def page(module: str) -> str:
    return f"methods/{module.rsplit('.', 1)[1]}.md"


def page_of(name: str) -> str:
    """The page of a method, by its name in configurations."""
    return page(METHODS[name].__module__)


def index() -> str:
    """All methods in a table."""
    head = [
        "# Methods",
        "",
        "One paper, one file. `method.name` in a configuration, the class of `fk` in Python.",
        "",
    ]
    table = tables.table_of_papers(lambda name: page_of(name).removeprefix("methods/"))
    return "\n".join([*head, table])


def reference() -> dict[str, str]:
    """The public names, a page for each part of the package, and their index. Methods have separate
    pages."""
    places = [
        (part, title, heading)
        for title, parts in REFERENCE.items()
        for part, heading in parts.items()
    ]
    names: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in fedkin.__all__:
        home = fedkin._home(name) or f"fedkin.{name}"
        if home != "fedkin.methods" and name != "__version__":
            title, heading = next(
                (title, heading) for part, title, heading in places if home.startswith(part)
            )
            names[title][heading].append(name)
    pages = {reference_page(title): part_of_reference(title, names[title]) for title in REFERENCE}
    start = (
        "After `import fedkin as fk` everything here is `fk.NAME`. [Methods](../methods/index.md) "
        "have other pages."
    )
    index = [
        f"* [{title}]({reference_page(title).removeprefix('reference/')}): "
        + ", ".join(f"`{name}`" for some in names[title].values() for name in some)
        for title in REFERENCE
    ]
    return {"reference/index.md": "\n".join(["# Reference", "", start, "", *index]) + "\n", **pages}


def reference_page(title: str) -> str:
    return f"reference/{title.lower().replace(' ', '-')}.md"


def part_of_reference(title: str, names: dict[str, list[str]]) -> str:
    """One page: its names below their headings, each once."""
    parts = [f"# {title}"]
    for package, heading in REFERENCE[title].items():
        paths = [path for name in names[heading] for path in entries(name)]
        paths += parts_of_tasks() if package == TASKS else []
        parts += (
            [f"## {heading}", *(f"::: {path}" for path in dict.fromkeys(paths))] if paths else []
        )
    return "\n\n".join(parts) + "\n"


def entries(name: str) -> list[str]:
    """The dotted path of a class, function or constant; of a module, the paths of its public
    functions."""
    value = getattr(fedkin, name)
    if not callable(value) and not inspect.ismodule(value):  # a constant
        return [f"{fedkin._home(name)}.{name}"]
    members = (
        [v for k, v in vars(value).items() if not k.startswith("_")]
        if inspect.ismodule(value)
        else [value]
    )
    members = [inspect.unwrap(member) for member in members if callable(member)]
    members = [member for member in members if member is value or inspect.isfunction(member)]
    return [f"{member.__module__}.{member.__qualname__}" for member in members]


def parts_of_tasks() -> list[str]:
    """The dotted paths of the names that a user's own task needs."""
    members = [
        value
        for name, value in vars(fedkin.tasks).items()
        if callable(value) and not name.startswith("_")
    ]
    return [f"{member.__module__}.{member.__qualname__}" for member in (*members, Array)]


def filled(text: str, marked: dict[str, str]) -> str:
    """A page with its tables, each between the marks that name it.

    Args:
        text: the page as its author wrote it.
        marked: tables, by the names in marks.
    """
    return re.sub(
        r"(?s)<!-- table: ([\w ]+) -->\n.*?<!-- /table -->\n", lambda mark: marked[mark[1]], text
    )


def measures(texts: str) -> str:
    """The table of all measures as a page of the reference.

    Args:
        texts: the written pages; one has the table between marks.
    """
    (table,) = re.findall(r"(?s)<!-- measures -->\n(.*?)<!-- /measures -->\n", texts)
    head = (
        "# Measures\n\nThe numbers of a run. `records` has a line for each round "
        "(`metrics.jsonl`), `summary` one number for the whole run (`summary.json`). "
        "[Write your own measure](../write-a-measure.md) adds to them.\n\n"
    )
    return head + table


def contributing(page: str) -> str:
    """CONTRIBUTING.md as a page of the site: its links start at the folder of the pages."""
    return page.replace("](docs/", "](")


def entries_named(nav: list[Any], name: str) -> list[Any]:
    """The pages of the section of the navigation that has this name, at any depth."""
    for entry in nav:
        for title, value in entry.items() if isinstance(entry, dict) else ():
            if not isinstance(value, list):
                continue
            if title == name:
                return value
            if found := entries_named(value, name):
                return found
    return []


DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))
configuration_tables = importlib.import_module("configuration_tables")
method_pages = importlib.import_module("method_pages")
tables = importlib.import_module("tables")
tour_source = importlib.import_module("tour_source")
marked = {
    "data sets": tables.table_of_data_sets(),
    "methods": tables.table_of_papers(page_of),
    "privacy": tables.privacy_table(METHODS),
    "forget": tables.forget_table(METHODS),
    "secret sums": tables.secret_table(METHODS),
    "shifts": tables.table_of_shifts(),
    **configuration_tables.all_tables(),
}
pages = {"methods/index.md": index(), "methods/map.md": tables.page(METHODS), **reference()}
pages |= {
    page(module): method_pages.page(module, methods) for module, methods in by_module().items()
}
pages |= method_pages.schemes(by_module())
pages["reference/measures.md"] = measures("".join(text.read_text() for text in DOCS.glob("*.md")))
pages["contributing.md"] = contributing((DOCS.parent / "CONTRIBUTING.md").read_text())
for written in DOCS.glob("*.md"):
    if "<!-- table: " in written.read_text():
        pages[written.name] = filled(written.read_text(), marked)
pages["tour.md"] = tour_source.with_sources((DOCS / "tour.md").read_text())
for path, content in pages.items():
    with mkdocs_gen_files.open(path, "w") as file:
        file.write(content)
navigation = mkdocs_gen_files.config.nav or []
method_entries = entries_named(navigation, "Methods")
method_entries.append({"A map of the field": "methods/map.md"})
method_entries += [{titles(methods): page(module)} for module, methods in by_module().items()]
entries_named(navigation, "API").extend({title: reference_page(title)} for title in REFERENCE)
