"""Remote calls about clients: rows are sent to the nodes that hold them, and read from their replies.

Every request also lists the clients of its node that have been placed since the last one; every reply says whether its
clients detect a shift, once a method tests for it. Neither takes messages of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.ledger import Ledger
from fedkin.server.membership import Membership
from fedkin.server.message import InvalidMessageError, RpcMessage, one_line
from fedkin.server.node_registry import NodeInfo
from fedkin.server.transport import Reply

_log = logging.getLogger("fedkin")
NEVER = -2  # in place of a round: before the one before the first
ShiftTest = dict[str, Any]  # name of a test, and its threshold


class ShiftReports:
    """What each client last reported of a shift of its data, and in which round."""

    def __init__(self, clients: int) -> None:
        self.round = np.full(clients, NEVER)
        self.shifted = np.zeros(clients, bool)

    def record(self, clients: Int[np.ndarray, "r"], reply: RpcMessage, round: int) -> None:
        """Take what a reply reports.

        Args:
            clients: the ids that the reply is about.
            reply: to a request of any operation.
            round: of the reply.

        Raises:
            InvalidMessageError: the report is of another size.
        """
        if "shifted" in reply.arrays:
            self.shifted[clients] = reply.booleans("shifted", len(clients))
            self.round[clients] = round


class RpcClient:
    """The remote calls of one run; nodes store what they keep of it under ``run``, and its bytes go on the ledger."""

    def __init__(self, membership: Membership, run: str, ledger: Ledger) -> None:
        self.membership, self.run, self.ledger, self.round = membership, run, ledger, 0
        clients = membership.registry.capacity
        self.pending_notes = np.zeros(clients, bool)  # placed, and its node has not been notified yet
        self.reports = ShiftReports(clients)
        self._test: ShiftTest | None = None  # once a method tests for shifts

    def schedule_notes(self, clients: Int[np.ndarray, "n"]) -> None:
        """Let these store their label counts when they get their next request."""
        self.pending_notes[clients] = True
        self.reports.round[clients] = self.round  # they store their present label counts
        self.reports.shifted[clients] = False

    def expect_shifts(self, test: ShiftTest) -> None:
        """From now on every reply reports whether its clients find their data shifted."""
        if test != self._test:
            self._test, self.reports = test, ShiftReports(len(self.pending_notes))

    def shifted(self, clients: Int[np.ndarray, "n"], test: ShiftTest) -> np.ndarray:
        """What they reported in this round or in the last; only those without a report are sent a request."""
        self.expect_shifts(test)
        silent = clients[self.reports.round[clients] < self.round - 1]
        if len(silent):
            self.call("shifted", silent, lambda rows: RpcMessage(), lambda rows, reply: None)
        return self.reports.shifted[clients] & (self.reports.round[clients] >= self.round - 1)

    def call(
        self,
        operation: str,
        clients: Int[np.ndarray, "n"],
        write: Callable[[Int[np.ndarray, "r"]], RpcMessage],
        read: Callable[[Int[np.ndarray, "r"], RpcMessage], None],
        discard: Callable[[Int[np.ndarray, "r"]], None] = lambda rows: None,
    ) -> None:
        """One request to each node that holds some of the clients, and its reply.

        Args:
            operation: what the nodes do.
            clients: ids, one per row of the call.
            write: the request about some rows.
            read: takes a reply about some rows; raises InvalidMessageError where it cannot be used.
            discard: is called with the rows of such a reply.
        """
        online = self.membership.online_clients()
        nodes = [node for node in self.membership.registry.rows_by_node(clients) if node.info.first in online]
        requests = {
            node.node_id: self._request(operation, node.info, clients[node.rows], write(node.rows)) for node in nodes
        }
        replies = self.membership.request_round.send(requests, self.round)
        sent, received = self.membership.request_round.bytes_sent, self.membership.request_round.bytes_received
        self.ledger.add(operation, sent, received)
        for node_id, info, rows in nodes:
            try:
                message = _successful(replies.get(node_id))
                self.pending_notes[info.ids] = False
                self.reports.record(clients[rows], message, self.round)
                read(rows, message)
            except NoReplyError as error:
                _log.warning("round %d: no reply from %s (%s): %s", self.round, info.name, operation, error)
            except InvalidMessageError as error:
                discard(rows)
                _log.warning("round %d: %s of %s is excluded: %s", self.round, operation, info.name, error)

    def _request(
        self, operation: str, info: NodeInfo, clients: Int[np.ndarray, "r"], message: RpcMessage
    ) -> RpcMessage:
        """A request with what every node needs: its clients, and the run."""
        notes = np.flatnonzero(self.pending_notes[info.ids])
        arrays = {"clients": clients - info.first, **({"note": notes} if len(notes) else {}), **message.arrays}
        header = {"operation": operation, "run": self.run, "first": info.first, "count": info.count}
        header |= {"shift": self._test, "handshake": self.membership.own.header()}  # a site may have changed since
        return RpcMessage({**header, **message.header}, arrays)

    def call_rows(
        self,
        operation: str,
        out: np.ndarray,
        clients: Int[np.ndarray, "n"],
        write: Callable[[Int[np.ndarray, "r"]], RpcMessage] = lambda rows: RpcMessage(),
    ) -> np.ndarray:
        """A call whose reply is one array with a row per client.

        Args:
            operation: what the nodes do.
            out: [n ...], what rows without a reply keep; filled in place.
            clients: ids, one per row.
            write: the request about some rows.

        Returns:
            ``out``.
        """
        readers = {"f": RpcMessage.floats, "i": RpcMessage.integers, "b": RpcMessage.booleans}
        reader = readers[out.dtype.kind]

        def read(rows: Int[np.ndarray, "r"], reply: RpcMessage) -> None:
            out[rows] = reader(reply, "result", len(rows), *out.shape[1:])

        self.call(operation, clients, write, read)
        return out


class NoReplyError(Exception):
    """A node has not done what was requested, and why."""


def _successful(reply: Reply | None) -> RpcMessage:
    """The message of a reply. Raises NoReplyError where the node has not done what was requested."""
    if reply is None:
        raise NoReplyError("its time is up")
    if reply.message is None:
        raise NoReplyError(reply.error)
    if "failed" in reply.message.header:
        raise NoReplyError(f"it reports: {one_line(reply.message.header['failed'])}")
    return reply.message
