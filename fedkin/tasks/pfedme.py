"""pFedMe's client work: training on the Moreau envelope of the loss. Its inner minimiser theta is
the client's personal model, which never leaves the client.

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedkin.core.client import Client, ClientRows
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import sound_rows
from fedkin.core.schema import Memory, floats
from fedkin.core.train_call import Envelope
from fedkin.tasks.own_model import OWN
from fedkin.tasks.train import Train

_MEMORY = {OWN: Memory("P", np.float32)}
_MODEL = floats("P", np.float32)


@dataclass(frozen=True)
class TrainEnvelope(Train):
    """Local training of the received model w as in ``Train``, but with lambda (w - theta) in place
    of the gradient.

    For each batch, theta is found by ``own_steps`` steps of gradient descent from w, on the batch's
    loss plus lambda/2 |theta - w|^2.

    The client keeps the theta of its last batch, or the previous one if the training diverges.

    Attributes:
        strength: lambda, strength of the proximal term.
        own_steps: number of steps to theta.
        own_lr: learning rate of these steps.
    """

    strength: float = 15.0
    own_steps: int = 5
    own_lr: float = 0.01

    detectors = False
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        index = np.asarray(self.model_index)[0]
        local = client.train(
            self.models[index],
            self.work,
            self.gradient,
            envelope=self._envelope(),
        )
        own_model = self.models[index] + local.own
        if sound_rows(_MODEL, own_model[None])[0] and np.isfinite(local.update).all():
            client.memory[OWN] = own_model
        reply = {name: array[0] for name, array in self._arrays(local.as_rows()).items()}
        return reply | {"examples": len(client.samples()[1]), "model_index": index}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        index = np.asarray(self.model_index, np.int64)
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        call = rows.train_call(
            self.models,
            index,
            self.work,
            gradient=self.gradient,
            envelope=self._envelope(),
        )
        # Each row needs memory for w and theta.
        for portion in rows.portions(2 * self.models.shape[1]):
            local = rows.trainer.train(call.select(portion))
            own_model = self.models[index[portion]] + np.asarray(local.own)
            sound = sound_rows(_MODEL, own_model) & np.isfinite(local.update).all(axis=1)
            if sound.any():
                rows.store(OWN, portion[sound], own_model[sound])
            yield (
                portion,
                self._arrays(local)
                | {"examples": examples[portion], "model_index": index[portion]},
            )

    def _envelope(self) -> Envelope:
        """The settings of the inner steps, by which each batch finds the minimiser theta."""
        return Envelope(self.strength, self.own_steps, self.own_lr)

    def for_messages(self, spec: ModelSpec) -> Train:
        # ``Train.for_messages`` would make a client store its local w as its model, but its own
        # model is theta.
        return self
