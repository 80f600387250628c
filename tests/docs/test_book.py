"""The pages are a book: each has its place in the navigation, a next step, and living links, and is
near the landing page. The tables of configurations and files hold all that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedkin as fk
from docs import configuration_tables as tables
from fedkin.config import peer, reference, server
from fedkin.config.run import SECTIONS
from fedkin.config.server_settings import ServerSettings
from fedkin.measures.table import EXTRA, PLACED
from fedkin.options import SECTIONS as OPTIONS
from fedkin.run.folder import run_folder
from tests.docs.code_blocks import ROOT, run_page

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# The blocks of other pages run in test_docs.py and test_paper_pages.py.
IN_FOLDERS = [page for page in PAGES if page.parent not in (DOCS, DOCS / "papers")]
# Pages that docs/generate_pages.py makes with the site.
GENERATED = {"reference/index.md", "methods/index.md", "reference/measures.md", "contributing.md"}
# Pages without a section of next steps, with the reason.
WITHOUT_NEXT = {
    "index.md": "it is all next steps",
    "decisions": "a memo of one page; the README lists all",
}
CLICKS = 2  # from the landing page to any page
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"```.*?```", re.DOTALL)


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def navigation() -> list[str]:
    """The pages of the navigation, in its order."""
    text = (ROOT / "mkdocs.yml").read_text()
    section = text.partition("\nnav:\n")[2].partition("\ntheme:\n")[0]
    lines = [line.partition("#")[0] for line in section.splitlines()]
    return re.findall(r"[\w./-]+\.md", "\n".join(lines))


def links(page: Path) -> list[str]:
    """The targets of a page's links, those to other sites aside."""
    found = _LINK.findall(_FENCED.sub("", page.read_text()))
    return [link for link in found if not re.match(r"\w+:", link)]


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_has_one_place_in_the_navigation() -> None:
    pages = navigation()
    assert len(pages) == len(set(pages))
    assert set(pages) - GENERATED == {name_of(page) for page in PAGES}
    assert GENERATED <= set(pages) and not any((DOCS / name).exists() for name in GENERATED)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_ends_with_one_to_four_next_steps(page: Path) -> None:
    name = name_of(page)
    if name in WITHOUT_NEXT or name.split("/")[0] in WITHOUT_NEXT:
        return
    headings = re.findall(r"^## (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    assert headings[-1:] == ["Next"], f"{name} ends with {headings[-1:]}"
    steps = page.read_text().rpartition("\n## Next\n")[2]
    assert 1 <= len(_LINK.findall(steps)) <= 4, f"{name}: {steps}"


def test_pages_without_next_steps_exist() -> None:
    assert all(WITHOUT_NEXT.values())
    assert [name for name in WITHOUT_NEXT if not (DOCS / name).exists()] == []


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(ROOT / "examples").rglob("*.md"),
    ],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_no_link_is_dead(page: Path) -> None:
    for link in links(page):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{page.name}: {link}"


def test_every_page_is_within_two_clicks() -> None:
    """By links alone, as on a page that is read without the navigation."""
    reached = {DOCS / "index.md"}
    for _ in range(CLICKS):
        reached |= {
            (page.parent / link.partition("#")[0]).resolve()
            for page in reached
            if page.suffix == ".md"
            for link in links(page)
            if link.partition("#")[0]
        }
    assert [name_of(page) for page in PAGES if page not in reached] == []


def test_the_landing_page_has_one_picture_and_two_commands() -> None:
    text = (DOCS / "index.md").read_text()
    assert len(re.findall(r"!\[", text)) == 1
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(block.splitlines()) == 2


@pytest.mark.parametrize("page", IN_FOLDERS, ids=name_of)
def test_every_block_of_a_page_in_a_folder_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


# --- the reference of configurations


def rows_of(table: str) -> list[list[str]]:
    """The cells of a table, its head aside."""
    lines = [line.replace("\\|", "/").strip("|") for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_every_key_has_a_type_a_meaning_and_an_example() -> None:
    for title, table in tables.all_tables().items():
        rows = rows_of(table)
        assert rows and len({len(row) for row in rows}) == 1, title
        assert [row for row in rows if not all(row[-3:])] == [], title
        assert "None" not in " ".join(row[-2] for row in rows), title
        ends = [row[-1].partition(tables.BREAK) for row in rows]
        assert [end for end in ends if not end[0] or " = " not in end[2]] == [], title


def test_keys_and_defaults_are_those_of_the_code() -> None:
    run = {row[0]: row for row in rows_of(tables.all_tables()["section run"])}
    assert run["`rounds`"][1:3] == ["integer, at least 1", "`50`"]
    assert run["`patience`"][2] == "-" and next(iter(run)) == "`rounds`"
    local = {row[0]: row[2] for row in rows_of(tables.all_tables()["section local"])}
    assert local["`lr`"] == "`0.03`" and len(local) == 13
    federation = {row[0] for row in rows_of(tables.all_tables()["section federation"])}
    fields = {f"`{name}`" for name in ServerSettings.__dataclass_fields__}  # type: ignore[attr-defined]
    assert federation == fields
    options = [row[0] for row in rows_of(tables.all_tables()["sections of options"]) if row[0]]
    # Without keys, as [personal] fedbn, an option has no line.
    named = [
        f"`[{section}] {name}`"
        for section in OPTIONS
        for name, keys in reference.entries(section).items()
        if keys
    ]
    assert options == named


def test_the_page_has_each_table_and_each_section() -> None:
    text = (DOCS / "reference-configuration.md").read_text()
    marks = re.findall(r"<!-- table: ([\w ]+) -->\n[^\n]+\n<!-- /table -->\n", text)
    assert sorted(marks) == sorted(tables.all_tables())
    known = {*SECTIONS, *server.SERVER, *server.CLIENT, *peer.SECTIONS, "compare"}
    shown = {*re.findall(r"\[([\w.]+)\]", text)}
    assert known - shown == set()


# --- the reference of files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run, drawn and reported."""
    folder = tmp_path_factory.mktemp("book") / "run"
    data = fk.data.digits(clients=6, classes_per_client=2)
    run = fk.simulate(
        fk.FedGroup(clusters=2),
        data,
        fk.models.mclr(data),
        rounds=2,
        cohort=4,
        against=[fk.FedAvg()],
        out=folder,
    )
    fk.draw(run)
    fk.report(run)
    return folder


def test_files_of_a_run_are_described(folder: Path) -> None:
    text = (DOCS / "file-formats.md").read_text()
    for file in folder.rglob("*"):
        name = file.relative_to(folder).as_posix()
        name = re.sub(r"^against/\w+/?", "", name)
        name = re.sub(r"round-\d{6}", "round-NNNNNN", name)
        if file.is_file():
            assert f"`{name}`" in text, name


def test_names_of_files_are_those_of_the_code() -> None:
    text = (DOCS / "file-formats.md").read_text()
    written = {*run_folder.SUMMED, *run_folder._OWN, *run_folder._OF_OPTIONS}
    assert [name for name in written if f"`{name}`" not in text and f"`{name}/" not in text] == []


def test_keys_of_a_record_are_described(folder: Path) -> None:
    text = (DOCS / "file-formats.md").read_text()
    measures = {measure.name for measure in (*PLACED, *EXTRA)}
    run = fk.Run.load(folder)
    keys = {key for record in run.records for key in record} | run.summary().keys()
    assert [key for key in sorted(keys - measures) if f"`{key}`" not in text] == []
    assert [column for column in run.clients if f"`{column}`" not in text] == []
