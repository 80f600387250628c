"""Letters about clients: dealt to the nodes that hold them, and read as they come back.

With every letter travels what a node is to be told anyway (which clients were placed since the last one), and with
every answer whether its clients find their data shifted, once somebody has asked: neither takes an exchange of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from fedkin.core.ledger import Ledger
from fedkin.server.membership import Membership
from fedkin.server.message import InvalidMessageError, RpcMessage, plain
from fedkin.server.node_registry import NodeInfo
from fedkin.server.request_round import Answer

_log = logging.getLogger("fedkin")
NEVER = -2  # in place of a round: before the one before the first
Request = tuple[dict[str, Any], dict[str, np.ndarray]]  # header and arrays
Shift = dict[str, Any]  # a test and its threshold


class ShiftReports:
    """What clients said last of whether their data have shifted, and in which round."""

    def __init__(self, clients: int) -> None:
        self.round = np.full(clients, NEVER)
        self.shifted = np.zeros(clients, bool)

    def take(self, clients: Int[np.ndarray, "r"], answer: RpcMessage, round: int) -> None:
        """What an answer says of some clients, whatever else it is about. Raises Unfit where it is of another size."""
        if "shifted" in answer.arrays:
            self.shifted[clients] = answer.truths("shifted", len(clients))
            self.round[clients] = round


class RpcClient:
    """The correspondence of one run, which nodes know as ``run``; its bytes go on the ledger."""

    def __init__(self, membership: Membership, run: str, ledger: Ledger) -> None:
        self.membership, self.run, self.ledger, self.round = membership, run, ledger, 0
        self.pending = np.zeros(
            membership.registry.capacity, bool
        )  # placed, and not told yet to note what their data are
        self.reports = ShiftReports(membership.registry.capacity)
        self._test: Shift | None = None  # of a shift, once somebody has asked

    def placed(self, clients: Int[np.ndarray, "n"]) -> None:
        """These note what their data are when they get their next letter."""
        self.pending[clients] = True
        self.reports.round[clients] = self.round  # what they have now is what they note
        self.reports.shifted[clients] = False

    def expect(self, test: Shift) -> None:
        """From now on every answer says whether its clients find their data shifted."""
        if test != self._test:
            self._test, self.reports = test, ShiftReports(len(self.pending))

    def shifted(self, clients: Int[np.ndarray, "n"], test: Shift) -> np.ndarray:
        """What they say of a shift, in this round or in the last; only who has said nothing then is asked."""
        self.expect(test)
        silent = clients[self.reports.round[clients] < self.round - 1]
        if len(silent):
            self.ask("shifted", silent, lambda rows: ({}, {}), lambda rows, answer: None)
        return self.reports.shifted[clients] & (self.reports.round[clients] >= self.round - 1)

    def ask(
        self,
        verb: str,
        clients: Int[np.ndarray, "n"],
        write: Callable[[Int[np.ndarray, "r"]], Request],
        read: Callable[[Int[np.ndarray, "r"], RpcMessage], None],
        spoil: Callable[[Int[np.ndarray, "r"]], None] = lambda rows: None,
    ) -> None:
        """One exchange about some clients: ``write`` a letter about the rows of each node, and ``read`` what it says
        of them; ``spoil`` the rows of one whose answer turns out to be of no use."""
        there = self.membership.there()
        dealt = [(node, m, rows) for node, m, rows in self.membership.registry.deal(clients) if m.first in there]
        letters = {node: self._letter(verb, member, clients[rows], write(rows)) for node, member, rows in dealt}
        answers = self.membership.mail.ask(letters, self.round)
        self.ledger.add(verb, self.membership.mail.sent, self.membership.mail.received)
        for node, member, rows in dealt:
            try:
                message = _useful(answers.get(node))
                self.pending[member.ids] = False
                self.reports.take(clients[rows], message, self.round)
                read(rows, message)
            except Missing as error:
                _log.warning("round %d: no answer from %s (%s): %s", self.round, member.name, verb, error)
            except InvalidMessageError as error:
                spoil(rows)
                _log.warning("round %d: %s of %s is set aside: %s", self.round, verb, member.name, error)

    def _letter(self, verb: str, member: NodeInfo, clients: Int[np.ndarray, "r"], letter: Request) -> RpcMessage:
        header, arrays = letter
        noted = np.flatnonzero(self.pending[member.ids])
        arrays = {"clients": clients - member.first, **({"noted": noted} if len(noted) else {}), **arrays}
        known = {"verb": verb, "run": self.run, "first": member.first, "count": member.count, "shift": self._test}
        known["about"] = self.membership.own.header()  # a site may have changed since it was met
        return RpcMessage({**known, **header}, arrays)

    def rows(
        self,
        verb: str,
        out: np.ndarray,
        clients: Int[np.ndarray, "n"],
        arrays: dict[str, np.ndarray] | None = None,
        own: Callable[[Int[np.ndarray, "r"]], dict[str, np.ndarray]] = lambda rows: {},
        options: dict[str, Any] | None = None,
    ) -> np.ndarray:
        """``out`` with what each node found for its rows; rows without an answer stay as they are."""
        kinds = {"f": RpcMessage.floats, "i": RpcMessage.integers, "b": RpcMessage.truths}
        take = kinds[out.dtype.kind]

        def read(rows: Int[np.ndarray, "r"], answer: RpcMessage) -> None:
            out[rows] = take(answer, "found", len(rows), *out.shape[1:])

        self.ask(verb, clients, lambda rows: (options or {}, (arrays or {}) | own(rows)), read)
        return out


class Missing(Exception):
    """A node has not done what it was asked, and why."""


def _useful(answer: Answer | None) -> RpcMessage:
    """What a node says that has done what it was asked. Raises Missing."""
    if answer is None:
        raise Missing("its time is up")
    if answer.message is None:
        raise Missing(answer.error)
    if "failed" in answer.message.header:
        raise Missing(f"it says: {plain(answer.message.header['failed'])}")
    return answer.message
