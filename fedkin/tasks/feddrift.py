"""FedDrift's client work, on a part of clients' samples: a model is trained on those steps of a
client that it owns.

Clients keep the samples of all steps, in the order in which they came; the server says which of
them by position. Shapes: n rows, r of a portion, K models, P parameters, S steps, s samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Rows, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.core.training import LocalTraining
from fedkin.tasks.train import TrainingReply

_MAX_LOSS = 1e30  # anything above cannot be true
_LOSS = Array(low=-_MAX_LOSS, high=_MAX_LOSS, missing=0.0, over="model", counted=False)


@dataclass(frozen=True)
class SampleCounts(Task):
    """How many training samples each client has now."""

    up = Rows(samples=integers(counted=False))
    detectors = None

    def compute(self, client: Client) -> dict[str, Any]:
        return {"samples": len(client.samples()[1])}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        yield rows.every, {"samples": rows.data.train.sizes[rows.clients].astype(np.int64)}


@dataclass(frozen=True)
class SpanScores(Task):
    """How many of its training samples ``start`` .. ``stop`` - 1 each model classifies correctly,
    for each row."""

    models: Float[np.ndarray, "K P"] = shared("K P")
    start: Int[np.ndarray, "n"] = each()
    stop: Int[np.ndarray, "n"] = each()

    up = Rows(correct=integers("K", counted=False))

    def compute(self, client: Client) -> dict[str, Any]:
        own = client.with_samples(np.arange(int(self.start[0]), int(self.stop[0])))
        scores = [
            own.score(self.models, np.asarray(k), "train").correct for k in range(len(self.models))
        ]
        return {"correct": np.array(scores).astype(np.int64)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        K = len(self.models)
        for some in rows.portions(0):
            spans = [
                np.arange(*pair)
                for pair in np.stack([self.start, self.stop], axis=1)[some].tolist()
            ]
            own = rows.with_samples(some, spans)
            pairs = np.repeat(own.clients, K), np.tile(np.arange(K), len(some))
            correct = own.scorer.score(self.models, *pairs, "train").correct
            yield some, {"correct": np.asarray(correct).astype(np.int64).reshape(len(some), K)}


@dataclass(frozen=True)
class TrainSpans(Task):
    """Local training of ``models[model_index]`` on some spans of a client's training samples; means
    of updates go up.

    Attributes:
        models: where training starts.
        work: settings of the training.
        model_index: the model of each row; a client may have several rows.
        spans: first and last position (not included) of the samples of each step; empty where it is
            left out.
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
        own = client.with_samples(positions(self.spans[0]))
        local = own.train(self.models[self.model_index[0]], self.work)
        losses = {"loss": np.float64(local.loss), "first_loss": np.float64(local.first_loss)}
        examples = len(positions(self.spans[0]))
        return {
            "update": local.update,
            **losses,
            "examples": examples,
            "model_index": self.model_index[0],
        }

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for some in rows.portions(self.models.shape[1]):
            spans = [positions(self.spans[row]) for row in some]
            own = rows.with_samples(some, spans)
            index = np.asarray(self.model_index[some], np.int64)
            local = own.trainer.train(own.train_call(self.models, index, self.work.select(some)))
            losses = {
                name: np.asarray(getattr(local, name), np.float64)
                for name in ("loss", "first_loss")
            }
            examples = np.array([len(span) for span in spans], np.int64)
            yield (
                some,
                {
                    "update": np.asarray(local.update),
                    **losses,
                    "examples": examples,
                    "model_index": index,
                },
            )

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        if arrays["model_index"].size and arrays["model_index"].max() >= len(self.models):
            raise TaskError(
                f"task {self.name}: model_index has a model outside 0..{len(self.models) - 1}"
            )

    def training(self, reply: Reply) -> TrainingReply:
        index = np.asarray(self.model_index, np.int64)
        losses = {
            name: np.where(reply.arrived, reply.arrays[name][index], 0.0)
            for name in ("loss", "first_loss")
        }
        flags = {"arrived": reply.arrived, "nonfinite": reply.nonfinite, "weight": reply.weight}
        return TrainingReply(reply.update, index, reply.examples, **losses, **flags)


def positions(spans: Int[np.ndarray, "S 2"]) -> Int[np.ndarray, "s"]:
    """The positions of the samples in all spans."""
    return np.concatenate(
        [np.arange(start, stop) for start, stop in spans] or [np.zeros(0, np.int64)]
    )
