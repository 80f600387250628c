"""The simulated world: every verb as a few calls of its workers over the rows of one data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.aggregation import WeightedSum
from fedkin.core.ledger import Ledger
from fedkin.core.randomness import Stream
from fedkin.core.world import BYTES_PER_NUMBER, LocalTraining, Scores, TrainingReply
from fedkin.data.federated import FederatedData
from fedkin.measures.cosine import cosine
from fedkin.scenarios.population import Population
from fedkin.scenarios.shift import Moving, Shift
from fedkin.simulation.model_checks import check_detects, check_ids, check_scoring, check_work
from fedkin.simulation.shift_test import LabelMemory
from fedkin.simulation.workers import AnyModel, check_samples, maker

_PORTION = 256 * 2**20  # bytes of samples, and of updates, that one call may hold


class SimulatedWorld:
    """All clients on this machine.

    Args:
        data: who has what.
        model: what is trained: a JAX ``Model``, or a ``TorchModel``, which is trained by PyTorch.
        work: the run's local work.
        population: who is there, and who fails.
        shift: how data move from round to round; None where they stay.
        devices: XLA devices to use; None for all. Results do not depend on it. PyTorch has no use for it.
        clients_per_batch: clients trained side by side on one device; None for 1 on a CPU, 32 elsewhere. PyTorch trains
            one after another.
        ids: numbers by which streams know the clients, ascending; None for 0 .. N-1. A world of the clients 7 and 9
            trains them with the random numbers that they have among all.
    """

    def __init__(
        self,
        data: FederatedData,
        model: AnyModel,
        work: LocalTraining | None = None,
        *,
        population: Population | None = None,
        shift: Shift | None = None,
        devices: int | None = None,
        clients_per_batch: int | None = None,
        ids: Int[np.ndarray, "N"] | None = None,
    ) -> None:
        self.data, self.model, self.spec = data, model, check_samples(model, data)
        self.work = work or LocalTraining()
        self.population = population or Population()
        self.ledger = Ledger()
        self.total_clients = data.clients
        self._workers = maker(model, check_ids(ids, data.clients), devices, clients_per_batch)
        self._scorer, self._trainer = self._workers(data)
        self._moving = None if shift is None else Moving(data, shift, self.clients)
        self._labels = LabelMemory(data.label_counts())
        self.true_clusters = data.true_clusters
        self.moved: Bool[np.ndarray, "N"] | None = None  # whose data moved in this round, where there is a shift
        self._now = Stream(0)  # of the round

    def begin(self, stream: Stream) -> None:
        self._now = stream
        if self._moving is None:
            return
        data, self.moved = self._moving.at(stream)
        if data is not self.data:
            self.data, self.true_clusters = data, data.true_clusters
            self._scorer, self._trainer = self._workers(data)

    def initial(self, stream: Stream) -> Float[np.ndarray, "P"]:
        return self.model.initial(stream.words())

    def clients(self, round: int) -> Int[np.ndarray, "c"]:
        return self.population.reachable(self.total_clients, round)

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
        part = part or slice(models.shape[1])
        n, parameters = len(clients), len(range(*part.indices(models.shape[1])))
        check_work(self.model, work, model_index, gradient)
        chosen = self._favourite(models, clients) if model_index is None else np.asarray(model_index, np.int64)
        examples = self.data.train.sizes[clients].astype(np.int64)
        losses, first_losses = np.zeros(n), np.zeros(n)
        arrived, nonfinite = np.zeros(n, bool), np.zeros(n, bool)
        update = np.zeros((0 if reduce else n, parameters), np.float32)
        slope = np.zeros((n, parameters), np.float32) if gradient else None
        total = WeightedSum(len(models), parameters)

        for rows, got, last, first, steepest in self._answers(models, clients, chosen, work, stream, gradient):
            finite = np.isfinite(got).all(axis=1) & np.isfinite(last)
            got = got[:, part]
            if slope is not None:
                finite &= np.isfinite(steepest).all(axis=1)
                slope[rows] = np.where(finite[:, None], steepest[:, part], 0)
            arrived[rows], nonfinite[rows] = finite, ~finite
            losses[rows], first_losses[rows] = np.where(finite, last, 0), np.where(finite, first, 0)
            got[~finite] = 0
            if reduce:
                total.add(got, np.where(finite, examples[rows], 0), chosen[rows])
            else:
                update[rows] = got
        weight = None
        if reduce:
            update, weight = total.mean()
        pairs = np.unique(np.stack([clients, chosen]), axis=1)  # detectors of one start get it once
        sent = pairs.shape[1] if model_index is not None else n * len(models)
        back = int(arrived.sum() + nonfinite.sum()) * (2 if gradient else 1)
        self.ledger.add("train", sent * models.shape[1] * BYTES_PER_NUMBER, back * parameters * BYTES_PER_NUMBER)
        return TrainingReply(update, chosen, examples, losses, first_losses, arrived, nonfinite, weight, slope)

    def send(self, arrays: Float[np.ndarray, "k P"], clients: Int[np.ndarray, "n"]) -> None:
        self._count("send", arrays.shape[1], len(arrays) * len(clients), 0)

    def similarities(
        self,
        start: Float[np.ndarray, "P"],
        directions: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        *,
        work: LocalTraining | None = None,
        stream: Stream,
    ) -> Float[np.ndarray, "n K"]:
        check_detects(self.model, False)
        out = np.full((len(clients), len(directions)), np.nan, np.float32)
        model_index = np.zeros(len(clients), np.int64)
        for rows, update, loss, *_ in self._answers(start[None], clients, model_index, work or self.work, stream):
            sound = np.isfinite(update).all(axis=1) & update.any(axis=1) & np.isfinite(loss)
            for row in np.flatnonzero(sound):  # each on its own, as a client computes it: the same bits in any company
                out[rows[row]] = cosine(update[row : row + 1], directions)[0]
        return out

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        check_detects(self.model, False)
        self._count("losses", models.shape[1], len(models) * len(clients), 0)
        return np.where(self._silent(clients)[:, None], np.nan, self._scorer.losses(models, clients))

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        check_detects(self.model, False)
        out = np.zeros((len(clients), models.shape[1]), np.float32)
        for rows in self._portions(np.arange(len(clients)), clients, models.shape[1]):
            out[rows] = self._trainer.gradients(models, clients[rows], model_index[rows])
        self._count("gradients", models.shape[1], len(clients), len(clients))
        return out

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        check_detects(self.model, False)
        self._count("label_errors", models.shape[1], len(models) * len(clients), 0)
        return np.where(self._silent(clients)[:, None], np.nan, self._scorer.label_errors(models, clients))

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        check_scoring(self.model, model_index, self.data.classes)
        correct, loss, sizes = self._scorer.score(models, clients, np.asarray(model_index, np.int64), split)
        self._count("evaluate", models.shape[1], int((model_index >= 0).sum()), 0)
        return Scores(correct.astype(np.int64), sizes, loss / np.maximum(sizes, 1))

    def detections(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        positive: Int[np.ndarray, "n"],
        *,
        split: str = "train",
    ) -> Int[np.ndarray, "n 2 bins"]:
        check_detects(self.model, True)
        self._count("detections", models.shape[1], len(clients), 0)
        counts = self._scorer.histograms(models, clients, model_index, positive, split)
        return counts if split == "test" else np.where(self._silent(clients)[:, None, None], -1, counts)

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        return self.data.label_counts(clients=clients) > 0

    def ask(self, askers: Int[np.ndarray, "m"], asked: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        others = np.unique(asked)
        answers = others[np.isin(others, self.clients(self._now.round)) & ~self._silent(others)]
        came = np.isin(asked, answers)
        count = int(came.sum()) * vectors
        self._count("ask", self.spec.parameters, count, count)
        return came

    def note(self, clients: Int[np.ndarray, "n"]) -> None:
        self._labels.note(clients, self.data.label_counts(clients=clients))

    def shifted(
        self, clients: Int[np.ndarray, "n"], *, test: str = "label_blind", threshold: float = 0.2
    ) -> Bool[np.ndarray, "n"]:
        return self._labels.shifted(clients, self.data.label_counts(clients=clients), test, threshold)

    def memory(self) -> dict[str, np.ndarray]:
        return self._labels.arrays()

    def recall(self, memory: dict[str, np.ndarray]) -> None:
        self._labels.restore(memory)

    # --- training

    def _answers(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        work: LocalTraining,
        stream: Stream,
        gradient: bool = False,
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Rows, updates, last and first losses, and gradients of the clients that answer, by id and in portions of
        bounded memory."""
        num_steps, lost = self._managed(clients, work, stream)
        going = np.flatnonzero(~lost)
        for rows in self._portions(going[np.argsort(clients[going], kind="stable")], clients, models.shape[1]):
            own = work if work.positive is None else replace(work, positive=work.positive[rows])
            yield (
                rows,
                *self._trainer.train(models, clients[rows], model_index[rows], own, num_steps[rows], stream, gradient),
            )

    def _managed(
        self, clients: Int[np.ndarray, "n"], work: LocalTraining, stream: Stream
    ) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Epochs (or steps) that each client manages, and which clients send nothing."""
        num_steps = np.broadcast_to(work.epochs if work.steps is None else work.steps, len(clients)).astype(np.int64)
        lost = np.zeros(len(clients), bool)
        if self.population.dropout:
            lost |= self.population.silent(clients, stream)
        if self.population.mute and not self.ledger.is_local:
            lost |= self.population.unheard(clients, stream)
        if self.population.stragglers:
            slow = self.population.slow(clients, stream)
            if work.partial:
                num_steps = np.where(slow, self.population.managed(clients, num_steps, stream), num_steps)
            else:
                lost |= slow
        return num_steps, lost

    def _silent(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which clients do not answer a question in this round."""
        silent = np.zeros(len(clients), bool)
        if self.population.dropout:
            silent |= self.population.silent(clients, self._now)
        if self.population.mute:
            silent |= self.population.unheard(clients, self._now)
        return silent

    def _favourite(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        losses = self._scorer.losses(models, clients)
        return np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=1)  # a broken model is nobody's favourite

    def _portions(self, rows: Int[np.ndarray, "r"], clients: Int[np.ndarray, "n"], parameters: int) -> Iterator:
        """Rows in portions of bounded memory."""
        each = self.data.train.sizes[clients[rows]] * self.data.x[:1].nbytes + parameters * BYTES_PER_NUMBER
        portion = np.cumsum(each) // _PORTION
        if self.spec.detects:  # those of one client train together
            portion = portion[np.searchsorted(clients[rows], clients[rows])]
        for p in np.unique(portion):
            yield rows[portion == p]

    # --- the rest

    def _count(self, verb: str, parameters: int, down: int, up: int) -> None:
        """Models and updates, as they would travel; a few numbers that ride along are not counted."""
        self.ledger.add(verb, down * parameters * BYTES_PER_NUMBER, up * parameters * BYTES_PER_NUMBER)
