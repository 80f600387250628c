"""The ``World`` of a server (the clients, as a method sees them): each task becomes one request to
every node with selected clients.

A node gets only the models that its selected clients need, and sends one reply for these clients.
The reply holds the update of each client, or only weighted means if the task needs no more. If a
node's reply is late or unusable, its clients count as not having replied.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.columns import CommonScaling
from fedkin.core.errors import CheckpointError, TaskError
from fedkin.core.ledger import Ledger
from fedkin.core.model_spec import ModelSpec
from fedkin.core.randomness import Stream
from fedkin.core.replies import Reply
from fedkin.core.task import Task, call_clients, call_sizes, traffic
from fedkin.core.training import LocalTraining
from fedkin.core.world import UPDATE_MEMORY, LateReply
from fedkin.server.column_messages import scaling_arrays, scaling_in
from fedkin.server.handshake import model_digest
from fedkin.server.membership import Membership
from fedkin.server.message import RpcMessage
from fedkin.server.overdue_requests import OverdueRequests
from fedkin.server.reply_collector import NormFilter, Outlier, ReplyCollector
from fedkin.server.rpc_client import MOVED, RpcClient
from fedkin.server.task_messages import (
    Known,
    array_digest,
    encode_task,
    kept_fields,
    plain_stream,
    used_in_reply,
)
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.task_type import TaskType

_log = logging.getLogger("fedkin")
# Names of this world's arrays in a checkpoint.
_RUN = "run"
_NORMS = "typical_norms"
_START = "start"
_PENDING = "pending/"
_FORGETFUL = "forgetful"
_SCALED = "scaled"


class RemoteWorld:
    """A world whose clients are real sites, reached through a server.

    Args:
        membership: the nodes, shared by all methods of one server.
        spec: spec of the model that all clients train.
        initial: makes a flat model from a seed of two random 32-bit integers.
        work: the run's local training.
        run: name under which nodes store this run's arrays on their disks. It is saved in
            checkpoints.
        task_type: what the labels are: classes, numbers, counts, ...
    """

    true_clusters = None

    def __init__(
        self,
        membership: Membership,
        spec: ModelSpec,
        initial: Callable[[np.ndarray], np.ndarray],
        work: LocalTraining,
        run: str,
        task_type: TaskType = CLASSIFICATION,
    ) -> None:
        self.task_type = task_type
        self.membership = membership
        self.spec = spec
        self.work = work
        numbers = task_type.loss is not None
        work.check_classes(membership.classes, spec.detects, numbers)
        self.ledger = Ledger()
        self._client = RpcClient(membership, run, self.ledger)
        self.total_clients = membership.registry.capacity
        self._initial = initial
        self._norm_filter = NormFilter(membership.request_round.settings.norm_limit)
        self._start = Known()  # the seed of the initial model, and its digest
        self._kept: dict[int, dict[str, str]] = {}  # digests of the arrays that each node has kept
        # Clients that keep arrays only for their present cluster.
        self._forgetful = np.zeros(self.total_clients, bool)
        # The task that counts the scaling of columns, and the clients for which it was counted.
        self._announcement: Task | None = None
        self._scaled = np.zeros(self.total_clients, bool)
        self._overdue = OverdueRequests(self._collector)
        # Number of clients with whose replies the next task ends; None: all of them.
        self._enough: int | None = None
        # Whether the next task also asks the clients that are still at work.
        self._asks_all = False

    @property
    def scaling(self) -> CommonScaling | None:
        """How all sites scale their columns, in every request; None if the server does not say."""
        return self._client.scaling

    def announce_scaling(self, scaling: CommonScaling, announcement: Task) -> None:
        """Send a scaling of columns with every request from now on.

        Args:
            scaling: how all sites scale their columns.
            announcement: the task by which the ledger counts it, once for each client.
        """
        self._client.scaling = scaling
        self._announcement = announcement

    @property
    def update_memory(self) -> int:
        """Memory limit in bytes for the updates of single clients in a task that needs only their
        means.

        If the updates fit into this limit, they are requested instead of the means, because
        measurements use them. The limit is 0 if any node has several clients, so that such a node
        sends one mean instead of many updates.
        """
        members = self.membership.registry.members.values()
        has_fleets = any(member.count > 1 for member in members)
        return 0 if has_fleets else UPDATE_MEMORY

    @property
    def client_names(self) -> list[str]:
        """Names of the clients with an id, for messages."""
        return self.membership.registry.client_names()

    def begin(self, stream: Stream) -> None:
        """Begin a round: accept new nodes, and read replies that came after their round."""
        self._client.begin(stream.round)
        self.membership.begin_round(stream.round)
        self.ledger.measure("hello", *self.membership.handshake_bytes())
        self._receive_late()
        self._count_scaling()

    def _receive_late(self) -> None:
        """Read replies that came after their requests were abandoned, and count their bytes."""
        requests = self.membership.request_round
        if requests.late_bytes:
            self.ledger.measure("late", 0, requests.late_bytes)
            requests.late_bytes = 0
        self._overdue.receive(requests.late_replies(), self._client.standing, self._client.round)

    def _count_scaling(self) -> None:
        """Count the scaling of columns for the clients that have not had it before."""
        if self._announcement is None:
            return
        online = self.membership.online_clients()
        new = online[~self._scaled[online]]
        if len(new):
            self.run(self._announcement, new)
            self._scaled[new] = True

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        """Ids of the clients that are online."""
        return self.membership.online_clients()

    def known_clients(self) -> Int[np.ndarray, "c"]:
        """Ids of all clients that were ever accepted, ascending, except those of sites that were
        removed for good."""
        removed = self.membership.removed()
        members = self.membership.registry.members
        ids = [member.ids for name, member in members.items() if name not in removed]
        return np.unique(np.concatenate([self.membership.online_clients(), *ids]))

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        """A new model. Its seed is stored, so that nodes can make the same model themselves."""
        model = self._initial(stream.words())
        self._start = Known(start=stream, start_digest=model_digest(model))
        return model

    def run(self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None = None) -> Reply:
        """Let clients do a task, and return their replies. The ledger counts the bytes by task."""
        if task.between_peers or task.local:
            raise TaskError(
                f"task {task.name} is for peers without a server: start each peer with "
                "fedkin peer, or choose another method"
            )
        task.check("of this federation", self.spec, self.membership.classes)
        clients = call_clients(task, clients, self.total_clients)
        sizes = call_sizes(task, len(clients), self._sizes())
        every = np.ones(len(clients), bool)
        none = np.zeros(len(clients), bool)
        asked = np.arange(len(clients))
        if any(memory.lifetime == "assignment" for memory in task.memory.values()):
            self._forgetful[clients] = True
        if task.delivery == "next":
            # Clients get it with their next request, and there is no reply.
            self._client.schedule(task.name, clients, task.resets)
            reply = Reply({}, every, none)
        elif task.delivery == "announced":
            # Its arrays are sent with the first request that needs them.
            reply = Reply({}, every, none)
        elif task.standing:
            reply = self._client.ask_standing(task, clients)
        else:
            reply, asked = self._call(task.for_messages(self.spec), clients, stream)
        # A reply with unusable numbers was sent too, so its bytes count.
        replied = reply.arrived | reply.nonfinite
        count = traffic(task.select(asked), clients[asked], replied[asked], sizes)
        if count:
            self.ledger.add(task.name, *count)
        return reply

    def late_replies(self, task: Task, rounds: int) -> list[LateReply]:
        """Replies of nodes that missed the deadline of an earlier round."""
        return self._overdue.take(task, rounds)

    def end_after(self, replies: int) -> bool:
        """End the next task as soon as this number of clients have replied, as in
        ``EndingWorld``."""
        self._enough = replies
        return True

    def wait_for_all(self) -> None:
        """Let the next task wait for clients that are at work, too, as in ``EndingWorld``."""
        self._asks_all = True

    def at_work(self, task: Task) -> Int[np.ndarray, "c"]:
        """The clients whose late replies to a task may still come, as in ``EndingWorld``."""
        return self._overdue.at_work(task)

    def wait(self) -> bool:
        """Wait a moment for late replies, as in ``EndingWorld``."""
        has_time = self.membership.request_round.wait()
        self._receive_late()
        return has_time

    def expect(self, task: Task) -> None:
        """Declare a standing task: clients answer it in every reply, from their first one on."""
        self._client.stand(task)

    def reassigned(self, clients: Int[np.ndarray, "n"]) -> None:
        """Tell clients that their cluster has changed, if they keep arrays only for their cluster.

        The clients learn it with their next request, and then delete these arrays.
        """
        forgetful = clients[self._forgetful[clients]]
        if len(forgetful):
            self._client.schedule(MOVED, forgetful)

    def memory(self) -> dict[str, np.ndarray]:
        """State for a checkpoint: the registry of nodes, typical norms, and messages that clients
        have not received yet."""
        memory = self.membership.registry.memory()
        for name, waiting in self._client.pending.items():
            memory[_PENDING + name] = waiting.copy()
        start = [*(plain_stream(self._start.start) or []), self._start.start_digest]
        texts = {
            _START: json.dumps(start),
            _RUN: self._client.run,
            _NORMS: json.dumps(self._norm_filter.typical),
        }
        for name, text in texts.items():
            memory[name] = np.frombuffer(text.encode(), np.uint8).copy()
        memory[_FORGETFUL] = self._forgetful.copy()
        if self.scaling is not None:
            memory |= scaling_arrays(self.scaling)
            memory[_SCALED] = self._scaled.copy()
        return memory

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        """Restore the state that ``memory`` returned.

        Raises CheckpointError if the sites' columns were scaled by other numbers.
        """
        self._check_scaling(scaling_in(memory))
        if _SCALED in memory:
            self._scaled = memory[_SCALED].copy()
        self.membership.registry.recall(memory)
        names = [name for name in memory if name.startswith(_PENDING)]
        self._client.pending = {name.removeprefix(_PENDING): memory[name].copy() for name in names}
        self._client.run = memory[_RUN].tobytes().decode()
        self._norm_filter.typical = json.loads(memory[_NORMS].tobytes())
        self._forgetful = memory.get(_FORGETFUL, np.zeros(self.total_clients, bool)).copy()
        start: list[Any] = json.loads(memory[_START].tobytes())
        *stream, digest = start
        self._start = Known(start=Stream(*stream) if stream else None, start_digest=digest)

    def _check_scaling(self, stored: CommonScaling | None) -> None:
        """Raise CheckpointError unless the scaling in a checkpoint is this world's."""
        present = scaling_arrays(self.scaling)
        former = scaling_arrays(stored)
        same = present.keys() == former.keys() and all(
            np.array_equal(present[name], former[name]) for name in former
        )
        if not same:
            raise CheckpointError(
                "the columns of all sites were scaled by other numbers when the checkpoint was "
                "written; restore transform.json of the run's folder from a copy, or start again "
                "in another folder"
            )

    def _collector(self, task: Task, clients: Int[np.ndarray, "n"]) -> ReplyCollector:
        """An empty reply to a task. The replies of these clients will be added to it."""
        sizes = call_sizes(task, len(clients), self._sizes())
        norms = self._norm_filter.for_training(task.norm_group())
        samples = self.membership.registry.samples[clients]
        return ReplyCollector(
            task=task,
            rows=len(clients),
            sizes=sizes,
            norm_filter=norms,
            samples=samples,
            tell=lambda row, outlier: self._log_outlier(task, int(clients[row]), outlier),
            counted=self.task_type.counted,
        )

    def _log_outlier(self, task: Task, client: int, outlier: Outlier) -> None:
        """Log which client's update is excluded for its norm, and how to allow the update."""
        name = self.membership.registry.client_names()[client]
        model = "" if outlier.model is None else f" to model {outlier.model}"
        factor = self.membership.request_round.settings.norm_limit
        _log.warning(
            "round %d: the update%s of %s is excluded (%s): its norm is %.3g, but the limit is "
            "%.3g (federation.norm_limit = %g times the typical norm, and at least the norm of "
            "the model); if the update is right, set a larger norm_limit",
            self._client.round,
            model,
            name,
            task.name,
            outlier.norm,
            outlier.limit,
            factor,
        )

    def _call(
        self, task: Task, clients: Int[np.ndarray, "n"], stream: Stream | None
    ) -> tuple[Reply, Int[np.ndarray, "a"]]:
        """Send a task to the nodes.

        Returns the reply, and the positions in ``clients`` of the clients that were sent a request.
        """
        collector = self._collector(task, clients)
        rows_of = dict[int, np.ndarray]()  # rows of each node
        header = {} if stream is None else {"stream": plain_stream(stream)}
        kept = {name: array_digest(getattr(task, name)) for name in kept_fields(task)}

        def write(node: int, rows: Int[np.ndarray, "r"]) -> RpcMessage:
            """The request to a node, without the arrays that the node has already."""
            known = Known(kept=self._kept.get(node, {}))
            if self.membership.same_start:
                known = replace(self._start, kept=known.kept)
            message = encode_task(task, rows, known)
            rows_of[node] = rows
            return RpcMessage({**header, **message.header}, message.arrays)

        def read(node: int, rows: Int[np.ndarray, "r"], arrays: dict[str, np.ndarray]) -> None:
            """Add a node's reply, and record that the node now stores the arrays of the request."""
            collector.read(rows, arrays, used_in_reply(task, rows))
            self._kept.setdefault(node, {}).update(kept)

        def forget(node: int) -> None:
            """Forget which arrays a node stores, because the request to the node failed. The next
            request then has all arrays again."""
            self._kept.pop(node, None)

        late = self._overdue.rounds(task)
        enough = self._enough
        asks_all = self._asks_all
        self._enough = None
        self._asks_all = False
        asked = self._client.call(
            operation=task.name,
            clients=clients,
            write=write,
            read=read,
            discard=collector.exclude,
            forget=forget,
            once=bool(task.memory),
            late=late,
            enough=enough,
            all_nodes=asks_all,
        )
        self._overdue.add(
            missed=self.membership.request_round.missed,
            task=task,
            clients=clients,
            rows=rows_of,
            round=self._client.round,
            rounds=late,
        )
        return collector.reply(), asked

    def _sizes(self) -> dict[str, int]:
        """Sizes of axes that server and nodes both know: P parameters, C classes, d values per
        sample."""
        return {
            "P": self.spec.parameters,
            "C": self.membership.classes,
            **self.task_type.sizes(),
            **self.membership.own.sizes(),
        }
