"""A world of quadratic clients: every operation in closed form, for tests of methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.world import BYTES_PER_NUMBER, LocalTraining, ModelSpec, Scores, TrainingReply
from fedkin.measures.calibration import score_histogram
from fedkin.measures.cosine import cosine
from fedkin.simulation.shift_test import LabelMemory


@dataclass
class FakeWorld:
    """A world of quadratic clients for tests: the loss of client i is half the squared distance to ``target[i]``.

    One epoch is one gradient step; ``steps`` are ignored, and only ``send`` is on the ledger. Clients in ``silent``
    never reply; those in ``garbage`` reply NaN. ``counts`` are the label counts of the shift test; tests change them.
    The whole vector is the last layer and its bias. With ``detects`` the target of a detector of class c is
    ``target[i] + c``, and it scores P - |w|^2 on any sample.
    """

    target: Float[np.ndarray, "N P"]
    examples: Int[np.ndarray, "N"]
    work: LocalTraining = field(default_factory=lambda: LocalTraining(lr=0.5))
    silent: frozenset[int] = frozenset()
    garbage: frozenset[int] = frozenset()
    start: Callable[[Stream], np.ndarray] | None = None
    counts: Int[np.ndarray, "N C"] | None = None
    detects: bool = False
    true_clusters: Int[np.ndarray, "N"] | None = None

    def __post_init__(self) -> None:
        self.total_clients, parameters = self.target.shape
        whole = slice(0, parameters)
        self.spec = ModelSpec(parameters, {}, whole, whole, self.detects)
        self.ledger = Ledger()
        self._labels = None if self.counts is None else LabelMemory(self.counts)

    def begin(self, stream: Stream) -> None:
        pass

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        make = self.start or (lambda s: s.rng().normal(size=self.spec.parameters))
        return make(stream).astype(np.float32)

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        return np.arange(self.total_clients)

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
        assigned = np.argmin(self.losses(models, clients), axis=1) if model_index is None else np.asarray(model_index)
        start, target = models[assigned].astype(np.float64), self.target[clients].astype(np.float64)
        if work.positive is not None:
            target = target + work.positive[:, None]
        w = start
        for _ in range(int(np.max(work.epochs))):
            w = w - work.lr * ((w - target) + work.mu * (w - start))
        nonfinite = np.isin(clients, list(self.garbage))
        arrived = ~nonfinite & ~np.isin(clients, list(self.silent))
        update = np.where(arrived[:, None], w - start, 0).astype(np.float32)[:, part or slice(None)]
        last = 0.5 * np.sum((w - target) ** 2, axis=1)
        first = 0.5 * np.sum((start - target) ** 2, axis=1)
        weight = None
        if reduce:
            n = np.where(arrived, self.examples[clients], 0).astype(np.float64)
            weight = np.bincount(assigned, n, len(models)).astype(np.float64)  # integers where n is empty
            total = np.zeros((len(models), update.shape[1]))
            np.add.at(total, assigned, n[:, None] * update)
            update = (total / np.maximum(weight, 1)[:, None]).astype(np.float32)
        at_start = np.where(arrived[:, None], start - target, 0).astype(np.float32) if gradient else None
        examples = self.examples[clients]
        return TrainingReply(update, assigned, examples, last, first, arrived, nonfinite, weight, at_start)

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        loss = 0.5 * np.sum((models[None] - self.target[clients][:, None]) ** 2, axis=2).astype(np.float64)
        return np.where(np.isin(clients, list(self.silent | self.garbage))[:, None], np.nan, loss)

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        return (models[model_index] - self.target[clients]).astype(np.float32)

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        return np.sqrt(2 * self.losses(models, clients))

    def detections(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        *,
        split: str = "train",
    ) -> Int[np.ndarray, "n 2 bins"]:
        score = models.shape[1] - np.sum(models[model_index] ** 2, axis=1)
        own = self.classes(clients)[np.arange(len(clients)), positive]
        counts = np.stack([score_histogram(score[i : i + 1], own[i : i + 1]) for i in range(len(clients))])
        return np.where(np.isin(clients, list(self.silent | self.garbage))[:, None, None], -1, counts)

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        counts = np.ones((self.total_clients, 1), np.int64) if self.counts is None else self.counts
        return counts[clients] > 0

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        if model_index.ndim == 2:  # one detector of each class: the client's own first class is correct
            scores = np.where(model_index < 0, -np.inf, models.shape[1] - np.sum(models[model_index] ** 2, axis=2))
            correct = scores.argmax(axis=1) == self.classes(clients).argmax(axis=1)
            return Scores(correct.astype(np.int64), np.ones(len(clients), np.int64), np.zeros(len(clients)))
        distance = np.sum((models[model_index] - self.target[clients]) ** 2, axis=1)
        return Scores((distance < 1).astype(np.int64), np.ones(len(clients), np.int64), distance.astype(np.float64))

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        self.ledger.add("send", arrays.size * len(clients) * BYTES_PER_NUMBER, 0)

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        model_index = np.zeros(len(clients), np.int64)
        reply = self.train(start[None], clients, model_index, work=work, stream=stream)
        valid = reply.arrived & reply.update.any(axis=1)
        return np.where(valid[:, None], cosine(reply.update, directions), np.nan)

    def ask(self, askers: Int[np.ndarray, "m"], targets: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        replied = ~np.isin(targets, list(self.silent | self.garbage))
        count = int(replied.sum()) * vectors * self.spec.parameters * BYTES_PER_NUMBER
        self.ledger.add("ask", count, count)
        return replied

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        if self._labels is not None and self.counts is not None:
            self._labels.note(clients, self.counts[clients])

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        if self._labels is None or self.counts is None:
            return np.zeros(len(clients), bool)
        return self._labels.shifted(clients, self.counts[clients], test, threshold)

    def memory(self) -> dict[str, np.ndarray]:
        return {} if self._labels is None else self._labels.arrays()

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        if self._labels is not None:
            self._labels.restore(memory)
