"""Local training and gradients by PyTorch, with the batches, steps and results of the compiled simulator's trainer.

Clients train one after another, each row in a fresh copy of the module with random numbers of its own, so that nothing
depends on the other clients of the call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from fedkin.core.errors import ModelError
from fedkin.core.randomness import Stream
from fedkin.core.training import LocalTraining
from fedkin.core.workers import LocalUpdates
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

_WIDTH = 64  # samples at a time of a full gradient
_B1, _B2, _EPSILON = 0.9, 0.999, 1e-8  # of Adam


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
    ) -> LocalUpdates:
        """As the protocol says.

        Raises:
            ModelError: the module does not take a batch, such as one sample for batch normalisation.
        """
        update = np.empty((len(clients), models.shape[1]), np.float32)
        last, first = np.empty((2, len(clients)))
        positive = [None] * len(clients) if work.positive is None else work.positive.tolist()
        with self._model.torch_settings():
            for row, client in enumerate(clients.tolist()):
                start = models[model_index[row]]
                update[row], last[row], first[row] = self._train_client(
                    start, client, work, int(num_steps[row]), stream, positive[row]
                )
        return LocalUpdates(update, last, first, self.gradients(models, clients, model_index) if gradient else None)

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
    ) -> tuple[Float[np.ndarray, "P"], float, float]:
        """Update, last and first loss of one client."""
        x, y = self._samples(client)
        y = y if positive is None else (y == positive).float()
        own = int(self._ids[client])
        batches = local_batches(len(y), work, num_steps, own, stream, len(y))
        seed_torch(stream.child("device").words(own))
        network = self._model.network(start).train()
        optimizer = Optimizer(list(trainable_entries(network).values()), work)
        losses = np.empty(len(batches.valid))
        for step, (rows, count) in enumerate(zip(batches.rows, batches.valid, strict=True)):
            indices = torch.from_numpy(rows[:count])
            loss = mean_loss(self._scores(network, x[indices], client), y[indices])
            optimizer.step(loss)
            losses[step] = loss.item()
        per_epoch = batches.per_epoch
        last, first = (
            np.average(losses[s], weights=batches.valid[s]) for s in (slice(-per_epoch, None), slice(per_epoch))
        )
        return flat_vector(network) - start, float(last), float(first)

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

    def _scores(self, network: nn.Module, x: Tensor, client: int) -> Tensor:
        """The module's scores of a batch. Raises ModelError, naming the client, where it fails."""
        try:
            return network(x)
        except Exception as error:  # whatever the user's own code raises
            advice = "; choose a batch_size that leaves no single sample over" if len(x) == 1 else ""
            raise ModelError(
                f"model {self._model.name!r} failed on a batch of {len(x)} samples of client {self._ids[client]}: "
                f"{error_reason(error)}{advice}"
            ) from error


class Optimizer:
    """The optimiser of one client: SGD with momentum, or Adam, and the proximal term of FedProx.

    PyTorch's own are not used: making the first one imports its compiler, which takes seconds.
    """

    def __init__(self, entries: Sequence[Tensor], work: LocalTraining) -> None:
        self._entries, self._work = entries, work
        self._start = [entry.detach().clone() for entry in entries] if work.mu else []
        self._mean = [torch.zeros_like(entry) for entry in entries] if work.momentum or work.optimizer == "adam" else []
        self._square = [torch.zeros_like(entry) for entry in entries] if work.optimizer == "adam" else []
        self._time = 0

    def step(self, loss: Tensor) -> None:
        """Take one step along the negative gradient of a batch's loss."""
        gradients = gradients_of(loss, self._entries)
        with torch.no_grad():
            if self._start:
                away = zip(gradients, self._entries, self._start, strict=True)
                gradients = [g.add(entry - start, alpha=self._work.mu) for g, entry, start in away]
            self._time += 1
            for entry, move in zip(self._entries, self._direction(gradients), strict=True):
                entry.sub_(move, alpha=self._work.lr)

    def _direction(self, gradients: list[Tensor]) -> list[Tensor]:
        if self._square:
            return [self._adam(*entry) for entry in zip(self._mean, self._square, gradients, strict=True)]
        for mean, gradient in zip(self._mean, gradients, strict=False):
            mean.mul_(self._work.momentum).add_(gradient)
        return self._mean or gradients

    def _adam(self, mean: Tensor, square: Tensor, gradient: Tensor) -> Tensor:
        mean.mul_(_B1).add_(gradient, alpha=1 - _B1)
        square.mul_(_B2).addcmul_(gradient, gradient, value=1 - _B2)
        spread = (square / (1 - _B2**self._time)).sqrt_().add_(_EPSILON)
        return mean / (1 - _B1**self._time) / spread


def gradients_of(loss: Tensor, entries: Sequence[Tensor]) -> list[Tensor]:
    """Gradient by entry; zero for one that the loss does not depend on."""
    return list(torch.autograd.grad(loss, entries, materialize_grads=True))


def mean_loss(scores: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy of class numbers; or, where ``y`` is 0.0 or 1.0, of a detector's scores [B 1]."""
    if y.is_floating_point():
        return binary_cross_entropy_with_logits(scores[:, 0], y)
    return cross_entropy(scores, y)
