"""A peer: trains on its own data, finds its kin among the others, averages with them, at its own pace.

A round is the method's (``fedkin.methods.decentralized``), with one row instead of all; what comes over the network in place of the
simulator is checked, counted, and left out where it is wrong, late or missing. Its randomness is the simulator's, so
that peers in lock-step do what a simulation does. Letters: N peers in its book, P parameters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from fedkin.config.peer_settings import LockstepSettings, PeerSettings
from fedkin.core.errors import ConfigError, ModelError, StorageError
from fedkin.core.randomness import Stream
from fedkin.core.world import World
from fedkin.methods import decentralized
from fedkin.methods.decentralized import PeerMethod, Ties
from fedkin.p2p.messages import BOTH, MODEL, Message, MessageSigner
from fedkin.p2p.peer_client import PeerClient, Tally
from fedkin.p2p.peer_table import PeerTable
from fedkin.p2p.zenoh_transport import Network


@dataclass(frozen=True)
class Memory:
    """What a peer keeps on its disk."""

    model: Float[np.ndarray, "P"]
    age: int = 0  # rounds done
    trust: tuple[str, ...] = ()
    votes: Mapping[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()  # of all that it ever met, by number


@runtime_checkable
class Disk(Protocol):
    """Where a peer keeps itself. Both verbs raise StorageError where the disk does not take it."""

    def save(self, memory: Memory) -> None:
        """Put this in place of what was there."""
        ...

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of a round."""
        ...


class Peer:
    """One peer of a federation.

    Args:
        about, lockstep: settings.
        method: what it does with what it hears.
        world: its own data and trainer; client ``about.client`` of it is used, and no other.
        network: the others. ``run`` closes it.
        disk, memory: where it keeps itself, and what it kept before; None where it begins.
        deadline: seconds for an answer.
        seal: signs and checks, where peers have certificates.
        on_round: called with the record of every round.

    Raises ConfigError for a client that the data do not have, and in lock-step for one that is not the peer's place in
    the list; ModelError for a detector.
    """

    def __init__(
        self,
        about: PeerSettings,
        method: PeerMethod,
        world: World,
        network: Network,
        disk: Disk,
        memory: Memory | None = None,
        *,
        lockstep: LockstepSettings | None = None,
        deadline: float | int = 5.0,
        seal: MessageSigner | None = None,
        on_round: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        check(about, world, lockstep)
        self.about, self.method, self.world = about, method, world
        self.start = world.initial(Stream(about.seed, 0, "method/init").child("model"))
        self.memory = memory or Memory(self.start)
        self.book = PeerTable(about.name, lockstep.peers if lockstep else self.memory.names)
        self.others = PeerClient(about, self.book, network, len(self.start), deadline, lockstep, seal)
        self._disk, self._on_round, self._own = disk, on_round, np.array([about.client])

    def stop(self) -> None:
        """End after the round that is being done. May be called from anywhere."""
        self.others.stopped.set()

    def run(self) -> None:
        """Do rounds until ``about.rounds`` are done or ``stop`` is called, and leave.

        Raises ConfigError where another peer has this one's name.
        """
        stopped, rounds = self.others.stopped, self.about.rounds
        try:
            while not stopped.is_set() and (rounds is None or self.memory.age < rounds):
                self.round()
                stopped.wait(self.about.pause)
            self._keep()
        finally:
            self.others.leave()

    def round(self) -> dict[str, Any]:
        """One round; what is written of it. Raises as ``run`` does."""
        began, t = time.perf_counter(), self.memory.age + 1
        stream = Stream(self.about.seed, t, "method").child("round")
        mine, partners = self._trained(stream), []
        if mine is None:
            self.memory = replace(self.memory, age=t)
        else:
            self.others.publish(mine)
            partners = self._averaged(mine, stream)
        self.others.finished(t)
        record = self._record(t, partners, began)
        self.others.tally = Tally()
        self._try_disk(partial(self._disk.append, record))
        if t % self.about.save_every == 0:
            self._keep()
        if self._on_round:
            self._on_round(record)
        return record

    # --- a round, step by step

    def _trained(self, stream: Stream) -> Message | None:
        """w_i^{t-1/2} and g_i; None where training ended in NaN or infinity, which nobody else needs to hear of."""
        work = replace(self.world.work, partial=True)
        model, first = self.memory.model, np.zeros(1, np.int64)
        reply = self.world.train(model[None], self._own, first, work=work, stream=stream.child("train"))
        if not reply.arrived[0]:
            self._failed("training", "local training ended in NaN or infinity; the model stays as it was")
            return None
        update = reply.update[0]
        return Message(
            self.about.name, stream.round, int(reply.examples[0]), {"model": model + update, "update": update}
        )

    def _averaged(self, mine: Message, stream: Stream) -> list[str]:
        """Ask, match and average; the names it averaged with."""
        there, book, method = self.others.there(), self.book, self.method
        wants, ties = BOTH if method.needs_updates else MODEL, self._ties(there)
        asked = method.asks(ties, there, decentralized.noise(stream.child("ask"), self._own, len(book)))
        heard = self.others.ask(book.named(asked), wants, mine.round)
        ties = method.matched(ties, book.mask(heard), self._similar(mine, heard))
        ties = replace(ties, trust=ties.trust & there)
        chosen = method.partners(ties, there, decentralized.noise(stream.child("partners"), self._own, len(book)))
        heard |= self.others.ask(book.named(chosen & ~asked), MODEL, mine.round)
        partners = [name for name in book.named(chosen) if name in heard]
        model = self._mixed([mine, *(heard[name] for name in partners)])
        votes = {name: int(count) for name, count in zip(book.names, ties.votes[0], strict=True) if count}
        trust = tuple(book.named(ties.trust)) if there.any() else self.memory.trust  # alone, nobody is forgotten
        self.memory = Memory(model, mine.round, trust, votes, tuple(book.names))
        return partners

    def _ties(self, there: Bool[np.ndarray, "1 N"]) -> Ties:
        """What it knows of those who are there, in the round that it does."""
        votes = [[self.memory.votes.get(name, 0) for name in self.book.names]]
        return Ties(
            self.book.mask(self.memory.trust) & there, np.array(votes, np.int32), np.array([self.memory.age + 1])
        )

    def _similar(self, mine: Message, heard: Mapping[str, Message]) -> Float[np.ndarray, "1 N"]:
        """s_ij of those that were heard; 0 elsewhere."""
        similar = np.zeros((1, len(self.book)))
        others = self._by_number(heard.values())
        if not others or self.method.judges == "nothing":
            return similar
        models = _stacked(others, "model")
        if self.method.judges == "gradient":
            which = "update" if self.method.needs_updates else "model"  # where updates do not count, none were sent
            own, theirs = (_stacked([mine], "model"), _stacked([mine], which)), (models, _stacked(others, which))
            found = decentralized.similarity(self.method.alpha, self.start, own, theirs)[0]
        else:
            owners = np.repeat(self._own, len(others))
            found = decentralized.by_loss(
                self.world.evaluate(models, owners, np.arange(len(others)), split="train").loss
            )
        similar[0, self.book.mask(heard)[0]] = found
        return similar

    def _mixed(self, messages: Iterable[Message]) -> Float[np.ndarray, "P"]:
        """The mean by training examples."""
        ordered = self._by_number(messages)
        return decentralized.mixed(_stacked(ordered, "model"), np.array([[float(each.examples) for each in ordered]]))[
            0
        ]

    def _by_number(self, messages: Iterable[Message]) -> list[Message]:
        """In the order of the book, as the simulator has its rows."""
        return sorted(messages, key=lambda message: self.book.names.index(message.sender))

    # --- what is written

    def _record(self, t: int, partners: list[str], began: float) -> dict[str, Any]:
        scores = self.world.evaluate(self.memory.model[None], self._own, np.zeros(1, np.int64))
        examples, tally = int(scores.examples[0]), self.others.tally
        return {
            "round": t,
            "accuracy": int(scores.correct[0]) / examples if examples else None,
            "neighbours": list(self.memory.trust),
            "partners": partners,
            "asked": tally.asked,
            "answered": tally.answered,
            "failures": dict(tally.failures),
            "exchanges": len(tally.answered),
            "seconds": round(time.perf_counter() - began, 4),
            "bytes": {"got": tally.received, "given": self.others.given()},
        }

    def _keep(self) -> None:
        self._try_disk(partial(self._disk.save, self.memory))

    def _try_disk(self, write: Callable[[], None]) -> None:
        """A full disk stops nobody."""
        try:
            write()
        except StorageError as error:
            self._failed("disk", f"{error}; going on without")

    def _failed(self, reason: str, line: str) -> None:
        """Something of this peer's own; counted, and logged once."""
        self.others.tally.failures[reason] += 1
        self.book.own_failure(reason, line)


def check(about: PeerSettings, world: World, lockstep: LockstepSettings | None) -> None:
    """Refuse a client that is not there, a model that peers cannot train, and a place in the list that is another's."""
    if about.client >= world.total_clients:
        raise ConfigError(
            f"peer.client must be one of the data set's clients, 0 to {world.total_clients - 1}, got {about.client}"
        )
    if world.spec.detects:
        raise ModelError("peers train models with a score for every class, and this model is a detector")
    if lockstep is None:
        return
    if about.name not in lockstep.peers:
        raise ConfigError(f"lockstep.peers: this peer's name, {about.name!r}, is none of {', '.join(lockstep.peers)}")
    place = lockstep.peers.index(about.name)
    if place != about.client:
        raise ConfigError(
            f"lockstep.peers: {about.name!r} is number {place} (from 0) and peer.client is {about.client}; they must "
            "be the same, so that the run is the simulator's"
        )


def _stacked(messages: Iterable[Message], name: str) -> Float[np.ndarray, "m P"]:
    return np.stack([message.arrays[name] for message in messages])
