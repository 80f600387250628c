"""Every public class and function has an example in its docstring, and the examples run."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import fedkin

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MOST_LINES = 10  # of an example, with its output
# Packages of extras that an example needs, by name.
EXTRAS = {"jax_client": ["flwr"], "torch_client": ["flwr", "torch"], "torch_model": ["torch"]}
# Names whose example is not written yet.
STILL_WITHOUT: set[str] = set()


def needs_an_example(value: Any) -> bool:
    """Whether a public value is a class or a function that a user makes or calls: not a constant,
    a module, an error or a protocol."""
    if inspect.isclass(value):
        return not issubclass(value, Exception) and not getattr(value, "_is_protocol", False)
    return inspect.isfunction(value)


def examples_of(name: str) -> doctest.DocTest:
    """The examples of a public name, as a test of its docstring alone."""
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(fedkin, name), name, module=False, globs={}, extraglobs={})
    return test


PUBLIC = [name for name in fedkin.__all__ if needs_an_example(getattr(fedkin, name))]


def test_errors_protocols_modules_and_constants_need_no_example() -> None:
    others = set(fedkin.__all__) - set(PUBLIC)
    assert {"ConfigError", "World", "Method", "Tracker", "STOP", "data"} <= others
    assert {"Option", "Run", "IFCA", "simulate"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_public_name_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = examples_of(name)
    if name in STILL_WITHOUT:
        assert not test.examples, f"{name} has an example: remove it from STILL_WITHOUT"
        return
    assert test.examples, f"the docstring of fedkin.{name} has no example"
    for package in EXTRAS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)
    assert not list(tmp_path.iterdir()), f"the example of {name} leaves files"


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - STILL_WITHOUT))
def test_an_example_is_short_and_ends_the_docstring(name: str) -> None:
    """mkdocstrings shows the section ``Examples:`` as code."""
    text = inspect.cleandoc(getattr(fedkin, name).__doc__)
    _, heading, example = text.partition("\nExamples:\n")
    assert heading, f"{name}: the heading is Examples:"
    lines = example.rstrip().splitlines()
    assert len(lines) <= MOST_LINES
    assert lines[0].strip() == ">>> import fedkin as fk"
    assert all(re.match(r" {4}\S", line) for line in lines), "nothing follows the example"


def test_a_wrong_output_fails() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(wrong, out=report.append)
    assert "Expected" in "".join(report)
