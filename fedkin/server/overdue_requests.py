"""Requests that were not answered before their round ended, and their late replies."""

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
from fedkin.server.transport import NodeReply

_log = logging.getLogger("fedkin")


class _Overdue(NamedTuple):
    """A request that a node did not answer in time."""

    task: Task  # restricted to its rows
    clients: Int[np.ndarray, "r"]
    used: Int[np.ndarray, "k"] | None  # models sent to the node, of all K; None: all
    round: int
    last: int  # last round in which a reply can be used


class OverdueRequests:
    """The overdue requests of one world. They are not stored: a resumed server has none.

    Args:
        collector: makes a ReplyCollector for a task and some clients.
    """

    def __init__(self, collector: Callable[[Task, Int[np.ndarray, "r"]], ReplyCollector]) -> None:
        self._collector = collector
        # For how many rounds replies to the next call can be used, by the task's name.
        self._rounds: dict[str, int] = {}
        self._requests: dict[str, _Overdue] = {}  # by the engine's id
        self._replies: list[LateReply] = []

    def rounds(self, task: Task) -> int:
        """For how many rounds a reply to this call can be used.

        Nonzero only for the first call of its kind after ``take``.
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
        """Store a call's requests that may still be answered, if late replies can be used.

        Args:
            missed: node ids by the ids of the requests.
            task: of the call.
            clients: of all rows of the call.
            rows: of the call, by node.
            round: of the call.
            rounds: for how many rounds its replies can be used.
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
            replies: to requests that were no longer awaited.
            standing: the standing task; its answers in late replies are outdated and ignored.
            round: the current one.
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
        """The replies to a kind of task, each once, as in ``WaitingWorld.late_replies``."""
        self._rounds[task.name] = rounds
        taken = [reply for reply in self._replies if reply.task.name == task.name]
        self._replies = [reply for reply in self._replies if reply.task.name != task.name]
        return taken

    def _read(self, request: _Overdue, reply: NodeReply, standing: StandingReports | None) -> None:
        """Read a late reply, with the same checks as a timely one."""
        rows = np.arange(len(request.clients))
        try:
            received = message_of(reply).arrays
            arrays = standing.split(received, len(rows))[1] if standing else received
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
