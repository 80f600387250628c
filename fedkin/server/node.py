"""The client side: a node answers requests with a simulated world of its clients.

It runs the simulator's code and computes the same results, for one client or for many. A new
process may handle each request, so data that must persist (label counts, models) are on the node's
disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.columns import CommonScaling
from fedkin.core.errors import FedkinError, StorageError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.schema import MAX_COUNT
from fedkin.core.task import Task
from fedkin.core.world import World
from fedkin.server.column_messages import scaling_arrays, scaling_in
from fedkin.server.disclosure import (
    REFUSED_BY,
    SINGLE,
    TASKS,
    DisclosureError,
    Floors,
    subjects_behind,
)
from fedkin.server.egress_outbox import Outbox
from fedkin.server.frames import Frames
from fedkin.server.handshake import Handshake, check
from fedkin.server.message import IN_REPLY, InvalidMessageError, RpcMessage
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
        floor = error.floor if isinstance(error, DisclosureError) else ""
        return RpcMessage(header, note={REFUSED_BY: floor})


def respond_recorded(
    make_node: Callable[[], Node],
    read: Callable[[], RpcMessage],
    outbox: Outbox,
    whole: int = IN_REPLY,
) -> tuple[RpcMessage, Frames]:
    """A node's reply to a request as a message and as bytes, after its line is in the site's
    ledger.

    Args:
        make_node: makes the node.
        read: reads the request.
        outbox: writes the line.
        whole: float arrays of more bytes than this become separate frames.

    Raises:
        StorageError: the line cannot be written, so nothing may be sent.
    """
    received: list[RpcMessage] = []

    def read_once() -> RpcMessage:
        received.append(read())
        return received[0]

    try:
        reply = respond(make_node, read_once, outbox.site)
    except Exception as error:
        # The engine tells the server the text of an unexpected error.
        outbox.note_error(next(iter(received), None), f"{type(error).__name__}: {error}")
        raise
    return outbox.seal(next(iter(received), None), reply, whole)


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
    # Below these floors the node refuses a request; None: it has none.
    floors: Floors | None = None
    # Number of samples of each client in a split, such as ``test``; None: as in ``samples``.
    split_sizes: Callable[[str], Int[np.ndarray, "c"]] | None = None

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
        world, memory = self._opened(request)
        clients = self._own_clients(request, "clients")
        asked = self._asked(kind, request, world, memory)
        standing = _standing_tasks(request)
        for task in (asked, *standing):
            if self.floors is not None:
                self.floors.check_task(task, clients)
        facts = self._facts(asked, standing, clients)
        # A request with a number is done once: if it comes again, the stored reply is sent.
        call = call_digest(kind, request) if "call" in request.header else ""
        if call and (stored := memory.replies(operation, call)) is not None:
            return RpcMessage({}, stored | _answers(world, standing, clients), facts)
        self._deliver(world, request, memory)
        arrays: dict[str, np.ndarray] = {}
        if not kind.standing:
            arrays = self._run(
                task=asked, world=world, request=request, clients=clients, memory=memory
            )
        if call:
            memory.remember(operation, call, arrays)
        answers = _answers(world, standing, clients)
        memory.save()
        return RpcMessage({}, arrays | answers, facts)

    def _opened(self, request: RpcMessage) -> tuple[NodeWorld, NodeMemory]:
        """The world of the node's clients and their memory, for a request of a run.

        Raises InvalidMessageError if the server does not know these clients.
        """
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
        world = self._world(first + np.arange(count), scaling_in(request.arrays))
        server = Handshake.of(RpcMessage(request.value("handshake", dict)))
        check(self.handshake(world.spec), server, "at the site", "at the server")
        return world, NodeMemory(self.disk, run, world)

    def _asked(
        self, kind: type[Task], request: RpcMessage, world: World, memory: NodeMemory
    ) -> Task:
        """The task that a request asks for. Raises InvalidMessageError if it cannot be read."""
        if kind.standing:
            return make_task(kind, request.value(kind.standing, dict))
        return decode_task(kind, request, world.initial, memory.kept)

    def _facts(
        self, asked: Task, standing: Sequence[Task], clients: Int[np.ndarray, "r"]
    ) -> dict[str, Any]:
        """The facts about a reply for the site's ledger: the fewest subjects behind any of its
        numbers, and why the server asks."""
        count = self._subject_kind()
        subjects = []
        for task in (asked, *standing):
            split = getattr(task, "split", "train")
            samples = self.samples
            if split != "train" and self.split_sizes is not None:
                samples = self.split_sizes(split)
            subjects.append(subjects_behind(task, clients, samples, count))
        return {"subjects": min(subjects), "purpose": _purpose(type(asked))}

    def _subject_kind(self) -> str:
        """Kind of the site's subjects: ``samples`` or ``clients``."""
        return "samples" if self.floors is None else self.floors.settings.count

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
        task: Task,
        world: World,
        request: RpcMessage,
        clients: Int[np.ndarray, "r"],
        memory: NodeMemory,
    ) -> dict[str, np.ndarray]:
        """Run the task of a request, and return the arrays of the reply."""
        # The server sends such an array once. Later requests have only its digest, so the node
        # stores it on disk.
        new_arrays = [name for name in kept_fields(type(task)) if name in request.arrays]
        memory.keep({name: getattr(task, name) for name in new_arrays})
        stream = read_stream(request.header["stream"]) if "stream" in request.header else None
        reply = world.run(task, clients, stream)
        arrays = encode_reply(task, reply)
        if self.floors is not None:
            self.floors.check_reply(task, arrays)
        # Models are stored for a site that is a single client, which can then export them.
        models = task.stored_models(reply) if len(self.samples) == 1 else {}
        scaling = scaling_arrays(scaling_in(request.arrays))
        try:
            if models:
                # A model is of use only with the scaling of its columns.
                self.disk.save_models(memory.run, models | scaling)
        except StorageError as error:
            # The models are only a service to the site, so a reply is sent even without them.
            _log.error("%s", error)
        return arrays

    def _deliver(self, world: World, request: RpcMessage, memory: NodeMemory) -> None:
        """Carry out the messages that the server kept for these clients until their next request:
        tasks without a reply, and changes of their clusters."""
        if MOVED in request.arrays:
            world.reassigned(self._own_clients(request, MOVED))
            memory.forget_replies()
        for kind in all_tasks():
            if kind.delivery == "next" and kind.name in request.arrays:
                world.run(kind(), self._own_clients(request, kind.name))

    def _hello(self, request: RpcMessage) -> RpcMessage:
        """The reply to the handshake: the node's own handshake, or why it cannot take part."""
        try:
            handshake = self.handshake(self.world(np.arange(len(self.samples))).spec)
            check(handshake, Handshake.of(request), "at the site", "at the server")
            if self.floors is not None:
                self.floors.check_start(
                    tasks=[str(name) for name in request.header.get(TASKS, [])],
                    single=bool(request.header.get(SINGLE)),
                    parameters=handshake.parameters,
                )
        except (InvalidMessageError, DisclosureError) as error:
            _log.error("%s cannot take part: %s", self.name, error)
            floor = error.floor if isinstance(error, DisclosureError) else ""
            header = {"refused": str(error), "name": self.name}
            return RpcMessage(header, note={REFUSED_BY: floor})
        header = {**handshake.header(), "start": self.start(), "name": self.name}
        # The handshake has the number of samples of each client.
        of_clients = self.samples.tolist() if self._subject_kind() == "samples" else [1]
        facts = {"subjects": min(of_clients, default=0), "purpose": "Handshake"}
        return RpcMessage(header, {"samples": self.samples}, facts)


def _standing_tasks(request: RpcMessage) -> list[Task]:
    """The standing tasks of a request: questions that every reply answers, whatever its request
    asks for. The list is empty if the run has none."""
    tasks = []
    for kind in all_tasks():
        settings = request.header.get(kind.standing) if kind.standing else None
        if settings is not None:
            tasks.append(make_task(kind, settings))
    return tasks


def _answers(
    world: World, standing: Sequence[Task], clients: Int[np.ndarray, "r"]
) -> dict[str, np.ndarray]:
    """The clients' answers to the standing tasks."""
    arrays: dict[str, np.ndarray] = {}
    for task in standing:
        arrays |= world.run(task, clients).arrays
    return arrays


def _purpose(kind: type[Task]) -> str:
    """The purpose of a task: the first sentence of its documentation."""
    text = " ".join((kind.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".")[:200]
