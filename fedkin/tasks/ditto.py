"""Ditto's client work: beside the model of its cluster each client trains one of its own, which
never leaves it.

Shapes: n rows, r of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.layout import ModelSpec
from fedkin.core.replies import sound_rows
from fedkin.core.schema import Memory, floats
from fedkin.core.train_call import GradientTerms
from fedkin.core.training import LocalTraining
from fedkin.tasks.own_model import OWN
from fedkin.tasks.train import Train, and_padding, shortened

_MEMORY = {OWN: Memory("P", np.float32)}
_MODEL = floats("P", np.float32)


@dataclass(frozen=True)
class TrainBeside(Train):
    """Local training as in ``Train``, and of the client's own model v_i, pulled to the model w that
    it received: v_i <- v_i - lr (g_i(v_i) + strength (v_i - w)).

    Both see the same batches. v_i begins as the first w that the client receives; where its
    training diverged it stays.

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
        work = self._own_work()
        terms = GradientTerms(anchor=received[None], strength=self._strengths(1))
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
            steps = (
                done
                if self.own_epochs is None
                else shortened(self.own_epochs, done, self.work.select(some))
            )
            part = rows.select(some)
            call = part.train_call(
                and_padding(own),
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
        return replace(
            self.work, **{name: value for name, value in given.items() if value is not None}
        )

    def for_messages(self, spec: ModelSpec) -> Train:
        return self  # a client's model is not its local solution, which Train would store
