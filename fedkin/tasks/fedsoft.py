"""FedSoft's client work: each client has one model, which is trained with proximal terms to all
centres (the models of the clusters). The importance of a centre to a client is the share of the
client's samples on which this centre has the lowest loss.

Shapes: n rows (clients with their models), r rows of a portion, K centres, P parameters, t samples
of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.client import Client, ClientRows
from fedkin.core.client_engine import sums_by_row
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.model_spec import ModelSpec
from fedkin.core.replies import Reply, sound_rows
from fedkin.core.schema import Memory, Rows, Schema, floats
from fedkin.core.task import Task, each, shared
from fedkin.core.train_call import GradientTerms
from fedkin.tasks.own_model import OWN
from fedkin.tasks.train import Train, TrainingReply, and_padding, training_reply

_MEMORY = {OWN: Memory("P", np.float32)}
_IMPORTANCE = floats("K", low=0, high=1, counted=False)


@dataclass(frozen=True)
class TrainTowards(Train):
    """Local training of each client's model w from its last value, with proximal terms to the
    centres.

    The terms are strength/2 sum_k u_k |w - c_k|^2.

    The update in the reply is w minus the centre with the number ``model_index``. Before its first
    training, w is the mean of the centres with weights u. If a training diverges, w is not changed.

    Attributes:
        models: the centres c.
        importance: u of each row (a client). If the row is all zeros, the client measures u first,
            as in ``Importance``.
        strength: strength of the proximal terms.
        floor: number that replaces an importance of 0.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    importance: Float[np.ndarray, "n K"] = each(default=None)
    strength: float = 0.1
    floor: float = 1e-4

    detectors = False
    memory = _MEMORY
    charged = "not"  # single solutions are sent, not sums

    @property
    def up(self) -> Schema:
        """Schema of the reply: the arrays of ``Train``, and the importances of each client."""
        return Rows(**super().up.arrays, importance=_IMPORTANCE)

    def compute(self, client: Client) -> dict[str, Any]:
        importance = self.importance
        index = int(self.model_index[0])  # type: ignore[index]
        if not importance.any():
            importance = importances(
                client.sample_losses(self.models), np.array([len(client.samples()[1])]), self.floor
            )
        anchor = mixed(self.models, importance)
        own_model = client.memory.get(OWN, anchor[0])
        local = client.train(own_model, self.work, terms=self._terms(anchor, importance))
        solution = own_model + local.update
        if sound_rows(self.up.arrays["update"], solution[None])[0]:
            client.memory[OWN] = solution
        # The server knows the centre, so it gets the client's whole model by this difference.
        update = LocalUpdates(solution - self.models[index], local.loss, local.first_loss, None)
        arrays = self._arrays(update.as_rows())
        reply = {name: array[0] for name, array in arrays.items()} | {"importance": importance[0]}
        return reply | {"examples": len(client.samples()[1]), "model_index": index}

    def compute_rows(self, rows: ClientRows) -> Iterator[tuple[Any, dict[str, Any]]]:
        index = np.asarray(self.model_index, np.int64)
        # Each row needs memory for a model and an anchor.
        for portion in rows.portions(2 * self.models.shape[1]):
            clients = rows.clients[portion]
            importance = self.importance[portion].astype(np.float64)
            sizes = rows.data.part("train").sizes[clients].astype(np.int64)
            examples = rows.data.train.sizes[clients].astype(np.int64)
            unknown = ~importance.any(axis=1)
            if unknown.any():
                losses = rows.scorer.sample_losses(self.models, clients[unknown])
                importance[unknown] = importances(losses, sizes[unknown], self.floor)
            anchor = mixed(self.models, importance)
            own_model = rows.memory.read(OWN, clients, anchor)
            part = rows.select(portion)
            terms = self._terms(anchor, importance)
            call = part.train_call(
                and_padding(own_model),
                np.arange(len(portion)),
                self.work.select(portion),
                terms=terms,
            )
            local = rows.trainer.train(call)
            solution = own_model + np.asarray(local.update)
            sound = sound_rows(self.up.arrays["update"], solution)
            if sound.any():
                rows.store(OWN, portion[sound], solution[sound])
            arrays = self._arrays(local._replace(update=solution - self.models[index[portion]]))
            arrays |= {
                "examples": examples,
                "model_index": index[portion],
                "importance": importance,
            }
            yield portion, arrays

    def _terms(
        self, anchor: Float[np.ndarray, "r P"], importance: Float[np.ndarray, "r K"]
    ) -> GradientTerms:
        """The proximal terms that pull each client's model to all centres.

        Together they equal a single proximal term that pulls to the weighted mean of the centres.
        The strength of this term is the sum of the strengths of all terms.
        """
        strength = self.strength * importance.sum(axis=1)
        return GradientTerms(anchor=anchor, strength=strength.astype(np.float32))

    def for_messages(self, spec: ModelSpec) -> Train:
        # ``Train.for_messages`` would make a client store its local solution too, but here it keeps
        # its own model already.
        return self

    def training(self, reply: Reply) -> TrainingReply | None:
        arrays = {name: array for name, array in reply.arrays.items() if name != "importance"}
        return training_reply(self, replace(reply, arrays=arrays))


@dataclass(frozen=True)
class Importance(Task):
    """The share of a client's samples on which each centre has the lowest loss.

    Attributes:
        models: the centres.
        floor: number that replaces a share of 0.
    """

    models: Float[np.ndarray, "K P"] = shared("K P")
    floor: float = 1e-4

    up = Rows(importance=_IMPORTANCE)

    def compute(self, client: Client) -> dict[str, Any]:
        sizes = np.array([len(client.samples()[1])])
        return {"importance": importances(client.sample_losses(self.models), sizes, self.floor)[0]}


def importances(
    losses: Float[np.ndarray, "K t"], sizes: Int[np.ndarray, "r"], floor: float
) -> Float[np.ndarray, "r K"]:
    """Share of each client's samples on which each centre has the lowest loss; ``floor`` replaces a
    share of 0.

    With this replacement, a client's shares may sum to a little more than 1, as in the authors'
    code.

    Args:
        losses: loss of each centre on the samples of all clients, concatenated.
        sizes: number of samples of each client.
        floor: a number above 0.
    """
    best = np.where(np.isnan(losses), np.inf, losses).argmin(axis=0)
    shares = np.stack([sums_by_row(best == k, sizes) / sizes for k in range(len(losses))], axis=1)
    return np.where(shares == 0, floor, shares)


def mixed(
    centers: Float[np.ndarray, "K P"], importance: Float[np.ndarray, "r K"]
) -> Float[np.ndarray, "r P"]:
    """The mean of the centres with each client's importances as weights."""
    weights = importance / importance.sum(axis=1, keepdims=True)
    return (weights @ centers.astype(np.float64)).astype(np.float32)
