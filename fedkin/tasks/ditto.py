"""Ditto's client work: each client trains a personal model in addition to its cluster's model. The
personal model never leaves the client.

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import sound_rows
from fedkin.core.schema import Memory, floats
from fedkin.core.train_call import GradientTerms, shortened
from fedkin.core.training import LocalTraining
from fedkin.tasks.own_model import OWN
from fedkin.tasks.train import Train, and_padding

_MEMORY = {OWN: Memory("P", np.float32)}
_MODEL = floats("P", np.float32)


@dataclass(frozen=True)
class TrainBeside(Train):
    """Local training of the received model w as in ``Train``, and of the client's personal model
    v_i.

    v_i is regularised towards w: v_i <- v_i - lr (g_i(v_i) + strength (v_i - w)).

    Both models see the same batches. v_i starts as the first w that the client receives. If the
    training of v_i diverges, v_i is not changed.

    Attributes:
        strength: strength of the regularisation.
        own_epochs: epochs (or steps) of v_i; None: as in ``work``.
        own_lr: learning rate of v_i; None: as in ``work``.
    """

    strength: float = 1.0
    own_epochs: int | None = None
    own_lr: float | None = None

    detectors = False
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        reply = super().compute(client)
        received = self.models[reply["model_index"]]
        own_model = client.memory.get(OWN, received)
        work = self._own_work()
        terms = GradientTerms(anchor=received[None], strength=self._strengths(1))
        own_model = own_model + client.train(own_model, work, terms=terms).update
        if sound_rows(_MODEL, own_model[None])[0]:
            client.memory[OWN] = own_model
        return reply

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        work = self._own_work()
        for portion, arrays in super().compute_rows(rows):
            received = self.models[arrays["model_index"]]
            own_model = rows.memory.read(OWN, rows.clients[portion], received)
            terms = GradientTerms(anchor=received, strength=self._strengths(len(portion)))
            done = rows.steps[portion]
            steps = done
            if self.own_epochs is not None:
                steps = shortened(self.own_epochs, done, self.work.select(portion).requested)
            part = rows.select(portion)
            call = part.train_call(
                and_padding(own_model),
                np.arange(len(portion)),
                work.select(portion),
                terms=terms,
            )
            local = rows.trainer.train(replace(call, num_steps=steps))
            own_model = own_model + np.asarray(local.update)
            sound = sound_rows(_MODEL, own_model)
            if sound.any():
                rows.store(OWN, np.asarray(portion)[sound], own_model[sound])
            yield portion, arrays

    def _strengths(self, rows: int) -> Float[np.ndarray, "r"]:
        """The strength of the regularisation, repeated for each row (client)."""
        return np.full(rows, self.strength, np.float32)

    def _own_work(self) -> LocalTraining:
        """The settings with which the personal model v_i is trained: those of w, with the rate and
        number of epochs (or steps) that this task sets for v_i."""
        # FedProx's term applies only to w.
        work = replace(self.work, mu=0.0)
        if self.own_lr is not None:
            work = replace(work, lr=self.own_lr)
        if self.own_epochs is None:
            return work
        if self.work.steps is None:
            return replace(work, epochs=self.own_epochs)
        return replace(work, steps=self.own_epochs)

    def for_messages(self, spec: ModelSpec) -> Train:
        # ``Train.for_messages`` would make a client store its local w as its model, but its own
        # model is v_i.
        return self
