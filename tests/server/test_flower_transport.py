"""Flower's messages: messages come back as they were, invalid ones are refused,
and a ClientApp replies."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    Metadata,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid

from fedkin.core.errors import DataError
from fedkin.models import mclr
from fedkin.server.deploy.custom_clients import jax_client
from fedkin.server.flower_transport import FlowerTransport, client_app, from_record, to_record
from fedkin.server.message import IN_REPLY, InvalidMessageError, RpcMessage, encode
from tests.server.memory_transport import transmitted
from tests.server.small_federations import ABOUT, clustered_data, fake_node

REQUEST = RpcMessage(
    {"operation": "train", "part": None, "run": "a"},
    {
        "models": np.arange(6, dtype=np.float32).reshape(2, 3),
        "loss": np.array([0.5, np.nan]),
        "clients": np.array([3, 1]),
        "arrived": np.array([True, False]),
        "none": np.zeros((0, 4), np.float32),
        "empty": np.zeros(0, np.int64),
    },
)


def test_a_message_comes_through_flower_s_records() -> None:
    record, sent = to_record(REQUEST)
    back, received = from_record(record)
    assert back.header == REQUEST.header and back.arrays.keys() == REQUEST.arrays.keys()
    for name, array in REQUEST.arrays.items():
        np.testing.assert_array_equal(back.arrays[name], array, strict=True)
    assert sent == received


def test_a_large_float_array_is_a_separate_object_that_flower_stores_once() -> None:
    large = {"large": np.zeros(20_000, np.float32), "whole": np.arange(20_000)}
    records = [to_record(RpcMessage({"run": run}, REQUEST.arrays | large))[0] for run in "ab"]
    arrays = [record.array_records["arrays"] for record in records]
    assert arrays[0].keys() == {"large"}
    assert arrays[0]["large"].object_id == arrays[1]["large"].object_id


def test_every_array_of_a_message_that_is_sent_whole_comes_through() -> None:
    large = RpcMessage(
        {}, {"large": np.arange(20_000, dtype=np.float32), "small": np.ones(2, np.float32)}
    )
    for whole in (0, 100, IN_REPLY):
        record, sent = to_record(large, whole)
        back, received = from_record(record)
        assert sent == received and ("arrays" in record) == (whole < IN_REPLY)
        for name, array in large.arrays.items():
            np.testing.assert_array_equal(back.arrays[name], array, strict=True)


def test_the_engine_in_memory_counts_as_flower_does_but_for_headers_of_arrays() -> None:
    _, size = to_record(REQUEST)
    floats = sum(array.dtype.kind == "f" for array in REQUEST.arrays.values())
    assert 0 <= size - transmitted(REQUEST)[1] <= 200 * floats


def test_a_reply_that_was_cut_off_holds_up_no_other() -> None:
    """Flower's grid waits for the rest of a reply, and returns nothing in the meantime."""
    rest = threading.Event()

    def pull(request_ids: list[str]) -> list[Message]:
        if "cut off" in request_ids:
            assert rest.wait(60)
        return [reply_to(request_id) for request_id in request_ids]

    grid = create_autospec(Grid, instance=True)
    grid.pull_messages.side_effect = pull
    transport = FlowerTransport(grid)
    replies: list[Any] = []
    while not replies:
        replies = list(transport.pull(["cut off", "whole"]))
    assert [reply.request_id for reply in replies] == ["whole"] and replies[0].succeeded
    rest.set()
    while len(replies) < 2:
        replies += transport.pull(["cut off"])
    assert replies[1].request_id == "cut off" and replies[1].succeeded


def reply_to(request_id: str) -> Message:
    """A reply to a request."""
    metadata = Metadata(1, "m2", 7, 1, request_id, "3", time.time(), 60.0, "query")
    content = to_record(RpcMessage({"name": "berlin"}))[0]
    return Message(metadata=metadata, content=content)  # type: ignore[call-overload]


def record(**parts: Any) -> RecordDict:
    return RecordDict(parts)


def raw(data: bytes) -> ArrayRecord:
    return ArrayRecord({"a": Array(dtype="float32", shape=(3,), stype="fedkin", data=data)})


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def huge() -> bytes:
    """The header of an array of four terabytes, and nothing after it."""
    header = (
        b'{"__metadata__":{"fedkin":"{}"},'
        b'"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    )
    return len(header).to_bytes(8, "little") + header


REST = ConfigRecord({"message": encode(RpcMessage())})
VECTOR = encode(RpcMessage({}, {"a": np.zeros(100)}))
INVALID: dict[str, Any] = {
    "nothing": record(),
    "no header": record(rest=ConfigRecord({"other": b"x"})),
    "a header of numbers": record(rest=ConfigRecord({"message": 3})),
    "a header of text": record(rest=ConfigRecord({"message": "{}"})),
    "another record": record(rest=MetricRecord({"message": 1})),
    "a damaged header": record(rest=ConfigRecord({"message": b"abc"})),
    "an empty array": record(rest=REST, arrays=raw(b"")),
    "bytes for an array": record(rest=REST, arrays=raw(b"\x00" * 64)),
    "half an array": record(rest=REST, arrays=raw(VECTOR[:-40])),
    "objects": record(rest=REST, arrays=raw(npy(np.array([{}])))),
    "an array of NumPy's": record(rest=REST, arrays=raw(npy(np.zeros(3)))),
    "more than any memory": record(rest=REST, arrays=raw(huge())),
    "too many arrays": record(
        rest=REST, arrays=ArrayRecord({str(k): raw(VECTOR)["a"] for k in range(30)})
    ),
}


@pytest.mark.parametrize("what", [*INVALID])
def test_an_invalid_message_is_refused(what: str) -> None:
    with pytest.raises(InvalidMessageError):
        from_record(INVALID[what])


# --- a ClientApp, without Flower's processes


def message(request: RpcMessage | RecordDict, kind: str = "query") -> Message:
    content = request if isinstance(request, RecordDict) else to_record(request)[0]
    return Message(
        metadata=Metadata(1, "m1", 1, 7, "", "3", time.time(), 60.0, kind), content=content
    )  # type: ignore[call-overload]


def context(**node: Any) -> Context:
    return Context(run_id=1, node_id=7, node_config=node, state=RecordDict(), run_config={})


def said(
    app: Any, request: RpcMessage | RecordDict, kind: str = "query", **node: Any
) -> RpcMessage:
    reply = app(message(request, kind), context(**node))
    assert reply.metadata.reply_to_message_id == "m1" and reply.has_content()
    return from_record(reply.content)[0]


@pytest.mark.parametrize("kind", ["train", "evaluate", "query"])
def test_a_client_app_replies_to_every_type_of_message(kind: str) -> None:
    app = client_app(lambda node, run: fake_node(str(node["name"])))
    reply = said(app, RpcMessage({"operation": "hello", **ABOUT.header()}), kind, name="berlin")
    assert reply.header["name"] == "berlin"
    np.testing.assert_array_equal(reply.arrays["samples"], [10])


def test_a_node_that_cannot_be_built_replies_with_the_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def make(node: dict[str, Any], run: dict[str, Any]) -> Any:
        raise DataError("mine.npz\n is not there")

    reply = said(client_app(make), RpcMessage({"operation": "hello", **ABOUT.header()}))
    assert reply.header == {"failed": "mine.npz is not there"}
    assert "this client cannot reply: mine.npz is not there" in caplog.text


def test_an_invalid_message_gets_an_error_for_a_reply() -> None:
    app = client_app(lambda node, run: fake_node("berlin"))
    assert "failed" in said(app, RecordDict()).header


def test_a_jax_client_replies_with_its_data(tmp_path: Path) -> None:
    app = jax_client(mclr, lambda node: clustered_data())
    reply = said(
        app,
        RpcMessage({"operation": "hello", **ABOUT.header()}),
        name="berlin",
        folder=str(tmp_path),
    )
    assert "[6] -> 6" in reply.header["refused"] or "parameters" in reply.header["refused"]


def test_a_client_without_a_name_names_the_option() -> None:
    reply = said(
        jax_client(mclr, clustered_data()), RpcMessage({"operation": "hello", **ABOUT.header()})
    )
    assert "--node-config" in reply.header["failed"] and "name" in reply.header["failed"]


def test_data_of_another_type_are_refused(tmp_path: Path) -> None:
    app = jax_client(mclr, lambda node: [1, 2, 3])
    reply = said(
        app,
        RpcMessage({"operation": "hello", **ABOUT.header()}),
        name="berlin",
        folder=str(tmp_path),
    )
    assert "FederatedData" in reply.header["failed"] and "list" in reply.header["failed"]
