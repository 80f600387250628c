"""The code that runs tasks knows no task: generic files name no class of task, and no task's
``name``.

The rule: in these files no name, attribute, argument, import or word of a string is a task's class
(``Gradients``), and no attribute, function, keyword argument or word of a string is a task's
``name`` (``gradients``); docstrings count. A name of two words counts in all spellings
(``label_errors``, "label errors"). Comments do not count, nor names of local variables and
parameters, nor, in sentences, words of plain English (``EVERYDAY``), unless they are marked as code
by backquotes. ``ALLOWED`` are words that a file uses in another sense, each with the reason.
Functions of the model engine have such names. They come from its protocols, and the file of the
protocols says the words nowhere else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedkin.tasks

ROOT = Path(__file__).resolve().parents[2] / "fedkin"
CORE = [one.relative_to(ROOT).as_posix() for one in sorted((ROOT / "core").glob("*.py"))]
GENERIC = [
    *CORE,
    "simulation/engine.py",
    "simulation/fake_world.py",
    "run/instrumented_world.py",
    "server/node.py",
    "server/node_memory.py",
    "server/remote_world.py",
    "server/reply_collector.py",
    "server/rpc_client.py",
    "server/task_messages.py",
]
EVERYDAY = {"ask", "classes", "gradients", "losses", "send", "shifted", "train"}
ENGINE = "a function of the model engine, which tasks of any kind use"
SPLIT = "a split of the samples"
ALLOWED = {
    "core/client.py": {
        "train": f"{SPLIT}, and {ENGINE}",
        "classes": "C",
        "gradients": ENGINE,
        "losses": ENGINE,
    },
    "core/model_spec.py": {"classes": "C"},
    "core/engine_protocols.py": {"train": ENGINE, "gradients": ENGINE, "losses": ENGINE},
    "simulation/engine.py": {"train": SPLIT, "classes": "C"},
    "simulation/fake_world.py": {
        "train": f"{SPLIT}, and {ENGINE}",
        "classes": "C",
        "gradients": ENGINE,
        "losses": ENGINE,
    },
    "server/node.py": {"train": SPLIT, "note": "facts about a reply, for the ledger of the site"},
    "server/remote_world.py": {"classes": "C"},
    "server/rpc_client.py": {"send": "a message"},
}
CLASSES = {
    kind.__name__ for kind in fedkin.tasks.all_tasks() if kind.__module__.startswith("fedkin.")
}
NAMES = {kind.name for kind in fedkin.tasks.all_tasks() if kind.__module__.startswith("fedkin.")}


def words(text: str) -> set[str]:
    """The words of a text, and each two neighbours as one name. Words of plain English in a
    sentence are left out."""
    single = re.findall(r"[A-Za-z_]\w*", text)
    found = {*single, *(f"{one}_{other}" for one, other in zip(single, single[1:], strict=False))}
    code = {
        word
        for span in re.findall(r"``([^`]+)``", text)
        for word in re.findall(r"[A-Za-z_]\w*", span)
    }
    return found - (EVERYDAY - code) if " " in text.strip() else found


def said(node: ast.AST) -> Iterator[str]:
    """What a node of the syntax tree says by name, in a string, or as an attribute."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from words(node.value)
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, ast.alias):
        yield from words(node.name)


def imported(node: ast.AST) -> Iterator[str]:
    """Modules that a node imports."""
    if isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)


def named_tasks(source: str) -> set[str]:
    """Tasks that a source text names: their classes or their names."""
    nodes = list(ast.walk(ast.parse(source)))
    found = {word for node in nodes for word in said(node)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    modules = {
        name for node in nodes for name in imported(node) if name.startswith("fedkin.tasks.")
    }
    return (found & (CLASSES | NAMES)) | (names & CLASSES) | modules


@pytest.mark.parametrize("path", GENERIC)
def test_a_generic_file_names_no_task(path: str) -> None:
    named = named_tasks((ROOT / path).read_text())
    assert named - ALLOWED.get(path, {}).keys() == set()
    assert ALLOWED.get(path, {}).keys() - named == set(), "an exception that is not needed"


def test_functions_of_the_model_engine_are_those_of_its_protocols() -> None:
    """And where these are, an allowed word is the name of such a function, and nothing else."""
    path = "core/engine_protocols.py"
    tree = ast.parse((ROOT / path).read_text())
    classes = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in ("Trainer", "Scorer")
    ]
    functions = [node for one in classes for node in one.body if isinstance(node, ast.FunctionDef)]
    names = {function.name for function in functions}
    assert ALLOWED[path].keys() == names & (NAMES | CLASSES)
    assert {
        word for words in ALLOWED.values() for word, reason in words.items() if ENGINE in reason
    } <= names
    for function in functions:
        function.name = "function"
    assert named_tasks(ast.unparse(tree)) == set()


def test_other_files_do() -> None:
    """Those of the tasks themselves, of methods, and of the observations of a round."""
    for path in ("tasks/losses.py", "methods/ifca.py", "run/metrics/observations.py"):
        assert named_tasks((ROOT / path).read_text()), path


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from fedkin.tasks.losses import Losses", {"fedkin.tasks.losses", "Losses"}),
        ("import fedkin.tasks.peer_queries", {"fedkin.tasks.peer_queries"}),
        ("if isinstance(task, Gradients): pass", {"Gradients"}),
        ("if kind == 'label_errors': pass", {"label_errors"}),
        ("world.similarities(3)", {"similarities"}),
        ("send(train=1)", {"train"}),
        ('"""The losses of clients, or their label errors."""', {"label_errors"}),
        ('"""Rows, such as ``reply.losses``, that clients send."""', {"losses"}),
        ('"""What Gradients needs."""', {"Gradients"}),
        ("f'{task}: {shifted}note'", {"note"}),
        ("kinds = {'train', 'losses'}", {"train", "losses"}),
        ("from fedkin.tasks import find_task", set()),
        ("def evaluate(): pass", {"evaluate"}),
        ("losses = 3  # gradients", set()),
        ("names = 'notes trained training evaluation asked'", set()),
    ],
)
def test_the_rule(source: str, expected: set[str]) -> None:
    assert named_tasks(source) == expected
