"""Replies to each request, encoded once."""

from __future__ import annotations

import numpy as np

from fedkin.p2p.messages import MODEL, MODEL_AND_UPDATE, STATUS, Message, Request, decode, encode
from fedkin.p2p.response_cache import ResponseCache


def make_message(round: int) -> Message:
    arrays = {"model": np.full(2, round, np.float32), "update": np.full(2, -round, np.float32)}
    return Message("ada", round, 10, arrays)


def make_cache() -> tuple[ResponseCache, list[int]]:
    """A cache, and the rounds that it has encoded."""
    encoded: list[int] = []

    def encode_and_note(message: Message) -> bytes:
        encoded.append(message.round)
        return encode(message, "trial")

    return ResponseCache(encode_and_note), encoded


def read(data: bytes | None, arrays: tuple[str, ...]) -> Message:
    assert data is not None
    return decode(data, Request("trial", "ada", arrays, 2))


def test_before_the_first_round_there_is_nothing() -> None:
    cache, _ = make_cache()
    assert [cache.reply(text) for text in ("status", "model", "model+update", "model@1")] == [
        None
    ] * 4


def test_the_newest_round_and_only_requested_arrays() -> None:
    cache, _ = make_cache()
    cache.add(make_message(1))
    cache.add(make_message(2))
    assert list(read(cache.reply("model"), MODEL).arrays) == ["model"]
    both = read(cache.reply("model+update"), MODEL_AND_UPDATE)
    assert both.round == 2
    np.testing.assert_array_equal(both.arrays["update"], [-2, -2])


def test_the_last_two_rounds_can_be_requested() -> None:
    cache, _ = make_cache()
    for t in (1, 2, 3):
        cache.add(make_message(t))
    assert read(cache.reply("model@3"), MODEL).round == 3
    assert read(cache.reply("model@2"), MODEL).round == 2
    assert cache.reply("model@1") is None and cache.reply("model@4") is None


def test_a_status_is_the_round_that_is_finished() -> None:
    cache, _ = make_cache()
    cache.add(make_message(5))
    assert cache.reply("status") is None
    cache.set_status(Message("ada", 4, 1))
    assert read(cache.reply("status"), STATUS).round == 4
    cache.set_status(Message("ada", 5, 1))
    assert read(cache.reply("status"), STATUS).round == 5


def test_a_reply_is_encoded_once_and_counted_each_time() -> None:
    cache, encoded = make_cache()
    cache.add(make_message(1))
    first = cache.reply("model")
    assert first is not None and cache.reply("model") is first and encoded == [1]
    assert cache.pop_bytes_sent() == 2 * len(first)
    assert cache.pop_bytes_sent() == 0
    cache.add(make_message(2))
    assert read(cache.reply("model"), MODEL).round == 2


def test_an_unknown_request_has_no_reply() -> None:
    cache, _ = make_cache()
    cache.add(make_message(1))
    assert cache.reply("everything") is None and cache.reply("") is None
