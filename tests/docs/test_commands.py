"""Every command of every page: commands in the text exist, and the installations of a page bring
the packages that it uses."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.code_blocks import (
    CHECKED_ONLY,
    GIVEN,
    ROOT,
    blocks,
    language_of,
    read,
    run_commands,
)
from tests.docs.command_checks import DEPTH, OF_OTHERS, check, check_fedkin
from tests.docs.packages import (
    brought_by,
    extras_of,
    packages_of_module,
    packages_of_program,
    requirement_of,
)
from tests.docs.shell_words import simple_commands

DOCS = sorted((ROOT / "docs").rglob("*.md"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *DOCS,
    *EXAMPLES,
]
PROGRAMS = ("fedkin", "make", "pip", "python", "bash", *DEPTH, "docker", "pre-commit")
INLINE = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`")
COMMENT = re.compile(r"<!-- (python [^\n]+) -->")
# Modules that pages import from the reader's own files.
OF_THE_READER = {"hospital", "model", "ranks"}


def name_of_page(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def in_text(page: Path) -> list[str]:
    """The commands in the text and in the comments of a page; a line may break within one."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    found = [*INLINE.findall(text), *COMMENT.findall(text)]
    return [" ".join(command.split()) for command in found]


def in_blocks(page: Path) -> Iterator[list[str]]:
    """The commands of the shell blocks of a page."""
    for block in blocks(read(page)):
        if language_of(block) == "sh":
            yield from simple_commands(block.parsed)


@pytest.mark.parametrize("page", PAGES, ids=name_of_page)
def test_commands_in_the_text_exist(page: Path) -> None:
    for command in in_text(page):
        for words in simple_commands(command):
            try:
                check(words)
            except Exception as error:
                raise AssertionError(f"{page.name}: {command}\n{error}") from error


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *EXAMPLES], ids=name_of_page)
def test_blocks_of_pages_that_are_not_on_the_site(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = [block for block in blocks(read(page)) if language_of(block) == "sh"]
    assert shell
    for block in shell:
        run_commands(block)


def test_there_are_commands_to_check() -> None:
    assert sum(len(in_text(page)) for page in PAGES) > 100
    assert sum(len(list(in_blocks(page))) for page in PAGES) > 80


def test_every_reason_is_of_a_command_that_a_page_has() -> None:
    commands = {page: [" ".join(words) for words in in_blocks(page)] for page in PAGES}
    for (name, beginning), reason in CHECKED_ONLY.items():
        pages = [page for page in PAGES if name_of_page(page).endswith(name)]
        assert reason and any(
            one.startswith(beginning) for page in pages for one in commands[page]
        ), (name, beginning)
    for (name, file), source in GIVEN.items():
        page = ROOT / "docs" / name
        assert (
            any(file in words for words in in_blocks(page)) and f"]({source})" in page.read_text()
        ), (name, file)


# --- installed packages


def installed_by(page: Path) -> set[str]:
    """The packages that fedkin and the pip commands of a page bring. For a contributor, also the
    Makefile's packages."""
    commands = [
        *in_blocks(page),
        *(words for text in in_text(page) for words in simple_commands(text)),
    ]
    installs = [words[2:] for words in commands if Path(words[0]).name == "pip"]
    wanted = [requirement_of(word) for words in installs for word in words]
    requirements = [text for text in wanted if name_of_is_package(text)]
    return brought_by(["fedkin", *requirements])


def name_of_is_package(word: str) -> bool:
    return re.match(r"[A-Za-z]", word) is not None and not word.endswith((".txt", ".whl"))


@pytest.mark.parametrize("page", [*DOCS, *EXAMPLES, ROOT / "README.md"], ids=name_of_page)
def test_programs_of_a_page_are_of_packages_that_it_installs(page: Path) -> None:
    brought = installed_by(page)
    for words in in_blocks(page):
        program = Path(words[0]).name
        if program in DEPTH:
            owners = packages_of_program(program)
            assert owners, f"{program} is not installed here"
            assert owners & brought, (
                f"{page.name}: {program} is of {owners}, which the page does not install"
            )


@pytest.mark.parametrize("page", DOCS, ids=name_of_page)
def test_imports_of_a_page_are_of_packages_that_it_installs(page: Path) -> None:
    brought = installed_by(page)
    for block in blocks(read(page)):
        if language_of(block) == "python":
            for module in modules_of(block.parsed):
                owners = packages_of_module(module)
                assert owners & brought, (
                    f"{page.name}: {module} is of {owners}, which the page does not install"
                )


def modules_of(source: str) -> set[str]:
    """The top-level modules that a block imports, without Python's own and the reader's."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - OF_THE_READER - {"fedkin"}


def test_messages_name_extras_that_exist() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "fedkin").rglob("*.py"))
    named = set(re.findall(r"[\w-]+", " ".join(re.findall(r"fedkin\[([a-z0-9,-]+)\]", sources))))
    assert {"flower", "p2p", "ray"} <= named <= extras_of().keys()


# --- the checks find mistakes


WRONG = {
    "fedkin runn": "no command",
    "fedkin run --outt x": "No such option",
    "fedkin deploy up fed --wit": "No such option",
    "fedkin run method.name=fedavgg": "fedavgg",
    "fedkin run local.lrr=0.1": "lrr",
    "make tests": "no tests",
    "make results HOUR=2": "no HOUR",
    "pip install 'fedkin[mlflw]'": "no extra",
    "pip install tensorbord": "tensorbord",
    "python -m benchmarks.fleets": "no module",
    "python -m benchmarks.fleet --trafic": "no option --trafic",
    "python examples/peer/run.py": "does not exist",
    "python examples/peers/run.py --round 2 --peer 3": "no option",
    "flwr supernode register key.pub fedkin --nam x": "no option --nam",
    "rsync a b": "'rsync' is not a known program",
}


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_command_is_found(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (words,) = simple_commands(command)
    with pytest.raises(Exception, match=re.escape(WRONG[command])):
        check(words)


def test_loops_conditions_and_redirections_are_taken_apart() -> None:
    text = (
        "for k in 0 1; do fedkin peer --config fed/peer-$k/peer.toml & done\n"
        "A=1 mlflow ui > log 2>&1 &  # a comment\n"
    )
    text += (
        "until flwr list fedkin > /dev/null 2>&1; do sleep 1; done\n"
        '(cd "$site" && exec ray stop \\\n  --force)\n'
    )
    assert list(simple_commands(text)) == [
        ["fedkin", "peer", "--config", "fed/peer-$k/peer.toml"],
        ["mlflow", "ui"],
        ["flwr", "list", "fedkin"],
        ["sleep", "1"],
        ["cd", "$site"],
        ["ray", "stop", "--force"],
    ]


def test_programs_that_are_not_checked_have_a_reason() -> None:
    assert all(OF_OTHERS.values())


def test_a_right_command_passes() -> None:
    check_fedkin(["fedkin", "peer", "--config", "peer.toml", "peer.rounds=50"])
