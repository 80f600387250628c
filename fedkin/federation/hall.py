"""Where a server meets its nodes: who is online, who they are, and whether they may take part."""

from __future__ import annotations

import logging

import numpy as np
from jaxtyping import Int

from fedkin.federation.exchange import Answer, Exchange, Seat
from fedkin.federation.introduction import Introduction, check
from fedkin.federation.parcel import Parcel, Unfit
from fedkin.federation.roster import Roster, natural

_log = logging.getLogger("fedkin")
_WAIT = 0.5  # seconds between looks for nodes, while there are too few of them
_REMIND = 60.0  # seconds after which it is said again that they are waited for


class Hall:
    """The nodes of one server process.

    A node that appears is sent the server's introduction, and nobody waits for its answer: from the round after the one
    in which that came, its clients are there.
    """

    def __init__(self, mail: Exchange, own: Introduction, classes: int) -> None:
        self.mail, self.own, self.classes = mail, own, classes
        self.roster = Roster(mail.terms.capacity)
        self.same_start = True  # every node makes the same initial model from the same randomness as we do
        self.bytes = (0, 0)  # of introductions, down and up
        self._seats: list[Seat] = []
        self._opened = False
        self._greeted: dict[str, Seat] = {}
        self._waiting: list[tuple[Seat, Parcel]] = []  # have introduced themselves, and are not taken in yet

    def there(self) -> Int[np.ndarray, "c"]:
        """Ids of the clients that can be asked, ascending."""
        return self.roster.there(seat for seat in self._seats if seat.node not in self.mail.suspects)

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
                _log.warning("waiting %s, %d refused", waited, len(self.roster.refused))
            self.mail.sleep(_WAIT)
            self._seats = self.mail.there()
        self._seats = self.mail.begin()  # the round's time begins now

    def _meet(self, round: int, at_least: int) -> bool:
        """Greet strangers, and take in those that answered if there are then so many clients; whether there are."""
        self._greet(round)
        came = [(seat, parcel) for seat, parcel in self._came() if parcel is not None]
        self._waiting += came
        coming = sum(len(parcel.arrays.get("samples", ())) for _, parcel in self._waiting)
        if len(self.there()) + coming < at_least:
            return False
        for seat, parcel in sorted(self._waiting, key=lambda pair: natural(str(pair[1].header.get("name")))):
            self._take_in(seat, parcel)
        self._waiting = []
        return len(self.there()) >= at_least

    def _greet(self, round: int) -> None:
        known = {seat.node for seat in (*self._greeted.values(), *(seat for seat, _ in self._waiting))}
        strangers = [seat for seat in self.roster.unknown(self._seats) if seat.node not in known]
        if not strangers:
            return
        letter = Parcel({"verb": "hello", **self.own.header()})
        sent = self.mail.post.push([(seat.node, letter) for seat in strangers], round)
        for one, seat in zip(sent, strangers, strict=True):
            if one.letter is not None:
                self._greeted[one.letter] = seat
        self.bytes = (self.bytes[0] + sum(one.size for one in sent), self.bytes[1])

    def _came(self) -> list[tuple[Seat, Parcel | None]]:
        """Answers to greetings. A node whose answer was lost is a stranger again."""
        answers: list[Answer] = list(self.mail.post.pull(self._greeted)) if self._greeted else []
        self.bytes = (self.bytes[0], self.bytes[1] + sum(answer.size for answer in answers))
        pairs = []
        for answer in answers:
            seat = self._greeted.pop(answer.letter)
            if answer.parcel is None and not answer.lost:
                self.roster.refuse(seat, "", answer.error)
            pairs.append((seat, answer.parcel))
        return pairs

    def _take_in(self, seat: Seat, parcel: Parcel) -> None:
        name = str(parcel.header.get("name", ""))
        try:
            if "refused" in parcel.header or "failed" in parcel.header:
                raise Unfit(str(parcel.header.get("refused") or parcel.header["failed"]))
            other = Introduction.of(parcel)
            check(self.own, other)
            samples = parcel.arrays.get("samples")
            if samples is None or samples.ndim != 1 or samples.dtype.kind != "i" or not len(samples):
                raise Unfit("it does not say how many samples its clients have")
            member = self.roster.accept(seat, name, samples)
        except Unfit as error:
            self.roster.refuse(seat, name, str(error))
            return
        self.same_start &= other.start == self.own.start
        _log.info("%s is here: clients %d to %d", name, member.first, member.first + member.count - 1)
