"""What a peer gives, and to which question."""

from __future__ import annotations

import numpy as np

from fedkin.p2p.messages import BOTH, MODEL, STATUS, Message, Question, decode, encode
from fedkin.p2p.response_cache import ResponseCache


def message(round: int) -> Message:
    arrays = {"model": np.full(2, round, np.float32), "update": np.full(2, -round, np.float32)}
    return Message("ada", round, 10, arrays)


def shelf() -> tuple[ResponseCache, list[int]]:
    """A shelf, and the rounds it has written out."""
    written: list[int] = []

    def write(told: Message) -> bytes:
        written.append(told.round)
        return encode(told, "trial")

    return ResponseCache(write), written


def read(data: bytes | None, wants: tuple[str, ...]) -> Message:
    assert data is not None
    return decode(data, Question("trial", "ada", wants, 2))


def test_before_the_first_round_there_is_nothing() -> None:
    empty, _ = shelf()
    assert [empty.answer(text) for text in ("status", "model", "model+update", "model@1")] == [None] * 4


def test_the_newest_round_and_only_what_was_asked_for() -> None:
    full, _ = shelf()
    full.put(message(1))
    full.put(message(2))
    assert list(read(full.answer("model"), MODEL).arrays) == ["model"]
    both = read(full.answer("model+update"), BOTH)
    assert both.round == 2
    np.testing.assert_array_equal(both.arrays["update"], [-2, -2])


def test_the_last_two_rounds_can_be_asked_for() -> None:
    full, _ = shelf()
    for t in (1, 2, 3):
        full.put(message(t))
    assert read(full.answer("model@3"), MODEL).round == 3
    assert read(full.answer("model@2"), MODEL).round == 2
    assert full.answer("model@1") is None and full.answer("model@4") is None


def test_a_status_is_the_round_that_is_over() -> None:
    full, _ = shelf()
    full.put(message(5))
    assert full.answer("status") is None
    full.finished(Message("ada", 4, 1))
    assert read(full.answer("status"), STATUS).round == 4
    full.finished(Message("ada", 5, 1))
    assert read(full.answer("status"), STATUS).round == 5


def test_an_answer_is_written_once_and_counted_each_time() -> None:
    full, written = shelf()
    full.put(message(1))
    first = full.answer("model")
    assert first is not None and full.answer("model") is first and written == [1]
    assert full.given() == 2 * len(first)
    assert full.given() == 0
    full.put(message(2))
    assert read(full.answer("model"), MODEL).round == 2


def test_a_question_that_is_none_has_no_answer() -> None:
    full, _ = shelf()
    full.put(message(1))
    assert full.answer("everything") is None and full.answer("") is None
