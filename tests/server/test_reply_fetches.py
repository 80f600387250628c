"""Replies are fetched one by one: a reply that does not come to an end holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from fedkin.server.reply_fetches import ReplyFetches

SHORT = 0.2  # seconds of patience, where a fetch does not return by itself
LONG = 60.0  # where every fetch returns at once


class Engine:
    """An engine that has some replies, and some whose ends have not come."""

    def __init__(self, *whole: str, cut_off: Sequence[str] = ()) -> None:
        self.whole = set(whole)
        self.ends = {request_id: threading.Event() for request_id in cut_off}
        self.asked: list[str] = []

    def pull(self, request_id: str) -> list[str]:
        """As Flower does: a reply whose end has not come is waited for."""
        self.asked.append(request_id)
        if request_id in self.ends:
            assert self.ends[request_id].wait(60)
            self.ends.pop(request_id)
            return [f"the whole of {request_id}"]
        if request_id in self.whole:
            self.whole.remove(request_id)
            return [request_id]
        return []


def test_replies_that_have_arrived_are_fetched_once() -> None:
    engine = Engine("a", "c")
    fetches = ReplyFetches(engine.pull, LONG)
    assert sorted(fetches.fetch(["a", "b", "c"])) == ["a", "c"]
    assert fetches.fetch(["a", "b", "c"]) == []
    assert fetches.fetch([]) == []


def test_a_reply_that_was_cut_off_holds_up_no_other() -> None:
    """The first in the order is cut off; the others come while it is waited for."""
    engine = Engine("b", "c", cut_off=["a"])
    fetches = ReplyFetches(engine.pull, SHORT)
    found: list[str] = []
    while len(found) < 2:
        found += fetches.fetch(["a", "b", "c"])
    assert sorted(found) == ["b", "c"] and "a" in engine.ends
    engine.ends["a"].set()
    whole: list[str] = []
    while not whole:
        whole = fetches.fetch(["a"])
    assert whole == ["the whole of a"]


def test_a_reply_on_its_way_is_not_asked_for_twice() -> None:
    """Flower hands out a reply once: to a second question it says that there is none."""
    engine = Engine(cut_off=["a"])
    fetches = ReplyFetches(engine.pull, SHORT)
    for _ in range(3):
        assert fetches.fetch(["a"]) == []
    assert engine.asked == ["a"]
    engine.ends["a"].set()


def test_the_request_whose_turn_is_longest_ago_comes_first() -> None:
    engine = Engine(cut_off=["a", "b"])
    fetches = ReplyFetches(engine.pull, SHORT)
    while "c" not in engine.asked:
        fetches.fetch(["a", "b", "c"])
    assert engine.asked == ["a", "b", "c"]
    engine.ends["a"].set()
    engine.ends["b"].set()


def test_an_error_of_the_engine_is_raised_where_the_reply_is_wanted() -> None:
    def pull(request_id: str) -> list[str]:
        raise ConnectionError(f"no connection for {request_id}")

    with pytest.raises(ConnectionError, match="no connection for a"):
        ReplyFetches(pull, LONG).fetch(["a"])
