"""Where a server meets its nodes: who is online, who they are, and whether they may take part."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from fedkin.server.handshake import Handshake, check
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.node_registry import Memory, NodeRegistry, natural
from fedkin.server.request_round import OnlineNode, RequestRound
from fedkin.server.update_collector import MOST

_log = logging.getLogger("fedkin")
_WAIT = 0.5  # seconds between looks for nodes, while there are too few of them
_REMIND = 60.0  # seconds after which it is said again that they are waited for
_AGAIN = 120.0  # seconds after which who was refused may try again; at once, if it was away meanwhile
_TRIES = 3  # greetings whose answer is lost, until a node counts as refused


class Membership:
    """The nodes of one server process.

    A node that appears is sent the server's introduction, and nobody waits for its answer: from the round after the one
    in which that came, its clients are there. ``keep`` is given the roster whenever somebody new is in it.
    """

    def __init__(
        self, mail: RequestRound, own: Handshake, classes: int, keep: Callable[[Memory], None] = lambda memory: None
    ) -> None:
        self.mail, self.own, self.classes, self._keep = mail, own, classes, keep
        self.registry = NodeRegistry(mail.terms.capacity, mail.terms.registered)
        self.same_start = True  # every node makes the same initial model from the same randomness as we do
        self._bytes = [0, 0]  # of introductions, down and up
        self._seats: list[OnlineNode] = []
        self._opened = False
        self._greeted: dict[str, OnlineNode] = {}
        self._since: dict[int, float] = {}  # when refused nodes were first seen to be
        self._lost: dict[int, int] = {}  # greetings to nodes whose answers were lost
        self._waiting: dict[
            str, tuple[OnlineNode, Int[np.ndarray, "c"]]
        ] = {}  # have said who they are, and are not taken in

    def spent(self) -> tuple[int, int]:
        """Bytes of introductions, down and up, since this was last asked."""
        spent, self._bytes = self._bytes, [0, 0]
        return spent[0], spent[1]

    def there(self) -> Int[np.ndarray, "c"]:
        """Ids of the clients that can be asked, ascending."""
        return self.registry.there(seat for seat in self._seats if seat.node not in self.mail.suspects)

    def begin(self, round: int) -> None:
        """A round begins: take in those that have introduced themselves. Wait for as many clients as the terms say in
        the first round of this process, and for one in every other."""
        if not self._opened:
            self._opened = True
            return self.gather(self.mail.terms.wait_for, round)
        self._seats = self.mail.begin()
        self._meet(round, at_least=0)
        if not len(self.there()):
            self.gather(1, round)

    def gather(self, clients: int, round: int = 0) -> None:
        """Wait until so many clients are there."""
        begun = said = self.mail.clock()
        _log.info("waiting for %d client%s", clients, "s" * (clients > 1))
        self._seats = self.mail.there()
        while not self._meet(round, clients):
            if self.mail.clock() - said > _REMIND:
                said = self.mail.clock()
                there, nodes = len(self.there()), len(self._seats)
                waited = f"for {said - begun:.0f} s for {clients} clients: {there} are there, {nodes} nodes are online"
                _log.warning("waiting %s, %d refused", waited, len(self.registry.refused))
            self.mail.sleep(_WAIT)
            self._seats = self.mail.there()
        self._seats = self.mail.begin()  # the round's time begins now

    def _meet(self, round: int, at_least: int) -> bool:
        """Greet strangers, and take in those that may take part if there are then so many clients; whether there are.

        At the start all are taken in together, so that ids follow their names.
        """
        self._forgive()
        self._greet(round)
        for seat, message in self._came():
            self._hear(seat, message)
        coming = sum(len(samples) for _, samples in self._waiting.values())
        if len(self.there()) + coming < at_least:
            return False
        for name in sorted(self._waiting, key=natural):
            self._take_in(name, *self._waiting[name])
        self._waiting = {}
        return len(self.there()) >= at_least

    def _forgive(self) -> None:
        """Who was refused, and has been away since, or has waited long enough, may introduce itself again."""
        now, there = self.mail.clock(), {seat.node for seat in self._seats}
        refused = self.registry.refused.keys()
        self._since = {node: self._since.get(node, now) for node in refused}
        self.registry.forgive([node for node in refused if node not in there or now - self._since[node] >= _AGAIN])

    def _greet(self, round: int) -> None:
        known = {seat.node for seat in (*self._greeted.values(), *(seat for seat, _ in self._waiting.values()))}
        strangers = [seat for seat in self.registry.unknown(self._seats) if seat.node not in known]
        if not strangers:
            return
        letter = RpcMessage({"verb": "hello", **self.own.header()})
        lifetime = float(self.mail.terms.deadline)
        sent = self.mail.post.push([(seat.node, letter) for seat in strangers], round, lifetime)
        for one, seat in zip(sent, strangers, strict=True):
            if one.letter is not None:
                self._greeted[one.letter] = seat
        self._bytes[0] += sum(one.size for one in sent if one.letter is not None)

    def _came(self) -> list[tuple[OnlineNode, RpcMessage]]:
        """Answers to greetings. A node whose answer was lost is a stranger again, a few times."""
        answers = list(self.mail.post.pull(self._greeted)) if self._greeted else []
        self._bytes[1] += sum(answer.size for answer in answers)
        pairs = []
        for answer in answers:
            seat = self._greeted.pop(answer.letter)
            if answer.message is not None:
                pairs.append((seat, answer.message))
            else:
                self._lost[seat.node] = self._lost.get(seat.node, 0) + 1
                if not answer.lost or self._lost[seat.node] >= _TRIES:
                    self._lost.pop(seat.node)
                    self.registry.refuse(seat, "", answer.error)
        return pairs

    def _hear(self, seat: OnlineNode, message: RpcMessage) -> None:
        """What a node says of itself: it waits to be taken in, or it may not take part."""
        name = str(message.header.get("name", ""))
        try:
            for reason in ("refused", "failed"):
                if reason in message.header:
                    raise InvalidMessageError(str(message.header[reason]))
            other = Handshake.of(message)
            check(self.own, other)
            samples = message.integers("samples", np.size(message.arrays.get("samples", ())))
            if not len(samples) or not 1 <= samples.min() <= samples.max() <= MOST:
                raise InvalidMessageError(
                    "each of its clients must have training samples, and it says of some that they have none"
                )
            self.registry.check(seat, name, len(samples))
        except InvalidMessageError as error:
            self.registry.refuse(seat, name, str(error))
            return
        if name in self._waiting and self._waiting[name][0].node != seat.node:
            self.registry.refuse(self._waiting[name][0], name, "another node came with its name")
        self.same_start &= other.start == self.own.start
        self._waiting[name] = (seat, samples)

    def _take_in(self, name: str, seat: OnlineNode, samples: Int[np.ndarray, "c"]) -> None:
        try:
            member = self.registry.accept(seat, name, samples)
        except InvalidMessageError as error:
            self.registry.refuse(seat, name, str(error))
            return
        _log.info("%s is here: clients %d to %d", name, member.first, member.first + member.count - 1)
        self._keep(self.registry.memory())
