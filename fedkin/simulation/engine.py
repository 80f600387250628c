"""The simulated world: every operation as a few calls of its workers over the rows of one data set."""

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
from fedkin.scenarios.shift import Shift, ShiftedData
from fedkin.simulation.model_checks import check_detects, check_ids, check_scoring, check_work
from fedkin.simulation.shift_test import LabelMemory
from fedkin.simulation.worker_results import LocalUpdates
from fedkin.simulation.workers import AnyModel, check_samples, worker_factory

_CHUNK_BYTES = 256 * 2**20  # samples and updates that one call may hold


class SimulatedWorld:
    """All clients on this machine.

    Args:
        data: samples of all clients.
        model: the model to train: a JAX ``Model``, or a ``TorchModel``, which is trained by PyTorch.
        work: the run's local training.
        population: which clients take part, drop out or straggle.
        shift: how clients' data change from round to round; None where they do not.
        devices: number of XLA devices; None for all. Results do not depend on it. Ignored by PyTorch models.
        clients_per_batch: clients trained at a time on one device; None for 1 on a CPU, 32 elsewhere. PyTorch trains
            one after another.
        ids: numbers of the clients in streams, ascending; None for 0 .. N-1. A world of the clients 7 and 9
            alone trains them with the random numbers that they have among all.
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
        self._workers = worker_factory(model, check_ids(ids, data.clients), devices, clients_per_batch)
        self._scorer, self._trainer = self._workers(data)
        self._shifted_data = None if shift is None else ShiftedData(data, shift, self.clients)
        self._labels = LabelMemory(data.label_counts())
        self.true_clusters = data.true_clusters
        self.shifted_clients: Bool[np.ndarray, "N"] | None = None  # in this round; None without shift
        self._now = Stream(0)  # stream of the current round

    def begin(self, stream: Stream) -> None:
        self._now = stream
        if self._shifted_data is None:
            return
        data, self.shifted_clients = self._shifted_data.at(stream)
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
        assigned = self._best_models(models, clients) if model_index is None else np.asarray(model_index, np.int64)
        examples = self.data.train.sizes[clients].astype(np.int64)
        losses, first_losses = np.zeros(n), np.zeros(n)
        arrived, nonfinite = np.zeros(n, bool), np.zeros(n, bool)
        update = np.zeros((0 if reduce else n, parameters), np.float32)
        gradients = np.zeros((n, parameters), np.float32) if gradient else None
        total = WeightedSum(len(models), parameters)

        for rows, local in self._local_updates(models, clients, assigned, work, stream, gradient):
            finite = np.isfinite(local.update).all(axis=1) & np.isfinite(local.loss)
            if gradients is not None:
                finite &= np.isfinite(local.gradient).all(axis=1)
                gradients[rows] = np.where(finite[:, None], local.gradient[:, part], 0)
            arrived[rows], nonfinite[rows] = finite, ~finite
            losses[rows], first_losses[rows] = np.where(finite, local.loss, 0), np.where(finite, local.first_loss, 0)
            result = local.update[:, part]
            result[~finite] = 0
            if reduce:
                total.add(result, np.where(finite, examples[rows], 0), assigned[rows])
            else:
                update[rows] = result
        weight = None
        if reduce:
            update, weight = total.mean()
        pairs = np.unique(np.stack([clients, assigned]), axis=1)  # detectors with the same start: sent once
        down = pairs.shape[1] if model_index is not None else n * len(models)
        up = int(arrived.sum() + nonfinite.sum()) * (2 if gradient else 1)
        self.ledger.add("train", down * models.shape[1] * BYTES_PER_NUMBER, up * parameters * BYTES_PER_NUMBER)
        return TrainingReply(update, assigned, examples, losses, first_losses, arrived, nonfinite, weight, gradients)

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
        for rows, local in self._local_updates(start[None], clients, model_index, work or self.work, stream):
            update = local.update
            valid = np.isfinite(update).all(axis=1) & update.any(axis=1) & np.isfinite(local.loss)
            for row in np.flatnonzero(valid):  # one at a time, as a client computes it: bits independent of the others
                out[rows[row]] = cosine(update[row : row + 1], directions)[0]
        return out

    def losses(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        check_detects(self.model, False)
        self._count("losses", models.shape[1], len(models) * len(clients), 0)
        return np.where(self._unresponsive(clients)[:, None], np.nan, self._scorer.losses(models, clients))

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"], model_index: Int[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n P"]:
        check_detects(self.model, False)
        out = np.zeros((len(clients), models.shape[1]), np.float32)
        for rows in self._chunks(np.arange(len(clients)), clients, models.shape[1]):
            out[rows] = self._trainer.gradients(models, clients[rows], model_index[rows])
        self._count("gradients", models.shape[1], len(clients), len(clients))
        return out

    def label_errors(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n K"]:
        check_detects(self.model, False)
        self._count("label_errors", models.shape[1], len(models) * len(clients), 0)
        return np.where(self._unresponsive(clients)[:, None], np.nan, self._scorer.label_errors(models, clients))

    def evaluate(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n ..."],
        *,
        split: str = "test",
    ) -> Scores:
        check_scoring(self.model, model_index, self.data.classes)
        sums = self._scorer.score(models, clients, np.asarray(model_index, np.int64), split)
        self._count("evaluate", models.shape[1], int((model_index >= 0).sum()), 0)
        return Scores(sums.correct.astype(np.int64), sums.examples, sums.loss / np.maximum(sums.examples, 1))

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
        return counts if split == "test" else np.where(self._unresponsive(clients)[:, None, None], -1, counts)

    def classes(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n C"]:
        return self.data.label_counts(clients=clients) > 0

    def ask(self, askers: Int[np.ndarray, "m"], targets: Int[np.ndarray, "m"], vectors: int) -> Bool[np.ndarray, "m"]:
        others = np.unique(targets)
        responding = others[np.isin(others, self.clients(self._now.round)) & ~self._unresponsive(others)]
        replied = np.isin(targets, responding)
        count = int(replied.sum()) * vectors
        self._count("ask", self.spec.parameters, count, count)
        return replied

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

    def _local_updates(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "n"],
        model_index: Int[np.ndarray, "n"],
        work: LocalTraining,
        stream: Stream,
        gradient: bool = False,
    ) -> Iterator[tuple[Int[np.ndarray, "r"], LocalUpdates]]:
        """Rows and results of the clients that send an update, by id and in chunks of bounded memory."""
        num_steps, failed = self._completed_steps(clients, work, stream)
        active = np.flatnonzero(~failed)
        for rows in self._chunks(active[np.argsort(clients[active], kind="stable")], clients, models.shape[1]):
            own, steps = work if work.positive is None else replace(work, positive=work.positive[rows]), num_steps[rows]
            yield rows, self._trainer.train(models, clients[rows], model_index[rows], own, steps, stream, gradient)

    def _completed_steps(
        self, clients: Int[np.ndarray, "n"], work: LocalTraining, stream: Stream
    ) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Epochs (or steps) that each client completes, and which clients send nothing."""
        num_steps = np.broadcast_to(work.epochs if work.steps is None else work.steps, len(clients)).astype(np.int64)
        failed = np.zeros(len(clients), bool)
        if self.population.dropout:
            failed |= self.population.dropped_out(clients, stream)
        if self.population.mute and not self.ledger.is_local:
            failed |= self.population.never_responding(clients, stream)
        if self.population.stragglers:
            straggling = self.population.straggling(clients, stream)
            if work.partial:
                partial = self.population.partial_steps(clients, num_steps, stream)
                num_steps = np.where(straggling, partial, num_steps)
            else:
                failed |= straggling
        return num_steps, failed

    def _unresponsive(self, clients: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which clients do not reply in this round."""
        failed = np.zeros(len(clients), bool)
        if self.population.dropout:
            failed |= self.population.dropped_out(clients, self._now)
        if self.population.mute:
            failed |= self.population.never_responding(clients, self._now)
        return failed

    def _best_models(self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The model with the lowest training loss on each client; never one whose loss is NaN."""
        losses = self._scorer.losses(models, clients)
        return np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=1)

    def _chunks(self, rows: Int[np.ndarray, "r"], clients: Int[np.ndarray, "n"], parameters: int) -> Iterator:
        """Rows in chunks of bounded memory."""
        each = self.data.train.sizes[clients[rows]] * self.data.x[:1].nbytes + parameters * BYTES_PER_NUMBER
        chunk = np.cumsum(each) // _CHUNK_BYTES
        if self.spec.detects:  # detectors of one client train together
            chunk = chunk[np.searchsorted(clients[rows], clients[rows])]
        for c in np.unique(chunk):
            yield rows[chunk == c]

    # --- bytes

    def _count(self, operation: str, parameters: int, down: int, up: int) -> None:
        """Count models and updates; the few numbers sent with them are not counted."""
        self.ledger.add(operation, down * parameters * BYTES_PER_NUMBER, up * parameters * BYTES_PER_NUMBER)
