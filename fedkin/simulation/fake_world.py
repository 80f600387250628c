"""A world of quadratic clients: every verb in closed form, for tests of methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.world import BYTES_PER_NUMBER, LocalTraining, ModelSpec, Scores, TrainingReply
from fedkin.measures.calibration import histogram
from fedkin.measures.cosine import cosine
from fedkin.simulation.shift_test import LabelMemory


@dataclass
class FakeWorld:
    """A world of quadratic clients for tests: client i wants ``target[i]``; one epoch goes a fraction lr of the way.

    Loss is half the squared distance; only ``send`` is on the ledger, and ``steps`` are not heard. Clients in
    ``silent`` never answer; those in ``garbage`` answer NaN. ``counts`` are the labels that clients compare when they
    are asked for a shift; a test changes them as it likes. The whole vector is the last layer and its bias. With
    ``detects`` a client wants ``target[i] + c`` of its detector of class c, which scores P - |w|^2 on any sample.
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

    def train(self, models, clients, model_index=None, *, work=None, reduce=False, gradient=False, part=None, stream):  # type: ignore[no-untyped-def]
        work = work or self.work
        chosen = np.argmin(self.losses(models, clients), axis=1) if model_index is None else np.asarray(model_index)
        start, goal = models[chosen].astype(np.float64), self.target[clients].astype(np.float64)
        if work.positive is not None:
            goal = goal + work.positive[:, None]
        w = start
        for _ in range(int(np.max(work.epochs))):
            w = w - work.lr * ((w - goal) + work.mu * (w - start))
        nonfinite = np.isin(clients, list(self.garbage))
        arrived = ~nonfinite & ~np.isin(clients, list(self.silent))
        update = np.where(arrived[:, None], w - start, 0).astype(np.float32)[:, part or slice(None)]
        loss = 0.5 * np.sum((w - goal) ** 2, axis=1)
        first = 0.5 * np.sum((start - goal) ** 2, axis=1)
        weight = None
        if reduce:
            n = np.where(arrived, self.examples[clients], 0).astype(np.float64)
            weight = np.bincount(chosen, n, len(models)).astype(np.float64)  # integers where n is empty
            total = np.zeros((len(models), update.shape[1]))
            np.add.at(total, chosen, n[:, None] * update)
            update = (total / np.maximum(weight, 1)[:, None]).astype(np.float32)
        slope = np.where(arrived[:, None], start - goal, 0).astype(np.float32) if gradient else None
        return TrainingReply(update, chosen, self.examples[clients], loss, first, arrived, nonfinite, weight, slope)

    def losses(self, models, clients):  # type: ignore[no-untyped-def]
        loss = 0.5 * np.sum((models[None] - self.target[clients][:, None]) ** 2, axis=2).astype(np.float64)
        return np.where(np.isin(clients, list(self.silent | self.garbage))[:, None], np.nan, loss)

    def gradients(self, models, clients, model_index):  # type: ignore[no-untyped-def]
        return (models[model_index] - self.target[clients]).astype(np.float32)

    def label_errors(self, models, clients):  # type: ignore[no-untyped-def]
        return np.sqrt(2 * self.losses(models, clients))

    def detections(self, models, clients, model_index, positive, *, split="train"):  # type: ignore[no-untyped-def]
        score = models.shape[1] - np.sum(models[model_index] ** 2, axis=1)
        own = self.classes(clients)[np.arange(len(clients)), positive]
        counts = np.stack([histogram(score[i : i + 1], own[i : i + 1]) for i in range(len(clients))])
        return np.where(np.isin(clients, list(self.silent | self.garbage))[:, None, None], -1, counts)

    def classes(self, clients):  # type: ignore[no-untyped-def]
        counts = np.ones((self.total_clients, 1), np.int64) if self.counts is None else self.counts
        return counts[clients] > 0

    def evaluate(self, models, clients, model_index, *, split="test"):  # type: ignore[no-untyped-def]
        if model_index.ndim == 2:  # one detector of each class: the client's own first class is the right answer
            scores = np.where(model_index < 0, -np.inf, models.shape[1] - np.sum(models[model_index] ** 2, axis=2))
            right = scores.argmax(axis=1) == self.classes(clients).argmax(axis=1)
            return Scores(right.astype(np.int64), np.ones(len(clients), np.int64), np.zeros(len(clients)))
        distance = np.sum((models[model_index] - self.target[clients]) ** 2, axis=1)
        return Scores((distance < 1).astype(np.int64), np.ones(len(clients), np.int64), distance.astype(np.float64))

    def send(self, arrays, clients):  # type: ignore[no-untyped-def]
        self.ledger.add("send", arrays.size * len(clients) * BYTES_PER_NUMBER, 0)

    def similarities(self, start, directions, clients, *, work=None, stream):  # type: ignore[no-untyped-def]
        model_index = np.zeros(len(clients), np.int64)
        reply = self.train(start[None], clients, model_index, work=work, stream=stream)
        there = reply.arrived & reply.update.any(axis=1)
        return np.where(there[:, None], cosine(reply.update, directions), np.nan)

    def ask(self, askers, asked, vectors):  # type: ignore[no-untyped-def]
        came = ~np.isin(asked, list(self.silent | self.garbage))
        count = int(came.sum()) * vectors * self.spec.parameters * BYTES_PER_NUMBER
        self.ledger.add("ask", count, count)
        return came

    def note(self, clients):  # type: ignore[no-untyped-def]
        if self._labels is not None and self.counts is not None:
            self._labels.note(clients, self.counts[clients])

    def shifted(self, clients, *, test="label_blind", threshold=0.2):  # type: ignore[no-untyped-def]
        if self._labels is None or self.counts is None:
            return np.zeros(len(clients), bool)
        return self._labels.shifted(clients, self.counts[clients], test, threshold)

    def memory(self):  # type: ignore[no-untyped-def]
        return {} if self._labels is None else self._labels.arrays()

    def recall(self, memory):  # type: ignore[no-untyped-def]
        if self._labels is not None:
            self._labels.restore(memory)
