"""Requests whose round was over before their replies came, and these replies."""

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
from fedkin.server.rpc_client import NoReplyError, StandingReports, message_of
from fedkin.server.task_messages import used_in_reply
from fedkin.server.transport import Reply as NodeReply

_log = logging.getLogger("fedkin")


class _Overdue(NamedTuple):
    """A request that a node has not answered in time."""

    task: Task  # for its rows
    clients: Int[np.ndarray, "r"]
    used: Int[np.ndarray, "k"] | None  # models that the node was sent, of all K; None: all
    round: int
    last: int  # round in which a reply is of use


class OverdueRequests:
    """The overdue requests of one world, in this process: a server that resumes has none.

    Args:
        collector: makes one for a task about some clients.
    """

    def __init__(self, collector: Callable[[Task, Int[np.ndarray, "r"]], ReplyCollector]) -> None:
        self._collector = collector
        # For how many rounds replies to the next call are of use, by the task's name.
        self._rounds: dict[str, int] = {}
        self._requests: dict[str, _Overdue] = {}  # by the engine's id
        self._replies: list[LateReply] = []

    def rounds(self, task: Task) -> int:
        """For how many rounds a reply to this call is of use. Only the first call of its kind after
        ``take`` has such rounds."""
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
        """Remember requests of a call whose replies may still come, if they are of use then.

        Args:
            missed: node ids by the ids of the requests.
            task: of the call.
            clients: of all rows of the call.
            rows: of the call, by node.
            round: of the call.
            rounds: for how many its replies are of use.
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
        """Read late replies, and forget requests that are too old by now.

        Args:
            replies: to requests that were given up.
            standing: the standing task, whose answers in late replies are of no use any more.
            round: the present one.
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
        """The replies to a kind of task, each once; as ``WaitingWorld.late_replies``."""
        self._rounds[task.name] = rounds
        taken = [reply for reply in self._replies if reply.task.name == task.name]
        self._replies = [reply for reply in self._replies if reply.task.name != task.name]
        return taken

    def _read(self, request: _Overdue, reply: NodeReply, standing: StandingReports | None) -> None:
        """Take a late reply, with the same checks as a reply in time."""
        rows = np.arange(len(request.clients))
        try:
            arrays = message_of(reply).arrays
            if standing:
                arrays = standing.split(arrays, len(rows))[1]
            collector = self._collector(request.task, request.clients)
            collector.read(rows, arrays, request.used)
        except (NoReplyError, InvalidMessageError, TaskError) as error:
            _log.warning("a late reply of round %d is of no use: %s", request.round, error)
            return
        self._replies.append(
            LateReply(
                task=request.task,
                clients=request.clients,
                reply=collector.reply(),
                round=request.round,
            )
        )
