"""A site's own SuperNode: messages are fetched, answered and sent; and Flower's names that it uses
are as they were."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest

pytest.importorskip("flwr", reason="a site needs pip install 'fedkin[flower]'")
from flwr.app import Message, Metadata
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import (
    inflate_object_from_contents,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_connection import http_request_response

from fedkin.server.deploy.flower_node import Connection, pause, serve
from fedkin.server.deploy.worker_client import WorkerFailure
from fedkin.server.flower_transport import from_record, to_record
from fedkin.server.frames import Frames
from fedkin.server.message import RpcMessage, from_parts, to_parts

ARRAYS = {"model": np.arange(5, dtype=np.float32), "rows": np.arange(3)}


class Ended(Exception):
    """The SuperLink of a test has nothing more to say."""


class SuperLink:
    """Flower's client in memory: these requests, and the replies."""

    def __init__(self, *requests: RpcMessage | BaseException) -> None:
        self.waiting = list(requests)
        self.objects = {}
        self.confirmed = []
        self.sent: list[Message] = []

    def connection(self) -> Connection:
        def unused(*_: Any, **__: Any) -> NoReturn:
            pytest.fail("an app is not fetched")

        return Connection(
            node_id=7,
            receive=self.receive,
            send=self.send,
            get_run=unused,
            get_fab=unused,
            pull_object=self.pull,
            push_object=self.push,
            confirm=self.confirm,
        )

    def receive(self) -> Any:
        if not self.waiting:
            raise Ended
        request = self.waiting.pop(0)
        if isinstance(request, BaseException):
            raise request
        metadata = Metadata(1, "", 1, 7, "", "3", time.time(), 60.0, "query")
        content = to_record(request)[0]
        message = Message(metadata=metadata, content=content)  # type: ignore[call-overload]
        message.metadata.__dict__["_message_id"] = message.object_id
        self.objects |= {
            name: one.deflate() for name, one in get_all_nested_objects(message).items()
        }
        return message, get_object_tree(message)

    def pull(self, run: int, name: str) -> bytes:
        return self.objects[name]

    def confirm(self, run: int, name: str) -> None:
        self.confirmed.append(name)

    def send(self, message: Message, tree: Any, seconds: float) -> tuple[set[str], str]:
        self.sent.append(message)
        return set(get_all_nested_objects(message)), "session"

    def push(self, run: int, session: str, name: str, content: bytes) -> None:
        assert session == "session"
        self.objects[name] = content

    def replies(self) -> list[Message]:
        """The replies, made again of the pushed objects."""
        return [
            inflate_object_from_contents(one.metadata.message_id, dict(self.objects))
            for one in self.sent
        ]  # type: ignore[misc]


def echo(parts: Frames) -> Frames:
    message = from_parts(parts)
    return to_parts(RpcMessage({"echo": message.header}, message.arrays))


def fail(parts: Frames) -> Frames:
    raise WorkerFailure("ZeroDivisionError: division by zero")


def served(superlink: SuperLink, answer: Callable[[Frames], Frames]) -> list[float]:
    """Serve until the SuperLink has no more messages; the pauses."""
    pauses: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    with pytest.raises(Ended):
        serve(superlink.connection(), answer, lambda: now[0], sleep)
    return pauses


def test_a_message_is_answered_by_the_worker() -> None:
    superlink = SuperLink(RpcMessage({"operation": "train"}, ARRAYS))
    served(superlink, echo)
    (reply,) = superlink.replies()
    message, _ = from_record(reply.content)
    assert message.header == {"echo": {"operation": "train"}}
    np.testing.assert_array_equal(message.arrays["model"], ARRAYS["model"])
    np.testing.assert_array_equal(message.arrays["rows"], ARRAYS["rows"])
    assert len(superlink.confirmed) == 1
    assert superlink.sent[0].metadata.reply_to_message_id == superlink.confirmed[0]
    assert (superlink.sent[0].metadata.src_node_id, superlink.sent[0].metadata.dst_node_id) == (
        7,
        1,
    )


def test_a_worker_that_fails_is_an_error_at_the_server() -> None:
    superlink = SuperLink(RpcMessage({"operation": "train"}))
    served(superlink, fail)
    (reply,) = superlink.sent
    assert (
        reply.has_error()
        and reply.error.code == 2
        and "ZeroDivisionError" in str(reply.error.reason)
    )


def test_a_line_about_a_message_names_round_and_task(caplog: pytest.LogCaptureFixture) -> None:
    requests = [RpcMessage({"operation": name}, ARRAYS) for name in ("train", "evil\nname")]
    with caplog.at_level(logging.INFO, "fedkin"):
        served(SuperLink(*requests), echo)
        served(SuperLink(RpcMessage({"operation": "losses"})), fail)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("round 3, train: fetched in ")
    assert lines[1].startswith("round 3, evil name: fetched in ")
    assert lines[2].startswith("round 3, losses: answered with an error: ZeroDivisionError")


def test_a_run_that_has_ended_is_left_alone() -> None:
    superlink = SuperLink(RunNotRunningException(), RpcMessage({"operation": "train"}))
    served(superlink, echo)
    assert len(superlink.sent) == 1


def test_looks_for_messages_are_rare_where_none_come() -> None:
    assert [pause(0.0), pause(10.0), pause(3600.0)] == [0.2, 1.0, 3.0]
    superlink = SuperLink()
    superlink.receive = lambda: None  # type: ignore[method-assign]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 200:
            raise Ended

    with pytest.raises(Ended):
        serve(superlink.connection(), echo, lambda: sum(pauses), sleep)  # type: ignore[arg-type]
    assert pauses == sorted(pauses) and pauses[0] == 0.2 and pauses[-1] == 3.0


def test_flowers_names_are_as_they_were() -> None:
    """Flower is limited to tested releases. Where another is allowed, this shows where to look."""
    names = [*inspect.signature(http_request_response).parameters]
    assert names[:4] == ["server_address", "insecure", "root_certificates", "authentication_keys"]
    pulled = inspect.signature(pull_and_inflate_object_from_tree).parameters
    assert [*pulled][:3] == ["object_tree", "pull_object_fn", "confirm_object_received_fn"]
    assert {"return_type", "initial_backoff"} <= pulled.keys()
    assert {"objects", "push_object_fn", "object_ids_to_push"} <= inspect.signature(
        push_objects
    ).parameters.keys()
    yielded = str(inspect.signature(http_request_response).return_annotation)
    kinds = ["int", "Message", "set[str]", "Run", "Fab", "bytes", "None", "None"]
    place = 0
    for kind in kinds:  # in the order in which Connection takes them
        place = yielded.index(kind, place) + len(kind)
    assert issubclass(RunNotRunningException, BaseException)
