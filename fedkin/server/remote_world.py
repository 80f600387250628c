"""The ``World`` of a server: every operation is one request to each node that holds some of the clients.

A node gets only the models that its rows need, and replies for all its clients at once: with single updates, or with
weighted means where the method needs no more. A node without a reply in time, or with one that cannot be used, counts
as a client that did not reply in any world.
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
from fedkin.server.handshake import model_digest
from fedkin.server.membership import Membership
from fedkin.server.message import InvalidMessageError, RpcMessage
from fedkin.server.node import encode_work
from fedkin.server.rpc_client import RpcClient
from fedkin.server.update_collector import MAX_EXAMPLES, NormFilter, UpdateCollector

_RUN, _NORMS = "run", "typical_norms"  # names in a checkpoint
_NOTES, _START = "pending_notes", "start"


@dataclass(frozen=True)
class Start:
    """The randomness of an initial model, which a node can be sent in place of the model, and the model's digest."""

    stream: Stream
    digest: str


class RemoteWorld:
    """Real clients.

    Args:
        membership: the nodes; shared by the methods of one server.
        spec: of the model that all clients train.
        initial: two words of randomness -> a flat model.
        work: the run's local training.
        run: name of the run on the nodes' own disks; a checkpoint keeps it.
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
        self._client = RpcClient(membership, run, self.ledger)
        self.total_clients = membership.registry.capacity
        self._initial = initial
        self._norm_filter = NormFilter(membership.request_round.settings.norm_limit)
        self._start: Start | None = None

    @property
    def update_memory(self) -> int:
        """Bytes of single updates that may be requested where means would do: none of fleets."""
        return 0 if any(member.count > 1 for member in self.membership.registry.members.values()) else UPDATE_MEMORY

    def begin(self, stream: Stream) -> None:
        self._client.round = stream.round
        self.membership.begin_round(stream.round)
        self.ledger.add("hello", *self.membership.handshake_bytes())
        if self.membership.request_round.late_bytes:
            self.ledger.add("late", 0, self.membership.request_round.late_bytes)
            self.membership.request_round.late_bytes = 0

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        return self.membership.online_clients()

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        model = self._initial(stream.words())
        self._start = Start(stream, model_digest(model))
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
        header = {"reduce": reduce, "gradient": gradient, "stream": _plain(stream), "test": whole, "save": whole}
        header["part"] = None if part is None else [part.start, part.stop]
        assigned = None if model_index is None else np.asarray(model_index, np.int64)
        samples = self.membership.registry.samples[clients]
        norms = self._norm_filter.for_training(f"{header['part']} {work.steps} {np.max(work.epochs)}")
        collector = UpdateCollector(self.spec.parameters, len(models), assigned, samples, reduce, gradient, part, norms)

        def write(rows: Int[np.ndarray, "r"]) -> RpcMessage:
            settings, arrays = encode_work(work)
            arrays = {name: values[rows] for name, values in arrays.items()}
            return RpcMessage({**header, "work": settings}, arrays | collector.models_of(models, rows))

        self._client.call("train", clients, write, collector.read, collector.exclude)
        return collector.result()

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        out = np.full((len(clients), len(models)), np.nan)
        return self._client.call_rows("losses", out, clients, lambda rows: RpcMessage({}, {"models": models}))

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        out = np.full((len(clients), len(models)), np.nan)
        return self._client.call_rows("label_errors", out, clients, lambda rows: RpcMessage({}, {"models": models}))

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        """NaN from a client that did not reply."""
        out = np.full((len(clients), models.shape[1]), np.nan, np.float32)

        def write(rows: Int[np.ndarray, "r"]) -> RpcMessage:
            return RpcMessage({}, _used_models(models, model_index[rows]))

        return self._client.call_rows("gradients", out, clients, write)

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

        model_index = np.asarray(model_index, np.int64)

        def write(rows: Int[np.ndarray, "r"]) -> RpcMessage:
            return RpcMessage({"split": split}, _used_models(models, model_index[rows]))

        def read(rows: Int[np.ndarray, "r"], reply: RpcMessage) -> None:
            counts = [reply.integers(name, len(rows)) for name in ("correct", "examples")]
            if (counts[0] < 0).any() or (counts[0] > counts[1]).any() or (counts[1] > MAX_EXAMPLES).any():
                raise InvalidMessageError("impossible scores")
            correct[rows], examples[rows], loss[rows] = *counts, reply.floats("loss", len(rows))

        self._client.call("evaluate", clients, write, read)
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
        def write(rows: Int[np.ndarray, "r"]) -> RpcMessage:
            arrays = _used_models(models, model_index[rows]) | {"positive": positive[rows]}
            return RpcMessage({"split": split}, arrays)

        return self._client.call_rows("detections", np.full((len(clients), 2, BINS), -1), clients, write)

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        return self._client.call_rows("classes", np.zeros((len(clients), self.membership.classes), bool), clients)

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        """Nothing is sent yet: a client gets arrays in the request that uses them."""

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        settings, arrays = encode_work(work or self.work)
        is_known = self.membership.same_start and self._start and self._start.digest == model_digest(start)
        known = self._start if is_known else None
        header = {"work": settings, "stream": _plain(stream), "start": known and _plain(known.stream)}
        arrays |= {"directions": directions} | ({} if known else {"start": start})
        out = np.full((len(clients), len(directions)), np.nan, np.float32)
        cosines = self._client.call_rows("similarities", out, clients, lambda rows: RpcMessage(header, arrays))
        return np.where(np.abs(cosines) <= 1 + 1e-3, cosines, np.float32(np.nan))  # anything else is no valid reply

    def ask(self, askers: Int[np.ndarray, "m"], targets: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        raise MethodError("peers query each other, without a server: start each of them with fedkin peer")

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        """Each learns of it in the next request that it gets."""
        self._client.schedule_notes(clients)

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        """Once a method has called this, clients report it in every reply: those that replied in this round or the last
        get no further request."""
        return self._client.shifted(clients, {"test": test, "threshold": float(threshold)})

    def expect_shifts(self, test: str, threshold: float | int) -> None:
        """Let clients report shifts from the first request on, for a method that tests for them."""
        self._client.expect_shifts({"test": test, "threshold": float(threshold)})

    def memory(self) -> dict[str, np.ndarray]:
        """The registry, and what clients have not received yet."""
        start = self._start and [*_plain(self._start.stream), self._start.digest]
        text = _bytes(json.dumps(start))
        own = {_NOTES: self._client.pending_notes.copy(), _START: text, _RUN: _bytes(self._client.run)}
        return self.membership.registry.memory() | own | {_NORMS: _bytes(json.dumps(self._norm_filter.typical))}

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        self.membership.registry.recall(memory)
        self._client.pending_notes = memory[_NOTES].copy()
        self._client.run = memory[_RUN].tobytes().decode()
        self._norm_filter.typical = json.loads(memory[_NORMS].tobytes())
        start = json.loads(memory[_START].tobytes())
        self._start = start and Start(Stream(*start[:3]), start[3])


def _used_models(models: Float[np.ndarray, "K P"], model_index: Int[np.ndarray, "r ..."]) -> dict[str, np.ndarray]:
    """The models that some rows use, and the index of each row among those (-1 stays: none)."""
    used = np.unique(model_index[model_index >= 0])
    return {"models": models[used], "model_index": np.where(model_index >= 0, np.searchsorted(used, model_index), -1)}


def _plain(stream: Stream) -> list[Any]:
    return [stream.seed, stream.round, stream.purpose]


def _bytes(text: str) -> np.ndarray:
    """Text as a checkpoint stores it."""
    return np.frombuffer(text.encode(), np.uint8).copy()
