"""The site in a browser, opened as files: the search finds, the dark mode is dark, and no page is
wider than a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.browser import COMMAND, browsing

pytestmark = pytest.mark.skipif(COMMAND is None, reason="no Chromium is installed")
PHONE = 390  # pixels
_QUERY = """(() => {
    const input = document.querySelector(".md-search__input")
    input.focus()
    input.value = "patience"
    input.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}))
})()"""
_FOUND = "[...document.querySelectorAll('.md-search-result__item h1')].map((e) => e.textContent)"


def test_the_search_finds_a_key(site: Path) -> None:
    with browsing() as browser:
        browser.open(site / "index.html")
        browser.evaluate(_QUERY)
        browser.wait(f"{_FOUND}.length > 0")
        assert "Configuration" in browser.evaluate(_FOUND)
        fetched = [url for url in browser.requests if not url.startswith(("file:", "data:"))]
        assert not browser.errors and not fetched


def test_the_dark_mode_is_dark(site: Path) -> None:
    colours = []
    for dark in (False, True):
        with browsing() as browser:  # a browser remembers the mode of its first page
            browser.open(site / "index.html", dark=dark)
            colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            colours.append(sum(int(part) for part in colour.strip("rgba()").split(",")[:3]))
    assert colours[0] == 3 * 255 and colours[1] < 200


def test_no_page_is_wider_than_a_phone(site: Path) -> None:
    wide = {}
    with browsing() as browser:
        for page in sorted(site.rglob("*.html")):
            browser.open(page, width=PHONE, height=844)
            width = browser.evaluate("document.documentElement.scrollWidth")
            if width > PHONE:
                wide[page.relative_to(site).as_posix()] = width
    assert wide == {}
