"""Server optimisers for any method that averages: FedAvgM, FedAdam, FedYogi and FedAdagrad, applied
cluster by cluster.

S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, H. B. McMahan: Adaptive
Federated Optimization. ICLR 2021, arXiv 2003.00295 (Algorithm 2). FedAvgM: T.-M. H. Hsu, H. Qi, M.
Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification.
2019, arXiv 1909.06335.

The pseudo-gradient D of a cluster is its model after the method's round minus its model before. It
includes everything that the method does: weights of the mean, and sharing between clusters
(``eta_g``). With x the model before the round, m and v the first and second moment, the new model
is

    FedAvgM     m = beta m + D
                x + lr m
    FedAdam     m = beta1 m + (1 - beta1) D
                v = beta2 v + (1 - beta2) D^2
                x + lr m / (sqrt v + tau)
    FedYogi     as FedAdam, but v = v - (1 - beta2) D^2 sign(v - D^2)
    FedAdagrad  as FedAdam, but v = v + D^2

m starts at 0 and v at tau^2. As in the paper, there is no bias correction (Flower's FedAdam has
one, and starts v at 0).

A cluster whose model did not change (no reply arrived) keeps its model and its moments. Moments
belong to clusters, so a client that migrates takes none along. If the number of clusters changes (a
split, a late clustering, a merge), a new cluster takes the moments of its parent, and the parent's
former model as x. The parent is the cluster that most of its clients were in before the round. A
cluster without a parent keeps the model that the method made, and starts with new moments. FedSim
groups a cohort only to weight the mean of its single model, so it has one pair of moments. Running
statistics (batch normalisation) have no gradient: they are averaged as without an optimiser.

Server optimisers cannot be used with peer-to-peer methods, with methods that train detectors of
single classes, or with methods that change models in other ways than by averaging
(``Requirements.changes``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fedkin.core.errors import MethodError
from fedkin.core.method import UNASSIGNED, Method, State
from fedkin.core.plain import plain_options
from fedkin.core.requirements import requirements_of
from fedkin.core.validation import check_not_negative, check_positive
from fedkin.core.world import World
from fedkin.options.base import ActiveOption, Around, Call, Option, RunFacts

Vectors = Float[np.ndarray, "k P"]  # k clusters


class Step(NamedTuple):
    """One step of an optimiser: the change of the models, and the new moments."""

    change: Vectors
    momentum: Vectors
    square: Vectors


class ServerOptimizer(Option):
    """Base class of server optimisers. Each computes a step of every cluster's model from the
    model's pseudo-gradient (its change in a round)."""

    section = "server_optimizer"

    @property
    def start(self) -> float:
        """Value of the second moment v before the first step of a cluster's model."""
        raise NotImplementedError

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        """One step of the optimiser for the models of k clusters.

        Args:
            delta: pseudo-gradients: the changes of the models in a round.
            momentum: first moments.
            square: second moments.
        """
        raise NotImplementedError

    def refusal(self, run: RunFacts) -> str:
        return refusal(run.method)

    def bind(self, run: RunFacts) -> ActiveOption:
        return ActiveOptimizer(self)


@plain_options
@dataclass(frozen=True)
class FedAvgM(ServerOptimizer):
    """Server momentum (FedAvgM).

    Examples:
        >>> import fedkin as fk
        >>> fk.FedAvgM(beta=0.5)
        FedAvgM(lr=1.0, beta=0.5)
    """

    lr: float = 1.0  # server learning rate
    beta: float = 0.9  # server momentum

    def __post_init__(self) -> None:
        check_positive("lr", self.lr)
        _check_decay("beta", self.beta)

    @property
    def start(self) -> float:
        return 0.0

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum = self.beta * momentum + delta
        return Step(self.lr * momentum, momentum, square)


@plain_options
@dataclass(frozen=True)
class FedAdam(ServerOptimizer):
    """Adam on the server.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedAdam(lr=0.05)
        FedAdam(lr=0.05, beta1=0.9, beta2=0.99, tau=0.001)
    """

    lr: float = 0.1  # eta, the server learning rate
    beta1: float = 0.9  # decay rate of the first moment, the mean of updates
    beta2: float = 0.99  # decay rate of the second moment, the mean of their squares
    tau: float = 1e-3  # degree of adaptivity

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            check_positive(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            _check_decay(name, getattr(self, name))

    @property
    def start(self) -> float:
        return self.tau**2

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum = self.beta1 * momentum + (1 - self.beta1) * delta
        square = self._accumulate(square, delta**2)
        return Step(self.lr * momentum / (np.sqrt(square) + self.tau), momentum, square)

    def _accumulate(self, square: Vectors, new: Vectors) -> Vectors:
        """The second moment after a step: Adam's moving mean of squared pseudo-gradients (``new``).
        FedYogi replaces this rule."""
        return self.beta2 * square + (1 - self.beta2) * new


@plain_options
@dataclass(frozen=True)
class FedYogi(FedAdam):
    """Yogi on the server: the second moment changes by no more than the square of the new
    pseudo-gradient.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedYogi(lr=0.05)
        FedYogi(lr=0.05, beta1=0.9, beta2=0.99, tau=0.001)
    """

    def _accumulate(self, square: Vectors, new: Vectors) -> Vectors:
        return square - (1 - self.beta2) * new * np.sign(square - new)


@plain_options
@dataclass(frozen=True)
class FedAdagrad(ServerOptimizer):
    """Adagrad on the server: the second moment is the sum of the squares of all pseudo-gradients.

    Examples:
        >>> import fedkin as fk
        >>> fk.FedAdagrad(lr=0.05)
        FedAdagrad(lr=0.05, beta1=0.0, tau=0.001)
    """

    lr: float = 0.1  # eta, the server learning rate
    beta1: float = 0.0  # decay rate of the first moment, the mean of updates
    tau: float = 1e-3  # degree of adaptivity

    def __post_init__(self) -> None:
        for name in ("lr", "tau"):
            check_positive(name, getattr(self, name))
        _check_decay("beta1", self.beta1)

    @property
    def start(self) -> float:
        return self.tau**2

    def step(self, delta: Vectors, momentum: Vectors, square: Vectors) -> Step:
        momentum = self.beta1 * momentum + (1 - self.beta1) * delta
        square = square + delta**2
        return Step(self.lr * momentum / (np.sqrt(square) + self.tau), momentum, square)


class ActiveOptimizer(ActiveOption):
    """A server optimiser in a run. The state holds its moments [K P].

    Args:
        optimizer: the server optimiser.
    """

    def __init__(self, optimizer: ServerOptimizer) -> None:
        super().__init__(optimizer.section)
        self._optimizer = optimizer

    def around(self, world: World, before: State | None, call: Call) -> Around:
        def finish(after: State) -> State:
            if before is None:
                return self.with_arrays(after, self._first_moments(after.models.shape))
            # Placing new clients may change a model, but that is no step of the optimiser.
            return self._stepped(world, before, after, steps=call.step == "round")

        return Around(world, finish)

    def _first_moments(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The optimiser's two moments before any step, for models of this shape."""
        return {
            "momentum": np.zeros(shape, np.float32),
            "square": np.full(shape, self._optimizer.start, np.float32),
        }

    def _stepped(self, world: World, before: State, after: State, steps: bool) -> State:
        """The state that the method returned, with the optimiser's moments of its clusters.

        Args:
            world: the world, for the model's layers.
            before: the state before the call, with the earlier moments.
            after: the state that the method returned.
            steps: whether the optimiser steps, so that its models replace the method's. If not, new
                clusters only take over the moments of their parents (former clusters).
        """
        models = after.models
        moments = self._first_moments(models.shape)
        momentum = moments["momentum"]
        square = moments["square"]
        # A cluster without a parent has no former model, so its change is set to zero.
        former = models.astype(np.float64)

        parent = parents(before.assignment, after.assignment, len(before.models), len(models))
        has_parent = parent != UNASSIGNED
        earlier = self.arrays(before)
        momentum[has_parent] = earlier["momentum"][parent[has_parent]]
        square[has_parent] = earlier["square"][parent[has_parent]]
        former[has_parent] = before.models[parent[has_parent]]

        # Running statistics have no gradient. With their change set to zero, the optimiser leaves
        # them as the method has averaged them.
        for part in world.spec.untrained:
            former[:, part] = models[:, part]

        delta = models - former
        # A cluster without any reply keeps its model and moments.
        moved = delta.any(axis=1) & steps
        step = self._optimizer.step(
            delta=delta[moved],
            momentum=momentum[moved].astype(np.float64),
            square=square[moved].astype(np.float64),
        )
        momentum[moved] = step.momentum
        square[moved] = step.square
        models = models.copy()
        models[moved] = former[moved] + step.change
        return self.with_arrays(replace(after, models=models), moments)


def _check_decay(name: str, value: object) -> None:
    """Check that a value is a number in [0, 1). Raises MethodError if not."""
    check_not_negative(name, value)
    if not value < 1:  # type: ignore[operator]
        raise MethodError(f"{name} must be a number in [0, 1), got {value!r}")


def refusal(method: Method) -> str:
    """Why a server optimiser does not apply to a method; empty if it applies."""
    needs = requirements_of(method)
    name = type(method).__name__
    if needs.peers:
        return (
            f"{name} has no server, since its peers average among themselves; leave the server "
            "optimizer out"
        )
    if needs.model.detectors:
        return (
            f"{name} trains detectors of single classes, but a server optimizer needs models of "
            "clusters; leave the server optimizer out"
        )
    takes = "and a server optimizer would take these changes for updates; leave out the optimizer"
    if option := needs.changes.by_option:
        return f"{name} with {option} does more to models than average them, {takes}, or {option}"
    if needs.changes.always:
        return f"{name} {needs.changes.always}, {takes}"
    return ""


def parents(
    before: Int[np.ndarray, "N"], after: Int[np.ndarray, "N"], old: int, new: int
) -> Int[np.ndarray, "new"]:
    """The former cluster that each of ``new`` clusters comes from; UNASSIGNED if there is none.

    Args:
        before: cluster of each client before the round.
        after: cluster of each client after the round.
        old: number of clusters before. Unless a cluster disappears, the first ``old`` ones stay.
        new: number of clusters after.
    """
    parent = np.arange(new)
    # If no cluster has disappeared, the first ``old`` ones are their own parents.
    without_certain_parent = range(old, new) if new >= old else range(new)
    for k in without_certain_parent:
        members = before[(after == k) & (before != UNASSIGNED)]
        parent[k] = np.bincount(members).argmax() if len(members) else UNASSIGNED
    return parent
