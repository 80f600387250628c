"""FedDrift's client work: each model trains only on the samples of those time steps that the server
has assigned to it, separately for each client.

Clients keep the samples of all steps in order of arrival. The server knows no samples, only their
positions in this order; a span is a range of positions. Shapes: n rows (clients with their models),
r rows of a portion, K models, P parameters, S steps, s samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Rows, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.tasks.train import MAX_LOSS, TrainingReply, check_model_index

_LOSS = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over="model", counted=False)


@dataclass(frozen=True)
class SampleCounts(Task):
    """The number of training samples that each client has now."""

    up = Rows(samples=integers(counted=False))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"samples": len(client.samples()[1])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {"samples": rows.data.train.sizes[rows.clients].astype(np.int64)}


@dataclass(frozen=True)
class SpanScores(Task):
    """The number of correct predictions of each model on a span (range of positions) of a client's
    training samples.

    The span of a row (a client) has the samples ``start`` to ``stop`` - 1.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    start: Int[np.ndarray, "n"] = each()
    stop: Int[np.ndarray, "n"] = each()

    up = Rows(correct=integers("K", counted=False))

    def compute(self, client: Client) -> dict[str, Any]:
        span = client.with_samples(np.arange(int(self.start[0]), int(self.stop[0])))
        scores = [
            span.score(self.models, np.asarray(k), "train").correct for k in range(len(self.models))
        ]
        return {"correct": np.array(scores).astype(np.int64)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        K = len(self.models)
        for portion in rows.portions(0):
            starts = self.start[portion].tolist()
            stops = self.stop[portion].tolist()
            spans = [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]
            part = rows.with_samples(portion, spans)
            # Every client scores every model, so each (client, model) is a row.
            clients = np.repeat(part.clients, K)
            model_index = np.tile(np.arange(K), len(portion))
            correct = part.scorer.score(self.models, clients, model_index, "train").correct
            correct = np.asarray(correct).astype(np.int64)
            yield portion, {"correct": correct.reshape(len(portion), K)}


@dataclass(frozen=True)
class TrainSpans(Task):
    """Local training of ``models[model_index]`` on spans (ranges of positions) of a client's
    training samples.

    The server receives means of updates.

    Attributes:
        models: initial models.
        work: training settings.
        model_index: model of each row; a client has a row for each model that it trains.
        spans: for each row and each time step, the first position of the step's samples and the
            position after the last; an empty range for a step on which the row does not train.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] = each()
    spans: Int[np.ndarray, "n S 2"] = each()

    up = Sums(
        update=floats("P", np.float32, missing=0.0, over="model", norm_checked=True),
        loss=_LOSS,
        first_loss=replace(_LOSS, finite=False),
        examples=integers(over="row", counted=False),
        model_index=integers(over="row", counted=False),
    )

    def compute(self, client: Client) -> dict[str, Any]:
        samples = positions(self.spans[0])
        model = self.models[self.model_index[0]]
        local = client.with_samples(samples).train(model, self.work)
        return {
            "update": local.update,
            "loss": np.float64(local.loss),
            "first_loss": np.float64(local.first_loss),
            "examples": len(samples),
            "model_index": self.model_index[0],
        }

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(self.models.shape[1]):
            spans = [positions(self.spans[row]) for row in portion]
            part = rows.with_samples(portion, spans)
            index = np.asarray(self.model_index[portion], np.int64)
            call = part.train_call(self.models, index, self.work.select(portion))
            local = part.trainer.train(call)
            reply = {
                "update": np.asarray(local.update),
                "loss": np.asarray(local.loss, np.float64),
                "first_loss": np.asarray(local.first_loss, np.float64),
                "examples": np.array([len(span) for span in spans], np.int64),
                "model_index": index,
            }
            yield portion, reply

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        check_model_index(self, arrays["model_index"], len(self.models))

    def training(self, reply: Reply) -> TrainingReply:
        return TrainingReply.of_means(reply, self.model_index)


def positions(spans: Int[np.ndarray, "S 2"]) -> Int[np.ndarray, "s"]:
    """The positions of all samples in some spans of a client's samples."""
    if not len(spans):
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(start, stop) for start, stop in spans])
