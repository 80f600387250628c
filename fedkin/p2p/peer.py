"""A peer: trains on its data, finds peers with similar data, and averages with them without a
server.

Peers are asynchronous: each does its rounds without waiting for the others. In a simulation, the
method (``fedkin.methods.decentralized``) computes a round for all peers, one row of an array each.
A real peer calls the same functions for its own row, with replies from the network. Replies are
checked and counted; wrong, late and missing ones are left out. The random streams are the
simulator's, so peers in lockstep (which wait for each other in every round) reproduce a simulation.

The peer's table (``PeerTable``) gives every known peer a number. Symbols: N peers in the table, P
parameters.
"""

from __future__ import annotations

import math
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
from fedkin.methods.decentralized import Neighbourhood, PeerMethod
from fedkin.p2p.messages import MODEL, MODEL_AND_UPDATE, Message
from fedkin.p2p.peer_client import ExchangeCounts, PeerClient
from fedkin.p2p.peer_table import PeerTable
from fedkin.p2p.transport import PeerTransport
from fedkin.security.signatures import MessageSigner
from fedkin.task_types.classification import CLASSIFICATION
from fedkin.task_types.label_words import scaled_label_words
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.evaluate import Scores, evaluate
from fedkin.tasks.train import train

_DIGEST = 16  # characters of a digest in messages


@dataclass(frozen=True)
class PeerMemory:
    """The state that a peer saves, to resume after a restart."""

    model: Float[np.ndarray, "P"]
    age: int = 0  # number of rounds done
    trust: tuple[str, ...] = ()  # names of the peers that it takes for similar
    votes: Mapping[str, int] = field(default_factory=dict)  # the method's votes, by peer name
    names: tuple[str, ...] = ()  # names of all peers ever met, by number


@runtime_checkable
class PeerStorage(Protocol):
    """Storage of a peer's memory (model and state) and of the records of its rounds. Both methods
    raise StorageError if writing fails."""

    def save(self, memory: PeerMemory) -> None:
        """Save the memory. It replaces the memory that was saved before."""
        ...

    def append(self, record: dict[str, Any]) -> None:
        """Append the record of a round."""
        ...


class Peer:
    """One peer of a federation.

    Args:
        settings: name, federation, client, seed and rounds.
        method: decides which peers to query, to trust and to average with.
        world: data and trainer; only the client ``settings.client`` is used.
        transport: reaches the other peers. ``run`` closes it.
        storage: storage of the peer's memory and records.
        memory: memory of an earlier process; None for a new peer.
        lockstep: the peers that run in lockstep (they wait for each other in every round); None for
            asynchronous rounds.
        timeout: seconds to wait for a reply.
        signer: signs and checks messages; None if peers have no certificates.
        on_round: called with the record of every round.
        clock: returns the time in seconds.

    Raises:
        ConfigError: the data do not have this client, or in lockstep the client's number is not the
            peer's position in the list of peers.
        ModelError: the model is a detector (it has one score per sample, not one per class).
    """

    def __init__(
        self,
        settings: PeerSettings,
        method: PeerMethod,
        world: World,
        transport: PeerTransport,
        storage: PeerStorage,
        memory: PeerMemory | None = None,
        *,
        lockstep: LockstepSettings | None = None,
        timeout: float | int = 5.0,
        signer: MessageSigner | None = None,
        on_round: Callable[[dict[str, Any]], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_peer(settings, world, lockstep)
        self.settings = settings
        self.method = method
        self.world = world
        self._task_type: TaskType = getattr(world, "task_type", CLASSIFICATION)
        self.start = world.initial(Stream(settings.seed, 0, "method/init").child("model"))
        self.memory = memory or PeerMemory(self.start)
        self.table = PeerTable(settings.name, lockstep.peers if lockstep else self.memory.names)
        self.client = PeerClient(
            settings=settings,
            table=self.table,
            transport=transport,
            parameters=len(self.start),
            timeout=timeout,
            lockstep=lockstep,
            signer=signer,
            labels=scaled_label_words(self._task_type),
            backbone=world.spec.frozen[:_DIGEST],
            clock=clock,
        )
        self._storage = storage
        self._on_round = on_round
        self._row = np.array([settings.client])

    def stop(self) -> None:
        """Ask the peer to end after the current round. Thread-safe."""
        self.client.stopped.set()

    def run(self) -> None:
        """Do rounds until ``settings.rounds`` are done or ``stop`` is called. Then leave the
        network.

        Raises:
            ConfigError: another peer has the same name.
        """
        stopped = self.client.stopped
        rounds = self.settings.rounds
        try:
            while not stopped.is_set() and (rounds is None or self.memory.age < rounds):
                self.round()
                stopped.wait(self.settings.pause)
            self._save()
        finally:
            self.client.close()

    def round(self) -> dict[str, Any]:
        """Do one round, and return its record. Raises the errors of ``run``."""
        start_time = time.perf_counter()
        t = self.memory.age + 1
        stream = Stream(self.settings.seed, t, "method").child("round")
        trained = self._train(stream)
        partners = []
        if trained is None:
            self.memory = replace(self.memory, age=t)
        else:
            self.client.serve(trained)
            partners = self._average(trained, stream)
        self.client.finish_round(t)
        record = self._record(t, partners, start_time)
        self.client.counts = ExchangeCounts()
        self._try_writing(partial(self._storage.append, record))
        if t % self.settings.save_every == 0:
            self._save()
        if self._on_round:
            self._on_round(record)
        return record

    # --- a round, step by step

    def _train(self, stream: Stream) -> Message | None:
        """Train this peer's model on its data, and return a message with the trained model
        w_i^{t-1/2} and its update g_i.

        The result is None if training ended in NaN or infinity: such a model is not sent.
        """
        # partial: a peer that runs out of time continues with the steps that it has done.
        work = replace(self.world.work, partial=True)
        model = self.memory.model
        first = np.zeros(1, np.int64)
        reply = train(
            world=self.world,
            models=model[None],
            clients=self._row,
            model_index=first,
            work=work,
            stream=stream.child("train"),
        )
        if not reply.arrived[0]:
            self._count_failure(
                "training", "local training ended in NaN or infinity, so the model is not changed"
            )
            return None
        update = reply.update[0]
        arrays = {"model": model + update, "update": update}
        return Message(self.settings.name, stream.round, int(reply.examples[0]), arrays)

    def _average(self, own: Message, stream: Stream) -> list[str]:
        """Query other peers, and average this peer's model with the models of similar peers.

        Args:
            own: this peer's model and update after its training.
            stream: random numbers of the round.

        Returns:
            The names of the peers whose models are in the average.
        """
        reachable = self.client.reachable()
        table = self.table
        method = self.method
        arrays = MODEL_AND_UPDATE if method.needs_updates else MODEL
        neighbourhood = self._neighbourhood(reachable)
        # The random numbers by which a method selects peers at random, as the simulator draws them.
        noise = decentralized.draw_noise(stream.child("ask"), self._row, len(table))
        requested = method.select_queries(neighbourhood, reachable, noise)
        replies = self.client.request(table.names_of(requested), arrays, own.round)

        similarity = self._similarity(own, replies)
        neighbourhood = method.match_neighbours(neighbourhood, table.mask(replies), similarity)
        neighbourhood = replace(neighbourhood, trust=neighbourhood.trust & reachable)

        noise = decentralized.draw_noise(stream.child("partners"), self._row, len(table))
        selected = method.select_partners(neighbourhood, reachable, noise)
        # Partners whose model has not been requested yet.
        replies |= self.client.request(table.names_of(selected & ~requested), MODEL, own.round)
        partners = [name for name in table.names_of(selected) if name in replies]

        votes = zip(table.names, neighbourhood.votes[0], strict=True)
        # A peer that reaches no other peer cannot compare itself with any, so its trust stays.
        trust = self.memory.trust
        if reachable.any():
            trust = tuple(table.names_of(neighbourhood.trust))
        self.memory = PeerMemory(
            model=self._weighted_mean([own, *(replies[name] for name in partners)]),
            age=own.round,
            trust=trust,
            votes={name: int(count) for name, count in votes if count},
            names=tuple(table.names),
        )
        return partners

    def _neighbourhood(self, reachable: Bool[np.ndarray, "1 N"]) -> Neighbourhood:
        """This peer's part of the method's state: which reachable peers it trusts, and how many
        votes it has given to each known peer (in PENS, how often the peer was among the best)."""
        trust = self.table.mask(self.memory.trust) & reachable
        votes = np.array([[self.memory.votes.get(name, 0) for name in self.table.names]], np.int32)
        return Neighbourhood(trust, votes, np.array([self.memory.age + 1]))

    def _similarity(self, own: Message, replies: Mapping[str, Message]) -> Float[np.ndarray, "1 N"]:
        """Similarity s_ij of this peer i to each peer j that replied; 0 for all others."""
        similarity = np.zeros((1, len(self.table)))
        messages = self._in_order(replies.values())
        if not messages or self.method.similarity_of == "nothing":
            return similarity
        models = _stack(messages, "model")
        if self.method.similarity_of == "gradient":
            # A method that does not use updates has not requested any.
            change = "update" if self.method.needs_updates else "model"
            own_vectors = (_stack([own], "model"), _stack([own], change))
            vectors = (models, _stack(messages, change))
            spec = self.world.spec
            values = self.method.gradient_similarity(spec, self.start, own_vectors, vectors)[0]
        else:
            owners = np.repeat(self._row, len(messages))
            scores = evaluate(self.world, models, owners, np.arange(len(messages)), split="train")
            values = decentralized.loss_similarity(scores.loss)
        similarity[0, self.table.mask(replies)[0]] = values
        return similarity

    def _weighted_mean(self, messages: Iterable[Message]) -> Float[np.ndarray, "P"]:
        """The mean of the models in some messages, weighted by the senders' numbers of training
        samples."""
        ordered = self._in_order(messages)
        weights = np.array([[float(message.examples) for message in ordered]])
        return decentralized.average_models(_stack(ordered, "model"), weights)[0]

    def _in_order(self, messages: Iterable[Message]) -> list[Message]:
        """Messages in the order of their senders' numbers in ``PeerTable``.

        The simulator sums in this order too. A sum of floats depends on the order, so only the same
        order gives the same bits.
        """
        return sorted(messages, key=lambda message: self.table.names.index(message.sender))

    # --- records and memory

    def _record(self, t: int, partners: list[str], start_time: float) -> dict[str, Any]:
        """The record of round t: score of the peer's model on its test data, and the peer's
        requests, replies and failures.

        Args:
            t: the round.
            partners: names of the peers whose models are in this peer's average.
            start_time: when the round began.
        """
        scores = evaluate(self.world, self.memory.model[None], self._row, np.zeros(1, np.int64))
        counts = self.client.counts
        return {
            "round": t,
            self._task_type.names.score: self._score_of(scores),
            "neighbours": list(self.memory.trust),
            "partners": partners,
            "asked": counts.requested,
            "answered": counts.replied,
            "failures": dict(counts.failures),
            "exchanges": len(counts.replied),
            "seconds": round(time.perf_counter() - start_time, 4),
            "bytes": {"got": counts.bytes_received, "given": self.client.pop_bytes_sent()},
        }

    def _score_of(self, scores: Scores) -> float | None:
        """The score of this peer's task type; None without test data, and where it is undefined."""
        sums = self._task_type.named(scores.sums[0])
        values = self._task_type.values(sums, int(scores.examples[0]))
        score = float(values[self._task_type.names.score])
        return score if math.isfinite(score) else None

    def _save(self) -> None:
        """Save this peer's memory to disk, so that it can resume after a restart."""
        self._try_writing(partial(self._storage.save, self.memory))

    def _try_writing(self, write: Callable[[], None]) -> None:
        """Write to disk. If that fails (e.g. the disk is full), the failure is counted, and the
        peer continues."""
        try:
            write()
        except StorageError as error:
            self._count_failure("disk", f"{error}; the peer continues without saving")

    def _count_failure(self, reason: str, line: str) -> None:
        """Count a failure of this peer itself, and log it once."""
        self.client.counts.failures[reason] += 1
        self.table.record_own_failure(reason, line)


def check_peer(settings: PeerSettings, world: World, lockstep: LockstepSettings | None) -> None:
    """Check that a peer's settings match its data, its model and the other peers.

    Args:
        settings: the peer's settings.
        world: data and model.
        lockstep: the peers that run in lockstep (they wait for each other in every round); None
            without lockstep.

    Raises:
        ConfigError: the data set does not have the peer's client, or in lockstep the client's
            number is not the peer's position in the list of peers.
        ModelError: the model is a detector (it has one score per sample, not one per class).
    """
    if settings.client >= world.total_clients:
        raise ConfigError(
            f"peer.client must be one of the data set's clients, 0 to {world.total_clients - 1}, "
            f"got {settings.client}"
        )
    if world.spec.detects:
        raise ModelError(
            "peers train models with a score for every class, but this model is a detector (one "
            "score per sample); choose another model in [model]"
        )
    if lockstep is None:
        return
    if settings.name not in lockstep.peers:
        names = ", ".join(lockstep.peers)
        raise ConfigError(
            f"lockstep.peers: this peer's name, {settings.name!r}, is not in the list {names}"
        )
    place = lockstep.peers.index(settings.name)
    if place != settings.client:
        raise ConfigError(
            f"lockstep.peers: {settings.name!r} is number {place} (from 0), but peer.client is "
            f"{settings.client}; make them equal, so that the run equals the simulation"
        )


def _stack(messages: Iterable[Message], name: str) -> Float[np.ndarray, "m P"]:
    """The array ``name`` of all messages as one array, with one row for each message."""
    return np.stack([message.arrays[name] for message in messages])
