"""Names, numbers, and what came of asking."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from fedkin.p2p.peer_table import PeerTable


def test_numbers_are_given_in_the_order_of_appearance_and_kept() -> None:
    book = PeerTable("me")
    book.meet({"zoe": "1"})
    book.meet({"ada": "1", "zoe": "1"})
    book.meet({"ada": "1"})
    assert book.names == ["me", "zoe", "ada"] and book.own == 0
    np.testing.assert_array_equal(book.there(), [[False, False, True]])
    assert book.named(np.array([[False, True, True]])) == ["zoe", "ada"]
    np.testing.assert_array_equal(book.mask(["ada", "stranger"]), [[False, False, True]])


def test_a_list_that_is_given_comes_first() -> None:
    book = PeerTable("b", ["a", "b", "c"])
    book.meet({"x": "1", "a": "1"})
    assert book.names == ["a", "b", "c", "x"] and book.own == 1
    np.testing.assert_array_equal(book.there(), [[True, False, False, True]])


def test_nobody_asks_itself() -> None:
    book = PeerTable("me")
    book.meet({"me": "9", "ada": "1"})
    np.testing.assert_array_equal(book.there(), [[False, True]])


def test_rounds_are_remembered_until_the_peer_begins_anew() -> None:
    book = PeerTable("me")
    book.meet({"ada": "1"})
    book.heard("ada", 7)
    book.heard("ada", 5)
    assert book.least("ada") == 7 and book.least("bob") == 0
    book.meet({})
    book.meet({"ada": "1"})
    assert book.least("ada") == 7  # the same process, out of sight for a while
    book.meet({"ada": "2"})
    assert book.least("ada") == 0


def test_everything_is_counted_and_logged_once_per_peer_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    book = PeerTable("me")
    with caplog.at_level(logging.WARNING, "fedkin"):
        for name in ("ada", "ada", "bob"):
            book.failed(name, "finite")
        book.failed("ada", "stale", "round 3, after 7")
        book.failed("ada", "stale", "round 4, after 7")
        book.heard("ada", 8)
    assert book.counts["ada"] == {"finite": 2, "stale": 2, "exchanges": 1} and book.counts["bob"] == {"finite": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "peer ada sent NaN or infinity; left out",
        "peer bob sent NaN or infinity; left out",
        "peer ada sent a round older than one it had shown (round 3, after 7); left out",
    ]
