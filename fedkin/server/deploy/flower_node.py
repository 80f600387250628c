"""A site's connection to the SuperLink that needs no process per message, unlike Flower's
SuperNode.

Flower's SuperNode (1.41) starts a process for every message. It polls for messages every three
seconds and for replies every half second, and neither can be configured. Here one loop fetches
messages, forwards them to the site's worker, and sends the replies. TLS, keys, heartbeats and
retries are Flower's. The app's code that the server sends is neither fetched nor run.

This file uses private names of Flower, all imported below. Therefore Flower is limited to tested
releases, and tests/server/deploy/test_flower_node.py checks the signatures.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_connection import http_request_response

from fedkin.core.log_events import event
from fedkin.server.deploy.worker_client import WorkerFailure
from fedkin.server.deploy.worker_link import WorkerLinkError
from fedkin.server.flower_record import parts_to_record, record_to_parts
from fedkin.server.frames import Frames
from fedkin.server.message import one_line, operation_of

_log = logging.getLogger("fedkin")
# Seconds between polls for a message: this share of the time since the last message, within limits.
SHORTEST = 0.2
LONGEST = 3.0
SHARE = 0.1
BACKOFF = 0.05  # seconds before a missing part of a message is requested again
AGAIN = 5.0  # seconds before a lost connection is reopened
Answer = Callable[[Frames], Frames]
_RAISED = 2  # Flower's error code for a client that raised an exception


class NodeRefusedError(Exception):
    """The SuperLink refuses a node, for one of two reasons.

    The node's key is not registered yet. Or the node was killed within the last minute, so the
    SuperLink still counts it as online.
    """


@dataclass(frozen=True)
class Connection:
    """A node's id and the functions of its open connection to the SuperLink, in the order in which
    Flower's client returns them."""

    node_id: int
    receive: Callable[[], Any]
    send: Callable[..., Any]
    get_run: Callable[..., Any]
    get_fab: Callable[..., Any]
    pull_object: Callable[[int, str], bytes]
    push_object: Callable[[int, str, str, bytes], None]
    confirm: Callable[[int, str], None]


def run_node(
    address: str,
    answer: Answer,
    ca: Path | None,
    key: Path | None,
    connected: Callable[[], None] = lambda: None,
) -> None:
    """Take part in the federation at an address until the process ends. Lost connections are
    reopened.

    Args:
        address: address of the SuperLink, host:port.
        answer: gives the reply to a message.
        ca: the authority's certificate; None without TLS.
        key: the site's private key; None without keys.
        connected: called whenever the SuperLink has accepted the node.

    Raises:
        NodeRefusedError: the SuperLink does not accept the node, and a new process must be started.
    """
    private = None if key is None else load_ssh_private_key(key.read_bytes(), None)
    keys: Any = None if private is None else (private, private.public_key())
    certificates = None if ca is None else ca.read_bytes()
    while True:
        try:
            with http_request_response(address, ca is None, certificates, keys) as opened:
                connection = Connection(*opened)
                _log.info("this site is connected to %s as node %d", address, connection.node_id)
                connected()
                serve(connection, answer)
        except SystemExit as error:
            # Flower has logged the reason, and would end the process in five seconds anyway.
            raise NodeRefusedError from error
        _log.warning("the connection to %s is lost; trying again in %.0f s", address, AGAIN)
        time.sleep(AGAIN)


def serve(
    connection: Connection,
    answer: Answer,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer the messages of a connection one after another, until an error ends the connection.

    Args:
        connection: connection to the SuperLink.
        answer: gives the reply to a message.
        clock: returns the time in seconds.
        sleep: waits for a number of seconds.
    """
    last = clock()
    while True:
        try:
            answered = _answer_next(connection, answer)
        except RunNotRunningException:
            _log.info("a message is ignored, since its run has ended")
            answered = False
        if answered:
            last = clock()
        sleep(pause(clock() - last))


def pause(since: float | int) -> float:
    """Seconds until the next poll for a message: short while a run is active.

    Args:
        since: seconds since the last message.
    """
    return min(LONGEST, max(SHORTEST, SHARE * since))


def _answer_next(connection: Connection, answer: Answer) -> bool:
    """Fetch a message if there is one, and send the reply. Returns whether there was a message."""
    received = connection.receive()
    if received is None:
        return False
    start = time.monotonic()
    metadata_only, tree = received
    run = metadata_only.metadata.run_id
    message = pull_and_inflate_object_from_tree(
        tree,
        lambda name: connection.pull_object(run, name),
        lambda name: connection.confirm(run, name),
        return_type=Message,
        initial_backoff=BACKOFF,
    )
    # The id, a digest of the content, is not sent. Flower's SuperNode sets it in the same way.
    message.metadata.__dict__["_message_id"] = tree.object_id
    fetched = time.monotonic()
    parts = record_to_parts(message.content)
    task = operation_of(parts)
    name = f"round {one_line(message.metadata.group_id, 20)}, {task}"
    reply = _reply(message, parts, name, answer)
    answered = time.monotonic()
    _send(connection, run, reply, answered - fetched)
    _log.info(
        "%s: fetched in %.2f s, answered in %.2f s, reply sent in %.2f s",
        name,
        fetched - start,
        answered - fetched,
        time.monotonic() - answered,
        extra=event("message", round=one_line(message.metadata.group_id, 20), task=task),
    )
    return True


def _reply(message: Message, parts: Frames, name: str, answer: Answer) -> Message:
    """The worker's reply to a message. If the worker gives no reply, the result is the error
    message that Flower sends for a client that raised an exception.

    Args:
        message: the message.
        parts: its content.
        name: its round and task, for the log.
        answer: gives the worker's reply.
    """
    try:
        reply = answer(parts)
        return Message(parts_to_record(reply), reply_to=message)
    except (WorkerLinkError, WorkerFailure, ValueError) as error:
        _log.error("%s: answered with an error: %s", name, error)
        return Message(Error(_RAISED, f"{type(error).__name__}: {error}"), reply_to=message)


def _send(connection: Connection, run: int, reply: Message, seconds: float) -> None:
    """Send a reply to the SuperLink.

    Flower first sends the reply's header and a list of the parts of its content (records and
    arrays). The SuperLink answers which parts it does not have yet, and only these parts are sent.
    """
    # As for a received message, the id is a digest of the content and must be set here.
    reply.metadata.__dict__["_message_id"] = reply.object_id
    with no_object_id_recompute():
        objects = get_all_nested_objects(reply)
        missing, session = connection.send(reply, get_object_tree(reply), seconds)
        push_objects(
            objects,
            lambda name, content: connection.push_object(run, session, name, content),
            object_ids_to_push=missing,
        )
