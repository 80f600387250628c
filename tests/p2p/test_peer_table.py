"""Names, numbers, and the outcomes of requests."""

from __future__ import annotations

import inspect
import logging
import re

import numpy as np
import pytest

from fedkin.p2p import messages, peer_client
from fedkin.p2p.peer_table import PeerTable
from fedkin.security import signatures


def test_numbers_are_given_in_the_order_of_appearance_and_kept() -> None:
    table = PeerTable("me")
    table.update_sessions({"zoe": "1"})
    table.update_sessions({"ada": "1", "zoe": "1"})
    table.update_sessions({"ada": "1"})
    assert table.names == ["me", "zoe", "ada"]
    np.testing.assert_array_equal(table.reachable(), [[False, False, True]])
    assert table.names_of(np.array([[False, True, True]])) == ["zoe", "ada"]
    np.testing.assert_array_equal(table.mask(["ada", "stranger"]), [[False, False, True]])


def test_a_list_that_is_given_comes_first() -> None:
    table = PeerTable("b", ["a", "b", "c"])
    table.update_sessions({"x": "1", "a": "1"})
    assert table.names == ["a", "b", "c", "x"]
    np.testing.assert_array_equal(table.reachable(), [[True, False, False, True]])


def test_no_peer_asks_itself() -> None:
    table = PeerTable("me")
    table.update_sessions({"me": "9", "ada": "1"})
    np.testing.assert_array_equal(table.reachable(), [[False, True]])


def test_rounds_are_remembered_until_the_peer_begins_again() -> None:
    table = PeerTable("me")
    table.update_sessions({"ada": "1"})
    table.record_reply("ada", 7)
    table.record_reply("ada", 5)
    assert table.last_round("ada") == 7 and table.last_round("bob") == 0
    table.update_sessions({})
    table.update_sessions({"ada": "1"})
    assert table.last_round("ada") == 7  # the same process, out of sight for a while
    table.update_sessions({"ada": "2"})
    assert table.last_round("ada") == 0


def test_every_reason_for_which_a_reply_is_left_out_is_logged_in_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised = re.compile(r'(?:PeerMessage|Signature)Error\(\s*"(\w+)"')
    sources = [inspect.getsource(module) for module in (messages, signatures, peer_client)]
    reasons = {reason for source in sources for reason in raised.findall(source)}
    reasons.remove("request")  # of a peer's own requests
    assert {"labels", "backbone", "signature", "contradiction"} <= reasons
    table = PeerTable("me")
    with caplog.at_level(logging.WARNING, "fedkin"):
        for reason in reasons:
            table.record_failure("ada", reason)
    logged = {record.getMessage() for record in caplog.records}
    assert not logged & {f"peer ada {reason}; the reply is left out" for reason in reasons}


def test_everything_is_counted_and_logged_once_per_peer_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = PeerTable("me")
    with caplog.at_level(logging.WARNING, "fedkin"):
        for name in ("ada", "ada", "bob"):
            table.record_failure(name, "finite")
        table.record_failure("ada", "stale", "round 3, after round 7")
        table.record_failure("ada", "stale", "round 4, after round 7")
        table.record_reply("ada", 8)
    assert table.counts["ada"] == {"finite": 2, "stale": 2, "exchanges": 1} and table.counts[
        "bob"
    ] == {"finite": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "peer ada sent NaN or infinity; the reply is left out",
        "peer bob sent NaN or infinity; the reply is left out",
        "peer ada sent an older round than before (round 3, after round 7); the reply is left out",
    ]
