"""FedRouter's client work for clients with several kinds of samples: the centres of the kinds,
training on the samples of one kind, and evaluation with a model for each sample.

The kinds of a client are clusters of the embeddings of its training samples by the model's frozen
network. Shapes: n rows (clients), r rows of a portion, K models, P parameters, L kinds of a client,
e numbers of an embedding (d of a sample, without a frozen network), t samples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.clustering.kmeans import distinct_rows, kmeans_small
from fedkin.core.client import Client, ClientRows
from fedkin.core.engine_protocols import ScoreSums
from fedkin.core.replies import Reply
from fedkin.core.schema import MAX_COUNT, Array, Rows, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.measures.distances import nearest_centre
from fedkin.measures.mixture import log_softmax
from fedkin.task_types.loss import targets_of
from fedkin.task_types.task_type import TaskType
from fedkin.tasks.embeddings import client_embeddings
from fedkin.tasks.evaluate import Evaluate, refuse_counts, score_reply, score_reply_of_samples
from fedkin.tasks.train import MAX_LOSS, TrainingReply, check_model_index

_LOSS = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over="model", counted=False)
_COUNTS = integers("L", high=MAX_COUNT, counted=False)


@dataclass(frozen=True)
class KindCentres(Task):
    """The centres of the kinds of each client's training samples, by K-means of their embeddings,
    and the number of samples of each. No label is read.

    The kind with the most samples is the first. A client with fewer different samples than kinds
    has fewer kinds; the others have no samples.

    Attributes:
        size: length of an embedding (``ModelSpec.embedding``); 0 for the samples themselves.
        kinds: largest number of kinds of a client (L).
    """

    size: int = 0
    kinds: int = 2

    detectors = None

    @property
    def up(self) -> Rows:
        """Schema of the reply: the centres of embeddings or of samples, and the counts."""
        return _OF_SAMPLES if self.size == 0 else _OF_EMBEDDINGS

    def compute(self, client: Client) -> dict[str, Any]:
        points = client_embeddings(self, client, self.size)
        found = min(self.kinds, distinct_rows(points))
        labels = kmeans_small(points, found, client.rng())
        counts = np.bincount(labels, minlength=self.kinds)
        order = np.argsort(-counts, kind="stable")
        centres = np.zeros((self.kinds, points.shape[1]))
        for place, kind in enumerate(order):
            if counts[kind]:
                centres[place] = points[labels == kind].mean(axis=0, dtype=np.float64)
        return {"centres": centres, "counts": counts[order]}

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"e": int(self.size), "L": int(self.kinds)}


@dataclass(frozen=True)
class TrainKind(Task):
    """Local training of ``models[model_index]`` on a client's samples of one kind: those whose
    embeddings are nearest to its centre.

    The server receives means of updates, weighted by the numbers of these samples. A client
    without such a sample does not train.

    Attributes:
        models: initial models.
        work: training settings.
        model_index: model of each row.
        centres: the centres of each row's client; those after the first ``known`` are not used.
        known: number of kinds of each row's client.
        kind: the kind that each row's client trains.
        size: length of an embedding; 0 for the samples themselves.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] = each()
    centres: Float[np.ndarray, "n L e"] = each()
    known: Int[np.ndarray, "n"] = each()
    kind: Int[np.ndarray, "n"] = each()
    size: int = 0

    up = Sums(
        update=floats("P", np.float32, missing=0.0, over="model", norm_checked=True),
        loss=_LOSS,
        first_loss=replace(_LOSS, finite=False),
        examples=integers(over="row", counted=False),
        model_index=integers(over="row", counted=False),
    )

    def compute(self, client: Client) -> dict[str, Any]:
        own = self._samples(client_embeddings(self, client, self.size), 0)
        reply = {"examples": len(own), "model_index": self.model_index[0]}
        if not len(own):
            nothing = np.zeros(self.models.shape[1], np.float32)
            return reply | {"update": nothing, "loss": 0.0, "first_loss": 0.0}
        local = client.with_samples(own).train(self.models[self.model_index[0]], self.work)
        return reply | {
            "update": local.update,
            "loss": np.float64(local.loss),
            "first_loss": np.float64(local.first_loss),
        }

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(self.models.shape[1]):
            points = _points_of_rows(rows, rows.clients[portion], self.size, "train")
            own = [self._samples(part, int(row)) for part, row in zip(points, portion, strict=True)]
            index = np.asarray(self.model_index[portion], np.int64)
            reply = {
                "update": np.zeros((len(portion), self.models.shape[1]), np.float32),
                "loss": np.zeros(len(portion)),
                "first_loss": np.zeros(len(portion)),
                "examples": np.array([len(samples) for samples in own], np.int64),
                "model_index": index,
            }
            trains = np.flatnonzero(reply["examples"])
            if len(trains):
                part = rows.with_samples(portion[trains], [own[place] for place in trains])
                work = self.work.select(portion[trains])
                local = part.trainer.train(part.train_call(self.models, index[trains], work))
                for name in ("update", "loss", "first_loss"):
                    reply[name][trains] = np.asarray(getattr(local, name))
            yield portion, reply

    def _samples(self, points: Float[np.ndarray, "s e"], row: int) -> Int[np.ndarray, "m"]:
        """The positions of a client's samples of the kind that it trains."""
        centres = self.centres[row, : self.known[row]]
        return np.flatnonzero(nearest_centre(points, centres) == self.kind[row])

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        check_model_index(self, arrays["model_index"], len(self.models))

    def training(self, reply: Reply) -> TrainingReply:
        return TrainingReply.of_means(reply, self.model_index)


@dataclass(frozen=True)
class EvaluateRouted(Task):
    """Evaluation with a model for each sample: the one with the nearest centroid, among the models
    that the sample's client may use.

    Attributes:
        models: the models of all clusters.
        centroids: the centroid of each cluster.
        usable: which clusters each row's client may use.
        size: length of an embedding; 0 for the samples themselves.
        split: ``test``, ``train``, or ``validation`` if the data have one.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    centroids: Float[np.ndarray, "K e"] = shared("K e")
    usable: Bool[np.ndarray, "n K"] = each()
    size: int = 0
    split: str = "test"

    up = Evaluate.up
    can_be_lost = False  # an evaluation covers every client

    def compute(self, client: Client) -> dict[str, Any]:
        labels = client.samples(self.split)[1]
        points = client_embeddings(self, client, self.size, self.split)
        index = nearest_centre(points, self.centroids, self.usable)
        scores = self._scores(index, lambda model: client.scores(model, self.split))
        by_sample, losses = _sample_scores(client.task_type, scores, labels)
        sums = np.array([column.sum() for column in by_sample], np.float64)
        return score_reply(ScoreSums(sums, losses.sum(), np.asarray(len(labels))))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        owned = rows.data.part(self.split)
        for portion in rows.portions(self.models.size):
            clients = rows.clients[portion]
            sizes = owned.sizes[clients].astype(np.int64)
            labels = rows.data.y[owned.select(clients).rows]
            points = np.concatenate(_points_of_rows(rows, clients, self.size, self.split))
            usable = np.repeat(self.usable[portion], sizes, axis=0)
            index = nearest_centre(points, self.centroids, usable)
            scores = self._scores(index, self._scorer(rows, clients))
            by_sample, losses = _sample_scores(rows.data.task_type, scores, labels)
            yield portion, score_reply_of_samples(by_sample, losses, sizes)

    def _scorer(
        self, rows: ClientRows, clients: Int[np.ndarray, "r"]
    ) -> Callable[[Float[np.ndarray, "P"]], Float[np.ndarray, "t C"]]:
        """A function from a model to its scores of all samples of some clients."""
        return lambda model: rows.scorer.scores(model, clients, self.split)

    def _scores(
        self,
        index: Int[np.ndarray, "t"],
        scores_of: Callable[[Float[np.ndarray, "P"]], Float[np.ndarray, "t C"]],
    ) -> Float[np.ndarray, "t C"]:
        """The scores of each sample by its model.

        Args:
            index: the model of each sample.
            scores_of: from a model to its scores of all samples.
        """
        scores = scores_of(self.models[0])
        for k in np.unique(index[index > 0]):
            scores = np.where((index == k)[:, None], scores_of(self.models[k]), scores)
        return scores

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        refuse_counts(self, arrays, counted)


def _points_of_rows(
    rows: ClientRows, clients: Int[np.ndarray, "r"], size: int, split: str
) -> list[Float[np.ndarray, "s e"]]:
    """The embeddings of each client's samples, as ``client_embeddings``.

    Args:
        rows: all rows.
        clients: the clients of a portion.
        size, split: as for ``client_embeddings``.
    """
    owned = rows.data.part(split).select(clients)
    if size:
        points = rows.scorer.embeddings(clients, split)
    else:
        features = rows.data.x[owned.rows]
        points = features.reshape(len(features), math.prod(features.shape[1:]))
    return np.split(points, np.cumsum(owned.sizes)[:-1])


def _sample_scores(
    task_type: TaskType, scores: Float[np.ndarray, "t C"], y: np.ndarray
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The scores of each sample (``TaskType.sums``), and its loss.

    Args:
        task_type: what the labels are.
        scores: outputs of each sample's model.
        y: rows of ``FederatedData.y``.
    """
    if task_type.loss is None:
        losses = -log_softmax(scores.astype(np.float64))[np.arange(len(y)), y]
        return (scores.argmax(axis=-1) == y,), losses
    exact = y.astype(np.float64)
    by_sample = task_type.sample_scores(np, scores, exact)
    losses = task_type.loss.of(np, scores.astype(np.float64), targets_of(exact))
    return (*by_sample, *task_type.constant_scores(y)), losses


_OF_SAMPLES = Rows(centres=floats("L d"), counts=_COUNTS)
_OF_EMBEDDINGS = Rows(centres=floats("L e"), counts=_COUNTS)
