"""Requests whose round ended before a reply arrived, and their late replies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from fedkin.core.errors import TaskError
from fedkin.core.task import Task
from fedkin.core.world import LateReply
from fedkin.server.message import InvalidMessageError
from fedkin.server.reply_collector import ReplyCollector
from fedkin.server.rpc_client import NoReplyError, StandingReports, error_line, message_of
from fedkin.server.task_messages import used_in_reply
from fedkin.server.transport import NodeReply

_log = logging.getLogger("fedkin")


class _Overdue(NamedTuple):
    """A request that a node did not answer before the round's deadline."""

    task: Task  # the task, only for the node's clients
    clients: Int[np.ndarray, "r"]
    used: Int[np.ndarray, "k"] | None  # indices of the models sent to the node; None for all
    round: int  # round of the request
    last: int  # last round that can use a reply


class OverdueRequests:
    """The overdue requests of one run, and the late replies to these requests.

    Nothing of this is saved: a resumed server has no overdue requests.

    Args:
        collector: makes a ReplyCollector for a task and some clients.
    """

    def __init__(self, collector: Callable[[Task, Int[np.ndarray, "r"]], ReplyCollector]) -> None:
        self._collector = collector
        # For how many rounds late replies to a task's next requests are useful, by its name.
        self._rounds: dict[str, int] = {}
        self._requests: dict[str, _Overdue] = {}  # by request id
        self._replies: list[LateReply] = []

    def rounds(self, task: Task) -> int:
        """For how many further rounds late replies to a task are useful; 0 if they are not used.

        A method that uses late replies asks for them with ``take``, which sets this number. The
        number holds only for the next time that the task is sent, so this function also deletes it.
        """
        return self._rounds.pop(task.name, 0)

    def add(
        self,
        missed: Mapping[str, int],
        task: Task,
        clients: Int[np.ndarray, "n"],
        rows: Mapping[int, Int[np.ndarray, "r"]],
        round: int,
        rounds: int,
    ) -> None:
        """Keep a task's unanswered requests, if late replies to them are useful.

        Args:
            missed: node ids of the unanswered requests, by request id.
            task: the task that was sent.
            clients: the clients that the task was sent to.
            rows: positions in ``clients`` of each node's clients, by node id.
            round: round of the requests.
            rounds: for how many further rounds late replies are useful.
        """
        if not rounds:
            return
        for request, node in missed.items():
            of_node = rows[node]
            self._requests[request] = _Overdue(
                task=task.select(of_node),
                clients=clients[of_node],
                used=used_in_reply(task, of_node),
                round=round,
                last=round + rounds,
            )

    def receive(
        self, replies: Iterable[NodeReply], standing: StandingReports | None, round: int
    ) -> None:
        """Read late replies, and drop requests that are too old.

        Args:
            replies: replies that came after their round.
            standing: answers to the standing task, which every reply contains; None without a
                standing task. The answers in late replies are outdated and ignored.
            round: the present round.
        """
        for reply in replies:
            request = self._requests.pop(reply.request_id, None)
            if request is not None:
                self._read(request, reply, standing)
        self._requests = {
            request_id: request
            for request_id, request in self._requests.items()
            if round <= request.last
        }

    def take(self, task: Task, rounds: int) -> list[LateReply]:
        """The late replies to a task, each returned once, as in ``WaitingWorld.late_replies``."""
        self._rounds[task.name] = rounds
        taken = [reply for reply in self._replies if reply.task.name == task.name]
        self._replies = [reply for reply in self._replies if reply.task.name != task.name]
        return taken

    def at_work(self, task: Task) -> Int[np.ndarray, "c"]:
        """The clients whose late replies to a task may still come, ascending."""
        overdue = [one.clients for one in self._requests.values() if one.task.name == task.name]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *overdue]))

    def _read(self, request: _Overdue, reply: NodeReply, standing: StandingReports | None) -> None:
        """Check a late reply as a timely one is checked, and store it for ``take``."""
        # The stored task has only the rows of this node, so the reply is for all of them.
        rows = np.arange(len(request.clients))
        try:
            received = message_of(reply).arrays
            arrays = standing.split(received, len(rows))[1] if standing else received
            collector = self._collector(request.task, request.clients)
            collector.read(rows, arrays, request.used)
        except (NoReplyError, InvalidMessageError, TaskError) as error:
            _log.warning(
                "round %d, %s: a late reply cannot be used: %s",
                request.round,
                request.task.name,
                error_line(error),
            )
            return
        self._replies.append(
            LateReply(
                task=request.task,
                clients=request.clients,
                reply=collector.reply(),
                round=request.round,
            )
        )
