"""Remote calls on clients: sends each node the part of a task for its clients, and reads the reply.

Two things need no separate messages. Every request also carries the messages that are pending for
its node's clients (tasks without a reply, changes of their clusters). And every reply also answers
the standing task, if there is one: a question that the server has in every round, such as whether a
client's data have shifted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from fedkin.core.columns import CommonScaling
from fedkin.core.errors import TaskError
from fedkin.core.ledger import Ledger
from fedkin.core.replies import Reply, check_arrays, sound_rows
from fedkin.core.task import Task
from fedkin.server.column_messages import scaling_arrays
from fedkin.server.membership import Membership
from fedkin.server.message import InvalidMessageError, RpcMessage, one_line
from fedkin.server.node_registry import NodeInfo, NodeRows
from fedkin.server.request_round import Enough
from fedkin.server.task_messages import plain_settings
from fedkin.server.transport import NodeReply
from fedkin.tasks import all_tasks

_log = logging.getLogger("fedkin")
NEVER = -2  # round number of clients without a report, earlier than any round
_LONGEST_ERROR = 500  # characters of an error in the log; of them a node's own words are 300
MOVED = "moved"  # name of the pending message that a client's cluster has changed
Write = Callable[[int, Int[np.ndarray, "r"]], RpcMessage]
Read = Callable[[int, Int[np.ndarray, "r"], dict[str, np.ndarray]], None]


class StandingReports:
    """Each client's last answer to the standing task, and the round of that answer.

    A standing task is answered in every reply, whatever the request asks for.
    """

    def __init__(self, task: Task, clients: int) -> None:
        self.task = task
        self.round = np.full(clients, NEVER)
        self.arrays = {
            name: np.full(clients, array.missing, array.dtype)
            for name, array in task.up.arrays.items()
        }

    def split(
        self, arrays: dict[str, np.ndarray], rows: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Split a reply's arrays into the standing task's arrays and all others.

        Args:
            arrays: arrays of the reply.
            rows: number of clients in the reply.

        Raises:
            TaskError: the standing task's arrays do not match its schema.
        """
        schema = self.task.up.arrays
        standing = check_arrays(
            task=self.task,
            arrays={name: array for name, array in arrays.items() if name in schema},
            known=schema,
            rows=rows,
            sizes={},
        )
        for name, values in standing.items():
            if values.dtype.kind == "f" and not sound_rows(schema[name], values).all():
                raise TaskError(
                    f"task {self.task.name}: the array {name} is not finite, or out of bounds"
                )
        others = {name: array for name, array in arrays.items() if name not in schema}
        return standing, others

    def take(
        self, clients: Int[np.ndarray, "r"], arrays: dict[str, np.ndarray], round: int
    ) -> None:
        """Store these clients' answers to the standing task in a round."""
        for name, values in arrays.items():
            self.arrays[name][clients] = values
        self.round[clients] = round

    def reset(self, clients: Int[np.ndarray, "n"], round: int) -> None:
        """Replace clients' outdated answers to the standing task by empty answers.

        The empty answers count as given in ``round``, so that the clients are not asked again.
        """
        self.round[clients] = round
        for name, array in self.task.up.arrays.items():
            self.arrays[name][clients] = array.missing


class RpcClient:
    """The remote calls of one run.

    Nodes store the run's arrays under the name ``run``. The ledger counts bytes by operation (name
    of a task).
    """

    def __init__(self, membership: Membership, run: str, ledger: Ledger) -> None:
        self.membership = membership
        self.run = run
        self.ledger = ledger
        self.round = 0
        # Number of calls of each operation in this round; a resumed server counts the same.
        self._calls: Counter[str] = Counter()
        # Name of a pending message -> the clients that must get it.
        self.pending: dict[str, Bool[np.ndarray, "N"]] = {}
        self.standing: StandingReports | None = None
        # How all sites scale their columns; None if the server does not say.
        self.scaling: CommonScaling | None = None

    def begin(self, round: int) -> None:
        """Begin a communication round. The requests of each task are counted from 0 again."""
        self.round = round
        self._calls.clear()

    def schedule(
        self, name: str, clients: Int[np.ndarray, "n"], resets: tuple[str, ...] = ()
    ) -> None:
        """Add a message to the next request to each of these clients.

        Args:
            name: name of a task without a reply, or MOVED (the client's cluster has changed).
            clients: clients that get the message.
            resets: names of arrays whose last values the message makes outdated. If the standing
                task has one of these arrays, the clients' last answers to the standing task are
                deleted. (Example: the message says that a client has just been placed in a cluster,
                and the standing task asks whether its data have shifted since.)
        """
        waiting = self.pending.setdefault(name, np.zeros(self.membership.registry.capacity, bool))
        waiting[clients] = True
        if self.standing is not None and self.standing.arrays.keys() & set(resets):
            self.standing.reset(clients, self.round)

    def stand(self, task: Task) -> StandingReports:
        """Set the standing task, which every reply answers from now on."""
        if self.standing is None or self.standing.task != task:
            self.standing = StandingReports(task, self.membership.registry.capacity)
        return self.standing

    def ask_standing(self, task: Task, clients: Int[np.ndarray, "n"]) -> Reply:
        """The clients' answers to a standing task, from this round or the last.

        Answers come with every reply, so only clients without such an answer get a request.
        """
        reports = self.stand(task)
        silent = clients[reports.round[clients] < self.round - 1]
        if len(silent):
            self.call(
                operation=task.name,
                clients=silent,
                write=lambda node, rows: RpcMessage(),
                read=lambda node, rows, arrays: check_nothing_else(task, arrays),
            )
        arrived = reports.round[clients] >= self.round - 1
        arrays = {}
        for name, array in task.up.arrays.items():
            values = np.where(arrived, reports.arrays[name][clients], array.missing)
            arrays[name] = values.astype(array.dtype)
        return Reply(arrays, arrived, np.zeros(len(clients), bool))

    def call(
        self,
        operation: str,
        clients: Int[np.ndarray, "n"],
        write: Write,
        read: Read,
        discard: Callable[[Int[np.ndarray, "r"]], None] = lambda rows: None,
        forget: Callable[[int], None] = lambda node: None,
        once: bool = False,
        late: int = 0,
        enough: int | None = None,
        all_nodes: bool = False,
    ) -> Int[np.ndarray, "a"]:
        """Send one request to each node that has some of the clients, and read its reply.

        Nodes that still work at a request whose round did not wait for them are left out, unless
        the call would then have fewer clients than it needs.

        Args:
            operation: name of the task.
            clients: the clients that must do the task.
            write: makes the request to a node, from the node's id and the positions in ``clients``
                of the node's clients.
            read: reads a node's reply, from the node's id, these positions, and the reply's arrays;
                raises TaskError if the reply cannot be used.
            discard: called with these positions if a reply cannot be used.
            forget: called with a node that failed the request or sent an unusable reply.
            once: whether a node must not repeat the work if it gets the request again because its
                reply was lost.
            late: for how many further rounds a late reply can be used.
            enough: number of clients with whose replies the call ends; None: all of them.
            all_nodes: whether to ask nodes that are at work, too.

        Returns:
            The positions in ``clients`` of the clients that were sent a request.
        """
        nodes = self._online_nodes(clients)
        if not all_nodes:
            nodes = self._free_nodes(nodes, at_least=enough or 0)
        requests = self._requests(operation, clients, nodes, write=write, once=once)
        clients_of = {node.node_id: len(node.rows) for node in nodes}
        ends = None if enough is None else Enough(enough, clients_of)

        request_round = self.membership.request_round
        replies = request_round.send(requests, self.round, late, ends)
        self.ledger.measure(operation, request_round.bytes_sent, request_round.bytes_received)

        for node in nodes:
            reply = replies.get(node.node_id)
            # A node that was not waited for has not failed.
            was_waited_for = reply is not None or not request_round.had_enough
            is_used = was_waited_for and self._take_reply(
                operation=operation,
                node=node,
                reply=reply,
                clients=clients[node.rows],
                read=partial(read, node.node_id, node.rows),
                discard=partial(discard, node.rows),
            )
            if not is_used:
                forget(node.node_id)
        self.membership.on_change()

        rows_sent = [node.rows for node in nodes if node.node_id in request_round.sent]
        return np.concatenate([np.zeros(0, np.int64), *rows_sent])

    def _requests(
        self,
        operation: str,
        clients: Int[np.ndarray, "n"],
        nodes: list[NodeRows],
        write: Write,
        once: bool,
    ) -> dict[int, RpcMessage]:
        """The request of a call to each node, by node id. The arguments are those of ``call``."""
        self._calls[operation] += 1
        # A node that has answered a request with this number does not repeat the work.
        number = {"call": [self.round, self._calls[operation]]} if once else {}
        return {
            node.node_id: self._request(
                operation=operation,
                info=node.info,
                clients=clients[node.rows],
                number=number,
                message=write(node.node_id, node.rows),
            )
            for node in nodes
        }

    def _take_reply(
        self,
        operation: str,
        node: NodeRows,
        reply: NodeReply | None,
        clients: Int[np.ndarray, "r"],
        read: Callable[[dict[str, np.ndarray]], None],
        discard: Callable[[], None],
    ) -> bool:
        """Read the reply of a node, or log why that is not possible.

        Args:
            operation: name of the task.
            node: the node.
            reply: its reply; None if it did not reply in time.
            clients: clients of the node.
            read: reads the reply's arrays, without the answers to the standing task.
            discard: called if the reply cannot be used.

        Returns:
            Whether the reply was used.
        """
        name = node.info.name
        try:
            arrays = message_of(reply).arrays
            # The node has replied, so its clients have got their pending messages.
            for waiting in self.pending.values():
                waiting[node.info.ids] = False
            self._read(arrays, clients, read)
        except NoReplyError as error:
            self._log_failure(name, f"no reply from {name} ({operation})", error)
            return False
        except (InvalidMessageError, TaskError) as error:
            discard()
            self._log_failure(name, f"the reply of {name} ({operation}) is excluded", error)
            return False
        self.membership.registry.failures.pop(name, None)
        return True

    def _online_nodes(self, clients: Int[np.ndarray, "n"]) -> list[NodeRows]:
        """The nodes that are online and have some of the clients."""
        # All clients of a node are online or none is, so a node's first client is enough.
        online = self.membership.online_clients()
        nodes = self.membership.registry.rows_by_node(clients)
        return [node for node in nodes if node.info.first in online]

    def _read(
        self,
        arrays: dict[str, np.ndarray],
        clients: Int[np.ndarray, "r"],
        read: Callable[[dict[str, np.ndarray]], None],
    ) -> None:
        """Read a reply's arrays: the answers to the standing task, and all others.

        Args:
            arrays: arrays of the reply.
            clients: clients of the node.
            read: reads the other arrays.

        Raises:
            TaskError: the reply cannot be used. Then the answers are not stored either.
        """
        if self.standing is None:
            read(arrays)
            return
        reports, others = self.standing.split(arrays, len(clients))
        read(others)
        self.standing.take(clients, reports, self.round)

    def _free_nodes(self, nodes: list[NodeRows], at_least: int) -> list[NodeRows]:
        """The nodes that are not at work; all nodes if the free ones have too few clients.

        Args:
            nodes: nodes, with the rows of their clients.
            at_least: number of clients that must be asked.
        """
        at_work = self.membership.request_round.nodes_at_work()
        free = [node for node in nodes if node.node_id not in at_work]
        return free if sum(len(node.rows) for node in free) >= at_least else nodes

    def _log_failure(self, name: str, event: str, error: Exception) -> None:
        """Log that a node failed a request, and store the reason until a request succeeds.

        Args:
            name: name of the node.
            event: what happened.
            error: the reason. Its text may have words of the node, such as names of arrays.
        """
        reason = f"{event}: {error_line(error)}"
        self.membership.registry.failures[name] = f"round {self.round}: {reason}"
        _log.warning("round %d: %s", self.round, reason)

    def _request(
        self,
        operation: str,
        info: NodeInfo,
        clients: Int[np.ndarray, "r"],
        number: dict[str, list[int]],
        message: RpcMessage,
    ) -> RpcMessage:
        """A request with the entries that every node needs.

        The entries are the node's clients, the run, the messages pending for the node, the standing
        task, and the scaling of the columns.
        """
        arrays = {"clients": clients - info.first}
        for name, all_clients in self.pending.items():
            waiting = np.flatnonzero(all_clients[info.ids])
            if len(waiting):
                arrays[name] = waiting
        header: dict[str, Any] = {
            "operation": operation,
            "run": self.run,
            "first": info.first,
            "count": info.count,
        }
        header |= {kind.standing: None for kind in all_tasks() if kind.standing}
        if self.standing is not None:
            header[self.standing.task.standing] = plain_settings(self.standing.task)
        # A site may have changed since it was accepted, so every request repeats the handshake, and
        # the scaling of the columns.
        header["handshake"] = self.membership.own.header()
        arrays |= scaling_arrays(self.scaling)
        return RpcMessage({**header, **number, **message.header}, arrays | message.arrays)


def check_nothing_else(task: Task, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise TaskError if a reply has arrays other than those of the standing task.

    Args:
        task: the standing task.
        arrays: arrays of the reply, without those of the standing task.
    """
    check_arrays(task=task, arrays=arrays, known={}, rows=None, sizes={})


def error_line(error: Exception) -> str:
    """Why a reply cannot be used, as one line of a log. A node chooses a part of this text."""
    return one_line(error, _LONGEST_ERROR)


class NoReplyError(Exception):
    """A node failed a request, for the reason in the text."""


def message_of(reply: NodeReply | None) -> RpcMessage:
    """The message of a reply. Raises NoReplyError if the node failed the request."""
    if reply is None:
        raise NoReplyError("it did not reply in time")
    if reply.message is None:
        raise NoReplyError(reply.error)
    if "failed" in reply.message.header:
        raise NoReplyError(f"it reports: {one_line(reply.message.header['failed'])}")
    return reply.message
