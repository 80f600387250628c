"""Local training and gradients by PyTorch.

The trainer uses the same batches as ``JaxTrainer``, and returns the same results up to rounding and
random numbers in the module (such as dropout). Clients train one after another. Each training uses
a fresh copy of the module and separate random numbers, so that no result depends on other clients.
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
from fedkin.core.engine_protocols import LocalUpdates
from fedkin.core.errors import ModelError
from fedkin.core.train_call import TrainCall
from fedkin.core.training import LocalTraining
from fedkin.data.federated import FederatedData
from fedkin.simulation.batching import Batches, local_batches
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    error_reason,
    flat_vector,
    seed_torch,
    to_tensor,
    trainable_entries,
)
from fedkin.simulation.torch.optimizers import (
    Optimizer,
    OwnOptimizer,
    entry_terms,
    gradients_of,
    make_optimizer,
)
from fedkin.simulation.torch.user_model import Minimiser, OwnModel
from fedkin.task_types.loss import Loss, targets_of

_WIDTH = 64  # samples per batch of a full gradient


class TorchTrainer:
    """Trains the clients of one data set; ``ids`` are the clients' ids in the random streams."""

    def __init__(self, data: FederatedData, model: FlatModule, ids: Int[np.ndarray, "N"]) -> None:
        self._data = data
        self._model = model
        self._ids = ids
        self._loss = data.task_type.loss  # None for classes

    def train(self, call: TrainCall) -> LocalUpdates:
        """Train every row (a client with one model) of a training call, one after another.

        Raises:
            ModelError: the module does not take a batch, for example a batch of one sample with
                batch normalisation.
        """
        rows = len(call.clients)
        update = np.empty((rows, call.models.shape[1]), np.float32)
        last = np.empty(rows)
        first = np.empty(rows)
        own = None if call.mixed is None and call.envelope is None else np.empty_like(update)
        with self._model.torch_settings():
            for row in range(rows):
                local = self._train_client(call.select(np.array([row])))
                update[row] = local.update
                last[row] = local.loss
                first[row] = local.first_loss
                if own is not None:
                    own[row] = local.own
        full = None
        if call.gradient:
            full = self.gradients(call.models, call.clients, call.model_index)
        return LocalUpdates(update=update, loss=last, first_loss=first, gradient=full, own=own)

    def gradients(
        self,
        models: Float[np.ndarray, "K P"],
        clients: Int[np.ndarray, "r"],
        model_index: Int[np.ndarray, "r"],
    ) -> Float[np.ndarray, "r P"]:
        """Gradient of each client's full training loss at its model, in inference mode.

        The gradient is zero for running statistics and frozen parameters.
        """
        out = np.zeros((len(clients), models.shape[1]), np.float32)
        with self._model.torch_settings():
            for row, client in enumerate(clients.tolist()):
                network = self._model.network(models[model_index[row]]).eval()
                for name, gradient in self._full_gradient(network, client).items():
                    out[row, self._model.spec.slices[name]] = gradient.reshape(-1).numpy()
        return out

    def _train_client(self, call: TrainCall) -> LocalUpdates:
        """Train the single client of a training call.

        Returns its update, its losses in the last and the first epoch, and its personal model's
        update.
        """
        client = int(call.clients[0])
        number = int(self._ids[client])
        start = call.models[call.model_index[0]]
        size = int(self._data.train.sizes[client])
        # One client trains at a time, so its batches need not be as wide as those of others.
        batches = local_batches(
            samples=size,
            work=call.work,
            num_steps=int(call.num_steps[0]),
            client=number,
            stream=call.stream,
            largest=size,
        )
        # For the random numbers of the module itself (e.g. dropout).
        seed_torch(call.stream.child("device").words(number))
        network = self._model.network(start).train()
        own: OwnModel | Minimiser | None = None
        if call.mixed is not None:
            own = OwnModel(
                model=self._model,
                network=network,
                mixed=call.mixed.select(0),
                work=call.work,
                round=call.stream.round,
            )
        elif call.envelope is not None:
            own = Minimiser(self._model, network, call.envelope)
        losses = self._steps(call, network, own, batches)
        last_epoch = slice(-batches.per_epoch, None)
        first_epoch = slice(batches.per_epoch)
        update = flat_vector(network) - start
        if call.trained is not None:
            update = np.where(call.trained, update, np.float32(0))
        return LocalUpdates(
            update=update,
            loss=np.average(losses[last_epoch], weights=batches.valid[last_epoch]),
            first_loss=np.average(losses[first_epoch], weights=batches.valid[first_epoch]),
            gradient=None,
            own=None if own is None else own.moved(),
        )

    def _steps(
        self,
        call: TrainCall,
        network: nn.Module,
        own: OwnModel | Minimiser | None,
        batches: Batches,
    ) -> Float[np.ndarray, "S"]:
        """Train one client for all its steps, and return the loss of each step.

        Args:
            call: the training call, with one row (a client with one model).
            network: the network that is trained.
            own: the client's personal model; None without one.
            batches: the client's batches.
        """
        client = int(call.clients[0])
        work = call.work
        x, y = self._samples(client)
        y = y if work.positive is None else (y == int(work.positive[0])).float()
        sample_weights = None
        if call.weights is not None:
            sample_weights = torch.from_numpy(call.weights[0].astype(np.float32))
        weights = self._class_weights(client, work)
        optimizer = self._optimizer(call, network)
        losses = np.empty(len(batches.valid))
        for step, rate in enumerate(_step_rates(call, len(batches.valid))):
            indices = torch.from_numpy(batches.rows[step][: batches.valid[step]])
            counted = None if sample_weights is None else sample_weights[indices]
            scored = partial(
                mean_loss,
                y=y[indices],
                weights=weights,
                smoothing=work.label_smoothing,
                counted=counted,
                loss=self._loss,
            )
            scores = partial(
                self._scores, x=x[indices], client=client, low=work.precision is not None
            )
            if isinstance(own, OwnModel):
                own.step(scores, scored, rate)
            # With pFedMe, w moves along the gradient of the proximal term alone; the loss at w is
            # only reported.
            pull = own.proximal(scores, scored) if isinstance(own, Minimiser) else None
            loss = scored(scores(network))
            optimizer.step(loss if pull is None else pull, rate)
            losses[step] = loss.item()
        return losses

    def _optimizer(self, call: TrainCall, network: nn.Module) -> Optimizer | OwnOptimizer:
        """The optimiser that trains a network for the single client of a training call."""
        named = trainable_entries(network)
        terms = entry_terms(call, named, self._model.spec.slices)
        return make_optimizer(
            entries=list(named.values()),
            work=call.work,
            rate=call.work.rate(call.stream.round),
            model=self._model,
            terms=terms,
        )

    def _full_gradient(self, network: nn.Module, client: int) -> dict[str, Tensor]:
        """Gradient of the mean loss over all samples of a client, by parameter name."""
        x, y = self._samples(client)
        entries = trainable_entries(network)
        total = [torch.zeros_like(entry) for entry in entries.values()]
        for batch, labels in zip(x.split(_WIDTH), y.split(_WIDTH), strict=True):
            loss = self._summed_loss(self._scores(network, batch, client), labels)
            gradients = gradients_of(loss, list(entries.values()))
            for summed, gradient in zip(total, gradients, strict=True):
                summed += gradient
        weight = None if self._loss is None else targets_of(y).weight
        divisor = len(y) if weight is None else weight.sum()
        return {name: summed / divisor for name, summed in zip(entries, total, strict=True)}

    def _summed_loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch, summed over its samples with their weights in the data."""
        if self._loss is None:
            return cross_entropy(scores, y, reduction="sum")
        targets = targets_of(y)
        losses = self._loss.of(torch, scores, targets)
        return (losses if targets.weight is None else losses * targets.weight).sum()

    def _samples(self, client: int) -> tuple[Tensor, Tensor]:
        """A client's training samples and labels, as tensors."""
        rows = self._data.train[client]
        return to_tensor(self._data.x[rows]), to_tensor(self._data.y[rows])

    def _class_weights(self, client: int, work: LocalTraining) -> Tensor | None:
        """Class weights of one client's loss; None if all are 1."""
        if work.class_weights is None:
            return None
        weights = work.loss_weights(self._data.label_counts(clients=np.array([client])))
        return None if weights is None else torch.from_numpy(weights[0])

    def _name(self, client: int) -> str:
        """The name of a client, or its number if clients have no names."""
        return client_name(client, getattr(self._data, "client_names", None), self._ids)

    def _scores(self, network: Any, x: Tensor, client: int, low: bool = False) -> Tensor:
        """The module's scores of a batch, in mixed precision if ``low``.

        Raises ModelError, which names the client, if the module fails.
        """
        try:
            if low:
                with torch.autocast("cpu", torch.bfloat16):
                    return network(x).float()
            return network(x)
        except Exception as error:  # whatever the user's own code raises
            advice = ""
            if len(x) == 1:
                advice = "; choose a batch_size that leaves no batch with a single sample"
            raise ModelError(
                f"model {self._model.name!r} failed on a batch of {len(x)} samples of client "
                f"{self._name(client)}: {error_reason(error)}{advice}"
            ) from error


def _step_rates(call: TrainCall, steps: int) -> list[float]:
    """The learning rate of every training step of a training call with a single client."""
    rates = call.work.step_rates(call.stream.round, steps)
    return [call.work.rate(call.stream.round)] * steps if rates is None else rates.tolist()


def mean_loss(
    scores: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    smoothing: float = 0.0,
    counted: Tensor | None = None,
    loss: Loss | None = None,
) -> Tensor:
    """Mean loss of a batch: the task type's, the cross entropy of class scores, or the binary cross
    entropy of a detector's scores [B 1].

    Labels are class numbers. For a detector they are 0.0 or 1.0, as floating-point numbers.

    Args:
        scores: outputs on a batch.
        y: labels of the batch.
        weights: class weights [C]; None if all are 1.
        smoothing: share of a label that is spread over all classes.
        counted: sample weights [B]; None if all are 1. They do not change the divisor of the mean.
        loss: loss of the task type; None for classes.
    """
    if loss is not None:
        targets = targets_of(y)
        losses = loss.of(torch, scores, targets)
        losses = losses if counted is None else losses * counted
        if targets.weight is None:
            return losses.mean()
        return (losses * targets.weight).sum() / targets.weight.sum()
    if y.is_floating_point():
        return binary_cross_entropy_with_logits(scores[:, 0], y)
    if counted is None:
        return cross_entropy(scores, y, weights, label_smoothing=smoothing)
    losses = cross_entropy(scores, y, weights, label_smoothing=smoothing, reduction="none")
    # With class weights, PyTorch divides by the sum of the weights of the samples' classes.
    return (losses * counted).sum() / (len(y) if weights is None else weights[y].sum())
