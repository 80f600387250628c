"""A client's personal model in PyTorch. It is trained together with another model on the loss of
their mix (APFL), or minimises a batch's loss plus a proximal term to the other model (pFedMe).

Gradient steps do not change running statistics: v takes the statistics of the mix after its batch,
theta takes the statistics of w. ``simulation/jax/gradient_steps.py`` does the same in JAX.
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
    """APFL's personal model v, which is trained together with a network w.

    The steps of v are on the loss of ``share v + (1 - share) w``, with w held constant.

    Args:
        model: the module of both networks.
        network: w, which another optimiser trains.
        mixed: start of v and its share in the mix, for one client.
        work: training settings. The proximal term applies only to w.
        round: the round, which determines the learning rate.
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
        """Take one step of v, with the random numbers that the next step of w draws too.

        Args:
            scores: function from a network to the network's scores of a batch.
            loss: function from these scores to their mean loss.
            rate: learning rate.
        """
        mix = {
            name: self._share * v + (1 - self._share) * self._w[name].detach()
            for name, v in self._v.items()
        }
        with torch.no_grad():
            for of_v, of_w in self._fixed:
                # The mix needs running statistics too: v gets the weighted mean of both, and the
                # batch updates it.
                of_v.mul_(self._share).add_(of_w, alpha=1 - self._share)
        with torch.random.fork_rng(devices=[]):
            mix_scores = scores(lambda x: functional_call(self._network, mix, (x,)))
        self._optimizer.step(loss(mix_scores), rate)

    def moved(self) -> Float[np.ndarray, "P"]:
        """The update of v: its difference from the initial v."""
        return flat_vector(self._network) - self._start


class Minimiser:
    """pFedMe's theta: minimises a batch's loss plus strength/2 |theta - w|^2, by gradient descent
    from w.

    Args:
        model: the module of both networks.
        network: w, which an optimiser moves along the envelope's gradient.
        envelope: strength of the proximal term, number of steps to theta, and their learning rate.
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
        """strength/2 |w - theta|^2, whose gradient with respect to w is the envelope's gradient.

        Args:
            scores: function from a network to the network's scores of a batch.
            loss: function from these scores to their mean loss.
        """
        strength, steps, lr = self._envelope
        with torch.no_grad():
            for name, entry in self._all.items():
                entry.copy_(self._w[name])
        state = torch.get_rng_state()
        for _ in range(steps):
            # All steps are on one batch, so dropout draws the same numbers in each.
            torch.set_rng_state(state)
            gradients = gradients_of(loss(scores(self._network)), list(self._theta.values()))
            with torch.no_grad():
                for (name, theta), gradient in zip(self._theta.items(), gradients, strict=True):
                    theta.sub_(gradient + strength * (theta - self._w[name]), alpha=lr)
        torch.set_rng_state(state)
        distances = (
            (self._w[name] - theta.detach()).square().sum() for name, theta in self._theta.items()
        )
        return strength / 2 * sum(distances, torch.zeros(()))

    def moved(self) -> Float[np.ndarray, "P"]:
        """Difference between the last batch's theta and the initial w."""
        with torch.no_grad():
            for of_theta, of_w in self._fixed:
                of_theta.copy_(of_w)
        return flat_vector(self._network) - self._start


def fixed_entries(network: nn.Module, other: nn.Module) -> list[tuple[Tensor, Tensor]]:
    """Pairs of entries (one from each of two networks) that gradient steps do not change."""
    moved = trainable_entries(network)
    entries = float_entries(network)
    other_entries = float_entries(other)
    return [(entries[name], other_entries[name]) for name in entries if name not in moved]
