"""A world whose clients are elsewhere: every verb is one exchange of letters with the nodes that hold them.

What a method asks of its clients is dealt to their nodes, each of which gets only the models that its rows need, and
answers for all its clients at once: with single updates, or with means where the method needs no more. A node that does
not answer in time, or answers with what cannot be used, has given no answer, as in any world.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.world import UPDATE_MEMORY, LocalTraining, ModelSpec, Scores, TrainingReply
from fedkin.measures.calibration import BINS
from fedkin.server.handshake import digest_of
from fedkin.server.membership import Membership
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.node import work_to
from fedkin.server.rpc_client import Request, RpcClient
from fedkin.server.update_collector import MOST, NormFilter, UpdateCollector

_RUN, _USUAL = "run", "usual_lengths"
_PENDING, _START = "to_note", "start"  # names in a checkpoint


@dataclass(frozen=True)
class Start:
    """An initial model, and the stream that it came from, in place of which a node can be sent the stream."""

    stream: Stream
    digest: str


class RemoteWorld:
    """Real clients, behind an engine.

    Args:
        hall: where nodes are met; shared by the methods of one server.
        spec: of the model that everybody trains.
        initial: two words of randomness -> a flat model.
        work: the run's local work.
        run: what nodes know this method's run by, on their own disks; a checkpoint remembers it.
    """

    true_clusters = None

    def __init__(
        self,
        membership: Membership,
        spec: ModelSpec,
        initial: Callable[[np.ndarray], np.ndarray],
        work: LocalTraining,
        run: str,
    ) -> None:
        self.membership, self.spec, self.work = membership, spec, work
        self.ledger = Ledger()
        self._letters = RpcClient(membership, run, self.ledger)
        self.total_clients = membership.registry.capacity
        self._initial = initial
        self._sieve = NormFilter(membership.mail.terms.norm_limit)
        self._start: Start | None = None

    @property
    def update_memory(self) -> int:
        """Bytes of single updates that may be asked for where means would do: none of fleets."""
        return 0 if any(member.count > 1 for member in self.membership.registry.members.values()) else UPDATE_MEMORY

    def begin(self, stream: Stream) -> None:
        self._letters.round = stream.round
        self.membership.begin(stream.round)
        self.ledger.add("hello", *self.membership.spent())
        if self.membership.mail.late:
            self.ledger.add("late", 0, self.membership.mail.late)
            self.membership.mail.late = 0

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        return self.membership.there()

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        model = self._initial(stream.words())
        self._start = Start(stream, digest_of(model))
        return model

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"] | None = None,
        *,
        work: LocalTraining | None = None,
        reduce: bool = False,
        gradient: bool = False,
        part: slice | None = None,
        stream: Stream,
    ) -> TrainingReply:
        work = work or self.work
        whole = part is None and work.steps is None and not self.spec.detects
        header = {"reduce": reduce, "gradient": gradient, "stream": _plain(stream), "test": whole, "keep": whole}
        header["part"] = None if part is None else [part.start, part.stop]
        chosen = None if model_index is None else np.asarray(model_index, np.int64)
        samples = self.membership.registry.samples[clients]
        sieve = self._sieve.of(f"{header['part']} {work.steps} {np.max(work.epochs)}")
        harvest = UpdateCollector(self.spec.parameters, len(models), chosen, samples, reduce, gradient, part, sieve)

        def write(rows: Int[np.ndarray, "r"]) -> Request:
            plain, own = work_to(work)
            own = {name: values[rows] for name, values in own.items()}
            return {**header, "work": plain}, own | harvest.sending(models, rows)

        self._letters.ask("train", clients, write, harvest.read, harvest.spoil)
        return harvest.trained()

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        return self._letters.rows("losses", np.full((len(clients), len(models)), np.nan), clients, {"models": models})

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        return self._letters.rows(
            "label_errors", np.full((len(clients), len(models)), np.nan), clients, {"models": models}
        )

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        """NaN from a client that gave no answer."""
        out = np.full((len(clients), models.shape[1]), np.nan, np.float32)
        return self._letters.rows("gradients", out, clients, {}, lambda rows: _needed(models, model_index[rows]))

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        correct, examples = np.zeros(len(clients), np.int64), np.zeros(len(clients), np.int64)
        loss = np.zeros(len(clients))

        def read(rows: Int[np.ndarray, "r"], answer: RpcMessage) -> None:
            counts = [answer.integers(name, len(rows)) for name in ("correct", "examples")]
            if (counts[0] < 0).any() or (counts[0] > counts[1]).any() or (counts[1] > MOST).any():
                raise InvalidMessageError("scores that cannot be")
            correct[rows], examples[rows], loss[rows] = *counts, answer.floats("loss", len(rows))

        model_index = np.asarray(model_index, np.int64)
        self._letters.ask(
            "evaluate", clients, lambda rows: ({"split": split}, _needed(models, model_index[rows])), read
        )
        return Scores(correct, examples, loss)

    def detections(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        *,
        split: str = "train",
    ) -> Int[np.ndarray, "n 2 bins"]:
        def own(rows: Int[np.ndarray, "r"]) -> dict[str, np.ndarray]:
            return _needed(models, model_index[rows]) | {"positive": positive[rows]}

        return self._letters.rows(
            "detections", np.full((len(clients), 2, BINS), -1), clients, {}, own, {"split": split}
        )

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        return self._letters.rows("classes", np.zeros((len(clients), self.membership.classes), bool), clients)

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        """Nothing travels yet: a client gets arrays in the letter that asks it to use them."""

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        plain, arrays = work_to(work or self.work)
        known = (
            self._start
            if self.membership.same_start and self._start and self._start.digest == digest_of(start)
            else None
        )
        header = {"work": plain, "stream": _plain(stream), "start": known and _plain(known.stream)}
        arrays |= {"directions": directions} | ({} if known else {"start": start})
        out = np.full((len(clients), len(directions)), np.nan, np.float32)
        found = self._letters.rows("similarities", out, clients, arrays, options=header)
        return np.where(np.abs(found) <= 1 + 1e-3, found, np.float32(np.nan))  # cosines, or no answer

    def ask(self, askers: Int[np.ndarray, "m"], asked: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        raise MethodError("peers ask each other, without a server: start each of them with fedkin peer")

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        """Told to each in the next letter that it gets."""
        self._letters.placed(clients)

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        """Once somebody has asked, clients say it in every answer, of whatever verb: those that gave one in this round
        or in the last are not asked again."""
        return self._letters.shifted(clients, {"test": test, "threshold": float(threshold)})

    def expect_shifts(self, test: str, threshold: float | int) -> None:
        """Let clients say of a shift from the first letter on, for a method that will ask."""
        self._letters.expect({"test": test, "threshold": float(threshold)})

    def memory(self) -> dict[str, np.ndarray]:
        """Who is who, and what could not be told to clients yet."""
        start = self._start and [*_plain(self._start.stream), self._start.digest]
        text = _bytes(json.dumps(start))
        own = {_PENDING: self._letters.pending.copy(), _START: text, _RUN: _bytes(self._letters.run)}
        return self.membership.registry.memory() | own | {_USUAL: _bytes(json.dumps(self._sieve.usual))}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        self.membership.registry.recall(memory)
        self._letters.pending = memory[_PENDING].copy()
        self._letters.run = memory[_RUN].tobytes().decode()
        self._sieve.usual = json.loads(memory[_USUAL].tobytes())
        start = json.loads(memory[_START].tobytes())
        self._start = start and Start(Stream(*start[:3]), start[3])


def _needed(models: Float[np.ndarray, "K P"], model_index: Int[np.ndarray, "r ..."]) -> dict[str, np.ndarray]:
    """The models that some rows need, and which of those each row has (-1 stays what it is: none)."""
    used = np.unique(model_index[model_index >= 0])
    return {"models": models[used], "model_index": np.where(model_index >= 0, np.searchsorted(used, model_index), -1)}


def _plain(stream: Stream) -> list[Any]:
    return [stream.seed, stream.round, stream.purpose]


def _bytes(text: str) -> np.ndarray:
    """Text as a checkpoint takes it."""
    return np.frombuffer(text.encode(), np.uint8).copy()
