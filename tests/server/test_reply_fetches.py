"""Replies are fetched at the same time: a reply that does not come to an end holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from unittest.mock import patch

import pytest

from fedkin.server import reply_fetches
from fedkin.server.reply_fetches import TOGETHER, ReplyFetches

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


def test_one_look_asks_about_many_requests_at_the_same_time() -> None:
    """No call of ``pull`` returns before so many of them run at once: one after another they would
    never end."""
    met = threading.Barrier(TOGETHER)

    def pull(request_id: str) -> list[str]:
        met.wait(LONG)
        return [request_id]

    requests = [f"request-{i}" for i in range(2 * TOGETHER)]
    assert sorted(ReplyFetches(pull, LONG).fetch(requests)) == sorted(requests)


def test_replies_that_were_cut_off_hold_up_no_other_however_many_they_are() -> None:
    """They hold up all threads of the first looks, and every look has threads that are free."""
    cut_off = [f"cut-{i:03d}" for i in range(2 * TOGETHER)]
    whole = [f"whole-{i:03d}" for i in range(100)]
    engine = Engine(*whole, cut_off=cut_off)
    fetches = ReplyFetches(engine.pull, SHORT)
    found: list[str] = []
    while len(found) < len(whole):
        found += fetches.fetch([*cut_off, *whole])
    assert sorted(found) == whole
    assert sorted(engine.asked[: len(cut_off)]) == cut_off  # each once, and before all others
    for end in list(engine.ends.values()):
        end.set()


def test_the_request_whose_turn_is_longest_ago_comes_first() -> None:
    """A look takes up as many requests as it has threads, and all of these are held up. The next
    look takes up the others first, and does not ask again about those that are on their way."""
    requests = [f"request-{i:03d}" for i in range(TOGETHER + 1)]
    engine = Engine(cut_off=requests)
    fetches = ReplyFetches(engine.pull, SHORT)
    while len(engine.asked) < len(requests):
        fetches.fetch(requests)
    assert engine.asked[-1] == requests[-1] and len(set(engine.asked)) == len(requests)
    for end in list(engine.ends.values()):
        end.set()


def test_a_look_at_other_requests_leaves_the_order_of_turns() -> None:
    """There is one thread for a look. Request a was asked about; b waits for its turn while other
    requests are looked at in between."""
    asked: list[str] = []

    def pull(request_id: str) -> list[str]:
        asked.append(request_id)
        return []

    with patch.object(reply_fetches, "TOGETHER", 1):
        fetches = ReplyFetches(pull, LONG)
        fetches.fetch(["a"])
        fetches.fetch(["other"])
        fetches.fetch(["a", "b"])
    assert asked == ["a", "other", "b", "a"]


def test_an_error_of_the_engine_is_raised_where_the_reply_is_wanted() -> None:
    def pull(request_id: str) -> list[str]:
        raise ConnectionError(f"no connection for {request_id}")

    with pytest.raises(ConnectionError, match="no connection for a"):
        ReplyFetches(pull, LONG).fetch(["a"])


def test_an_error_loses_no_reply_that_was_fetched_in_the_same_call() -> None:
    """The engine hands out a reply once. The next call raises the error, and the one after it asks
    again."""
    engine = Engine("a", "c")
    broken = ["b"]

    def pull(request_id: str) -> list[str]:
        if request_id in broken:
            raise ConnectionError(f"no connection for {request_id}")
        return engine.pull(request_id)

    fetches = ReplyFetches(pull, LONG)
    assert sorted(fetches.fetch(["a", "b", "c"])) == ["a", "c"]
    engine.whole.add("d")
    with pytest.raises(ConnectionError, match="no connection for b"):
        fetches.fetch(["b", "d"])
    broken.clear()
    engine.whole.add("b")
    assert sorted(fetches.fetch(["b", "d"])) == ["b", "d"]
