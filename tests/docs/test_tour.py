"""The tour of the code names functions that exist, and shows few lines of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import tour_source

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tour.md").read_text()
SHOWN = list(tour_source.shown(PAGE))
STOPS = 12
MOST_LINES = 40


def test_the_tour_has_twelve_stops_with_one_link_each() -> None:
    stops = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]
    assert [stop.split(".")[0] for stop in stops] == [str(i + 1) for i in range(STOPS)]
    assert [len(list(tour_source.shown(stop))) for stop in stops] == [1] * STOPS


@pytest.mark.parametrize("item", SHOWN, ids=lambda item: item.name)
def test_a_stop_shows_few_lines_of_a_function_that_exists(item: tour_source.Shown) -> None:
    assert item.target == item.file
    lines = item.source.splitlines()
    assert re.match(r"(def|class) \w+", lines[0])
    assert len(lines) <= MOST_LINES, f"{item.file}, {item.name}: show a shorter function"


def test_an_unknown_function_is_an_error() -> None:
    item = tour_source.Shown("fedkin/run/loop.py", "_Recorder.no_such_step", "fedkin/run/loop.py")
    with pytest.raises(LookupError, match="no_such_step"):
        item.source  # noqa: B018


def test_the_page_of_the_site_has_sources_and_no_link_to_a_file() -> None:
    page = tour_source.with_sources(PAGE)
    assert "](../fedkin" not in page
    assert page.count("```python") == STOPS
    for item in SHOWN:
        assert item.source in page
