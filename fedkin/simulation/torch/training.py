"""Local training and gradients by PyTorch, with the batches, steps and results of the compiled simulator's trainer.

Clients train one after another, each row in a fresh copy of the module with random numbers of its own, so that nothing
depends on the other clients of the call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fedkin.core.client_memory import client_name
from fedkin.core.errors import ModelError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.workers import NO_TERMS, GradientTerms, LocalUpdates
from fedkin.data.federated import FederatedData
from fedkin.simulation.batching import local_batches
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    error_reason,
    flat_vector,
    seed_torch,
    to_tensor,
    trainable_entries,
)
from fedkin.simulation.torch.optimizers import gradients_of, make_optimizer, row_terms, terms_by_entry
from fedkin.simulation.torch.own_model import Minimiser, OwnModel

_WIDTH = 64  # samples at a time of a full gradient


class Trainer:
    """Trains the clients of one data set, numbered by ``ids`` in streams."""

    def __init__(self, data: FederatedData, model: FlatModule, ids: Int[np.ndarray, "N"]) -> None:
        self._data, self._model, self._ids = data, model, ids

    def train(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
        work: LocalTraining,
        num_steps: Int[np.ndarray, "r"],
        stream: Stream,
        gradient: bool = False,
        terms: GradientTerms = NO_TERMS,
        weights: Float[np.ndarray, "t"] | None = None,
    ) -> LocalUpdates:
        """As the protocol says.

        Raises:
            ModelError: the module does not take a batch, such as one sample for batch normalisation.
        """
        update = np.empty((len(clients), models.shape[1]), np.float32)
        last, first = np.empty((2, len(clients)))
        own = None if terms.own is None and terms.envelope is None else np.empty_like(update)
        positive = [None] * len(clients) if work.positive is None else work.positive.tolist()
        ends = np.cumsum(self._data.train.sizes[clients])[:-1]
        of_rows = [None] * len(clients) if weights is None else np.split(weights.astype(np.float32), ends)
        with self._model.torch_settings():
            for row, client in enumerate(clients.tolist()):
                start = models[model_index[row]]
                update[row], last[row], first[row], moved = self._train_client(
                    start, client, work, int(num_steps[row]), stream, positive[row], row_terms(terms, row), of_rows[row]
                )
                if own is not None:
                    own[row] = moved
        full = self.gradients(models, clients, model_index) if gradient else None
        return LocalUpdates(update, last, first, full, own)

    def gradients(
        self, models: Float[np.ndarray, "K P"], clients: Int[np.ndarray, "r"], model_index: Int[np.ndarray, "r"]
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode; zero where nothing is trained:
        running statistics, frozen parameters."""
        out = np.zeros((len(clients), models.shape[1]), np.float32)
        with self._model.torch_settings():
            for row, client in enumerate(clients.tolist()):
                network = self._model.network(models[model_index[row]]).eval()
                for name, gradient in self._full_gradient(network, client).items():
                    out[row, self._model.spec.slices[name]] = gradient.reshape(-1).numpy()
        return out

    def _train_client(
        self,
        start: Float[np.ndarray, "P"],
        client: int,
        work: LocalTraining,
        num_steps: int,
        stream: Stream,
        positive: int | None,
        terms: GradientTerms,
        sample_weights: Float[np.ndarray, "s"] | None,
    ) -> tuple[Float[np.ndarray, "P"], float, float, Float[np.ndarray, "P"] | None]:
        """Update, last and first loss of one client, and what its own model moved."""
        x, y = self._samples(client)
        y = y if positive is None else (y == positive).float()
        own = int(self._ids[client])
        batches = local_batches(len(y), work, num_steps, own, stream, len(y))
        seed_torch(stream.child("device").words(own))
        network = self._model.network(start).train()
        rates = work.step_rates(stream.round, len(batches.valid))
        rates = np.full(len(batches.valid), work.rate(stream.round)) if rates is None else rates
        named = trainable_entries(network)
        entries, own_terms = list(named.values()), terms_by_entry(terms, named, self._model.spec.slices)
        optimizer = make_optimizer(entries, work, work.rate(stream.round), self._model, own_terms)
        weights, losses = self._class_weights(client, work), np.empty(len(batches.valid))
        beside = OwnModel(self._model, network, terms, work, stream.round) if terms.own is not None else None
        inner = Minimiser(self._model, network, terms) if terms.envelope is not None else None
        for step, (rows, count) in enumerate(zip(batches.rows, batches.valid, strict=True)):
            indices = torch.from_numpy(rows[:count])
            counted = None if sample_weights is None else torch.from_numpy(sample_weights)[indices]
            scored = partial(mean_loss, y=y[indices], weights=weights, smoothing=work.label_smoothing, counted=counted)
            scores = partial(self._scores, x=x[indices], client=client, low=work.precision is not None)
            if beside is not None:
                beside.step(scores, scored, float(rates[step]))
            pull = None if inner is None else inner.proximal(scores, scored)
            loss = scored(scores(network))
            optimizer.step(loss if pull is None else pull, float(rates[step]))
            losses[step] = loss.item()
        per_epoch = batches.per_epoch
        last, first = (
            np.average(losses[s], weights=batches.valid[s]) for s in (slice(-per_epoch, None), slice(per_epoch))
        )
        update = flat_vector(network) - start
        update = update if terms.trained is None else np.where(terms.trained, update, np.float32(0))
        own = beside or inner
        return update, float(last), float(first), None if own is None else own.moved()

    def _full_gradient(self, network: nn.Module, client: int) -> dict[str, Tensor]:
        """Gradient of the mean loss over all samples of a client, by entry."""
        x, y = self._samples(client)
        entries = trainable_entries(network)
        total = [torch.zeros_like(entry) for entry in entries.values()]
        for batch, labels in zip(x.split(_WIDTH), y.split(_WIDTH), strict=True):
            loss = cross_entropy(self._scores(network, batch, client), labels, reduction="sum")
            for summed, gradient in zip(total, gradients_of(loss, list(entries.values())), strict=True):
                summed += gradient
        return {name: summed / len(y) for name, summed in zip(entries, total, strict=True)}

    def _samples(self, client: int) -> tuple[Tensor, Tensor]:
        rows = self._data.train[client]
        return to_tensor(self._data.x[rows]), to_tensor(self._data.y[rows])

    def _class_weights(self, client: int, work: LocalTraining) -> Tensor | None:
        """Weights of the classes in one client's loss."""
        if work.class_weights is None:
            return None
        weights = work.loss_weights(self._data.label_counts(clients=np.array([client])))
        return None if weights is None else torch.from_numpy(weights[0])

    def _name(self, client: int) -> str:
        """The name of a client; its number where it has none."""
        return client_name(client, getattr(self._data, "client_names", None), self._ids)

    def _scores(self, network: Any, x: Tensor, client: int, low: bool = False) -> Tensor:
        """The module's scores of a batch, in mixed precision or not. Raises ModelError, naming the client, where it
        fails."""
        try:
            if low:
                with torch.autocast("cpu", torch.bfloat16):
                    return network(x).float()
            return network(x)
        except Exception as error:  # whatever the user's own code raises
            advice = "; choose a batch_size that leaves no single sample over" if len(x) == 1 else ""
            raise ModelError(
                f"model {self._model.name!r} failed on a batch of {len(x)} samples of client {self._name(client)}: "
                f"{error_reason(error)}{advice}"
            ) from error


def mean_loss(
    scores: Tensor, y: Tensor, weights: Tensor | None = None, smoothing: float = 0.0, counted: Tensor | None = None
) -> Tensor:
    """Mean cross entropy of class numbers; or, where ``y`` is 0.0 or 1.0, of a detector's scores [B 1].

    Args:
        scores, y: of a batch.
        weights: of the classes [C]; None: all 1.
        smoothing: share of a label that is spread over all classes.
        counted: weights of the samples [B]; None: all 1. The divisor is as without them.
    """
    if y.is_floating_point():
        return binary_cross_entropy_with_logits(scores[:, 0], y)
    if counted is None:
        return cross_entropy(scores, y, weights, label_smoothing=smoothing)
    losses = cross_entropy(scores, y, weights, label_smoothing=smoothing, reduction="none")
    return (losses * counted).sum() / (len(y) if weights is None else weights[y].sum())
