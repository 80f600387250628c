"""The optimiser of one client's local training in PyTorch: from the run's settings, or the user's
own optimiser.

For the run's settings, fedkin computes SGD, Adam and AdamW without PyTorch's optimiser classes. The
first object of such a class would import PyTorch's compiler. That takes seconds, and a real client
starts a process for every message. Tests check that fedkin and PyTorch's classes give the same
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from fedkin.core.errors import ConfigError, ModelError
from fedkin.core.train_call import GradientTerms, TrainCall
from fedkin.core.training import LocalTraining
from fedkin.simulation.torch.flat_module import FlatModule, error_reason

# Constants of Adam.
_B1 = 0.9
_B2 = 0.999
_EPSILON = 1e-8
Factory = Callable[..., Any]  # (parameters, lr) -> torch.optim.Optimizer


def make_optimizer(
    entries: Sequence[Tensor],
    work: LocalTraining,
    rate: float,
    model: FlatModule,
    terms: EntryTerms | None = None,
) -> Optimizer | OwnOptimizer:
    """The optimiser of one local training of one client.

    Args:
        entries: the tensors that are trained.
        work: local training settings of the run.
        rate: learning rate of the round.
        model: the model, which may have its own optimiser factory.
        terms: changes of the gradients that the method asks for; None without changes.

    Raises:
        ConfigError: the run has settings that the model's own optimiser would ignore.
        ModelError: the model's own optimiser factory fails.
    """
    gradients = BatchGradients(entries, work, terms)
    if model.optimizer is None:
        return Optimizer(gradients, work)
    return OwnOptimizer(
        gradients=gradients,
        work=work,
        rate=rate,
        factory=model.optimizer,
        model=model.name,
    )


class EntryTerms(NamedTuple):
    """How a training call changes one client's gradients (e.g. by a correction, as in SCAFFOLD),
    for each trained tensor; None for no change."""

    added: list[GradientTerms] | None  # terms added to the gradients
    trained: list[Tensor] | None  # 1 where a parameter is trained, 0 where it is not


def entry_terms(
    call: TrainCall,
    entries: Mapping[str, Tensor],
    slices: Mapping[str, slice],
) -> EntryTerms:
    """The changes of the gradients that a training call of a single client asks for, cut into the
    model's tensors.

    Args:
        call: the training call, with one row (a client with one model).
        entries: the trained tensors by name.
        slices: position of each tensor in a flat model.
    """

    def cut(vector: np.ndarray) -> list[Tensor]:
        flat = torch.from_numpy(np.array(vector, np.float32))
        return [flat[slices[name]].reshape(entry.shape) for name, entry in entries.items()]

    return EntryTerms(
        added=None if call.terms is None else call.terms.select(0).by_entry(cut, len(entries)),
        trained=None if call.trained is None else cut(call.trained),
    )


def _add_scaled(a: Tensor, factor: Any, b: Tensor) -> Tensor:
    """a + factor b, with a single rounding."""
    return a.add(b, alpha=float(factor))


class BatchGradients:
    """Gradients of a batch's loss, with FedProx's proximal term and other terms, clipped to the
    norm that the run allows (``clip_norm``)."""

    def __init__(
        self, entries: Sequence[Tensor], work: LocalTraining, terms: EntryTerms | None = None
    ) -> None:
        self.entries = entries
        self._work = work
        self._terms = EntryTerms(None, None) if terms is None else terms
        self._before: list[Tensor] = []
        self._start = [entry.detach().clone() for entry in entries] if work.mu else []

    def of(self, loss: Tensor) -> list[Tensor]:
        """Gradient of the loss for each trained tensor, with all terms, after clipping."""
        gradients = gradients_of(loss, self.entries)
        with torch.no_grad():
            if self._start:
                away = zip(gradients, self.entries, self._start, strict=True)
                gradients = [g.add(entry - start, alpha=self._work.mu) for g, entry, start in away]
            gradients = self._with_terms(gradients)
            if self._work.clip_norm is not None:
                norm = torch.sqrt(sum((g.square().sum() for g in gradients), torch.zeros(())))
                if norm > self._work.clip_norm:
                    gradients = [g * (self._work.clip_norm / norm) for g in gradients]
        return gradients

    def _with_terms(self, gradients: list[Tensor]) -> list[Tensor]:
        """A batch's gradients with the additional terms of the training call, and 0 for parameters
        that are not trained."""
        added, trained = self._terms
        if added is not None:
            rows = zip(added, gradients, self.entries, strict=True)
            gradients = [terms.added_to(g, entry, _add_scaled) for terms, g, entry in rows]
        if trained is not None:
            # For ``hold``, after the optimiser's step.
            self._before = [entry.detach().clone() for entry in self.entries]
            gradients = [g * t for g, t in zip(gradients, trained, strict=True)]
        return gradients

    def hold(self) -> None:
        """Give parameters that are not trained the values that they had before the step.

        Their gradients are 0, but weight decay would still change them.
        """
        if self._terms.trained is None:
            return
        with torch.no_grad():
            entries = zip(self.entries, self._before, self._terms.trained, strict=True)
            for entry, old, moves in entries:
                entry.copy_(torch.where(moves > 0, entry, old))


class Optimizer:
    """SGD with momentum, Adam or AdamW, according to the run's settings."""

    def __init__(self, gradients: BatchGradients, work: LocalTraining) -> None:
        entries = gradients.entries
        self._entries = entries
        self._work = work
        self._gradients = gradients
        is_adaptive = work.optimizer != "sgd"
        has_mean = work.momentum or is_adaptive
        self._mean = [torch.zeros_like(entry) for entry in entries] if has_mean else []
        self._square = [torch.zeros_like(entry) for entry in entries] if is_adaptive else []
        self._time = 0

    def step(self, loss: Tensor, rate: float) -> None:
        """Take one step along the negative gradient of a batch's loss."""
        gradients = self._gradients.of(loss)
        # AdamW adds weight decay to the direction; other optimisers get it as part of the gradient.
        decoupled = self._work.optimizer == "adamw"
        with torch.no_grad():
            self._time += 1
            if decoupled:
                moves = self._decayed(self._direction(gradients))
            else:
                moves = self._direction(self._decayed(gradients))
            for entry, move in zip(self._entries, moves, strict=True):
                entry.sub_(move, alpha=rate)
        # Weight decay has also moved the parameters that the call does not train (their gradient is
        # 0). They get back the values from before the step.
        self._gradients.hold()

    def _decayed(self, moves: list[Tensor]) -> list[Tensor]:
        """Gradients or update directions, with weight decay added."""
        decay = self._work.weight_decay
        if not decay:
            return moves
        return [move.add(w, alpha=decay) for move, w in zip(moves, self._entries, strict=True)]

    def _direction(self, gradients: list[Tensor]) -> list[Tensor]:
        """The directions in which SGD, Adam or AdamW moves the parameters, without the learning
        rate."""
        if self._square:
            return [
                self._adam(*entry)
                for entry in zip(self._mean, self._square, gradients, strict=True)
            ]
        # Without momentum there are no means, so the loop and the result do without them.
        for mean, gradient in zip(self._mean, gradients, strict=False):
            mean.mul_(self._work.momentum).add_(gradient)
        if self._work.nesterov:
            return [
                g.add(mean, alpha=self._work.momentum)
                for g, mean in zip(gradients, self._mean, strict=True)
            ]
        return self._mean or gradients

    def _adam(self, mean: Tensor, square: Tensor, gradient: Tensor) -> Tensor:
        """Adam's direction for one tensor. Its two running means are updated in place."""
        mean.mul_(_B1).add_(gradient, alpha=1 - _B1)
        square.mul_(_B2).addcmul_(gradient, gradient, value=1 - _B2)
        spread = (square / (1 - _B2**self._time)).sqrt_().add_(_EPSILON)
        return mean / (1 - _B1**self._time) / spread


class OwnOptimizer:
    """The optimiser that a user's factory makes.

    The run's proximal term, clipping and schedules still apply.
    """

    def __init__(
        self,
        gradients: BatchGradients,
        work: LocalTraining,
        rate: float,
        factory: Factory,
        model: str,
    ) -> None:
        _refuse_unused(work, model)
        self._gradients = gradients
        self._rate = rate
        self._model = model
        try:
            self._optimizer = factory(list(gradients.entries), rate)
        except Exception as error:  # whatever the user's own code raises
            raise ModelError(
                f"model {model!r}: its optimizer failed to start: {error_reason(error)}"
            ) from error
        if not isinstance(self._optimizer, torch.optim.Optimizer):
            kind = type(self._optimizer).__name__
            raise ModelError(
                f"model {model!r}: its optimizer must make a torch.optim.Optimizer, got {kind}"
            )
        self._rates = [group["lr"] for group in self._optimizer.param_groups]

    def step(self, loss: Tensor, rate: float) -> None:
        """Let the user's optimiser take one step.

        The learning rates of its parameter groups follow the run's schedule of local steps.
        """
        for entry, gradient in zip(self._gradients.entries, self._gradients.of(loss), strict=True):
            entry.grad = gradient
        # The factory was given the round's rate. A group may have another one, so each is scaled by
        # what the schedule changes.
        for group, group_rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = group_rate * (rate / self._rate) if self._rate else 0.0
        try:
            cast(Any, self._optimizer).step()
        except Exception as error:
            raise ModelError(
                f"model {self._model!r}: a step of its optimizer failed: {error_reason(error)}"
            ) from error
        # The user's optimiser may have moved parameters that the call does not train, e.g. by
        # weight decay. They get back the values from before the step.
        self._gradients.hold()


def _refuse_unused(work: LocalTraining, model: str) -> None:
    """Raise ConfigError for settings of the run that a user's own optimiser would ignore."""
    plain = LocalTraining()
    for name in ("optimizer", "momentum", "nesterov", "weight_decay"):
        if getattr(work, name) != getattr(plain, name):
            raise ConfigError(
                f"local.{name} = {getattr(work, name)!r} does not apply: model {model!r} has its "
                "own optimizer (model.optimizer); set it there, and leave this out"
            )


def gradients_of(loss: Tensor, entries: Sequence[Tensor]) -> list[Tensor]:
    """Gradient for each tensor; zero for a tensor that the loss does not depend on."""
    return list(torch.autograd.grad(loss, entries, materialize_grads=True))
