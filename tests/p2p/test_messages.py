"""Messages come back as they were, and nothing else gets in."""

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

from fedkin.p2p.messages import (
    MODEL,
    MODEL_AND_UPDATE,
    STATUS,
    Message,
    PeerMessageError,
    Request,
    decode,
    encode,
    parse_request,
    request_text,
    size_limit,
)

P = 3
NUMBERS = np.array([1.5, -2.0, 0.25], np.float32)
MESSAGE = Message("ada", 4, 60, {"model": NUMBERS})
REQUEST = Request("trial", "ada", MODEL, P)
HEADER: dict[str, Any] = {"federation": "trial", "sender": "ada", "round": 4, "examples": 60}
LAYOUT: dict[str, Any] = {"model": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}
REASONS = {
    *(
        "length",
        "version",
        "header",
        "archive",
        "fields",
        "federation",
        "sender",
        "signature",
        "certificate",
    ),
    *("arrays", "dtype", "shape", "finite", "stale", "round", "labels", "backbone"),
}


def by_hand(
    header: Any = HEADER,
    payload: bytes = NUMBERS.tobytes(),
    layout: dict[str, Any] = LAYOUT,
    magic: bytes = b"FKN2",
    signature: bytes = b"",
) -> bytes:
    """A message written by the description, not by ``encode``."""
    text = header if isinstance(header, str) else json.dumps(header)
    head = json.dumps({"__metadata__": {"fedkin": text}, **layout}).encode()
    prelude = struct.pack(">4sHH", magic, 0, len(signature))
    return prelude + signature + struct.pack("<Q", len(head)) + head + payload


def refused(data: bytes, request: Request = REQUEST) -> str:
    with pytest.raises(PeerMessageError) as caught:
        decode(data, request)
    return caught.value.reason


def test_a_message_written_by_hand_is_read() -> None:
    message = decode(by_hand(), REQUEST)
    assert (message.sender, message.round, message.examples) == ("ada", 4, 60)
    np.testing.assert_array_equal(message.arrays["model"], NUMBERS)
    assert message.arrays["model"].dtype == np.float32


def test_written_messages_follow_the_description() -> None:
    data = encode(MESSAGE, "trial")
    assert struct.unpack_from(">4sHH", data) == (b"FKN2", 0, 0)
    (length,) = struct.unpack_from("<Q", data, 8)
    head = json.loads(data[16 : 16 + length])
    assert json.loads(head.pop("__metadata__")["fedkin"]) == HEADER and head == LAYOUT
    assert data[16 + length :] == NUMBERS.astype("<f4").tobytes()


def test_peers_with_another_backbone_are_refused_by_name() -> None:
    adapters = Request("trial", "ada", MODEL, P, backbone="b0")
    sent = encode(MESSAGE, "trial", backbone="b0")
    np.testing.assert_array_equal(decode(sent, adapters).arrays["model"], NUMBERS)
    for data, request, words in (
        (encode(MESSAGE, "trial", backbone="b1"), adapters, "'b1' there and 'b0' here"),
        (by_hand(), adapters, "'none' there and 'b0' here"),
        (sent, REQUEST, "'b0' there and 'none' here"),
    ):
        with pytest.raises(PeerMessageError, match=words) as caught:
            decode(data, request)
        assert caught.value.reason == "backbone"


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    vectors=any_array(np.float32, st.tuples(st.just(2), st.integers(1, 40)), elements=finite),
    round=st.integers(0, 2**53),
    examples=st.integers(1, 2**31 - 1),
)
def test_there_and_back_is_the_same(vectors: np.ndarray, round: int, examples: int) -> None:
    sent = Message("ada", round, examples, {"model": vectors[0], "update": vectors[1]})
    received = decode(
        encode(sent, "trial"), Request("trial", "ada", MODEL_AND_UPDATE, vectors.shape[1])
    )
    assert (received.sender, received.round, received.examples) == ("ada", round, examples)
    assert list(received.arrays) == ["model", "update"]
    for name, vector in sent.arrays.items():
        assert received.arrays[name].tobytes() == vector.tobytes()


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    assert refused(data) in REASONS
    assert refused(b"FKN2" + data) in REASONS


@given(st.data())
def test_a_message_cut_or_changed_anywhere_is_read_as_it_was_or_refused(
    data: st.DataObject,
) -> None:
    whole = by_hand()
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert refused(whole[:cut]) in REASONS
    place = data.draw(st.integers(0, len(whole) - 1))
    value = data.draw(st.integers(0, 255))
    changed = whole[:place] + bytes([value]) + whole[place + 1 :]
    try:
        message = decode(changed, REQUEST)
    except PeerMessageError as error:
        assert error.reason in REASONS
    else:
        assert message.sender == "ada" and np.isfinite(message.arrays["model"]).all()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)


@given(key=st.sampled_from(sorted(HEADER)), value=json_values)
def test_any_value_in_a_header_is_used_only_if_it_is_right(key: str, value: Any) -> None:
    try:
        message = decode(by_hand({**HEADER, key: value}), REQUEST)
    except PeerMessageError as error:
        assert error.reason in REASONS
    else:
        assert (
            key in ("round", "examples") and type(value) is int and getattr(message, key) == value
        )


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
    ],
)
def test_a_wrong_header_has_its_reason(change: dict[str, Any], reason: str) -> None:
    assert refused(by_hand({**HEADER, **change})) == reason


def layout(
    name: str = "model", dtype: str = "F32", shape: Any = (3,), end: int = 12
) -> dict[str, Any]:
    return {name: {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


@pytest.mark.parametrize(
    ("arrays", "size", "reason"),
    [
        ({}, 0, "arrays"),
        (layout("update"), 12, "arrays"),
        (layout(dtype="F64", end=24), 24, "dtype"),
        (layout(dtype="I32"), 12, "dtype"),
        (layout(dtype="BF16", end=6), 6, "archive"),
        (layout(dtype="O", end=24), 24, "archive"),
        (layout(shape=[4], end=16), 16, "shape"),
        (layout(shape=[3, 1]), 12, "shape"),
        (layout(shape=[0], end=0), 0, "shape"),
        (layout(shape=[0, 2**63], end=0), 0, "archive"),
        (layout(shape=[2**63, 2**63], end=0), 0, "archive"),
        (layout(shape=[3.0]), 12, "archive"),
        (layout(shape=3), 12, "archive"),
        (layout(shape=[-3]), 12, "archive"),
        ({"model": "<f4"}, 12, "archive"),
        (
            {**LAYOUT, "more": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}},
            12,
            "archive",
        ),
    ],
)
def test_other_arrays_than_were_requested(arrays: dict[str, Any], size: int, reason: str) -> None:
    assert refused(by_hand(payload=bytes(size), layout=arrays)) == reason


@pytest.mark.parametrize("key", sorted(HEADER))
def test_nothing_may_be_missing(key: str) -> None:
    assert refused(by_hand({k: v for k, v in HEADER.items() if k != key})) == "fields"


@pytest.mark.parametrize(
    "header", ["{", "", "[" * 8000, '{"a": NaN,}', "[]", "7", "null", '"ada"', "9" * 5000]
)
def test_a_header_that_is_no_object(header: str) -> None:
    assert refused(by_hand(header)) == "archive"


def test_a_huge_header_is_refused_unread() -> None:
    assert refused(by_hand({**HEADER, "more": "x" * 8192})) == "header"
    prelude = struct.pack(">4sHH", b"FKN2", 0, 0)
    assert refused(prelude + struct.pack("<Q", 2**64 - 1)) == "header"
    assert refused(prelude + struct.pack("<Q", 8000)) == "archive"  # announced, and not there
    assert refused(struct.pack(">4sHH", b"FKN2", 9000, 0) + bytes(10_000)) == "header"
    # Unknown entries do no harm.
    assert decode(by_hand({**HEADER, "more": "x" * 7000}), REQUEST).round == 4


def test_a_message_longer_than_two_models_is_refused_unread() -> None:
    assert refused(bytes(size_limit(P) + 1)) == "length"
    assert refused(by_hand() + bytes(size_limit(P))) == "length"


def test_a_message_of_another_version_says_so() -> None:
    old = json.dumps({**HEADER, "arrays": [["model", "<f4", [3]]]}).encode()
    data = struct.pack(">4sIH", b"FKN1", len(old), 0) + old + NUMBERS.tobytes()
    assert refused(data) == refused(by_hand(magic=b"FKN3")) == "version"
    with pytest.raises(PeerMessageError, match=r"FKN1.*FKN2"):
        decode(data, REQUEST)


def test_something_else_altogether() -> None:
    assert refused(b"GET / HTTP/1.1\r\n\r\n") == "header"


def test_wrong_sizes() -> None:
    assert refused(by_hand(payload=NUMBERS.tobytes()[:-1])) == "archive"
    assert refused(by_hand(payload=NUMBERS.tobytes() + b"\0")) == "archive"
    assert refused(by_hand(payload=b"")) == "archive"
    assert refused(by_hand()[:10]) == "length"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(bad: float) -> None:
    assert refused(by_hand(payload=np.array([1, bad, 2], "<f4").tobytes())) == "finite"


def test_a_round_may_not_go_back() -> None:
    assert refused(by_hand(), replace(REQUEST, min_round=5)) == "stale"
    # The same once more is no step back.
    assert decode(by_hand(), replace(REQUEST, min_round=4)).round == 4


def test_another_round_than_the_one_asked_for() -> None:
    assert refused(by_hand(), replace(REQUEST, round=3)) == "round"
    assert decode(by_hand(), replace(REQUEST, round=4)).round == 4


def test_a_status_has_no_numbers() -> None:
    request = Request("trial", "ada", STATUS, P)
    assert decode(encode(Message("ada", 9, 1), "trial"), request).round == 9
    assert refused(by_hand(), request) == "arrays"


def test_requests_as_they_are_sent() -> None:
    requests = [(STATUS, None), (MODEL, None), (MODEL_AND_UPDATE, None), (MODEL_AND_UPDATE, 7)]
    assert [request_text(*request) for request in requests] == [
        "status",
        "model",
        "model+update",
        "model+update@7",
    ]
    for text in ("status", "model", "model+update", "model+update@7"):
        assert request_text(*parse_request(text)) == text
    for text in (
        "",
        "models",
        "update",
        "model@0",
        "model@-1",
        "model@x",
        "model+update+model",
        "status@" + "9" * 99,
    ):
        with pytest.raises(PeerMessageError):
            parse_request(text)


def test_labels_that_are_no_classes_must_be_equal() -> None:
    """Labels that are classes have no entry, so a message from a peer with classes says nothing."""
    counts = replace(REQUEST, labels="count, poisson")
    assert decode(encode(MESSAGE, "trial", labels="count, poisson"), counts).sender == "ada"
    assert refused(encode(MESSAGE, "trial"), counts) == "labels"
    assert refused(encode(MESSAGE, "trial", labels="regression, huber"), counts) == "labels"
    assert refused(encode(MESSAGE, "trial", labels="count, poisson")) == "labels"
