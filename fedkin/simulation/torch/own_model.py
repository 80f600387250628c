"""A client's own model in PyTorch, trained beside another on the loss of their mix (APFL)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from fedkin.core.training import LocalTraining
from fedkin.core.workers import GradientTerms
from fedkin.simulation.torch.flat_module import FlatModule, flat_vector, trainable_entries
from fedkin.simulation.torch.optimizers import make_optimizer


class OwnModel:
    """A model v beside a network w, whose steps are on the loss of ``share v + (1 - share) w``; w is a constant there.

    Args:
        model: the module of both.
        network: w, which another optimiser moves.
        terms: of one row, with v and its share.
        work: settings of the training; its proximal term pulls w only.
        round: of the learning rate.
    """

    def __init__(
        self, model: FlatModule, network: nn.Module, terms: GradientTerms, work: LocalTraining, round: int
    ) -> None:
        assert terms.own is not None and terms.share is not None
        self._start, self._share = terms.own, float(terms.share)
        self._network, self._w = model.network(terms.own).train(), trainable_entries(network)
        self._v = trainable_entries(self._network)
        self._optimizer = make_optimizer(list(self._v.values()), replace(work, mu=0.0), work.rate(round), model)

    def step(self, scores: Callable[[Callable], Tensor], loss: Callable[[Tensor], Tensor], rate: float) -> None:
        """One step of v, by the random numbers that the next step of w takes too.

        Args:
            scores: those of a batch, from a network.
            loss: the mean loss, from scores.
            rate: learning rate.
        """
        mix = {name: self._share * v + (1 - self._share) * self._w[name].detach() for name, v in self._v.items()}
        with torch.random.fork_rng(devices=[]):
            made = scores(lambda x: functional_call(self._network, mix, (x,)))
        self._optimizer.step(loss(made), rate)

    def moved(self) -> Float[np.ndarray, "P"]:
        """What v has moved since the start."""
        return flat_vector(self._network) - self._start
