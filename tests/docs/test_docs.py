"""The pages of the site keep their word: their code runs, their links lead somewhere, and the site
builds."""

from __future__ import annotations

import dataclasses
import html
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sybil import Document, Example

import fedkin
from fedkin.data import DATASETS
from fedkin.methods import METHODS
from fedkin.scenarios.shifts import SHIFTS
from tests.docs.code_blocks import ROOT, blocks, language_of, read, run_page, skipped
from tests.methods import test_conformance as conformance

PAGES = sorted((ROOT / "docs").glob("*.md"))
# Other tests run all blocks of these pages: the test of the page's method below, and
# tests/docs/test_write_a_task.py.
RUN_ELSEWHERE = ("write-a-method.md", "write-a-task.md")
# Pages that read real data.
WITH_DATA = ("data-sets.md",)
# Blocks in all of docs that are not run: sketches of the design, and programs for Flower to start.
LEFT_OUT = 5


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in RUN_ELSEWHERE], ids=lambda page: page.name
)
def test_every_block_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page.name in WITH_DATA:
        request.getfixturevalue("shared_data")
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_few_blocks_are_left_out() -> None:
    reasons = [reason for page in PAGES for reason in skipped(read(page))]
    assert all(reasons) and len(reasons) <= LEFT_OUT, reasons


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files, and to headings in them, as GitHub finds them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        # The site shows the source in place of a link to a file (tests/docs/test_tour.py).
        if link.startswith(("http", "../fedkin/")):
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert target.is_relative_to(ROOT / "docs") and ".." not in link, (
            f"{page.name}: {link} is not on the site"
        )
        assert not heading or heading in anchors(target), f"{page.name}: {link}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- the method of "write your own method"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The session of its first block: the imports and the method."""
    document = read(ROOT / "docs/write-a-method.md")
    first_block(document).evaluate()
    return document.namespace


def first_block(document: Document) -> Example:
    return next(block for block in blocks(document) if language_of(block) == "python")


def test_the_method_has_sixty_lines() -> None:
    lines = [
        line
        for line in first_block(read(ROOT / "docs/write-a-method.md")).parsed.splitlines()
        if line.strip()
    ]
    assert 40 < len(lines) <= 60


def test_it_recovers_the_planted_clusters_and_beats_one_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_page(ROOT / "docs/write-a-method.md")["run"]
    ours = run.summary()
    plain = run.against["fedavg"].summary()
    assert ours["ari"] == 1 and ours["final_accuracy"] > plain["final_accuracy"] + 0.1
    # 64 probes to each of 20 clients, once, on top of FedAvg's bytes
    assert ours["bytes_down"] - plain["bytes_down"] == 64 * 20 * 4 * run.models.shape[1]
    assert ours["bytes_up"] == plain["bytes_up"]
    assert f"{ours['final_accuracy']:.1%}" in capsys.readouterr().out


IN_ANY_WORLD: list[Callable[..., None]] = [
    conformance.test_states_are_sound_and_keep_their_shapes,
    conformance.test_training_helps,
    conformance.test_the_same_seed_gives_the_same_bits,
    conformance.test_another_seed_gives_another_run,
    conformance.test_resume_is_bitwise,
    conformance.test_states_are_never_changed_in_place,
    conformance.test_the_order_of_clients_does_not_matter,
    conformance.test_one_cluster_is_fedavg,
    conformance.test_an_empty_cluster_keeps_its_model,
    conformance.test_newcomers_are_placed_and_change_no_model,
]
IN_ONE: list[Callable[..., None]] = [
    conformance.test_it_is_a_frozen_dataclass_with_defaults,
    conformance.test_the_names_of_clients_do_not_matter,
    conformance.test_clusters_that_are_far_apart_are_found,
    conformance.test_a_simulated_run_survives_dropout_and_stragglers,
    conformance.test_a_round_without_a_cohort_changes_no_model,
    conformance.test_a_start_without_any_reply_is_sound_or_refused_in_words,
    conformance.test_clients_that_arrive_later,
    conformance.test_a_round_sends_its_models_down_and_one_up_per_client,
    conformance.test_more_clusters_than_clients_are_refused,
]
WITH_LOST_REPLIES: list[Callable[..., None]] = [
    conformance.test_a_round_uses_the_replies_that_came,
    conformance.test_a_run_survives_missing_replies,
]


@pytest.fixture
def as_one_of_ours(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The method under a name, as if it stood in METHODS, and its line in the conformance suite."""
    case = conformance.Case(
        options={"clusters": 3},
        as_fedavg={"clusters": 1},
        clusters=3,
        impossible=({"clusters": 0}, {"probes": 0}, {"scale": 0.0}),
    )
    monkeypatch.setitem(METHODS, "signature", page["LossSignature"])
    monkeypatch.setitem(conformance.CASES, "signature", case)
    return "signature"


@pytest.mark.parametrize("promise", IN_ANY_WORLD, ids=lambda promise: promise.__name__)
def test_it_keeps_the_promises_of_all_methods(
    promise: Callable[..., None], as_one_of_ours: str
) -> None:
    promise(as_one_of_ours, conformance.fake)


def test_it_is_sound_in_the_simulator_too(as_one_of_ours: str) -> None:
    conformance.test_states_are_sound_and_keep_their_shapes(as_one_of_ours, conformance.simulated)


@pytest.mark.parametrize("promise", IN_ONE, ids=lambda promise: promise.__name__)
def test_it_keeps_the_others(promise: Callable[..., None], as_one_of_ours: str) -> None:
    promise(as_one_of_ours)


@pytest.mark.parametrize("how", ["silent", "garbage"])
@pytest.mark.parametrize("promise", WITH_LOST_REPLIES, ids=lambda promise: promise.__name__)
def test_it_lives_with_lost_replies(
    promise: Callable[..., None], how: str, as_one_of_ours: str
) -> None:
    promise(as_one_of_ours, how)


@pytest.mark.parametrize("options", [{"clusters": 0}, {"probes": 0}, {"scale": 0.0}], ids=str)
def test_it_refuses_the_impossible(options: dict[str, Any], as_one_of_ours: str) -> None:
    conformance.test_impossible_settings_are_refused(as_one_of_ours, options)


# --- the site


def test_every_method_has_a_page_with_its_paper_and_its_settings(site: Path) -> None:
    assert METHODS
    for name, method in METHODS.items():
        page = (site / "methods" / f"{method.__module__.rsplit('.', 1)[1]}.html").read_text()
        docstring = inspect.getdoc(sys.modules[method.__module__]) or ""
        assert "<td></td>" not in page, f"an option of {name} has no comment that says what it is"
        assert docstring.split()[
            0
        ] in page and f'<code>method.name = "{name}"</code>' in html.unescape(page)
        for field in dataclasses.fields(method):
            assert f"<code>{field.name}</code>" in page, f"{name}: {field.name}"
        assert method.__name__ in (site / "methods/index.html").read_text()


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("choose-a-method", list(METHODS)),
        ("methods/map", list(METHODS)),
        ("privacy", [method.__name__ for method in METHODS.values()]),
        ("secret-sums", [method.__name__ for method in METHODS.values()]),
        ("data-sets", list(DATASETS)),
        ("scenarios", list(SHIFTS)),
    ],
)
def test_the_tables_of_the_site_have_all_entries(site: Path, page: str, names: list[str]) -> None:
    text = (site / f"{page}.html").read_text()
    assert [name for name in names if f"<td><code>{name}</code></td>" not in text] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = sorted((site / "reference").glob("*.html"))
    assert len(pages) > 4
    headings = {
        heading
        for page in pages
        for heading in re.findall(r'<h\d id="(fedkin[\w.]+)"', page.read_text())
    }
    modules = {"data", "models", "__version__"}
    names = [
        name
        for name in fedkin.__all__
        if name not in modules and fedkin._home(name) != "fedkin.methods"
    ]
    names_shown = {heading.rsplit(".", 1)[1] for heading in headings}
    assert names and not set(names) - names_shown


def test_the_site_fetches_nothing(site: Path) -> None:
    """Links may lead outside; scripts, styles, fonts and pictures may not."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        fetched = re.findall(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="([^"]+)"', text)
        assert not [one for one in fetched if one.startswith(("http:", "https:", "//"))], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", style.read_text()), style
