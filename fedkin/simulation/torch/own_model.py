"""A client's own model in PyTorch: trained beside another on the loss of their mix (APFL), or the
minimiser of a batch's loss with a pull to the other (pFedMe).

What gradient steps do not move, such as running statistics: v's are those of the mix after its
batch; theta's are w's after the batch. ``simulation/jax/gradient_steps.py`` does the same in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from fedkin.core.train_call import Envelope, MixedModel
from fedkin.core.training import LocalTraining
from fedkin.simulation.torch.flat_module import (
    FlatModule,
    flat_vector,
    float_entries,
    trainable_entries,
)
from fedkin.simulation.torch.optimizers import gradients_of, make_optimizer


class OwnModel:
    """A model v beside a network w, whose steps are on the loss of ``share v + (1 - share) w``; w
    is a constant there.

    Args:
        model: the module of both.
        network: w, which another optimiser moves.
        mixed: v and its share, of one row.
        work: settings of the training; its proximal term pulls w only.
        round: of the learning rate.
    """

    def __init__(
        self,
        model: FlatModule,
        network: nn.Module,
        mixed: MixedModel,
        work: LocalTraining,
        round: int,
    ) -> None:
        self._start = mixed.start
        self._share = float(mixed.share)
        self._network = model.network(mixed.start).train()
        self._w = trainable_entries(network)
        self._v = trainable_entries(self._network)
        self._fixed = fixed_entries(self._network, network)
        self._optimizer = make_optimizer(
            list(self._v.values()), replace(work, mu=0.0), work.rate(round), model
        )

    def step(
        self, scores: Callable[[Callable], Tensor], loss: Callable[[Tensor], Tensor], rate: float
    ) -> None:
        """One step of v, by the random numbers that the next step of w takes too.

        Args:
            scores: those of a batch, from a network.
            loss: the mean loss, from scores.
            rate: learning rate.
        """
        mix = {
            name: self._share * v + (1 - self._share) * self._w[name].detach()
            for name, v in self._v.items()
        }
        with torch.no_grad():
            for own, other in self._fixed:
                own.mul_(self._share).add_(other, alpha=1 - self._share)
        with torch.random.fork_rng(devices=[]):
            made = scores(lambda x: functional_call(self._network, mix, (x,)))
        self._optimizer.step(loss(made), rate)

    def moved(self) -> Float[np.ndarray, "P"]:
        """What v has moved since the start."""
        return flat_vector(self._network) - self._start


class Minimiser:
    """theta of the Moreau envelope of a batch's loss at a network w, by gradient descent from w.

    Args:
        model: the module of both.
        network: w, which an optimiser moves along the envelope's gradient.
        envelope: its strength, and the steps to theta.
    """

    def __init__(self, model: FlatModule, network: nn.Module, envelope: Envelope) -> None:
        self._envelope = envelope
        self._start = flat_vector(network)
        self._network = model.network(self._start).train()
        self._w = float_entries(network)
        self._theta = trainable_entries(self._network)
        self._all = float_entries(self._network)
        self._fixed = fixed_entries(self._network, network)

    def proximal(
        self, scores: Callable[[Callable], Tensor], loss: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """strength/2 |w - theta|^2, whose gradient by w is that of the envelope.

        Args:
            scores: those of a batch, from a network.
            loss: the mean loss, from scores.
        """
        strength, steps, lr = self._envelope
        with torch.no_grad():
            for name, entry in self._all.items():
                entry.copy_(self._w[name])
        state = torch.get_rng_state()
        for _ in range(steps):
            torch.set_rng_state(state)  # one batch, and one draw of what is dropped
            slopes = gradients_of(loss(scores(self._network)), list(self._theta.values()))
            with torch.no_grad():
                for (name, theta), slope in zip(self._theta.items(), slopes, strict=True):
                    theta.sub_(slope + strength * (theta - self._w[name]), alpha=lr)
        pulls = (
            (self._w[name] - theta.detach()).square().sum() for name, theta in self._theta.items()
        )
        torch.set_rng_state(state)
        return strength / 2 * sum(pulls, torch.zeros(()))

    def moved(self) -> Float[np.ndarray, "P"]:
        """How far the theta of the last batch is from where w began."""
        with torch.no_grad():
            for own, other in self._fixed:
                own.copy_(other)
        return flat_vector(self._network) - self._start


def fixed_entries(own: nn.Module, other: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """The floating-point entries that gradient steps do not move, of two networks side by side."""
    moved = trainable_entries(own)
    others = float_entries(other)
    return [
        (entry, others[name]) for name, entry in float_entries(own).items() if name not in moved
    ]
