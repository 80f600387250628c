"""FedCCFA's client work: two last layers of each client, and the body of its model.

Shapes: n rows (clients with their models), K models, P parameters, h numbers of the last layer, s
samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Rows, Schema, floats, integers
from fedkin.core.task import Task, chosen, each, initial, setting
from fedkin.core.training import LocalTraining
from fedkin.tasks.train import TrainingReply

_MAX_LOSS = 1e30  # a larger loss cannot be true
_LOSS = Array(low=-_MAX_LOSS, high=_MAX_LOSS, missing=0.0, counted=False)


@dataclass(frozen=True)
class TrainClassHeads(Task):
    """Training of a balanced last layer, of the client's last layer, and then of the body.

    The balanced one starts from the run's initial last layer, with the present body, on equally
    many samples of each class that the client has. It only says how the client labels its samples,
    and is not used for predictions.

    Attributes:
        models: whole models, each with its client's last layer.
        work: training settings of the body.
        model_index: model of each row (a client).
        start: the run's initial model.
        head: slice of the last layer in a whole model.
        per_class: largest number of samples of each class, for the balanced last layer.
        balanced_epochs: its epochs.
        head_epochs: epochs of the client's last layer.
        head_lr: learning rate of both.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] = each()
    start: Float[np.ndarray, "P"] = initial("P")
    head: slice = setting()
    per_class: int = 5
    balanced_epochs: int = 5
    head_epochs: int = 1
    head_lr: float = 0.1

    @property
    def up(self) -> Schema:
        """Schema of the reply: update, losses of the body's last epoch and of the last layer's
        first one, numbers of samples and models, and the balanced last layer."""
        return Rows(
            update=floats("P", np.float32, missing=0.0, norm_checked=True),
            loss=_LOSS,
            first_loss=replace(_LOSS, finite=False),
            examples=integers(counted=False, registered=True),
            model_index=integers(counted=False),
            balanced=floats("h", np.float32, missing=0.0),
        )

    def sizes(self) -> dict[str, int]:
        return super().sizes() | {"h": self.head.stop - self.head.start}

    def compute(self, client: Client) -> dict[str, Any]:
        index = int(self.model_index[0])
        model = self.models[index]
        is_head = np.zeros(len(model), bool)
        is_head[self.head] = True

        labels = client.samples()[1]
        few = client.with_samples(balanced_positions(labels, self.per_class))
        first = np.where(is_head, self.start, model)
        balanced = few.train(first, self._head_work(self.balanced_epochs), trained=is_head)

        head = client.train(model, self._head_work(self.head_epochs), trained=is_head)
        body = client.train(model + head.update, self.work, trained=~is_head)
        return {
            "update": head.update + body.update,
            "loss": np.float64(body.loss),
            "first_loss": np.float64(head.first_loss),
            "examples": len(labels),
            "model_index": index,
            "balanced": (first + balanced.update)[self.head],
        }

    def _head_work(self, epochs: int) -> LocalTraining:
        """The training settings of a last layer."""
        return replace(self.work, epochs=epochs, steps=None, lr=self.head_lr)

    def training(self, reply: Reply) -> TrainingReply:
        return TrainingReply(
            update=reply.update,
            model_index=np.asarray(self.model_index, np.int64),
            examples=reply.examples,
            loss=reply.loss,
            first_loss=reply.first_loss,
            arrived=reply.arrived,
            nonfinite=reply.nonfinite,
        )


def balanced_positions(labels: Int[np.ndarray, "s"], per_class: int) -> Int[np.ndarray, "_"]:
    """The positions of the first samples of each class, equally many of each: at most
    ``per_class``, and as many as the rarest class has."""
    classes, counts = np.unique(labels, return_counts=True)
    number = min(per_class, int(counts.min()))
    first = [np.flatnonzero(labels == label)[:number] for label in classes]
    return np.sort(np.concatenate(first))
