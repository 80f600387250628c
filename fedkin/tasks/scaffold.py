"""SCAFFOLD's local training, with a control variate that each client keeps (Karimireddy et al.,
ICML 2020).

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.replies import Reply, sound_rows
from fedkin.core.schema import Array, Memory, Sums, floats, integers
from fedkin.core.task import Task, chosen, each, setting, shared
from fedkin.core.train_call import GradientTerms
from fedkin.core.training import LocalTraining
from fedkin.tasks.train import MAX_LOSS, TrainingReply

_LOSS = Array(low=-MAX_LOSS, high=MAX_LOSS, missing=0.0, over="model", counted=False)
_CONTROL = "control_variate"
_MEMORY = {_CONTROL: Memory("P", np.float32)}


@dataclass(frozen=True)
class Controlled(Task):
    """Local training by y <- y - lr (g_i(y) - c_i + c), after which the client keeps a new c_i.

    c_i is the client's control variate, c the server's. The server receives means over clients
    without weights: of the models' updates, and of the changes of control variates. If a client's
    training diverges, it keeps its old control variate.

    Attributes:
        models: initial models.
        control: c, the server's control variate.
        work: training settings; plain SGD steps.
        model_index: the model of each row (a client).
        rate: learning rate of this round.
        option: which of the paper's two update rules for c_i is used.
    """

    models: Float[np.ndarray, "K P"] = chosen("K P")
    control: Float[np.ndarray, "P"] = shared("P")
    work: LocalTraining = setting()
    model_index: Int[np.ndarray, "n"] = each()
    rate: float = 0.01
    option: Literal["I", "II"] = "II"

    up = Sums(
        update=floats("P", np.float32, missing=0.0, over="model", norm_checked=True),
        control_update=floats("P", np.float32, missing=0.0, over="model"),
        loss=_LOSS,
        first_loss=replace(_LOSS, finite=False),
        examples=integers(over="row", counted=False, high=1),  # 1: means are unweighted
        model_index=integers(over="row", counted=False),
    )
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        old = client.memory.get(_CONTROL, np.zeros_like(self.control))[None]
        terms = GradientTerms(correction=self.control - old)
        local = client.train(
            self.models[self.model_index[0]],
            self.work,
            self.option == "I",
            terms=terms,
        )
        size = np.array([len(client.samples()[1])])
        way = self._way(size, np.array([client.steps]))
        arrays, sound = self._results(old, local.as_rows(), way)
        if sound[0]:
            client.memory[_CONTROL] = old[0] + arrays["control_update"][0]
        reply = {name: array[0] for name, array in arrays.items()}
        return reply | {"examples": 1, "model_index": self.model_index[0]}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        sizes = rows.data.train.sizes[rows.clients]
        first_control = np.zeros_like(self.control)
        call = rows.train_call(
            self.models,
            self.model_index,
            self.work,
            gradient=self.option == "I",
        )
        for portion in rows.portions(4 * len(self.control)):
            first = np.broadcast_to(first_control, (len(portion), len(first_control)))
            old = rows.memory.read(_CONTROL, rows.clients[portion], first)
            terms = GradientTerms(correction=self.control - old)
            local = rows.trainer.train(replace(call.select(portion), terms=terms))
            way = self._way(sizes[portion], rows.steps[portion])
            arrays, sound = self._results(old, local, way)
            if sound.any():
                control = old + arrays["control_update"]
                rows.store(_CONTROL, portion[sound], control if sound.all() else control[sound])
            ones = np.ones(len(portion), np.int64)
            yield portion, arrays | {"examples": ones, "model_index": self.model_index[portion]}

    def _way(
        self, sizes: Int[np.ndarray, "r"], done: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r 1"]:
        """The sum of the learning rates of all steps of each row (a client): K_i lr for K_i steps
        with a constant rate.

        Args:
            sizes: number of samples of each client.
            done: number of epochs, or of steps if the training counts steps.
        """
        batches = -(-sizes // self.work.batch_size)
        count = done if self.work.steps is not None else done * batches
        schedule = self.work.step_schedule
        sums = count
        if schedule is not None:
            sums = [schedule.factors(np.arange(k), int(k)).sum() for k in count]
        return self.rate * np.asarray(sums, np.float64)[:, None]

    def _results(
        self, old: Float[np.ndarray, "r P"], local: LocalUpdates, way: Float[np.ndarray, "r 1"]
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The reply's arrays, and a mask of the sound rows (clients). In other rows, the model's
        update and the change of the control variate become NaN, so that the server excludes these
        rows.

        A row is sound if the update, the change and the loss are finite, and losses are at most
        1e30 in absolute value.

        Args:
            old: control variates before the training.
            local: results of the training.
            way: sum of the learning rates of each row.
        """
        update = np.asarray(local.update)
        if self.option == "I":
            # c_i+ = g_i(x)
            change = np.asarray(local.gradient) - old
        else:
            # c_i+ = c_i - c + (x - y) / (K lr)
            change = update / -way
            change -= self.control
            change = change.astype(np.float32)
        arrays = {
            "update": update,
            "control_update": change,
            "loss": np.asarray(local.loss, np.float64),
            "first_loss": np.asarray(local.first_loss, np.float64),
        }
        # The server makes the same checks. Here they decide which clients keep their old control
        # variate.
        checks = [sound_rows(self.up.arrays[name], values) for name, values in arrays.items()]
        sound: np.ndarray = np.logical_and.reduce(checks)
        if not sound.all():
            for name in ("update", "control_update"):
                arrays[name] = np.where(sound[:, None], arrays[name], np.float32(np.nan))
        return arrays, sound

    def training(self, reply: Reply) -> TrainingReply:
        return TrainingReply.of_means(reply, self.model_index)

    def norm_group(self) -> str:
        return f"{self.name} {self.work.steps} {np.max(self.work.epochs)}"
