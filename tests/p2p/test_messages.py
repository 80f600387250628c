"""Messages: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as any_array

from fedkin.p2p.messages import BOTH, MODEL, STATUS, Message, Question, WireError, asked_for, decode, encode, what

P = 3
MODEL_OF = np.array([1.5, -2.0, 0.25], np.float32)
MESSAGE = Message("ada", 4, 60, {"model": MODEL_OF})
ASKED = Question("trial", "ada", MODEL, P)
HEADER: dict[str, Any] = {
    "federation": "trial",
    "sender": "ada",
    "round": 4,
    "examples": 60,
    "arrays": [["model", "<f4", [3]]],
}
REASONS = set("length header json fields federation sender signature arrays dtype shape finite stale round".split())


def by_hand(header: Any = HEADER, payload: bytes = MODEL_OF.tobytes(), signature: bytes = b"") -> bytes:
    """A message written by the description, not by ``encode``."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">4sIH", b"FKN1", len(head), len(signature)) + head + signature + payload


def refused(data: bytes, question: Question = ASKED) -> str:
    with pytest.raises(WireError) as caught:
        decode(data, question)
    return caught.value.reason


def test_a_message_written_by_hand_is_read() -> None:
    found = decode(by_hand(), ASKED)
    assert (found.sender, found.round, found.examples) == ("ada", 4, 60)
    np.testing.assert_array_equal(found.arrays["model"], MODEL_OF)
    assert found.arrays["model"].dtype == np.float32


def test_what_is_written_is_what_the_description_says() -> None:
    data = encode(MESSAGE, "trial")
    magic, head, signature = struct.unpack_from(">4sIH", data)
    assert (magic, signature) == (b"FKN1", 0)
    assert json.loads(data[10 : 10 + head]) == HEADER
    assert data[10 + head :] == MODEL_OF.astype("<f4").tobytes()


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    vectors=any_array(np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=finite),
    round=st.integers(0, 2**53),
    examples=st.integers(1, 2**31 - 1),
)
def test_there_and_back_is_the_same(vectors: np.ndarray, round: int, examples: int) -> None:
    sent = Message("ada", round, examples, {"model": vectors[0], "update": vectors[1]})
    got = decode(encode(sent, "trial"), Question("trial", "ada", BOTH, vectors.shape[1]))
    assert (got.sender, got.round, got.examples, list(got.arrays)) == ("ada", round, examples, ["model", "update"])
    for name, vector in sent.arrays.items():
        assert got.arrays[name].tobytes() == vector.tobytes()


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    assert refused(data) in REASONS
    assert refused(b"FKN1" + data) in REASONS


@given(st.data())
def test_a_message_cut_or_changed_anywhere_is_read_as_it_was_or_refused(data: st.DataObject) -> None:
    whole = by_hand()
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert refused(whole[:cut]) in REASONS
    place, value = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
    changed = whole[:place] + bytes([value]) + whole[place + 1 :]
    try:
        found = decode(changed, ASKED)
    except WireError as error:
        assert error.reason in REASONS
    else:
        assert found.sender == "ada" and np.isfinite(found.arrays["model"]).all()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(key=st.sampled_from(sorted(HEADER)), value=json_values)
def test_any_value_in_a_header_is_used_only_if_it_is_right(key: str, value: Any) -> None:
    try:
        found = decode(by_hand({**HEADER, key: value}), ASKED)
    except WireError as error:
        assert error.reason in REASONS
    else:
        assert key in ("round", "examples") and type(value) is int and getattr(found, key) == value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sender": "eve"}, "sender"),
        ({"federation": "other"}, "federation"),
        ({"round": True}, "fields"),
        ({"round": 4.0}, "fields"),
        ({"round": -1}, "fields"),
        ({"round": 2**60}, "fields"),
        ({"examples": 0}, "fields"),
        ({"examples": "60"}, "fields"),
        ({"arrays": {"model": 3}}, "fields"),
        ({"arrays": [["model", "<f4"]]}, "fields"),
        ({"arrays": []}, "arrays"),
        ({"arrays": [["update", "<f4", [3]]]}, "arrays"),
        ({"arrays": [["model", "<f8", [3]]]}, "dtype"),
        ({"arrays": [["model", "|O", [3]]]}, "dtype"),
        ({"arrays": [["model", "<f4", [4]]]}, "shape"),
        ({"arrays": [["model", "<f4", [3, 1]]]}, "shape"),
        ({"arrays": [["model", "<f4", [3.0]]]}, "shape"),
        ({"arrays": [["model", "<f4", 3]]}, "shape"),
    ],
)
def test_a_wrong_header_has_its_reason(change: dict[str, Any], reason: str) -> None:
    assert refused(by_hand({**HEADER, **change})) == reason


@pytest.mark.parametrize("key", sorted(HEADER))
def test_nothing_may_be_missing(key: str) -> None:
    assert refused(by_hand({k: v for k, v in HEADER.items() if k != key})) == "fields"


@pytest.mark.parametrize("header", [b"{", b"\xff\xfe", b"", b"[" * 8000, b'{"a": NaN,}'])
def test_what_is_no_json(header: bytes) -> None:
    assert refused(by_hand(header)) == "json"


@pytest.mark.parametrize("header", [b"[]", b"7", b"null", b'"ada"'])
def test_what_is_json_and_no_header(header: bytes) -> None:
    assert refused(by_hand(header)) == "fields"


def test_a_huge_header_is_refused_unread() -> None:
    long = by_hand({**HEADER, "more": "x" * 8192})
    assert refused(long) == "header"
    lie = struct.pack(">4sIH", b"FKN1", 2**32 - 1, 0)
    assert refused(lie) == "header"
    assert decode(by_hand({**HEADER, "more": "x" * 7000}), ASKED).round == 4  # entries that nobody knows do no harm


def test_something_else_altogether() -> None:
    assert refused(b"GET / HTTP/1.1\r\n\r\n") == "header"


def test_wrong_sizes() -> None:
    assert refused(by_hand(payload=MODEL_OF.tobytes()[:-1])) == "length"
    assert refused(by_hand(payload=MODEL_OF.tobytes() + b"\0")) == "length"
    assert refused(by_hand(payload=b"")) == "length"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    assert refused(by_hand(payload=np.array([1, bad, 2], "<f4").tobytes())) == "finite"


def test_a_model_of_another_shape() -> None:
    header = {**HEADER, "arrays": [["model", "<f4", [5]]]}
    assert refused(by_hand(header, np.zeros(5, "<f4").tobytes())) == "shape"


def test_a_round_may_not_go_back() -> None:
    assert refused(by_hand(), replace(ASKED, least=5)) == "stale"
    assert decode(by_hand(), replace(ASKED, least=4)).round == 4  # the same once more is no step back


def test_another_round_than_the_one_asked_for() -> None:
    assert refused(by_hand(), replace(ASKED, round=3)) == "round"
    assert decode(by_hand(), replace(ASKED, round=4)).round == 4


def test_a_status_has_no_numbers() -> None:
    asked = Question("trial", "ada", STATUS, P)
    assert decode(encode(Message("ada", 9, 1), "trial"), asked).round == 9
    assert refused(by_hand(), asked) == "arrays"


def test_questions_as_they_travel() -> None:
    assert [what(STATUS), what(MODEL), what(BOTH), what(BOTH, 7)] == [
        "status",
        "model",
        "model+update",
        "model+update@7",
    ]
    for text in ("status", "model", "model+update", "model+update@7"):
        assert what(*asked_for(text)) == text
    for text in ("", "models", "update", "model@0", "model@-1", "model@x", "model+update+model", "status@" + "9" * 99):
        with pytest.raises(WireError):
            asked_for(text)
