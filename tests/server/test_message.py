"""Messages: packed numbers and arrays come back as they were; damaged or hostile messages are
refused."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedkin.core import codec
from fedkin.server.frames import Frames
from fedkin.server.message import (
    InvalidMessageError,
    RpcMessage,
    decode,
    encode,
    operation_of,
    pack,
    to_parts,
    unpack,
)

NUMBERS = st.one_of(
    arrays.arrays(np.int64, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0)),
    arrays.arrays(np.int32, arrays.array_shapes(max_dims=2)),
    arrays.arrays(np.uint8, arrays.array_shapes(max_dims=2)),
    arrays.arrays(np.bool_, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0)),
)


@given(NUMBERS)
def test_packed_numbers_come_back(numbers: np.ndarray) -> None:
    back = unpack(pack(numbers))
    assert back.dtype == (bool if numbers.dtype == bool else np.int64)
    np.testing.assert_array_equal(back, numbers, strict=False)
    assert back.shape == numbers.shape


def test_the_largest_integers_come_back() -> None:
    ends = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1])
    np.testing.assert_array_equal(unpack(pack(ends)), ends)


def test_a_view_is_packed() -> None:
    numbers = np.arange(12).reshape(3, 4).T[::-1]
    np.testing.assert_array_equal(unpack(pack(numbers)), numbers)


def test_a_thousand_consecutive_ids_take_less_than_a_hundred_bytes() -> None:
    assert len(pack(np.arange(1_000_000, 1_001_000))) < 100
    assert len(pack(np.ones(1000, bool))) < 100


def test_every_other_client_of_two_thousand_takes_less_than_a_hundred_bytes() -> None:
    assert len(pack(np.arange(0, 2000, 2))) < 100


@given(st.binary(max_size=200))
def test_any_bytes_are_numbers_or_refused(data: bytes) -> None:
    numbers_or_refused(data)


@given(st.binary(max_size=200))
def test_any_content_is_numbers_or_refused(data: bytes) -> None:
    numbers_or_refused(zlib.compress(data))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=12), st.binary(max_size=64))
def test_any_shape_is_numbers_or_refused(head: list[int], data: bytes) -> None:
    numbers_or_refused(zlib.compress(np.array(head, "<i8").tobytes() + data))


@given(st.data())
def test_a_damaged_byte_is_noticed(data: Any) -> None:
    packed = bytearray(pack(np.arange(50) ** 2))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        back = unpack(bytes(packed))
    except InvalidMessageError:
        return
    # The changed byte does not belong to the numbers.
    np.testing.assert_array_equal(back, np.arange(50) ** 2)


def test_half_of_the_bytes_are_refused() -> None:
    packed = pack(np.arange(1000) ** 2)
    with pytest.raises(InvalidMessageError, match="cannot be read"):
        unpack(packed[: len(packed) // 2])


def test_numbers_that_decompress_to_too_much_are_refused() -> None:
    with pytest.raises(InvalidMessageError):
        unpack(zlib.compress(bytes(2**28 + 1000), 9))


def test_numbers_that_fill_the_limit_and_go_on_are_refused() -> None:
    """Numbers read within the limit are whole numbers of the announced shape."""
    count = 2**22 - 3  # with three numbers in front: 2**25 bytes
    head = np.array([0, 1, count], "<i8").tobytes()
    assert unpack(zlib.compress(head + bytes(8 * count))).shape == (count,)
    for more in (bytes(8), bytes(2**20)):
        with pytest.raises(InvalidMessageError):
            unpack(zlib.compress(head + bytes(8 * count) + more))


@pytest.mark.parametrize(
    "change", [lambda data: data[:-4], lambda data: data[:-1], lambda data: data + b"more"]
)
def test_numbers_without_their_checksum_or_with_something_behind_it_are_refused(
    change: Callable[[bytes], bytes],
) -> None:
    data = pack(np.arange(100) ** 2)
    with pytest.raises(
        InvalidMessageError, match="packed numbers are cut off, or have more than 33554432 bytes"
    ):
        unpack(change(data))


def numbers_or_refused(data: bytes) -> None:
    try:
        assert isinstance(unpack(data), np.ndarray)
    except InvalidMessageError:
        pass


# --- whole messages


def test_a_message_comes_back() -> None:
    header = {
        "operation": "train",
        "run": "a-b.c",
        "part": None,
        "stream": [0, 2**40, "method/round"],
        "sure": True,
    }
    arrays = {
        "models": np.ones((2, 3), np.float32),
        "model_index": np.array([1, 0]),
        "sure": np.array([True, False]),
    }
    back = decode(encode(RpcMessage(header, arrays)))
    assert back.header == header and back.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)
    back.arrays["models"][0] = 0  # a node trains in place


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    message_or_refused(data)


@given(st.data())
def test_a_damaged_message_is_read_or_refused(data: Any) -> None:
    encoded = bytearray(
        encode(RpcMessage({"run": "a"}, {"a": np.arange(9), "b": np.ones(3, np.float32)}))
    )
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    message_or_refused(bytes(encoded))


def message_or_refused(data: bytes) -> None:
    try:
        assert isinstance(decode(data), RpcMessage)
    except InvalidMessageError:
        pass


@pytest.mark.parametrize(
    "data",
    [
        codec.encode({}, {"clients": np.arange(3)}),  # integers travel packed
        codec.encode({}, {"packed.clients": np.arange(3)}),
        codec.encode({}, {"packed.clients": np.zeros(0, np.uint8)}),
        codec.encode({}, {str(k): np.zeros(1) for k in range(25)}),
        encode(RpcMessage({"run": "a"}, {"models": np.zeros(100)}))[:-40],
    ],
    ids=["not packed", "packed in another type", "packed nothing", "too many arrays", "half"],
)
def test_values_that_no_message_can_hold_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        decode(data)


def test_a_number_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(RpcMessage({"lr": float("nan")}))


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1]])
def test_an_entry_of_another_type_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match="expected the header entry first \\(int\\)"):
        RpcMessage(json.loads(json.dumps({"first": value}))).value("first", int)


def test_a_missing_entry_is_refused_by_name() -> None:
    with pytest.raises(InvalidMessageError, match="expected the header entry run \\(str\\)"):
        RpcMessage().value("run", str)


def test_a_long_entry_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidMessageError) as refused:
        RpcMessage({"first": "x" * 10_000}).value("first", int)
    assert len(str(refused.value)) < 200


# --- entries and arrays of a message


@pytest.mark.parametrize("take", [RpcMessage.floats, RpcMessage.integers, RpcMessage.booleans])
def test_a_missing_array_is_refused_by_name_and_shape(take: Any) -> None:
    with pytest.raises(
        InvalidMessageError, match=r"expected the array update of shape \[2, 3\], got none"
    ):
        take(RpcMessage(), "update", 2, 3)


@pytest.mark.parametrize(
    ("take", "dtype"),
    [
        (RpcMessage.floats, np.int64),
        (RpcMessage.floats, bool),
        (RpcMessage.integers, np.float32),
        (RpcMessage.booleans, np.int64),
    ],
)
def test_an_array_of_another_dtype_is_refused(take: Any, dtype: Any) -> None:
    with pytest.raises(InvalidMessageError, match=f"got {np.dtype(dtype)} of shape"):
        take(RpcMessage({}, {"a": np.zeros(4, dtype)}), "a", 4)


@pytest.mark.parametrize("shape", [(3,), (5,), (4, 1), (2, 2), ()])
def test_an_array_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidMessageError, match=r"expected the array a of shape \[4\]"):
        RpcMessage({}, {"a": np.zeros(shape)}).floats("a", 4)


def test_integers_are_read_as_int64() -> None:
    assert RpcMessage({}, {"a": np.zeros(4, np.uint8)}).integers("a", 4).dtype == np.int64


def test_any_array_is_taken_by_name() -> None:
    message = RpcMessage({}, {"b": np.arange(3), "a": np.ones((2, 2))})
    assert message.array("b") is message.arrays["b"]
    with pytest.raises(InvalidMessageError, match="expected the array c, got a, b"):
        message.array("c")
    with pytest.raises(InvalidMessageError, match="expected the array c, got no array"):
        RpcMessage().array("c")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ({"operation": "train"}, "train"),
        ({}, "a message without a task"),
        ({"operation": "train\nround 7"}, "train round 7"),
        ({"operation": "x" * 100}, "x" * 60 + "..."),
    ],
)
def test_a_line_of_a_log_names_the_task_of_a_request(header: dict[str, Any], name: str) -> None:
    assert operation_of(to_parts(RpcMessage(header))) == name


def test_a_line_of_a_log_says_that_a_request_cannot_be_read() -> None:
    assert operation_of(Frames(b"no message")) == "a message that cannot be read"
