"""FedCCFA's client work: two last layers of each client, and the body of its model.

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters, h numbers
of the last layer, s samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.replies import Reply
from fedkin.core.schema import Array, Rows, Schema, floats, integers
from fedkin.core.task import Task, chosen, each, initial, setting
from fedkin.core.train_call import TrainCall, shortened
from fedkin.core.training import LocalTraining
from fedkin.tasks.train import MAX_LOSS, TrainingReply, and_padding

_LOSS = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, counted=False)


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
        is_head = self._is_head()

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

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        is_head = self._is_head()
        # Each row needs memory for two models and three updates.
        for portion in rows.portions(5 * len(is_head)):
            count = len(portion)
            index = np.asarray(self.model_index[portion], np.int64)
            models = and_padding(self.models[index])
            few = rows.with_samples(portion, self._balanced(rows, portion))
            part = rows.select(portion)
            call = part.train_call(models, np.arange(count), self.work.select(portion))

            first = np.where(is_head, self.start, models)
            balanced_call = few.train_call(first, np.arange(count), call.work)
            balanced = few.trainer.train(self._of_heads(balanced_call, self.balanced_epochs))

            head = part.trainer.train(self._of_heads(call, self.head_epochs))
            with_heads = models.copy()
            # After the models of the rows come those that only pad the array.
            with_heads[:count] += head.update
            body_call = replace(call, models=with_heads, trained=~is_head)
            body = part.trainer.train(body_call)
            reply = {
                "update": np.asarray(head.update) + body.update,
                "loss": np.asarray(body.loss, np.float64),
                "first_loss": np.asarray(head.first_loss, np.float64),
                "examples": examples[portion],
                "model_index": index,
                "balanced": (first[:count] + balanced.update)[:, self.head],
            }
            yield portion, reply

    def _is_head(self) -> Bool[np.ndarray, "P"]:
        """Mask of the parameters of the last layer."""
        is_head = np.zeros(len(self.start), bool)
        is_head[self.head] = True
        return is_head

    def _balanced(
        self, rows: ClientRows, portion: Int[np.ndarray, "r"]
    ) -> list[Int[np.ndarray, "_"]]:
        """The positions of the balanced samples of each row's client."""
        own = rows.data.part("train")
        clients = rows.clients[portion].tolist()
        labels = (rows.data.y[own[client]] for client in clients)
        return [balanced_positions(of_client, self.per_class) for of_client in labels]

    def _of_heads(self, call: TrainCall, epochs: int) -> TrainCall:
        """A training of last layers, in place of the body's training."""
        work = self._head_work(epochs)
        steps = shortened(work.count, call.num_steps, call.work.requested)
        return replace(call, work=work, num_steps=steps, trained=self._is_head())

    def _head_work(self, epochs: int) -> LocalTraining:
        """The training settings of a last layer."""
        return replace(self.work, epochs=epochs, steps=None, lr=self.head_lr)

    def training(self, reply: Reply) -> TrainingReply:
        return TrainingReply.of_rows(reply, self.model_index)


def balanced_positions(labels: Int[np.ndarray, "s"], per_class: int) -> Int[np.ndarray, "_"]:
    """The positions of the first samples of each class, equally many of each: at most
    ``per_class``, and as many as the rarest class has."""
    classes, counts = np.unique(labels, return_counts=True)
    number = min(per_class, int(counts.min()))
    first = [np.flatnonzero(labels == label)[:number] for label in classes]
    return np.sort(np.concatenate(first))
