"""Flower's messages: what goes in comes out, what is none is refused, and a ClientApp answers."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, Metadata, MetricRecord, RecordDict

from fedkin.core.errors import DataError
from fedkin.models import mclr
from fedkin.server.deploy.client_hooks import jax_client
from fedkin.server.flower_transport import client_app, from_record, to_record
from fedkin.server.message import InvalidMessageError, RpcMessage
from tests.server.memory_transport import carried
from tests.server.small_federations import ABOUT, fake_node, kinds

LETTER = RpcMessage(
    {"verb": "train", "part": None, "run": "a"},
    {
        "models": np.arange(6, dtype=np.float32).reshape(2, 3),
        "loss": np.array([0.5, np.nan]),
        "clients": np.array([3, 1]),
        "arrived": np.array([True, False]),
        "none": np.zeros((0, 4), np.float32),
        "nobody": np.zeros(0, np.int64),
    },
)


def test_a_parcel_comes_through_as_a_message_carries_it() -> None:
    record, sent = to_record(LETTER)
    back, received = from_record(record)
    assert back.header == LETTER.header and back.arrays.keys() == LETTER.arrays.keys()
    for name, array in LETTER.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)
    assert sent == received


def test_the_engine_in_memory_counts_as_flower_does_but_for_headers_of_arrays() -> None:
    _, size = to_record(LETTER)
    floats = sum(array.dtype.kind == "f" for array in LETTER.arrays.values())
    assert 0 <= size - carried(LETTER)[1] <= 200 * floats


def record(**parts: Any) -> RecordDict:
    return RecordDict(parts)


def raw(data: bytes, dtype: str = "float32", shape: tuple[int, ...] = (3,)) -> Array:
    return Array(dtype=dtype, shape=shape, stype="numpy.ndarray", data=data)


def npy(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def zipped() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    return buffer.getvalue()


def huge() -> bytes:
    """The head of an array of four terabytes, and nothing after it."""
    data = npy(np.zeros(3, np.float32))
    return data.replace(b"(3,), }              ", b"(1000000000000,), }  ")


REST = ConfigRecord({"header": "{}"})
NO_MESSAGES: dict[str, Any] = {
    "nothing": record(),
    "no header": record(rest=ConfigRecord({"packed.a": b"x"})),
    "a header of numbers": record(rest=ConfigRecord({"header": 3})),
    "a header that is none": record(rest=ConfigRecord({"header": "[]"})),
    "numbers for a record": record(rest=MetricRecord({"header": 1})),
    "packed numbers that are none": record(rest=ConfigRecord({"header": "{}", "packed.a": b"abc"})),
    "an empty array": record(rest=REST, arrays=ArrayRecord({"a": raw(b"")})),
    "bytes for an array": record(rest=REST, arrays=ArrayRecord({"a": raw(b"\x00" * 64)})),
    "half an array": record(rest=REST, arrays=ArrayRecord({"a": raw(npy(np.zeros(100))[:-40])})),
    "objects": record(rest=REST, arrays=ArrayRecord({"a": raw(npy(np.array([{}]), allow_pickle=True))})),
    "an archive": record(rest=REST, arrays=ArrayRecord({"a": raw(zipped())})),
    "half an archive": record(rest=REST, arrays=ArrayRecord({"a": raw(zipped()[:50])})),
    "more than any memory": record(rest=REST, arrays=ArrayRecord({"a": raw(huge())})),
}


@pytest.mark.parametrize("what", [*NO_MESSAGES])
def test_a_message_that_is_none_is_refused(what: str) -> None:
    assert zipfile.is_zipfile(io.BytesIO(zipped())) and len(huge()) == len(npy(np.zeros(3, np.float32)))
    with pytest.raises(InvalidMessageError):
        from_record(NO_MESSAGES[what])


# --- a ClientApp, without Flower's processes


def message(letter: RpcMessage | RecordDict, kind: str = "query") -> Message:
    content = letter if isinstance(letter, RecordDict) else to_record(letter)[0]
    return Message(metadata=Metadata(1, "m1", 1, 7, "", "3", time.time(), 60.0, kind), content=content)  # type: ignore[call-overload]


def context(**node: Any) -> Context:
    return Context(run_id=1, node_id=7, node_config=node, state=RecordDict(), run_config={})


def said(app: Any, letter: RpcMessage | RecordDict, kind: str = "query", **node: Any) -> RpcMessage:
    reply = app(message(letter, kind), context(**node))
    assert reply.metadata.reply_to_message_id == "m1" and reply.has_content()
    return from_record(reply.content)[0]


@pytest.mark.parametrize("kind", ["train", "evaluate", "query"])
def test_a_client_app_answers_letters_of_every_kind(kind: str) -> None:
    app = client_app(lambda node, run: fake_node(str(node["name"])))
    answer = said(app, RpcMessage({"verb": "hello", **ABOUT.header()}), kind, name="berlin")
    assert answer.header["name"] == "berlin"
    np.testing.assert_array_equal(answer.arrays["samples"], [10])


def test_a_node_that_cannot_be_made_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def make(node: dict[str, Any], run: dict[str, Any]) -> Any:
        raise DataError("mine.npz\n is not there")

    answer = said(client_app(make), RpcMessage({"verb": "hello", **ABOUT.header()}))
    assert answer.header == {"failed": "mine.npz is not there"}
    assert "this client cannot answer: mine.npz is not there" in caplog.text


def test_a_message_that_is_none_is_answered_in_words() -> None:
    app = client_app(lambda node, run: fake_node("berlin"))
    assert "failed" in said(app, RecordDict()).header


def test_a_jax_client_answers_with_its_data(tmp_path: Path) -> None:
    app = jax_client(mclr, lambda node: kinds())
    answer = said(app, RpcMessage({"verb": "hello", **ABOUT.header()}), name="berlin", folder=str(tmp_path))
    assert "[6] -> 6" in answer.header["refused"] or "parameters" in answer.header["refused"]


def test_a_client_without_a_name_says_how_to_give_it_one() -> None:
    answer = said(jax_client(mclr, kinds()), RpcMessage({"verb": "hello", **ABOUT.header()}))
    assert "--node-config" in answer.header["failed"] and "name" in answer.header["failed"]


def test_data_of_another_kind_are_refused_in_words(tmp_path: Path) -> None:
    app = jax_client(mclr, lambda node: [1, 2, 3])
    answer = said(app, RpcMessage({"verb": "hello", **ABOUT.header()}), name="berlin", folder=str(tmp_path))
    assert "FederatedData" in answer.header["failed"] and "list" in answer.header["failed"]
