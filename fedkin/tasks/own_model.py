"""Ditto's client work: beside the model of its cluster each client trains one of its own, which never leaves it.

Shapes: n rows, r of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.errors import TaskError
from fedkin.core.layout import ModelSpec
from fedkin.core.replies import sound_rows
from fedkin.core.schema import Memory, floats
from fedkin.core.task import Task, chosen, each
from fedkin.core.train_call import GradientTerms
from fedkin.core.training import LocalTraining
from fedkin.tasks.evaluate import Evaluate
from fedkin.tasks.personal import shortened
from fedkin.tasks.train import Train

OWN = "own_model"
Read = Callable[[str, np.ndarray], np.ndarray]
_MEMORY = {OWN: Memory("P", np.float32)}
_MODEL = floats("P", np.float32)


@dataclass(frozen=True)
class TrainBeside(Train):
    """Local training as in ``Train``, and of the client's own model v_i, pulled to the model w that it received:
    v_i <- v_i - lr (g_i(v_i) + strength (v_i - w)).

    Both see the same batches. v_i begins as the first w that the client receives; where its training diverged it stays.

    Attributes:
        strength: of the pull.
        own_epochs: epochs (or steps) of the training of v_i; None: those of ``work``.
        own_lr: its learning rate; None: that of ``work``.
    """

    strength: float = 1.0
    own_epochs: int | None = None
    own_lr: float | None = None

    detectors = False
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        reply = super().compute(client)
        received = self.models[reply["model_index"]]
        own = client.memory.get(OWN, received)
        work, terms = self._own_work(), GradientTerms(anchor=received[None], strength=self._strengths(1))
        own = own + client.train(own, work, terms=terms).update
        if sound_rows(_MODEL, own[None])[0]:
            client.memory[OWN] = own
        return reply

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        work = self._own_work()
        for some, arrays in super().compute_rows(rows):
            received = self.models[arrays["model_index"]]
            own = rows.memory.read(OWN, rows.clients[some], received)
            terms = GradientTerms(anchor=received, strength=self._strengths(len(some)))
            done = rows.steps[some]
            steps = done if self.own_epochs is None else shortened(self.own_epochs, done, self.work.select(some))
            part = rows.select(some)
            call = part.train_call(
                own_and_padding(own),
                np.arange(len(some)),
                work.select(some),
                terms=terms,
            )
            local = rows.trainer.train(replace(call, num_steps=steps))
            own = own + np.asarray(local.update)
            sound = sound_rows(_MODEL, own)
            if sound.any():
                rows.store(OWN, np.asarray(some)[sound], own[sound])
            yield some, arrays

    def _strengths(self, rows: int) -> Float[np.ndarray, "r"]:
        return np.full(rows, self.strength, np.float32)

    def _own_work(self) -> LocalTraining:
        count = "epochs" if self.work.steps is None else "steps"
        given = {count: self.own_epochs, "lr": self.own_lr, "mu": 0.0}  # FedProx pulls w only
        return replace(self.work, **{name: value for name, value in given.items() if value is not None})

    def for_messages(self, spec: ModelSpec) -> Train:
        return self  # a client's model is not its local solution, which Train would store


@dataclass(frozen=True)
class EvaluateOwn(Task):
    """Evaluation of each client's own model on its own data; of a client that has none, of the model of its cluster.

    Attributes:
        models: of the clusters.
        model_index: that of each row.
        split: ``test``, ``train``, or ``validation`` where the data have one.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    model_index: Int[np.ndarray, "n"] = each()
    split: str = "test"

    up = Evaluate.up
    memory = _MEMORY
    can_be_lost = False  # it measures a method, and so every client

    def compute(self, client: Client) -> dict[str, Any]:
        model = self.read(lambda name, first: client.memory.get(name, first[0])[None], self.models[self.model_index])
        correct, loss, examples = client.score(model, np.asarray(0), self.split)
        return {"correct": np.int64(correct), "examples": examples, "loss": loss / max(examples, 1)}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        for some in rows.portions(self.models.shape[1]):
            clients, received = rows.clients[some], self.models[self.model_index[some]]
            own = self.read(lambda name, first, clients=clients: rows.memory.read(name, clients, first), received)
            sums = rows.scorer.score(own_and_padding(own), rows.clients[some], np.arange(len(some)), self.split)
            loss = sums.loss / np.maximum(sums.examples, 1)
            yield some, {"correct": sums.correct.astype(np.int64), "examples": sums.examples, "loss": loss}

    def read(self, stored: Read, received: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "r P"]:
        """The models that some clients are tested with.

        Args:
            stored: an array that clients keep, by its name and what it is of a client that keeps none.
            received: the models of their clusters.
        """
        return stored(OWN, received)

    def check_reply(self, arrays: Mapping[str, np.ndarray]) -> None:
        if (arrays["correct"] > arrays["examples"]).any():
            raise TaskError(f"task {self.name}: impossible scores, more correct samples than samples")


def own_and_padding(models: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "R P"]:
    """The models and some of zeros, up to a power of two: a compiled program is for one number of models."""
    return np.pad(models, ((0, (1 << (len(models) - 1).bit_length()) - len(models)), (0, 0)))
