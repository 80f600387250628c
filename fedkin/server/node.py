"""The client side: a node answers requests with a simulated world of its clients.

It runs the simulator's code and computes the same results, for one client or for many. A new
process may handle each request, so data that must persist (label counts, models) are on the node's
disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from fedkin.core.columns import CommonScaling
from fedkin.core.errors import FedkinError, StorageError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.schema import MAX_COUNT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.server.column_messages import scaling_arrays, scaling_in
from fedkin.server.handshake import Handshake, check
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.node_memory import Disk, NodeMemory, NodeWorld
from fedkin.server.rpc_client import MOVED
from fedkin.server.task_messages import (
    call_digest,
    decode_task,
    encode_reply,
    kept_fields,
    make_task,
    read_stream,
)
from fedkin.tasks import all_tasks, find_task

_log = logging.getLogger("fedkin")


def respond(
    make_node: Callable[[], Node], read: Callable[[], RpcMessage], name: str = ""
) -> RpcMessage:
    """A node's reply to a request. An error of fedkin is logged and sent as the reply.

    Args:
        make_node: makes the node.
        read: reads the request.
        name: name of the node, for the reply if the node cannot be made; empty if unknown.
    """
    try:
        request = read()
        return make_node().handle(request)
    except FedkinError as error:
        text = " ".join(str(error).split())
        _log.error("this client cannot reply: %s", text)
        header = {"failed": text[:2000]}
        if name:
            header["name"] = name
        return RpcMessage(header)


@dataclass(frozen=True)
class Node:
    """A node, which answers the server's requests for its clients."""

    name: str
    handshake: Callable[[ModelSpec], Handshake]  # the node's handshake, without ``start``
    start: Callable[[], str]  # digest of the initial model from a fixed seed
    samples: Int[np.ndarray, "c"]  # number of training samples of each client
    # Makes the world of the node's clients from the ids that the server gave them.
    world: Callable[[Int[np.ndarray, "c"]], NodeWorld]
    disk: Disk
    # Makes the same world with columns that are scaled as the server says; None if it cannot.
    scaled_world: Callable[[Int[np.ndarray, "c"], CommonScaling], NodeWorld] | None = None

    def handle(self, request: RpcMessage) -> RpcMessage:
        """The reply to a request.

        Raises InvalidMessageError for a request that no server of this version sends.
        """
        operation = request.value("operation", str)
        if operation == "hello":
            return self._hello(request)
        kind = find_task(operation)
        if kind is None:
            raise InvalidMessageError(
                f"this site does not know the task {operation[:40]!r}; install the server's "
                "version of fedkin here"
            )
        run = request.value("run", str)
        first = request.value("first", int)
        count = request.value("count", int)
        if count != len(self.samples):
            raise InvalidMessageError(
                f"{self.name} had {count} clients when it was accepted, but now has "
                f"{len(self.samples)}; give it the former clients, or another name"
            )
        if not 0 <= first <= MAX_COUNT:
            raise InvalidMessageError(
                f"the request gives this site client ids from {first:.3g} on, but an id must be "
                f"from 0 to {MAX_COUNT}"
            )
        scaling = scaling_in(request.arrays)
        world = self._world(first + np.arange(count), scaling)
        server = Handshake.of(RpcMessage(request.value("handshake", dict)))
        check(self.handshake(world.spec), server, "at the site", "at the server")
        memory = NodeMemory(self.disk, run, world)
        clients = self._own_clients(request, "clients")
        # A request with a number is done once: if it comes again, the stored reply is sent.
        call = call_digest(kind, request) if "call" in request.header else ""
        if call and (stored := memory.replies(operation, call)) is not None:
            return RpcMessage({}, stored | self._standing(world, request, clients))
        self._deliver(world, request, memory)
        arrays: dict[str, np.ndarray] = {}
        if not kind.standing:
            arrays = self._run(
                kind=kind,
                world=world,
                request=request,
                clients=clients,
                memory=memory,
                scaling=scaling,
            )
        if call:
            memory.remember(operation, call, arrays)
        standing = self._standing(world, request, clients)
        memory.save()
        return RpcMessage({}, arrays | standing)

    def _world(self, ids: Int[np.ndarray, "c"], scaling: CommonScaling | None) -> NodeWorld:
        """The world of the node's clients, with the scaling of a request.

        Raises InvalidMessageError if the node cannot scale its data.
        """
        if scaling is None:
            return self.world(ids)
        if self.scaled_world is None:
            raise InvalidMessageError(
                f"the server scales the columns of all sites, but {self.name} cannot scale its "
                "data; remove scale from [samples] of server.toml"
            )
        return self.scaled_world(ids, scaling)

    def _own_clients(self, request: RpcMessage, name: str) -> Int[np.ndarray, "r"]:
        """The clients that a request names, as positions among this node's clients.

        Raises InvalidMessageError if the request names no client, or clients that the node does not
        have.
        """
        clients = request.integers(name, np.size(request.array(name)))
        if not (len(clients) and 0 <= clients.min() <= clients.max() < len(self.samples)):
            raise InvalidMessageError(
                f"the request's array {name!r} must name clients of {self.name}, by numbers from "
                f"0 to {len(self.samples) - 1}, at least one"
            )
        return clients

    def _run(
        self,
        kind: type[Task],
        world: World,
        request: RpcMessage,
        clients: Int[np.ndarray, "r"],
        memory: NodeMemory,
        scaling: CommonScaling | None,
    ) -> dict[str, np.ndarray]:
        """Run the task of a request, and return the arrays of the reply."""
        task = decode_task(kind, request, world.initial, memory.kept)
        # The server sends such an array once. Later requests have only its digest, so the node
        # stores it on disk.
        new_arrays = [name for name in kept_fields(kind) if name in request.arrays]
        memory.keep({name: getattr(task, name) for name in new_arrays})
        stream = read_stream(request.header["stream"]) if "stream" in request.header else None
        reply = world.run(task, clients, stream)
        # Models are stored for a site that is a single client, which can then export them.
        models = task.stored_models(reply) if len(self.samples) == 1 else {}
        try:
            if models:
                # A model is of use only with the scaling of its columns.
                self.disk.save_models(memory.run, models | scaling_arrays(scaling))
        except StorageError as error:
            # The models are only a service to the site, so a reply is sent even without them.
            _log.error("%s", error)
        return encode_reply(task, reply)

    def _deliver(self, world: World, request: RpcMessage, memory: NodeMemory) -> None:
        """Carry out the messages that the server kept for these clients until their next request:
        tasks without a reply, and changes of their clusters."""
        if MOVED in request.arrays:
            world.reassigned(self._own_clients(request, MOVED))
            memory.forget_replies()
        for kind in all_tasks():
            if kind.delivery == "next" and kind.name in request.arrays:
                world.run(kind(), self._own_clients(request, kind.name))

    def _standing(
        self, world: World, request: RpcMessage, clients: Int[np.ndarray, "r"]
    ) -> dict[str, np.ndarray]:
        """The clients' answers to the standing task; empty if the run has none.

        A standing task is a question that every reply answers, whatever its request asks for.
        """
        arrays: dict[str, np.ndarray] = {}
        for kind in all_tasks():
            settings = request.header.get(kind.standing) if kind.standing else None
            if settings is not None:
                arrays |= world.run(make_task(kind, settings), clients).arrays
        return arrays

    def _hello(self, request: RpcMessage) -> RpcMessage:
        """The reply to the handshake: the node's own handshake, or why it cannot take part."""
        try:
            handshake = self.handshake(self.world(np.arange(len(self.samples))).spec)
            check(handshake, Handshake.of(request), "at the site", "at the server")
        except InvalidMessageError as error:
            _log.error("%s cannot take part: %s", self.name, error)
            return RpcMessage({"refused": str(error), "name": self.name})
        header = {**handshake.header(), "start": self.start(), "name": self.name}
        return RpcMessage(header, {"samples": self.samples})
