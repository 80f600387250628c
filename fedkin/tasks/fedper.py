"""FedPer's and FedRep's client work: the head of each client's model never leaves the client
(Arivazhagan et al. 2019; Collins et al. 2021).

The head need not be the last layer. With FedBN, it is all batch normalisation layers (Li et al.
2021); the body is then all other layers.

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters, h numbers
of the head, b = P - h numbers of the body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import TaskError
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import Reply, sound_rows
from fedkin.core.schema import Array, Memory, Rows, Schema, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, initial, setting
from fedkin.core.train_call import TrainCall, shortened
from fedkin.core.training import LocalTraining
from fedkin.tasks.evaluate import Evaluate, refuse_counts, score_reply
from fedkin.tasks.train import MAX_LOSS, TrainingReply, and_padding, check_model_index

# The entries of a flat model that stay on a client: one slice, or several in ascending order; None
# for no entries.
Part = slice | tuple[slice, ...] | None

_HEAD = "personal_head"
_MEMORY = {_HEAD: Memory("h", np.float32)}


@dataclass(frozen=True)
class Personal(Task):
    """Local training of whole models, whose heads stay with the clients.

    The server receives only means of the bodies' updates.

    A client starts from the head that it has kept, or from the head of the run's initial model. If
    its training diverges, it keeps the old head.

    Attributes:
        models: initial bodies.
        work: training settings.
        model_index: body of each row (a client). A client has one row, since it has one head.
        start: the run's initial model.
        head: slice (or slices) of a whole model that is the head; None without a head.
        head_epochs: epochs (or steps) of a first phase, which trains only the head. A second phase,
            as in ``work``, then trains only the body. 0: head and body are trained together.
        reduce: whether the server needs only the mean update of each body.
    """

    models: Float[np.ndarray, "K b"] = chosen("K b")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] = each()
    start: Float[np.ndarray, "P"] = initial("P")
    head: Part = None
    head_epochs: int = 0
    reduce: bool = True

    memory = _MEMORY

    @property
    def up(self) -> Schema:
        """Schema of the reply: the bodies' updates (or the mean for each body), losses, numbers of
        samples, and which body each client has trained."""
        return _schema(self.reduce)

    def compute(self, client: Client) -> dict[str, Any]:
        kept = _own_head(self, client)
        start = join(self.models[self.model_index[0]], kept, self.head)
        if self.head_epochs:
            head = client.train(start, self._head_work(), trained=self._only(head=True))
            local = client.train(start + head.update, self.work, trained=self._only(head=False))
            local = LocalUpdates(head.update + local.update, local.loss, head.first_loss, None)
        else:
            local = client.train(start, self.work)
        arrays, heads, sound = self._results(kept[None], local.as_rows())
        if sound[0]:
            client.memory[_HEAD] = heads[0]
        reply = {name: array[0] for name, array in arrays.items()}
        return reply | {"examples": len(client.samples()[1]), "model_index": self.model_index[0]}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        # Each row needs memory for a model and an update.
        for portion in rows.portions(2 * len(self.start)):
            kept = _heads(self, rows, portion)
            index = self.model_index[portion]
            models = and_padding(join(self.models[index], kept, self.head))
            part = rows.select(portion)
            call = part.train_call(models, np.arange(len(portion)), self.work.select(portion))
            local = self._trained(rows, call)
            arrays, heads, sound = self._results(kept, local)
            if sound.any():
                rows.store(_HEAD, portion[sound], heads[sound])
            yield portion, arrays | {"examples": examples[portion], "model_index": index}

    def _trained(self, rows: ClientRows, call: TrainCall) -> LocalUpdates:
        """Train whole models: head and body together, or first the head and then the body.

        Args:
            rows: the clients that do the task.
            call: the training of whole models, in which row i trains model i.
        """
        if not self.head_epochs:
            return rows.trainer.train(call)
        work = self._head_work()
        steps = shortened(work.count, call.num_steps, call.work.requested)
        head_call = replace(call, work=work, num_steps=steps, trained=self._only(head=True))
        head = rows.trainer.train(head_call)
        models = call.models.copy()
        # After the models of the rows come those that only pad the array.
        models[: len(call.clients)] += head.update
        body = rows.trainer.train(replace(call, models=models, trained=self._only(head=False)))
        return LocalUpdates(np.asarray(head.update) + body.update, body.loss, head.first_loss, None)

    def _head_work(self) -> LocalTraining:
        """The training settings of the first phase, in which only the head is trained."""
        if self.work.steps is None:
            return replace(self.work, epochs=self.head_epochs)
        return replace(self.work, steps=self.head_epochs)

    def _only(self, head: bool) -> Bool[np.ndarray, "P"]:
        """Mask of the parameters that a phase trains: those of the head, or all others."""
        trained = np.full(len(self.start), not head)
        trained[entries_of(self.head)] = head
        return trained

    def _results(
        self, kept: Float[np.ndarray, "r h"], local: LocalUpdates
    ) -> tuple[dict[str, np.ndarray], Float[np.ndarray, "r h"], Bool[np.ndarray, "r"]]:
        """The reply's arrays, the clients' new heads, and a mask of the sound rows (clients). Only
        sound clients keep their new heads.

        A row is sound if the update, the head and the loss are finite, and losses are at most 1e30
        in absolute value. The update of any other row becomes NaN, so that the server excludes the
        row.

        Args:
            kept: the heads before the training.
            local: results of the training of whole models.
        """
        update = np.asarray(local.update)
        heads = kept + update[:, entries_of(self.head)]
        losses = {
            "loss": np.asarray(local.loss, np.float64),
            "first_loss": np.asarray(local.first_loss, np.float64),
        }
        # The server never sees heads, so the checks that it makes on updates and losses are made
        # here for heads too.
        numbers = {"update": np.concatenate([update, heads], axis=1), **losses}
        checks = [sound_rows(self.up.arrays[name], values) for name, values in numbers.items()]
        sound: np.ndarray = np.logical_and.reduce(checks)
        body = np.where(sound[:, None], body_of(update, self.head), np.float32(np.nan))
        return {"update": body, **losses}, heads, sound

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError for detectors, and if bodies and heads do not form whole models."""
        super().check(model, spec, classes)
        _check_parts(self)

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        check_model_index(self, arrays["model_index"], len(self.models))

    def training(self, reply: Reply) -> TrainingReply:
        if self.reduce:
            return TrainingReply.of_means(reply, self.model_index)
        return TrainingReply.of_rows(reply, self.model_index)

    def norm_group(self) -> str:
        return f"{self.name} {self.work.steps} {np.max(self.work.epochs)}"


@dataclass(frozen=True)
class EvaluatePersonal(Task):
    """Evaluation of each client's whole model on its data: its cluster's body and its own head.

    A client that never trained is evaluated with the head of the run's initial model.

    Attributes:
        models: the bodies.
        model_index: the body of each row (a client).
        start: the run's initial model.
        head: slice (or slices) of a whole model that is the head; None without a head.
        split: ``test``, ``train``, or ``validation`` if the data have one.
    """

    models: Float[np.ndarray, "K b"] = chosen("K b")
    model_index: Int[np.ndarray, "n"] = each()
    start: Float[np.ndarray, "P"] = initial("P")
    head: Part = None
    split: str = "test"

    up = Evaluate.up
    memory = _MEMORY
    can_be_lost = False  # an evaluation covers every client

    @property
    def layer(self) -> str:
        """The kind of layer that clients keep, for messages."""
        return "batch normalisation layer" if isinstance(self.head, tuple) else "last layer"

    def compute(self, client: Client) -> dict[str, Any]:
        model = join(self.models[self.model_index[0]], _own_head(self, client), self.head)
        return score_reply(client.score(model[None], np.asarray(0), self.split))

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for portion in rows.portions(len(self.start)):
            bodies = self.models[self.model_index[portion]]
            heads = _heads(self, rows, portion)
            models = and_padding(join(bodies, heads, self.head))
            sums = rows.scorer.score(
                models, rows.clients[portion], np.arange(len(portion)), self.split
            )
            yield portion, score_reply(sums)

    def check(self, model: str, spec: ModelSpec, classes: int) -> None:
        """Raise ModelError for detectors, and if bodies and heads do not form whole models."""
        super().check(model, spec, classes)
        _check_parts(self)

    def check_sums(self, arrays: Mapping[str, np.ndarray], counted: Sequence[int]) -> None:
        refuse_counts(self, arrays, counted)


def body_of(models: Float[np.ndarray, "... P"], head: Part) -> Float[np.ndarray, "... b"]:
    """Models without their heads; whole models if there is no head."""
    return np.delete(models, entries_of(head), axis=-1)


def join(
    bodies: Float[np.ndarray, "*n b"], heads: Float[np.ndarray, "*n h"], head: Part
) -> Float[np.ndarray, "*n P"]:
    """Join bodies and heads to whole models.

    Args:
        bodies: all parameters except the head.
        heads: one for each body.
        head: slice (or slices) of a whole model that is the head.
    """
    models = np.empty((*bodies.shape[:-1], bodies.shape[-1] + heads.shape[-1]), np.float32)
    is_head = np.zeros(models.shape[-1], bool)
    is_head[entries_of(head)] = True
    models[..., is_head] = heads
    models[..., ~is_head] = bodies
    return models


@cache
def _schema(reduce: bool) -> Schema:
    """The schema of a reply to ``Personal``, made once for each value of ``reduce`` and cached."""
    over = "model" if reduce else "row"
    loss = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over=over, counted=False)
    kind = Sums if reduce else Rows
    return kind(
        update=floats("b", np.float32, missing=0.0, over=over, norm_checked=True),
        loss=loss,
        first_loss=replace(loss, finite=False),
        examples=integers(over="row", counted=False, registered=True),
        model_index=integers(over="row", counted=False),
    )


def entries_of(head: Part) -> slice | Int[np.ndarray, "h"]:
    """The entries of the head in a whole model: a slice, or the indices of several slices. They are
    empty if the model has no head."""
    if head is None:
        return slice(0)
    if isinstance(head, slice):
        return head
    return np.concatenate([np.arange(part.start, part.stop) for part in head])


def _own_head(task: Personal | EvaluatePersonal, client: Client) -> Float[np.ndarray, "h"]:
    """The head that a client has kept, or the head of the initial model."""
    return client.memory.get(_HEAD, task.start[entries_of(task.head)])


def _heads(
    task: Personal | EvaluatePersonal, rows: ClientRows, portion: Int[np.ndarray, "r"]
) -> Float[np.ndarray, "r h"]:
    """The heads that a portion's clients have kept. A client that has kept none gets the head of
    the initial model."""
    first = task.start[entries_of(task.head)]
    first_heads = np.broadcast_to(first, (len(portion), len(first)))
    return rows.memory.read(_HEAD, rows.clients[portion], first_heads)


def _check_parts(task: Personal | EvaluatePersonal) -> None:
    """Raise TaskError unless the head is a part of the initial model, and the bodies are as long as
    the body of the initial model."""
    parts = task.head if isinstance(task.head, tuple) else ()
    if any(not 0 <= part.start <= part.stop <= len(task.start) for part in parts):
        raise TaskError(
            f"task {task.name}: the head must be a part of the model's {len(task.start)} "
            f"parameters, got {parts}"
        )
    body = body_of(task.start, task.head)
    if len(body) != task.models.shape[1]:
        raise TaskError(
            f"task {task.name}: the field models must have {len(body)} columns, the size of a body "
            f"(a model without its head), got {task.models.shape[1]}"
        )
