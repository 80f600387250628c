"""APFL's client work: each client has a personal model, which is trained in a mix with its
cluster's model and never leaves the client.

Shapes: n rows (clients with their models), r rows of a portion, K models, P parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from fedkin.core.client import Client, ClientRows
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import sound_rows
from fedkin.core.schema import Memory, floats
from fedkin.core.train_call import MixedModel
from fedkin.tasks.own_model import OWN, EvaluateOwn, Read
from fedkin.tasks.train import Train, and_padding

SHARE = "own_share"
_MEMORY = {OWN: Memory("P", np.float32), SHARE: Memory("", np.float32)}
_MODEL = floats("P", np.float32)


@dataclass(frozen=True)
class TrainMixed(Train):
    """Local training of the received model w as in ``Train``, and of the client's personal model v
    on the same batches.

    v is trained in the mix v~ = share v + (1 - share) w: v <- v - lr share g(v~), where g is the
    gradient of the loss.

    v starts as the first w that the client receives. If the training of w or of v diverges, v and
    the share are not changed. Otherwise the new share is share - share_lr <v - w, g(v~)>, clipped
    to 0 .. 1. It is computed before the training, with the gradient of the full training loss, but
    used only from the next training on.

    Attributes:
        share: initial share of v in the mix.
        share_lr: learning rate of the share; 0: the share stays fixed.
    """

    share: float = 0.5
    share_lr: float = 0.0

    detectors = False
    memory = _MEMORY

    def compute(self, client: Client) -> dict[str, Any]:
        index = np.asarray(self.model_index)[:1]
        received = self.models[index]
        own_model = client.memory.get(OWN, received[0])[None]
        share = np.reshape(client.memory.get(SHARE, np.float32(self.share)), 1)
        gradient = None
        if self.share_lr:
            gradient = client.gradient(mixed(own_model, received, share)[0])[None]
        mix = MixedModel(own_model, share)
        local = client.train(received[0], self.work, self.gradient, mixed=mix)
        arrays, own_model, share, sound = self._results(
            local=local.as_rows(),
            own_model=own_model,
            share=share,
            received=received,
            gradient=gradient,
        )
        if sound[0]:
            client.memory[OWN] = own_model[0]
            client.memory[SHARE] = share[0]
        reply = {name: array[0] for name, array in arrays.items()}
        return reply | {"examples": len(client.samples()[1]), "model_index": index[0]}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        index = np.asarray(self.model_index, np.int64)
        examples = rows.data.train.sizes[rows.clients].astype(np.int64)
        call = rows.train_call(self.models, index, self.work, gradient=self.gradient)
        # Each row needs memory for three models: w, v and their mix.
        for portion in rows.portions(3 * self.models.shape[1]):
            clients = rows.clients[portion]
            received = self.models[index[portion]]
            gradient = None
            own_model = rows.memory.read(OWN, clients, received)
            share = rows.memory.read(SHARE, clients, np.full(len(portion), self.share, np.float32))
            if self.share_lr:
                models = and_padding(mixed(own_model, received, share))
                gradient = rows.trainer.gradients(models, clients, np.arange(len(portion)))
            mix = MixedModel(own_model, share)
            local = rows.trainer.train(replace(call.select(portion), mixed=mix))
            arrays, own_model, share, sound = self._results(
                local=local,
                own_model=own_model,
                share=share,
                received=received,
                gradient=gradient,
            )
            if sound.any():
                rows.store(OWN, portion[sound], own_model[sound])
                rows.store(SHARE, portion[sound], share[sound])
            yield portion, arrays | {"examples": examples[portion], "model_index": index[portion]}

    def _results(
        self,
        local: LocalUpdates,
        own_model: Float[np.ndarray, "r P"],
        share: Float[np.ndarray, "r"],
        received: Float[np.ndarray, "r P"],
        gradient: Float[np.ndarray, "r P"] | None,
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray]:
        """The reply's arrays, the clients' new models v, their new shares, and a mask of the rows
        (clients) with only finite numbers. Only these clients store their new v and share.

        Args:
            local: results of the training.
            own_model: v before the training.
            share: share of v in the mix.
            received: w, the clusters' models.
            gradient: gradient at the mix before the training; None: the share stays as it is.
        """
        after = share
        if gradient is not None:
            difference = (own_model - received).astype(np.float64)
            along = np.sum(difference * gradient, axis=1)
            after = np.clip(share - self.share_lr * along, 0, 1).astype(np.float32)
        own_model = own_model + np.asarray(local.own)
        sound = (
            sound_rows(_MODEL, own_model)
            & sound_rows(_MODEL, np.asarray(local.update))
            & np.isfinite(after)
        )
        return self._arrays(local), own_model, after, sound

    def for_messages(self, spec: ModelSpec) -> Train:
        # ``Train.for_messages`` would make a client store its local w as its model, but its own
        # model is the mix.
        return self


@dataclass(frozen=True)
class EvaluateMixed(EvaluateOwn):
    """Evaluation of the mix of each client's personal model and its cluster's model, on the
    client's data.

    A client without a personal model is evaluated with its cluster's model.
    """

    memory = _MEMORY

    def read(self, stored: Read, received: Float[np.ndarray, "r P"]) -> Float[np.ndarray, "r P"]:
        share = stored(SHARE, np.zeros(len(received), np.float32))
        return mixed(stored(OWN, received), received, share)


def mixed(
    own_model: Float[np.ndarray, "r P"],
    received: Float[np.ndarray, "r P"],
    share: Float[np.ndarray, "r"],
) -> Float[np.ndarray, "r P"]:
    """The model share v + (1 - share) w of each row (client).

    Args:
        own_model: v, the clients' models.
        received: w, the clusters' models.
        share: share of v in the mix.
    """
    return (share[:, None] * own_model + (1 - share[:, None]) * received).astype(np.float32)
